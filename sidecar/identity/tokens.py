"""Access tokens: form, signature, audience, times.

Owns: reading a compact JWS in its one canonical spelling, and whether a token is acceptable now.
Never: fetches keys, reads a clock, or trusts a header member beyond `alg`, `kid`, `typ` and `crit`.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jiter

from sidecar.config import Issuer
from sidecar.identity.algorithms import verifies
from sidecar.identity.invalid import Fault, InvalidToken
from sidecar.identity.jwks import Key

COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")  # RFC 7515 §7.1
LATEST: Final = 253_402_300_800  # the year 10000: a NumericDate past it is no date

ACCESS_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})  # RFC 9068 §2.1
# What issuers call tokens that are for other purposes: Keycloak's `typ` claim, Cognito's `token_use`.
OTHER_PURPOSES: Final = frozenset({"id", "id_token", "refresh", "refresh_token", "offline", "logout"})
SAYS_ACCESS: Final = frozenset({"bearer", "access", "access_token", "dpop"})
# Of these an access token has one at least (RFC 9068 §2.2, and what issuers wrote before it); an ID token needs none.
ACCESS_CLAIMS: Final = ("scope", "scp", "client_id", "cid", "roles", "permissions")
ID_TOKEN_CLAIMS: Final = ("at_hash", "c_hash", "nonce")  # OpenID Connect Core §2, §3.3.2.11


@dataclass(frozen=True, slots=True)
class Token:
    """A token that has been read; nothing of it is verified."""

    algorithm: str
    kid: str | None
    type: str
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes
    jwk: object  # the key a DPoP proof brings along; never one for an access token


def read(text: str) -> Token:
    """Read a compact JWS (RFC 7515 §5.2, RFC 7519 §7.2). Raises InvalidToken, nothing else."""
    parts = COMPACT.fullmatch(text)
    if parts is None:
        raise InvalidToken("not a compact JWS", Fault.MALFORMED)
    header = _object(_decode(parts[1]), "header")
    if "crit" in header:  # RFC 7515 §4.1.11: we understand no extension
        raise InvalidToken("the header has critical extensions", Fault.MALFORMED)
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or not isinstance(kind, str):
        raise InvalidToken("`alg` or `typ` is not a string", Fault.MALFORMED)
    if not isinstance(kid, str) and "kid" in header:
        raise InvalidToken("`kid` is not a string", Fault.MALFORMED)
    return Token(
        algorithm,
        kid,
        kind.lower(),
        _object(_decode(parts[2]), "payload"),
        text.rpartition(".")[0].encode(),
        _decode(parts[3]),
        header.get("jwk"),
    )


def verify(token: Token, keys: Sequence[Key], issuer: Issuer, audiences: Sequence[str], now: float) -> float:
    """Accept `token` or raise InvalidToken. `now` is in seconds since the epoch.

    Returns `exp`, in the same unit. `keys` are the issuer's that fit the token's `kid` and `alg`.
    """
    if token.algorithm not in issuer.algorithms:
        raise InvalidToken("an algorithm the issuer is not allowed")
    # Invariant: nothing below the signature is looked at before it holds.
    if not any(
        token.algorithm in key.algorithms
        and verifies(token.algorithm, key.public, token.signed, token.signature)
        for key in keys
    ):
        raise InvalidToken("no key of the issuer verifies the signature")
    if token.claims.get("iss") != issuer.issuer:
        raise InvalidToken("another issuer")
    _check_type(token, issuer)
    _check_purpose(token.claims)
    _check_audience(token.claims, issuer, audiences)
    return _check_times(token.claims, issuer, now)


def accept(claims: Mapping[str, Any], issuer: Issuer, audiences: Sequence[str], now: float) -> float | None:
    """Accept what the issuer itself says of an active opaque token (RFC 7662 §2.2), or raise InvalidToken.

    Returns `exp`, None where the issuer names none. `now` is in seconds since the epoch.
    """
    _check_purpose(claims)
    told = issuer.introspection
    if claims.get("aud", []) != [] or told is None or told.missing_audience == "refuse":
        _check_audience(claims, issuer, audiences)
    elif not _said(claims, "typ", "token_use", "token_type") & SAYS_ACCESS:
        # Some issuers call a refresh token active too, and say neither of what kind it is nor whom it is for.
        raise InvalidToken("neither `aud` nor `token_type` tells that it is an access token")
    if "exp" in claims or issuer.max_lifetime is not None:
        return _check_times(claims, issuer, now)
    _check_begun(claims, issuer, now)
    return None


def _decode(part: str) -> bytes:
    try:
        raw = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise InvalidToken("not base64url", Fault.MALFORMED) from None
    # Invariant: one token, one spelling. Bits past the last byte must be zero (RFC 4648 §3.5).
    if urlsafe_b64encode(raw).rstrip(b"=") != part.encode():
        raise InvalidToken("not canonical base64url", Fault.MALFORMED)
    return raw


def _object(raw: bytes, name: str) -> Mapping[str, Any]:
    try:
        value = jiter.from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError:
        raise InvalidToken(f"the {name} is not JSON", Fault.MALFORMED) from None
    if not isinstance(value, dict):
        raise InvalidToken(f"the {name} is not an object", Fault.MALFORMED)
    return value


def _check_type(token: Token, issuer: Issuer) -> None:
    """RFC 9068 §4; most issuers still write `JWT`, on ID tokens too, which are told apart by what they say."""
    if token.type in ACCESS_TYPES:
        return
    if token.type != "jwt" or issuer.require_at_jwt:
        raise InvalidToken("`typ` is not that of an access token")
    if _said(token.claims, "typ", "token_use") & SAYS_ACCESS:
        return
    # `auth_time` is in some access tokens too (RFC 9068 §2.2.1), beside claims that ID tokens have not.
    authorizes = any(name in token.claims for name in (*ACCESS_CLAIMS, *issuer.claims.scopes))
    if any(name in token.claims for name in ID_TOKEN_CLAIMS) or (
        "auth_time" in token.claims and not authorizes
    ):
        raise InvalidToken("an ID token by its claims")


def _check_purpose(claims: Mapping[str, Any]) -> None:
    """A token that says it is something else is not an access token (design: ID tokens are refused)."""
    said = _said(claims, "typ", "token_use", "token_type")
    if said & OTHER_PURPOSES or "events" in claims:  # RFC 8417: a security event, as logout tokens are
        raise InvalidToken("not an access token by its own words")


def _said(claims: Mapping[str, Any], *names: str) -> set[str]:
    return {value.lower() for name in names if isinstance(value := claims.get(name), str)}


def _check_audience(claims: Mapping[str, Any], issuer: Issuer, audiences: Sequence[str]) -> None:
    named = claims.get("aud")
    named = [named] if isinstance(named, str) else named
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InvalidToken("`aud` is neither a string nor a list of strings")
    if not any(name in audiences for name in named):
        raise InvalidToken("meant for another audience")
    if issuer.single_audience and not all(name in audiences for name in named):
        raise InvalidToken("meant for other audiences as well")


def _check_times(claims: Mapping[str, Any], issuer: Issuer, now: float) -> float:
    expires = _date(claims, "exp")
    if now >= expires + issuer.leeway:  # RFC 7519 §4.1.4: "on or after"
        raise InvalidToken("`exp` has passed", Fault.EXPIRED)
    begun = _check_begun(claims, issuer, now)
    if issuer.max_lifetime is not None and expires - min(begun, now) > issuer.max_lifetime + issuer.leeway:
        raise InvalidToken("valid for longer than `max_lifetime`")
    return expires


def _check_begun(claims: Mapping[str, Any], issuer: Issuer, now: float) -> float:
    """When the token was issued; `now` where it does not say."""
    dates = {name: _date(claims, name) for name in ("nbf", "iat") if name in claims}
    for name, date in dates.items():
        if date > now + issuer.leeway:
            raise InvalidToken(f"`{name}` is in the future")
    return dates.get("iat", now)


def _date(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"`{name}` is missing or not a number")
    # Compared before any conversion: an int may be too large to become a float.
    if not 0 <= value < LATEST:
        raise InvalidToken(f"`{name}` is no date")
    return float(value)
