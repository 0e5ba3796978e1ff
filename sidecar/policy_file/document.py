"""What a policy document says, as one frozen Config.

Owns: the keys of a policy but for `identity` (see `identity.py`), their types and defaults, and an agent's effective
sections.
Never: looks at a file or at two keys at once, silently ignores a field.

Docstrings below fields become the descriptions in `policies/schema.json`; `policies/README.md` tells more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from sidecar.policy_file.identity import Identity
from sidecar.policy_file.model import Model
from sidecar.policy_file.values import (
    Audience,
    AuditOutput,
    Bytes,
    DialectName,
    FilePath,
    HostPort,
    IdentityHeader,
    LedgerUrl,
    LifeCycle,
    Method,
    Mode,
    Name,
    OpenPath,
    Path,
    PushPattern,
    Scope,
    Seconds,
    SkillSource,
    Text,
    Url,
)

# --- what is enforced --------------------------------------------------------------------------


class Skill(Model):
    """What one skill needs, beyond what the card says."""

    scopes: tuple[Scope, ...] | None = None
    """The scopes this skill needs; wins over the card. Default: what the card says."""
    traverses: tuple[LifeCycle, ...] | None = None
    """The life-cycle operations its tasks may go through. Default: all of them."""
    min_remaining_lifetime: Seconds | None = Field(default=None, ge=0)
    """How long a token must still be valid when a task is submitted. Default: what `scopes.min_remaining_lifetime` says."""


class Scopes(Model):
    """The life-cycle scope guard: no task is made that its caller cannot follow to the end."""

    mode: Mode = "enforce"
    """What to do with a call that lacks scopes: refuse it, permit and audit it, or do not look."""
    alternatives: Literal["all", "any"] = "all"
    """Of a card's alternatives the caller can satisfy, require the scopes of all, or of any one."""
    levels: Literal["both", "skill"] = "both"
    """Require what card and skill say, or let a skill's own requirements replace the card's."""
    skill_from: tuple[SkillSource, ...] = ("metadata:skillId", "header:A2A-Skill")
    """Where a caller names the skill, tried in order; an empty list: callers cannot name one."""
    unnamed_skill: Text = "all"
    """What a call that names no skill needs: `all` skills together, the `card` level only, or one skill's id."""
    lifecycle: Mapping[Literal["send", "get", "cancel", "subscribe", "push"], tuple[Scope, ...]] = {}
    """Scopes each operation of a task's life needs; a submission must hold those of all."""
    skills: Mapping[Text, Skill] = {}
    """What single skills need, by skill id."""
    implies: Mapping[Scope, tuple[Scope, ...]] = {}
    """Scopes that stand for others: holding the first means holding all of the list."""
    min_remaining_lifetime: Seconds = Field(default=0.0, ge=0)
    """How long a token must still be valid when a task is submitted, for skills that do not say so themselves."""
    per_operation: Literal["enforce", "disabled"] = "disabled"
    """Check `lifecycle` on get, cancel and the others too, before any look-up."""


class Ownership(Model):
    """Tasks and contexts belong to whoever created them; for everybody else they do not exist."""

    mode: Mode = "enforce"
    """What to do with a call for what the caller does not own: refuse it, permit and audit it, or do not look."""
    client_context_ids: Literal["own", "refuse"] = "own"
    """A context id the caller made up becomes the caller's own, or is refused."""
    shared_context_ids: tuple[Text, ...] = ()
    """Context ids the agent gives to everybody: owned by nobody."""
    owner_claims: tuple[Literal["client_id", "azp", "act"], ...] = ()
    """Further claims that tell owners apart, beside tenant, issuer and subject."""
    unknown_tasks: Literal["refuse"] = "refuse"
    """Tasks the ledger has never seen do not exist. The only value this version supports."""
    grants: tuple[Text, ...] = Field(default=(), max_length=0)
    """Sharing tasks with others is not supported by this version: the list must be empty."""


