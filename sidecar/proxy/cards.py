"""The agent's card: fetched, kept fresh, rewritten.

Owns: fetching with conditional requests, single flight, every version of a card that varies, the caller's extended card.
Never: reads or rewrites a card itself (bindings/card.py does).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from cachetools import TTLCache
from multidict import CIMultiDict

from sidecar.bindings.card import CardUnreadable, read_card
from sidecar.bindings.card_rewriting import Fronting, etag, rewrite_card
from sidecar.bindings.extended import card_in, request_for
from sidecar.bindings.own_requests import OwnRequest
from sidecar.model import Call, Card, Dialect, Reason, Refused
from sidecar.proxy.upstream import Upstream

log = structlog.get_logger()

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")

# Values of A2A-Version that may bring different cards: @a2a-js/sdk 1.x serves two.
_VERSIONS = ("", "1.0", "0.3")
_LIMIT = 4 * 2**20  # bytes of a card
_TIMEOUT = 10.0  # seconds
_BACK_OFF = 1.0  # seconds between fetches that fail


@dataclass(frozen=True, slots=True)
class Served:
    """One version of the public card: as the agent sent it, and as we serve it."""

    raw: bytes
    body: bytes
    tag: str
    validator: str  # the agent's own ETag
    card: Card


@dataclass(frozen=True, slots=True)
class CardSet:
    """All versions of one agent's card, by A2A-Version (`""`: none sent)."""

    by_version: Mapping[str, Served]
    varies: bool

    @property
    def cards(self) -> tuple[Card, ...]:
        return tuple({id(s.card): s.card for s in self.by_version.values()}.values())

    def serve(self, version: str | None) -> Served:
        return self.by_version.get(version or "", self.by_version[""])


class Cards:
    """The card cache of one agent. `current` is None while no usable card is known."""

    def __init__(
        self,
        upstream: Upstream,
        fronting: Fronting,
        *,
        refresh: float,
        max_stale: float,
        now: Callable[[], float],
        changed: Callable[[CardSet], None],
    ) -> None:
        self._upstream = upstream
        self._fronting = fronting
        self._refresh = refresh
        self._max_stale = max_stale
        self._now = now
        self._changed = changed
        self._set: CardSet | None = None
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self._flight: asyncio.Task[None] | None = None
        self._extended: TTLCache[bytes, Card | None] = TTLCache(10_000, ttl=refresh, timer=now)
        self.problem = "not fetched yet"

    async def current(self) -> CardSet | None:
        """The card, at most `max_stale` seconds old; fetched now if none is. A stale one is renewed on the side."""
        age = self._now() - self._fetched
        if age < self._refresh:
            return self._set
        self._start()
        if age >= self._max_stale and self._flight is not None:
            await asyncio.shield(self._flight)
            age = self._now() - self._fetched
        return self._set if age < self._max_stale else None

    async def extended(
        self, call: Call, headers: CIMultiDict[str], accepted: Callable[[int, Mapping[str, str]], None]
    ) -> Card | None:
        """The caller's own extended card, None if the agent gives them none. Raises Refused when it cannot be had.

        `headers` are all by which the agent can tell callers apart; `accepted` raises where status and headers of its
        reply are not about the caller.
        """
        request = request_for(call)
        if request is None:
            return None
        # The agent gets nothing else, so it could not tell two callers with one key apart.
        sent = (sorted(headers.items()), request.method, request.target, request.body)
        key = hashlib.sha256(repr(sent).encode()).digest()
        if key in self._extended:
            return self._extended[key]
        card = await self._fetch_extended(request, call.dialect, headers, accepted)
        self._extended[key] = card
        return card

    async def _fetch_extended(
        self,
        request: OwnRequest,
        dialect: Dialect,
        headers: CIMultiDict[str],
        accepted: Callable[[int, Mapping[str, str]], None],
    ) -> Card | None:
        sent = CIMultiDict(request.headers)
        sent.extend(headers)
        status, got, body = await self._upstream.ask(
            request.method, request.target, sent, request.body, limit=_LIMIT, timeout=_TIMEOUT
        )
        accepted(status, got)
        if status >= 500:
            raise Refused(
                Reason.CARD_UNAVAILABLE, internal=f"the agent answered {status} for its extended card"
            )
        raw = card_in(body, dialect) if status < 300 else None
        try:
            return read_card(raw) if raw is not None else None
        except CardUnreadable as problem:
            raise Refused(Reason.CARD_UNAVAILABLE, internal=f"extended card: {problem}") from None

    def rewrite(self, body: bytes) -> bytes:
        """An extended card with its addresses rewritten. Raises Refused."""
        try:
            return rewrite_card(body, self._fronting)
        except CardUnreadable as problem:
            raise Refused(Reason.REPLY_UNREADABLE, internal=f"extended card: {problem}") from None

    async def close(self) -> None:
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _start(self) -> None:
        pause = _BACK_OFF if self.problem else 0.0
        if (self._flight is None or self._flight.done()) and self._now() - self._tried >= pause:
            self._tried = self._now()
            self._flight = asyncio.get_running_loop().create_task(self._fetch_all())

    async def _fetch_all(self) -> None:
        try:
            found = await self._fetch_set()
            if found != self._set:
                self._changed(found)  # may find that the card cannot be enforced
        except Refused as refused:
            refusal = refused.refusal
            unreached = f"the agent at {self._fronting.upstream} cannot be reached: "
            where = unreached if refusal.reason is not Reason.CARD_UNAVAILABLE else ""
            self._failed(where + (refusal.internal or refusal.reason.value))
        except CardUnreadable as problem:
            self._failed(str(problem))
        else:
            if found != self._set:
                self._extended.clear()
            self._set, self._fetched, self.problem = found, self._now(), ""

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("agent card cannot be used", problem=problem)
        self.problem = problem

    async def _fetch_set(self) -> CardSet:
        bare, varies = await self._fetch("")
        by_version = {"": bare}
        if varies:
            for version in _VERSIONS[1:]:
                by_version[version], _ = await self._fetch(version)
        return CardSet(by_version, varies)

    async def _fetch(self, version: str) -> tuple[Served, bool]:
        known = self._set.by_version.get(version) if self._set else None
        headers = CIMultiDict({"Accept": "application/json", "Accept-Encoding": "identity"})
        if version:
            headers["A2A-Version"] = version
        if known is not None and known.validator:
            headers["If-None-Match"] = known.validator
        status = 0
        for path in WELL_KNOWN:
            status, got, body = await self._upstream.ask(
                "GET", path, headers, b"", limit=_LIMIT, timeout=_TIMEOUT
            )
            varies = "a2a-version" in got.get("Vary", "").lower()
            if status == 304 and known is not None:
                return known, varies
            if status == 200:
                if known is not None and known.raw == body:
                    return known, varies
                served = rewrite_card(body, self._fronting)
                return Served(body, served, etag(served), got.get("ETag", ""), read_card(body)), varies
        raise Refused(Reason.CARD_UNAVAILABLE, internal=f"the agent answered {status} for its card")
