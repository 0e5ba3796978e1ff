"""What a policy document says of who may call.

Owns: the keys of `identity`, their types and defaults.
Never: looks at a file or at two keys at once, silently ignores a field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from sidecar.policy_file.model import Model
from sidecar.policy_file.values import (
    Algorithm,
    Audience,
    CertificateName,
    EnvironmentName,
    FilePath,
    HeaderName,
    KeyUrl,
    Scope,
    Seconds,
    Sha256,
    Text,
    Url,
)

# --- tokens --------------------------------------------------------------------------------------


class Claims(Model):
    """Which claims of a token mean what."""

    subject: Text = "sub"
    """The claim that names the caller."""
    tenant: Text | None = None
    """The claim that names the caller's tenant; a token without it is then refused. Default: no tenants."""
    scopes: tuple[Text, ...] = ("scope", "scp")
    """Claims that may hold scopes, as a string or a list; the first of these a token has counts, alone."""


class Introspection(Model):
    """Asking the issuer about opaque tokens (RFC 7662)."""

    url: KeyUrl | None = None
    """Where tokens are asked about. Default: the `introspection_endpoint` of the issuer's metadata."""
    client_id: Text
    """What the sidecar is called at the issuer."""
    client_secret_file: FilePath | None = None
    """A file with the secret it proves that with; read anew when the issuer refuses it. This or `client_secret_env`."""
    client_secret_env: EnvironmentName | None = None
    """An environment variable with that secret."""
    cache: Seconds = Field(default=60.0, ge=0)
    """How long an answer is believed, or until the token expires if that is sooner."""
    cache_inactive: Seconds = Field(default=10.0, ge=0)
    """How long a token is remembered as not active."""
    missing_audience: Literal["refuse", "accept"] = "refuse"
    """What to do with a token the issuer names no audience of: refuse it, or trust it to answer only for tokens meant for us."""


class Actor(Model):
    """One party that may act for a subject."""

    subject: Text
    """The actor's `sub`."""
    issuer: Url | None = None
    """The actor's own `iss`, where it is another one than the token's."""


def _actor(given: Any) -> Any:
    """A string is an actor of the token's own issuer."""
    return {"subject": given} if isinstance(given, str) else given


PermittedActor = Annotated[Actor, BeforeValidator(_actor, json_schema_input_type=Text | Actor)]


class Issuer(Model):
    """One authority whose tokens are accepted."""

    issuer: Url
    """The exact `iss` of its tokens; keys are found through its discovery document."""
    audiences: tuple[Audience, ...] = Field(min_length=1)
    """A token must be meant for one of these (`aud`)."""
    single_audience: bool = False
    """Refuse a token that is meant for others as well."""
    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    """Signature algorithms accepted; asymmetric ones only."""
    jwks_uri: KeyUrl | None = None
    """Where the keys are, instead of discovery."""
    jwks_file: FilePath | None = None
    """A file with the keys, instead of asking the issuer; read anew when it changes."""
    ca_file: FilePath | None = None
    """Certificates of the authorities that may vouch for the issuer's servers, instead of the system's (PEM)."""
    allow_http: bool = False
    """Permit `http` addresses of this issuer beyond loopback."""
    leeway: Seconds = Field(default=5.0, ge=0, le=600)
    """Tolerated difference between the clocks when `exp`, `nbf` and `iat` are checked."""
    max_lifetime: Seconds | None = Field(default=None, gt=0)
    """Refuse a token that was issued for longer than this, or is valid for longer still. Default: no bound."""
    require_at_jwt: bool = False
    """Refuse a token whose `typ` is not `at+jwt` (RFC 9068)."""
    claims: Claims = Claims()
    """Which claims of its tokens mean what."""
    actors: tuple[PermittedActor, ...] | None = None
    """Who may act for a subject (the current actor of the `act` chain). An empty list: nobody. Default: everybody."""
    introspection: Introspection | None = None
    """Ask this issuer about opaque tokens. Default: opaque tokens are refused. One issuer only may have it."""


class Dpop(Model):
    """Proofs of possession for tokens bound to a key (RFC 9449)."""

    max_age: Seconds = Field(default=60.0, gt=0, le=3600)
    """How old a proof may be; for so long none is accepted twice."""
    nonce: Literal["disabled", "required"] = "disabled"
    """Require a nonce of ours in each proof, so that none can be made long before it is used."""
    algorithms: tuple[Algorithm, ...] = Field(default=("ES256", "RS256", "PS256", "EdDSA"), min_length=1)
    """Signature algorithms accepted in proofs."""


# --- direct trust --------------------------------------------------------------------------------


class ApiKey(Model):
    """One key, kept as its hash."""

    subject: Text
    """Who calls with it."""
    tenant: Text | None = None
    """The caller's tenant. Default: none."""
    sha256: Sha256
    """The SHA-256 of the key, 64 hexadecimal digits: `printf %s "$KEY" | sha256sum`."""


class ApiKeys(Model):
    """Callers known by a key of their own: without scopes, outside the scope guard, inside ownership."""

    header: HeaderName = "X-API-Key"
    """The header the key is sent in."""
    keys: tuple[ApiKey, ...] = ()
    """The keys. Several may belong to one subject, so that they can be changed."""


class Certificates(Model):
    """What a caller's client certificate counts for, beside proving tokens that are bound to it."""

    principals: tuple[CertificateName, ...] = ()
    """Whose certificate is enough to call, without a token: `spiffe://…` or `dns:…`, exact or ending in `/*`."""
    forwarded_by: tuple[CertificateName, ...] = ()
    """Proxies, by their own client certificate, whose `x-forwarded-client-cert` is believed. Default: none."""


class AnonymousPrincipal(Model):
    """Who every caller without a credential is. For development, or behind what has already authenticated."""

    subject: Text
    """The one subject all of them share, tasks included."""
    scopes: tuple[Scope, ...] = ()
    """The scopes it holds."""


def _kind_of_anonymous(value: object) -> str:
    return "principal" if isinstance(value, dict | AnonymousPrincipal) else "word"


class Identity(Model):
    """Who may call, and how that is verified."""

    issuers: tuple[Issuer, ...] = ()
    """Authorities whose tokens are accepted; an empty list trusts nobody."""
    api_keys: ApiKeys = ApiKeys()
    """Callers known by an API key."""
    certificates: Certificates = Certificates()
    """Callers known by their client certificate."""
    anonymous: Annotated[
        Annotated[Literal["refuse"], Tag("word")] | Annotated[AnonymousPrincipal, Tag("principal")],
        Discriminator(_kind_of_anonymous),
    ] = "refuse"
    """`refuse` callers without a credential, or the principal they all are."""
    dpop: Dpop = Dpop()
    """What proofs for key-bound tokens must be."""
    keys_refresh: Seconds = Field(default=300.0, gt=0)
    """How often a key set is fetched anew while in use."""
    keys_max_stale: Seconds = Field(default=3600.0, gt=0)
    """How long the last good keys serve while the issuer is down."""
    keys_cooldown: Seconds = Field(default=10.0, gt=0)
    """At most one fetch for unknown key ids in this time, per issuer."""