class Push(Model):
    """Where notifications may be sent: every webhook a caller registers, with a message too."""

    mode: Mode = "enforce"
    """What to do with a webhook that is not allowed: refuse the call, permit and audit it, or do not look."""
    allow: tuple[PushPattern, ...] = ("https://*",)
    """URLs that webhooks may have: `scheme://host[:port][/path]`, the host exact, `*.example.com` or `*`."""
    resolve: bool = True
    """Resolve a host that only a wildcard admits, and refuse it unless every address is public."""
    per_task: int = Field(default=10, ge=1, le=1000)
    """How many webhooks one task may have."""


class OtherPaths(Model):
    """What may pass that is no A2A operation."""

    default: Literal["authenticated", "refuse", "anonymous"] = "authenticated"
    """Let it pass for any verified caller, for nobody, or for everybody."""
    anonymous: tuple[OpenPath, ...] = ()
    """Paths open to everybody, exact or ending in `/*`; never opens what content shows to be A2A."""
    methods: tuple[Method, ...] = ()
    """JSON-RPC methods outside A2A that may pass, by exact name."""
    upgrades: tuple[Path, ...] = ()
    """Exact paths on which a protocol upgrade (WebSocket) may pass."""


# --- the agents --------------------------------------------------------------------------------


class Card(Model):
    """The agent card: fetched, cached, and rewritten to the public address."""

    refresh: Seconds = Field(default=60.0, gt=0)
    """How often the card is fetched anew."""
    max_stale: Seconds = Field(default=3600.0, gt=0)
    """How long the last good card serves while the agent does not answer."""
    signatures: Literal["strip", "refuse"] = "strip"
    """What to do with a signature the rewriting breaks: remove it, or serve no card."""


def _values(given: Any) -> Any:
    """One value is a list of it."""
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given


Values = Annotated[tuple[Text, ...], BeforeValidator(_values, json_schema_input_type=Text | tuple[Text, ...])]


class Tenant(Model):
    """Who may use one A2A tenant."""

    claims: Mapping[Text, Values] = {}
    """Claims of the caller's token that must hold one of these values, each of them. Default: every caller may."""


def _tenants(given: Any) -> Any:
    """A list of names is a mapping of each to no condition."""
    if not isinstance(given, list | tuple):
        return given
    if not all(isinstance(name, str) for name in given):
        raise ValueError("a list holds names of tenants; write strings")
    return {name: {} for name in given}


Tenants = Annotated[
    Mapping[Text, Tenant],
    BeforeValidator(_tenants, json_schema_input_type=tuple[Text, ...] | Mapping[Text, Tenant]),
]


class UpstreamTls(Model):
    """TLS on the way to one agent."""

    ca_file: FilePath | None = None
    """Certificates of the authorities that may vouch for the agent, instead of the system's (PEM)."""
    certificate_file: FilePath | None = None
    """Our certificate, where the agent asks for one (PEM, with its chain). Needs `key_file`."""
    key_file: FilePath | None = None
    """The private key of that certificate (PEM, without a pass phrase)."""
    server_name: Text | None = None
    """The name the agent's certificate must have, instead of the host of `upstream`."""


