"""From a request's head to a Principal, or the refusal.

Owns: finding the one credential, which of the ways verifies it, and remembering verified tokens.
Never: raises for what a caller sent, or keeps a token itself.

    Authorization: Bearer … ─► JWT: its issuer's keys · opaque: its issuer's word ─┐
    Authorization: DPoP …   ─► the same ─────────────────────────────────────────► bound to a key or certificate: proof
    API key ─► whose it is                                                        no Authorization header: in this order
    client certificate ─► whose it is
    nothing ─► refused, or the anonymous principal
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from cachetools import LRUCache

from sidecar import config
from sidecar.identity import claims, soundness, tokens
from sidecar.identity.algorithms import ALGORITHMS
from sidecar.identity.api_keys import ApiKeys
from sidecar.identity.certificates import Certificates
from sidecar.identity.claims import Confirmation
from sidecar.identity.dpop import Proofs
from sidecar.identity.invalid import Fault, InvalidToken, KeysUnavailable, no_credential
from sidecar.identity.jwks import KeySet
from sidecar.identity.keys import Keys, KeyStatus
from sidecar.model import Head, Owner, Principal, Refusal

RESERVED: Final = "urn:a2a-sidecar:"  # issuers of principals that have no JWT; no token may claim one
ANONYMOUS_ISSUER: Final = RESERVED + "anonymous"
REMEMBERED: Final = 10_000  # verified tokens

_B64TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 §2.1

Audiences = tuple[str, ...] | None


class Memory(Protocol):
    """What all processes of one sidecar share: the ledger."""

    async def first_use(self, name: bytes, until: float) -> bool: ...

    async def sealing_keys(self) -> tuple[bytes, ...]: ...


@dataclass(frozen=True, slots=True)
class _Verified:
    """What a token proved until `until` (seconds since the epoch), and as long as `keys` serve: None for an opaque
    token. `bound`: to what it is bound, which each request must prove anew."""

    principal: Principal
    issuer: str
    keys: KeySet | None
    until: float
    bound: Confirmation | None


class Identity:
    """Who is calling. `now` is seconds since the epoch, `clock` monotonic seconds for key ages."""

    def __init__(
        self,
        settings: config.Identity,
        owner_claims: tuple[str, ...],
        token_limit: int,
        asked_claims: frozenset[str] = frozenset(),
        *,
        memory: Memory,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        here: bool = True,
    ) -> None:
        """`owner_claims` is `ownership.owner_claims`, `token_limit` bytes, `asked_claims` those rules name; `here`: whether
        this machine is to serve, and must have the files the policy names. Raises ValueError with every problem.
        """
        if problems := _problems(settings, here=here):
            raise ValueError("\n".join(problems))
        self._owner_claims = owner_claims
        self._token_limit = token_limit
        self._asked_claims = asked_claims
        self._now = now
        self._issuers = {issuer.issuer: issuer for issuer in settings.issuers}
        self._opaque = next((issuer for issuer in settings.issuers if issuer.introspection), None)
        self._keys = Keys(settings, clock=clock)
        self._verified: LRUCache[tuple[bytes, Audiences], _Verified] = LRUCache(REMEMBERED)
        self._api_keys = ApiKeys(settings.api_keys, owner_claims)
        self._certificates = Certificates(settings.certificates, owner_claims)
        self._proofs = Proofs(settings.dpop, now=now, first_use=memory.first_use, secrets=memory.sealing_keys)
        self._no_credential = no_credential(settings)
        self._nobody = _nobody(settings.anonymous, owner_claims) or self._no_credential

    async def start(self) -> None:
        """Begin to fetch keys. Neither waits for an issuer nor fails without one."""
        await self._keys.start()

    async def close(self) -> None:
        """End all background work; nothing is authenticated afterwards."""
        await self._keys.close()

    def ready(self) -> bool:
        """Whether there are keys to serve with for every issuer that must have some; true without issuers."""
        return self._keys.ready()

    def key_status(self) -> tuple[KeyStatus, ...]:
        """How fetching keys goes, issuer by issuer: for readiness details and metrics."""
        return self._keys.status()

    async def authenticate(
        self, head: Head, audiences: Audiences = None, url: str = ""
    ) -> Principal | Refusal:
        """Who sent this request. `audiences` replaces the issuer's own where given, `url` is the public URL of the
        request, which a DPoP proof must name.

        A refusal is UNAUTHENTICATED (RFC 6750 §3) or KEYS_UNAVAILABLE; nothing is raised but what `memory` raises.
        """
        presented, api_keys = head.headers.getall("Authorization", ()), self._api_keys.presented(head)
        scheme = ""
        try:
            # Two credentials could be one for us and the other for the agent (field case FC-041).
            if len(presented) + len(api_keys) > 1:
                raise InvalidToken("more than one credential", Fault.MALFORMED)
            if api_keys:
                return self._api_keys.principal(api_keys[0])
            if not presented:
                return self._by_certificate(head) or self._nobody
            scheme, _, text = presented[0].partition(" ")
            scheme = scheme.lower()
            if scheme not in ("bearer", "dpop"):
                return self._no_credential
            if _has_token_in_query(head.target):  # RFC 6750 §2: one method, not two
                raise InvalidToken("a second token, in the query", Fault.MALFORMED)
            seen = await self._who(text, audiences)
            if seen.bound is not None or scheme == "dpop":
                await self._prove(seen.bound, scheme, head, text, url)
            if head.certificate is not None and self._certificates.of(head, self._now()) is not None:
                return replace(seen.principal, certified=True)
        except InvalidToken as error:
            if scheme == "dpop":
                error.scheme = "DPoP"
            return error.refusal
        except KeysUnavailable as error:
            return error.refusal
        return seen.principal

    def _by_certificate(self, head: Head) -> Principal | None:
        """Who calls by client certificate alone. Raises InvalidToken."""
        certificate = self._certificates.of(head, self._now())
        return self._certificates.principal(certificate) if certificate is not None else None

    async def _prove(self, bound: Confirmation | None, scheme: str, head: Head, token: str, url: str) -> None:
        """Whether the sender holds what its token is bound to. Raises InvalidToken."""
        jkt = bound.jkt if bound else None
        if (scheme == "dpop") != (jkt is not None):  # RFC 9449 §7.1, §7.2: neither stands for the other
            raise InvalidToken(
                "a key-bound token without the DPoP scheme, or the scheme without such a token"
            )
        if bound is not None and bound.x5t is not None:
            shown = self._certificates.of(head, self._now())
            if shown is None or not hmac.compare_digest(shown.thumbprint, bound.x5t):
                raise InvalidToken("not sent with the certificate it is bound to")  # RFC 8705 §3
        if jkt is not None:
            await self._proofs.check(head, token, jkt, url)

    async def _who(self, text: str, audiences: Audiences) -> _Verified:
        if len(text) > self._token_limit or not text.isascii():
            raise InvalidToken("too long or not ASCII", Fault.MALFORMED)
        # Of the text as sent, in full: another spelling of a token is another token, and malformed.
        memory = (sha256(text.encode()).digest(), audiences)
        try:
            seen = self._verified[memory]
        except KeyError:
            seen = None
        if seen is None or not self._stands(seen):
            # A JWS has two dots, and with another spelling than its own it is refused, not asked about.
            verify = self._verify if self._opaque is None or text.count(".") == 2 else self._ask
            seen = self._verified[memory] = await verify(text, audiences)
        return seen

    def _stands(self, seen: _Verified) -> bool:
        return self._now() < seen.until and (
            seen.keys is None or seen.keys is self._keys.current(seen.issuer)
        )

    async def _verify(self, text: str, audiences: Audiences) -> _Verified:
        """A JWT, by its issuer's keys."""
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
        return self._remembered(token.claims, issuer, keys, expires_at, expires_at + issuer.leeway)

    async def _ask(self, text: str, audiences: Audiences) -> _Verified:
        """An opaque token, by its issuer's word (RFC 7662)."""
        issuer = self._opaque
        assert issuer is not None
        assert issuer.introspection is not None
        if not _B64TOKEN.fullmatch(text):
            raise InvalidToken("not a token as RFC 6750 writes one", Fault.MALFORMED)
        told = await self._keys.introspect(issuer.issuer, text)
        now = self._now()
        expires_at = tokens.accept(
            told.claims, issuer, issuer.audiences if audiences is None else audiences, now
        )
        until = now - told.age + issuer.introspection.cache
        if expires_at is not None:
            until = min(until, expires_at + issuer.leeway)
        return self._remembered(told.claims, issuer, None, expires_at, until)

    def _remembered(
        self,
        said: Mapping[str, Any],
        issuer: config.Issuer,
        keys: KeySet | None,
        expires_at: float | None,
        until: float,
    ) -> _Verified:
        who = claims.principal(said, issuer, self._owner_claims, expires_at, self._asked_claims)
        return _Verified(who, issuer.issuer, keys, until, claims.confirmation(said))


def _has_token_in_query(target: str) -> bool:
    query = target.partition("?")[2]
    return bool(query) and any(name == "access_token" for name, _ in parse_qsl(query, keep_blank_values=True))


def _nobody(anonymous: str | config.AnonymousPrincipal, owner_claims: tuple[str, ...]) -> Principal | None:
    """Who everybody without a credential is; None if they are refused."""
    if isinstance(anonymous, str):
        return None
    owner = Owner("", ANONYMOUS_ISSUER, anonymous.subject, ("",) * len(owner_claims))
    return Principal(owner, frozenset(anonymous.scopes), pseudonym=claims.pseudonym(owner))


def _problems(settings: config.Identity, *, here: bool) -> list[str]:
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
        problems += [f"{where}: {problem}" for problem in soundness.problems(issuer, here=here)]
    return problems
