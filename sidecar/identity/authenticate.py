"""From a request's headers to a Principal, or the refusal.

Owns: finding the one credential, choosing its issuer, and remembering verified tokens.
Never: raises for what a caller sent, or keeps a token itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cachetools import LRUCache
from multidict import CIMultiDictProxy

from sidecar import config
from sidecar.identity import claims, tokens
from sidecar.identity.algorithms import ALGORITHMS
from sidecar.identity.fetch import addresses
from sidecar.identity.invalid import NO_TOKEN, Fault, InvalidToken, KeysUnavailable
from sidecar.identity.jwks import KeySet
from sidecar.identity.keys import Keys, KeyStatus
from sidecar.model import Owner, Principal, Refusal

RESERVED: Final = "urn:a2a-sidecar:"  # issuers of principals that have no JWT; no token may claim one
ANONYMOUS_ISSUER: Final = RESERVED + "anonymous"
REMEMBERED: Final = 10_000  # verified tokens

Audiences = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Verified:
    """What a token proved, as long as `keys` serve and until `until` (seconds since the epoch)."""

    principal: Principal
    issuer: str
    keys: KeySet
    until: float


class Identity:
    """Who is calling. `now` is seconds since the epoch, `clock` monotonic seconds for key ages."""

    def __init__(
        self,
        settings: config.Identity,
        owner_claims: tuple[str, ...],
        token_limit: int,
        asked_claims: frozenset[str] = frozenset(),
        *,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`owner_claims` is `ownership.owner_claims`, `token_limit` bytes, `asked_claims` those rules name. Raises ValueError with every problem."""
        if problems := _problems(settings):
            raise ValueError("\n".join(problems))
        self._owner_claims = owner_claims
        self._token_limit = token_limit
        self._asked_claims = asked_claims
        self._now = now
        self._issuers = {issuer.issuer: issuer for issuer in settings.issuers}
        self._keys = Keys(settings, clock=clock)
        self._verified: LRUCache[tuple[bytes, Audiences], _Verified] = LRUCache(REMEMBERED)
        self._without_token = _without_token(settings.anonymous, owner_claims)

    async def start(self) -> None:
        """Begin to fetch keys. Neither waits for an issuer nor fails without one."""
        await self._keys.start()

    async def close(self) -> None:
        """End all background work; nothing is authenticated afterwards."""
        await self._keys.close()

    def ready(self) -> bool:
        """Whether there are keys to serve with for every issuer; true without issuers."""
        return self._keys.ready()

    def key_status(self) -> tuple[KeyStatus, ...]:
        """How fetching keys goes, issuer by issuer: for readiness details and metrics."""
        return self._keys.status()

    async def authenticate(
        self, headers: CIMultiDictProxy[str], audiences: Audiences = None
    ) -> Principal | Refusal:
        """Who these headers prove to be. `audiences` replaces the issuer's own where given.

        A refusal is UNAUTHENTICATED (RFC 6750 §3) or KEYS_UNAVAILABLE; nothing is raised.
        """
        presented = headers.getall("Authorization", ())
        if not presented:
            return self._without_token
        # Two credentials could be one for us and the other for the agent (field case FC-041).
        if len(presented) > 1:
            return InvalidToken("more than one Authorization header", Fault.MALFORMED).refusal
        scheme, _, text = presented[0].partition(" ")
        if scheme.lower() != "bearer":
            return NO_TOKEN
        try:
            return await self._who(text, audiences)
        except (InvalidToken, KeysUnavailable) as error:
            return error.refusal

    async def _who(self, text: str, audiences: Audiences) -> Principal:
        if len(text) > self._token_limit or not text.isascii():
            raise InvalidToken("too long or not ASCII", Fault.MALFORMED)
        # Of the text as sent, in full: another spelling of a token is another token, and malformed.
        memory = (sha256(text.encode()).digest(), audiences)
        seen = self._verified.get(memory)
        if seen is None or self._now() >= seen.until or seen.keys is not self._keys.current(seen.issuer):
            seen = await self._verify(text, audiences)
            self._verified[memory] = seen
        return seen.principal

    async def _verify(self, text: str, audiences: Audiences) -> _Verified:
        token = tokens.read(text)
        named = token.claims.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise InvalidToken("`iss` is not a trusted issuer")
        if token.algorithm not in issuer.algorithms:  # before it could cost the issuer a fetch
            raise InvalidToken("an algorithm the issuer is not allowed")
        keys = await self._keys.obtain(issuer.issuer, token.kid, token.algorithm)
        expires_at = tokens.verify(
            token,
            keys.fitting(token.kid, token.algorithm),
            issuer,
            issuer.audiences if audiences is None else audiences,
            self._now(),
        )
        who = claims.principal(token.claims, issuer, self._owner_claims, expires_at, self._asked_claims)
        return _Verified(who, issuer.issuer, keys, expires_at + issuer.leeway)


def _without_token(
    anonymous: str | config.AnonymousPrincipal, owner_claims: tuple[str, ...]
) -> Principal | Refusal:
    """What a request without an Authorization header is."""
    if isinstance(anonymous, str):
        return NO_TOKEN
    owner = Owner("", ANONYMOUS_ISSUER, anonymous.subject, ("",) * len(owner_claims))
    return Principal(owner, frozenset(anonymous.scopes), pseudonym=claims.pseudonym(owner))


def _problems(settings: config.Identity) -> list[str]:
    """Everything about the issuers that must stop the start (design: fail closed, in one message)."""
    problems = []
    names = [issuer.issuer for issuer in settings.issuers]
    for issuer in settings.issuers:
        where = f"issuer `{issuer.issuer}`"
        if names.count(issuer.issuer) > 1:
            problems.append(f"{where}: listed more than once")
        if issuer.issuer.startswith(RESERVED):
            problems.append(f"{where}: names that start with `{RESERVED}` are reserved")
        if unknown := [name for name in issuer.algorithms if name not in ALGORITHMS]:
            problems.append(
                f"{where}: unknown algorithms {', '.join(unknown)}; choose from {', '.join(ALGORITHMS)}"
                " (symmetric algorithms and `none` are never accepted)"
            )
        if not issuer.algorithms:
            problems.append(f"{where}: no algorithms")
        try:
            addresses(issuer)
        except ValueError as error:
            problems.append(f"{where}: {error}")
    return problems