class Agent(Model):
    """One unmodified agent behind this sidecar."""

    name: Name
    """Names the agent in records, metrics and the ledger; do not change it once tasks exist."""
    upstream: Url
    """Where the agent listens."""
    public_url: Url
    """Where callers reach it; every address of the card is rewritten to this."""
    mount: Path = "/"
    """Path prefix of this agent on the traffic port; it is removed before forwarding."""
    authorization: Literal["forward", "strip", "replace"] = "forward"
    """Pass the caller's credentials on to the agent, remove them, or put the token of `authorization_file` in their place."""
    authorization_file: FilePath | None = None
    """A file with the bearer token the agent gets under `authorization: replace`; read anew when it changes."""
    identity_headers: tuple[IdentityHeader, ...] = ()
    """What the agent is told of the verified caller, each in a header of ours: `x-a2a-sidecar-subject` and so on."""
    tls: UpstreamTls = UpstreamTls()
    """How an `https` upstream is verified, and what we show it."""
    card: Card = Card()
    """How its card is kept."""
    dialects: tuple[DialectName, ...] | None = Field(default=None, min_length=1)
    """The bindings and versions to front. Default: what the card shows."""
    audiences: tuple[Audience, ...] | None = Field(default=None, min_length=1)
    """Audiences of this agent, instead of the issuer's. Default: the issuer's."""
    abandoned_streams: Literal["drain", "close"] | None = None
    """What becomes of the agent's stream when the caller leaves. Default: `drain` unless the card is 1.0 or later."""
    tenants: Tenants = Field(default={})
    """A2A tenants that requests may name, beside those the card declares; with `claims`, who may use which."""
    list: Literal["ledger", "refuse"] = "ledger"
    """Answer lists of tasks from the ledger, with the caller's own, or refuse them."""
    cors: Literal["pass", "refuse"] = "refuse"
    """Let CORS preflights through to the agent, or refuse them."""
    scopes: Scopes | None = None
    """This agent's own part of `scopes`, laid over the top-level section key by key."""
    ownership: Ownership | None = None
    """This agent's own part of `ownership`, laid over the top-level section key by key."""
    push: Push | None = None
    """This agent's own part of `push`, laid over the top-level section key by key."""
    other_paths: OtherPaths | None = None
    """This agent's own part of `other_paths`, laid over the top-level section key by key."""


class Lists(Model):
    """How lists of tasks are answered: from the ledger, with the caller's own tasks only."""

    refresh_max: int = Field(default=200, ge=0, le=10_000)
    """How many of the caller's newest unfinished tasks are asked for at the agent, each time; the rest stand as last seen."""
    cursor_ttl: Seconds = Field(default=3600.0, gt=0)
    """How long a page token is good for."""
    key_files: tuple[FilePath, ...] = ()
    """Files with the keys page tokens are sealed with: the first seals, all open. Default: keys kept in the ledger."""


# --- the process -------------------------------------------------------------------------------


class Tls(Model):
    """TLS on the traffic port. Files are read anew when they change."""

    certificate_file: FilePath
    """The certificate callers see (PEM, with its chain)."""
    key_file: FilePath
    """Its private key (PEM, without a pass phrase)."""
    client_ca_file: FilePath | None = None
    """Certificates of the authorities that may vouch for callers (PEM). Default: callers are asked for no certificate."""
    client_certificate: Literal["optional", "required"] = "optional"
    """Whether a caller without a certificate is let in at all, where `client_ca_file` is given."""


class Ledger(Model):
    """Where it is recorded who owns what."""

    url: LedgerUrl = "memory:"
    """`memory:` (lost at restart) or `sqlite:////absolute/file`."""
    retention: Seconds = Field(default=30 * 86400.0, gt=0)
    """How long a finished task is kept after it was last seen."""
    retention_open: Seconds = Field(default=180 * 86400.0, gt=0)
    """How long any other task is kept after it was last seen."""


class Audit(Model):
    """One record per decision."""

    output: AuditOutput = "stdout"
    """`stdout`, `disabled`, or the absolute path of a file."""
    buffer: int = Field(default=10_000, ge=1)
    """Records held while the output is slow; past it permits are dropped first and counted."""


class Limits(Model):
    """Bounds of everything a caller or an agent could make grow."""

    body: Bytes = Field(default=16 * 2**20, gt=0)
    """Largest request body that is judged."""
    reply: Bytes = Field(default=64 * 2**20, gt=0)
    """Largest unary reply."""
    event: Bytes = Field(default=16 * 2**20, gt=0)
    """Largest single event of a stream."""
    values: int = Field(default=100_000, gt=0)
    """How many objects and lists a body may hold; twice as many strings, four times as many values in all."""
    depth: int = Field(default=100, ge=1, le=200)
    """Deepest nesting of JSON."""
    header_timeout: Seconds = Field(default=10.0, gt=0)
    """How long the head of a request may take to arrive."""
    body_timeout: Seconds = Field(default=60.0, gt=0)
    """How long the body of a request may take to arrive."""
    idle_timeout: Seconds = Field(default=75.0, gt=0)
    """How long a caller's connection may be silent between requests."""
    connect_timeout: Seconds = Field(default=5.0, gt=0)
    """How long connecting to the agent may take."""
    stream_idle_timeout: Seconds = Field(default=3600.0, gt=0)
    """How long the agent may be silent within one reply or stream."""
    settle_timeout: Seconds = Field(default=600.0, gt=0)
    """How long a send is read on after its caller has left, to learn the task's id."""
    settling: int = Field(default=256, ge=1)
    """How many such sends are read on at the same time."""
    connections: int = Field(default=4096, ge=1)
    """Connections to one agent."""
    drain_timeout: Seconds = Field(default=25.0, gt=0)
    """How long a stop waits for calls under way."""
    token: Bytes = Field(default=16 * 2**10, gt=0)
    """Largest credential that is looked at."""


