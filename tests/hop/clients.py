"""The lean hop, and aiohttp's client as it was used before: the oracle.

Owns: asking both the same, and telling what came in one form.
Never: judges.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from multidict import CIMultiDict

from sidecar.config import Limits
from sidecar.model import Refused
from sidecar.proxy.hop_pool import KEEPALIVE_SECONDS, Hops

LIMITS = Limits(connections=4, connect_timeout=5.0, stream_idle_timeout=5.0)


@dataclass(frozen=True, slots=True)
class Told:
    """What a client made of a reply. `status` 0: it failed."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


FAILED = Told()


class Client(Protocol):
    async def ask(self, method: str, body: bytes | None) -> Told: ...


class Lean:
    def __init__(self, hops: Hops) -> None:
        self._hops = hops

    async def ask(self, method: str, body: bytes | None) -> Told:
        try:
            async with aclosing(await self._hops.request(method, "/", CIMultiDict(), body)) as reply:
                parts = [chunk async for chunk in reply]
        except Refused:
            return FAILED
        return Told(reply.status, tuple(reply.headers.items()), b"".join(parts))


class Ordinary:
    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def ask(self, method: str, body: bytes | None) -> Told:
        try:
            async with (
                asyncio.timeout(LIMITS.stream_idle_timeout),  # aiohttp forgets some readers of broken bodies
                self._session.request(method, self._base, data=body, allow_redirects=False) as reply,
            ):
                text = await reply.content.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return FAILED
        if reply.status < 200:
            return FAILED
        return Told(reply.status, tuple(reply.headers.items()), text)


@asynccontextmanager
async def lean(base: str, limits: Limits = LIMITS) -> AsyncIterator[Lean]:
    hops = Hops(base, limits, dict)
    try:
        yield Lean(hops)
    finally:
        await hops.close()


@asynccontextmanager
async def ordinary(base: str) -> AsyncIterator[Ordinary]:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=LIMITS.connections, keepalive_timeout=KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        max_line_size=65536,
        max_field_size=65536,
    )
    session._retry_connection = False
    async with session:
        yield Ordinary(session, base)


CLIENTS = {"lean": lean, "ordinary": ordinary}
