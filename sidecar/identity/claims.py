"""Verified claims → Principal.

Owns: which claim means what, and how each may be written.
Never: verifies signatures, times or audiences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from sidecar import config
from sidecar.identity.invalid import InvalidToken
from sidecar.model import Owner, Principal

LONGEST: Final = 1024  # characters of a subject or any other text that identifies
MAX_ACTORS: Final = 10
# C0, DEL, C1 and the line separators: they would forge lines in whatever prints them.
UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # a SHA-256 in base64url

# One link of an `act` chain: (iss or "", sub).
Actor = tuple[str, str]


def principal(
    claims: Mapping[str, Any],
    issuer: config.Issuer,
    owner_claims: tuple[str, ...],
    expires_at: float | None,
    asked: frozenset[str] = frozenset(),
) -> Principal:
    """Who a verified token speaks for; `asked` are further claims decisions depend on. Raises InvalidToken where a claim that counts is unusable."""
    names = issuer.claims
    actors = _actors(claims)
    _check_actor(actors, issuer)
    owner = Owner(
        _text(claims, names.tenant) if names.tenant is not None else "",
        issuer.issuer,
        _text(claims, names.subject),
        tuple(_chain(actors) if name == "act" else _text(claims, name) for name in owner_claims),
    )
    return Principal(
        owner=owner,
        scopes=_scopes(claims, names.scopes),
        presented_by=_presented_by(claims, actors),
        actors=tuple(subject for _, subject in actors),
        expires_at=expires_at,
        pseudonym=pseudonym(owner),
        claims={name: _values(claims[name]) for name in asked & claims.keys()},
    )


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a sender-constrained token is bound to (RFC 7800): a DPoP key (RFC 9449 §6.1) or a certificate (RFC 8705
    §3.1), by thumbprint. Both: both must be proved."""

    jkt: str | None
    x5t: str | None


def confirmation(claims: Mapping[str, Any]) -> Confirmation | None:
    """What the token is bound to, None for a bearer token. Raises InvalidToken for what could not be proved here."""
    if "cnf" not in claims:
        if any(str(claims.get(name)).lower() == "dpop" for name in ("token_type", "typ")):
            raise InvalidToken("bound to a key by its own words, and to which it does not say")
        return None
    bound = claims["cnf"]
    if (
        not isinstance(bound, dict)
        or not bound.keys() <= {"jkt", "x5t#S256"}
        or not bound
        or not all(isinstance(value, str) and THUMBPRINT.fullmatch(value) for value in bound.values())
    ):
        raise InvalidToken("bound (`cnf`) to what cannot be proved here")
    return Confirmation(bound.get("jkt"), bound.get("x5t#S256"))


def pseudonym(owner: Owner) -> str:
    """A short stable name for the audit: no owner can be read from it, none shares it by gluing."""
    digest = sha256()
    for component in (owner.tenant, owner.issuer, owner.subject, *owner.further):
        raw = component.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:16]


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not _identifies(value):
        raise InvalidToken(f"claim `{name}` is missing or not a plain, non-empty string")
    return str(value)


def _identifies(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= LONGEST
        and bool(value.strip())
        and not UNPRINTABLE.search(value)
    )


def _values(value: object) -> frozenset[str]:
    """The values of a claim a condition may name: a string, or a list's strings. Anything else meets none."""
    listed = value if isinstance(value, list) else [value]
    return frozenset(one for one in listed if isinstance(one, str))


def _scopes(claims: Mapping[str, Any], names: tuple[str, ...]) -> frozenset[str]:
    """The first of `names` that is present counts, alone: two claims are never added up.

    A string is split on spaces (RFC 6749 §3.3), a list holds one scope an element. An element
    with a space could be one scope or two, so it is refused, as is every other type, null too.
    """
    name = next((name for name in names if name in claims), None)
    if name is None:
        return frozenset()
    value = claims[name]
    scopes = value.split(" ") if isinstance(value, str) else value
    if not isinstance(scopes, list) or not all(isinstance(s, str) and " " not in s for s in scopes):
        raise InvalidToken(f"claim `{name}` is neither a string nor a list of scopes")
    return frozenset(scopes) - {""}


def _actors(claims: Mapping[str, Any]) -> tuple[Actor, ...]:
    """The `act` chain, the current actor first (RFC 8693 §4.1)."""
    actors: list[Actor] = []
    link: Mapping[str, Any] = claims
    while "act" in link:
        link = link["act"]
        if not isinstance(link, dict) or len(actors) == MAX_ACTORS:
            raise InvalidToken("the `act` chain is malformed or too long")
        actors.append((_text(link, "iss") if "iss" in link else "", _text(link, "sub")))
    return tuple(actors)


def _check_actor(actors: tuple[Actor, ...], issuer: config.Issuer) -> None:
    """Only the current actor is looked at: prior ones are history and decide nothing (RFC 8693 §4.1)."""
    if issuer.actors is None or not actors:
        return
    its_issuer, subject = actors[0]
    if not any(
        (actor.issuer or issuer.issuer, actor.subject) == (its_issuer or issuer.issuer, subject)
        for actor in issuer.actors
    ):
        raise InvalidToken("the current actor may not act for others here")


def _chain(actors: tuple[Actor, ...]) -> str:
    """The whole chain as one owner component: JSON, so that no two chains are written alike."""
    return orjson.dumps([[issuer, sub] if issuer else sub for issuer, sub in actors]).decode()


def _presented_by(claims: Mapping[str, Any], actors: tuple[Actor, ...]) -> str:
    """The hop that used the token. For people and records only: what is unusable is passed over."""
    for name in ("azp", "client_id"):
        if _identifies(claims.get(name)):
            return str(claims[name])
    return actors[0][1] if actors else ""
