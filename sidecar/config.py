"""Policy files → one frozen Config.

Owns: the shape of a policy document, its defaults, and telling every problem at once with line and key.
Never: opens a connection, silently ignores a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Seconds = float  # `60s`, `10m`, `1h`, `30d`
Bytes = int  # `64KiB`, `16MiB`
Mode = Literal["enforce", "observe", "disabled"]
JsonRpcVersion = Literal["0.1", "0.2", "0.3", "1.0"]


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Claims(Model):
    """Which claims of a token mean what."""

    subject: str = "sub"
    tenant: str | None = None
    scopes: tuple[str, ...] = ("scope", "scp")


class Issuer(Model):
    issuer: str
    audiences: tuple[str, ...] = Field(min_length=1)
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    jwks_uri: str | None = None
    allow_http: bool = False
    leeway: Seconds = 5.0
    claims: Claims = Claims()


class AnonymousPrincipal(Model):
    subject: str
    scopes: tuple[str, ...] = ()


class Identity(Model):
    issuers: tuple[Issuer, ...] = ()
    anonymous: Literal["refuse"] | AnonymousPrincipal = "refuse"
    keys_refresh: Seconds = 300.0  # how often a key set is fetched anew while in use
    keys_max_stale: Seconds = 3600.0  # how long the last good keys serve while the issuer is down
    keys_cooldown: Seconds = 10.0  # at most one refetch for unknown key ids in this time, per issuer


class Skill(Model):
    scopes: tuple[str, ...] | None = None
    traverses: tuple[str, ...] | None = None


class Scopes(Model):
    mode: Mode = "enforce"
    alternatives: Literal["all", "any"] = "all"
    levels: Literal["both", "skill"] = "both"
    skill_from: tuple[str, ...] = ("metadata:skillId", "header:A2A-Skill")
    unnamed_skill: str = "all"
    lifecycle: Mapping[Literal["send", "get", "cancel", "subscribe", "push"], tuple[str, ...]] = {}
    skills: Mapping[str, Skill] = {}
    implies: Mapping[str, tuple[str, ...]] = {}
    per_operation: Literal["enforce", "disabled"] = "disabled"


class Ownership(Model):
    mode: Mode = "enforce"
    client_context_ids: Literal["own", "refuse"] = "own"
    shared_context_ids: tuple[str, ...] = ()  # context ids the agent gives to everybody: owned by nobody
    owner_claims: tuple[Literal["client_id", "azp", "act"], ...] = ()


class OtherPaths(Model):
    default: Literal["authenticated", "refuse", "anonymous"] = "authenticated"
    anonymous: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    upgrades: tuple[str, ...] = ()  # exact paths on which a protocol upgrade may pass


class Card(Model):
    refresh: Seconds = 60.0
    max_stale: Seconds = 3600.0
    signatures: Literal["strip", "refuse"] = "strip"


class Agent(Model):
    name: str
    upstream: str
    public_url: str
    mount: str = "/"
    authorization: Literal["forward", "strip"] = "forward"
    card: Card = Card()
    dialects: tuple[str, ...] | None = None  # e.g. `JSONRPC/0.3`; default: what the card shows
    audiences: tuple[str, ...] | None = None
    abandoned_streams: Literal["drain", "close"] | None = (
        None  # default: drain unless the card is 1.0 or later
    )
    tenants: tuple[str, ...] = ()
    cors: Literal["pass", "refuse"] = "refuse"
    scopes: Scopes | None = None
    ownership: Ownership | None = None
    other_paths: OtherPaths | None = None


class Ledger(Model):
    url: str = "memory:"
    retention: Seconds = 30 * 86400.0
    retention_open: Seconds = 180 * 86400.0


class Audit(Model):
    output: str = "stdout"  # or `disabled`, or a file's path
    buffer: int = 10_000  # records


class Limits(Model):
    body: Bytes = 16 * 2**20
    reply: Bytes = 64 * 2**20
    event: Bytes = 16 * 2**20  # one event of a stream
    depth: int = 100
    header_timeout: Seconds = 10.0
    body_timeout: Seconds = 60.0
    idle_timeout: Seconds = 75.0  # of a downstream connection between requests
    connect_timeout: Seconds = 5.0
    stream_idle_timeout: Seconds = 3600.0
    settle_timeout: Seconds = 600.0
    settling: int = 256
    connections: int = 4096  # to one agent
    drain_timeout: Seconds = 25.0
    token: Bytes = 16 * 2**10


class Config(Model):
    """A whole policy. `hash` names it in every decision record."""

    version: Literal[1]
    mode: Literal["enforce", "observe"] = "enforce"
    listen: str = "0.0.0.0:8080"
    admin: str = "127.0.0.1:9090"
    agents: Annotated[tuple[Agent, ...], Field(min_length=1)]
    identity: Identity = Identity()
    scopes: Scopes = Scopes()
    ownership: Ownership = Ownership()
    other_paths: OtherPaths = OtherPaths()
    ledger: Ledger = Ledger()
    audit: Audit = Audit()
    limits: Limits = Limits()
    hash: str = ""