class Config(Model):
    """A whole policy. `hash` names it in every decision record.

    An agent's `scopes`, `ownership`, `push` and `other_paths` are always filled: with its own section laid over the
    top-level one. An agent's block that only sets one key thereby keeps every rule it does not mention.
    """

    version: Literal[1]
    """The version of the policy's form. Required, and 1."""
    mode: Literal["enforce", "observe"] = "enforce"
    """`observe` refuses nothing at all and audits what would have been refused."""
    listen: HostPort = "0.0.0.0:8080"
    """Where callers connect."""
    admin: HostPort = "127.0.0.1:9090"
    """Health, readiness and metrics."""
    tls: Tls | None = None
    """TLS on the traffic port. Default: none, as behind a mesh or an ingress."""
    agents: Annotated[tuple[Agent, ...], Field(min_length=1)]
    """The agents behind this sidecar."""
    identity: Identity = Identity()
    """Who may call, and how that is verified."""
    scopes: Scopes = Scopes()
    """The life-cycle scope guard, for every agent."""
    ownership: Ownership = Ownership()
    """Who owns tasks and contexts, for every agent."""
    push: Push = Push()
    """Where notifications may be sent, for every agent."""
    other_paths: OtherPaths = OtherPaths()
    """What may pass that is no A2A, for every agent."""
    list: Lists = Lists()
    """How lists of tasks are answered."""
    ledger: Ledger = Ledger()
    """Where ownership is recorded."""
    audit: Audit = Audit()
    """Where decisions are recorded."""
    limits: Limits = Limits()
    """Bounds of requests, replies, times and concurrency."""
    hash: str = ""
    """Names this policy in decision records; set by `load`, never written in a file."""

    @property
    def asked_claims(self) -> frozenset[str]:
        """Claims a decision may depend on, beside those that name the caller."""
        return frozenset(
            name for agent in self.agents for tenant in agent.tenants.values() for name in tenant.claims
        )

    @model_validator(mode="after")
    def _fill_agents(self) -> Config:
        filled = tuple(
            agent.model_copy(
                update={
                    "scopes": laid_over(self.scopes, agent.scopes),
                    "ownership": laid_over(self.ownership, agent.ownership),
                    "push": laid_over(self.push, agent.push),
                    "other_paths": laid_over(self.other_paths, agent.other_paths),
                }
            )
            for agent in self.agents
        )
        # A frozen model has no other way to complete itself; nobody has seen it yet.
        self.__dict__["agents"] = filled
        return self


Section = TypeVar("Section", bound=Model)


def laid_over(whole: Section, own: Section | None) -> Section:
    """`whole`, with the keys `own` sets put over it: mappings key by key, everything else replaced."""
    if own is None:
        return whole
    update = {name: _over(getattr(whole, name), getattr(own, name)) for name in own.model_fields_set}
    return whole.model_copy(update=update)


def _over(whole: Any, own: Any) -> Any:
    if isinstance(whole, Model) and isinstance(own, Model):
        return laid_over(whole, own)
    if isinstance(whole, Mapping) and isinstance(own, Mapping):
        return {**whole, **{key: _over(whole[key], own[key]) if key in whole else own[key] for key in own}}
    return own
