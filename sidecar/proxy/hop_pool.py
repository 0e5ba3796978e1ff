"""Connections to one agent: opened, kept a little while, used again.

Owns: how many there are, who waits for one, their time-outs, and how a request's head is written.
Never: sends anything twice, or sends over a connection made under files that have changed since.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from multidict import CIMultiDict, istr
from yarl import URL

from sidecar.config import Limits
from sidecar.model import Reason, Refused
from sidecar.proxy.hop import Hop, HopReply
from sidecar.proxy.tls import why

# Agents close idle connections after 5 s (uvicorn, Node); ours must be gone before.
KEEPALIVE_SECONDS: Final = 4.0

_SWEEP_SECONDS: Final = 0.5  # between two looks for what is idle or silent for too long

_HOST, _LENGTH = istr("Host"), istr("Content-Length")
_OURS: Final = (_HOST, _LENGTH, istr("Transfer-Encoding"), istr("Expect"))
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Hops:
    """HTTP/1.1 to one address, over up to `limits.connections` connections."""

    def __init__(self, base: str, limits: Limits, tls_options: Callable[[], dict[str, Any]]) -> None:
        """`base` is an `http` or `https` URL, or `unix:` and the path of a socket. `tls_options` says with each request
        what a connection needs now; where its context changes, connections made with another are not used again.

        Belongs to the event loop it is made in.
        """
        self._limits = limits
        self._tls_options = tls_options
        self._loop = asyncio.get_running_loop()
        self._socket_path = base.removeprefix("unix:") if base.startswith("unix:") else None
        url = URL("http://localhost" if self._socket_path is not None else base, encoded=True)
        self._address = (url.raw_host or "", url.port or 0)
        self._prefix = url.raw_path.rstrip("/")
        self._host = f"Host: {url.host_port_subcomponent}"
        self._idle: list[Hop] = []
        self._all: set[Hop] = set()
        self._opening = 0
        self._waiting: deque[asyncio.Future[Hop | None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._empty: asyncio.Future[None] | None = None  # there while `close` waits

    async def request(
        self,
        method: str,
        target: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
        *,
        last: bool = False,
    ) -> HopReply:
        """Send one request and wait for the head of its reply. An iterator goes as it comes, chunked unless `headers`
        say its length. Raises Refused: AGENT_UNAVAILABLE if nothing was sent, else AGENT_FAILED; ValueError if a
        field holds what would end it.
        """
        length = _length(method, headers, body)
        head = self._head(method, target, headers, body, length, last=last)
        context = self._tls_options().get("ssl")
        hop = None
        while self._idle and hop is None:
            hop = self._if_usable(self._idle.pop(), context)
        if hop is None:
            hop = await self._place_or_refuse()
        return await hop.send(head, body, length, bodiless=method == "HEAD", last=last).begun()

    async def close(self) -> None:
        """End every connection, and wait until they are gone."""
        self._closed = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ConnectionAbortedError())
        self._waiting.clear()
        pumps = [hop.pump for hop in self._all if hop.pump is not None]
        for hop in tuple(self._all):
            hop.give_up(ConnectionAbortedError())
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        if self._all:
            self._empty = self._loop.create_future()
            await self._empty

    def _head(
        self,
        method: str,
        target: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
        length: int | None,
        *,
        last: bool,
    ) -> bytes:
        for name in _OURS:
            if name in headers:
                headers.popall(name)
        path = self._prefix + target
        if path[:1] != "/":
            path = "/" + path
        # The callers' own were read by a parser that refuses all of this; some are made here.
        told = "".join((method, path, *headers.keys(), *headers.values()))
        if "\r" in told or "\n" in told or "\0" in told or " " in path or " " in method:
            raise ValueError("a line break, a NUL or a blank where it would end a field")
        framing = "\r\n"
        if length is not None:
            framing = f"\r\nContent-Length: {length}\r\n"
        elif body is not None:
            framing = "\r\nTransfer-Encoding: chunked\r\n"
        fields = "\r\n".join((self._host, *map(": ".join, headers.items())))
        if last:
            framing += "Connection: close\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{fields}{framing}\r\n"
        return head.encode("utf-8", "surrogateescape")

    # --- connections --------------------------------------------------------------------------

    def _if_usable(self, hop: Hop, context: Any) -> Hop | None:
        """`hop` if a request may still begin on it."""
        if hop.usable and hop.context is context and self._loop.time() - hop.since < KEEPALIVE_SECONDS:
            return hop
        hop.abort()
        return None

    async def _place_or_refuse(self) -> Hop:
        seconds = self._limits.connect_timeout
        try:
            async with asyncio.timeout(2 * seconds):  # a free place among `limits.connections` included
                while True:
                    given = await self._place()
                    context = self._tls_options().get("ssl")
                    hop = self._if_usable(given, context) if given is not None else await self._open()
                    if hop is not None:
                        return hop
        except (OSError, TimeoutError) as problem:
            raise Refused(Reason.AGENT_UNAVAILABLE, internal=why(problem)) from None

    async def _place(self) -> Hop | None:
        """Wait for a connection that became idle, or, with None, the right to open one (counted in `_opening`)."""
        if self._closed:
            raise ConnectionAbortedError
        if len(self._all) + self._opening < self._limits.connections:
            self._opening += 1
            return None
        waiter: asyncio.Future[Hop | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                if waiter in self._waiting:  # else somebody has passed it over since
                    self._waiting.remove(waiter)
            elif (given := waiter.result()) is not None:
                self._became_idle(given)
            else:
                self._opening -= 1
                self._let_open()
            raise

    async def _open(self) -> Hop:
        options = self._tls_options()
        hop = Hop(options.get("ssl"), self._loop, self._made, self._became_idle, self._lost)
        try:
            async with asyncio.timeout(self._limits.connect_timeout):
                await self._connect(hop, options)
            if self._closed or not hop.usable:
                raise ConnectionAbortedError
        except BaseException:
            hop.abort()
            self._lost(hop)  # uvloop closes what was made for somebody who was cancelled, and tells nobody
            raise
        finally:
            self._opening -= 1
            self._let_open()
        return hop

    async def _connect(self, hop: Hop, options: dict[str, Any]) -> None:
        if self._socket_path is not None:
            await self._loop.create_unix_connection(lambda: hop, self._socket_path)
            return
        host, port = self._address
        if options:
            options = {"server_hostname": host, **options}
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        places = list(dict.fromkeys(address[:2] for *_, address in found))
        until = self._loop.time() + self._limits.connect_timeout
        for left in range(len(places), 0, -1):
            now = self._loop.time()
            try:
                # Each gets its share, so that one that swallows everything does not hide the next.
                async with asyncio.timeout((until - now) / left):
                    await self._loop.create_connection(lambda: hop, *places[-left], **options)
                return
            except (OSError, TimeoutError):
                if left == 1:
                    raise

    def _let_open(self) -> None:
        while self._waiting and len(self._all) + self._opening < self._limits.connections:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._opening += 1
                waiter.set_result(None)

    def _made(self, hop: Hop) -> None:
        self._all.add(hop)
        if self._sweeping is None and not self._closed:
            self._sweep_later()

    def _became_idle(self, hop: Hop) -> None:
        hop.since = self._loop.time()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(hop)
                return
        self._idle.append(hop)

    def _lost(self, hop: Hop) -> None:
        self._all.discard(hop)
        if hop in self._idle:
            self._idle.remove(hop)
        self._let_open()
        if self._empty is not None and not self._all and not self._empty.done():
            self._empty.set_result(None)

    # --- time ---------------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        seconds = min(_SWEEP_SECONDS, self._limits.stream_idle_timeout / 4)
        self._sweeping = self._loop.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        """One timer for all connections: to set one for each reply would cost as much as reading it."""
        self._sweeping = None
        now = self._loop.time()
        while self._idle and now - self._idle[0].since >= KEEPALIVE_SECONDS:  # the first is idle the longest
            self._idle.pop(0).abort()
        for hop in tuple(self._all):
            if hop.heard is not None and now - hop.heard >= self._limits.stream_idle_timeout:
                hop.give_up(TimeoutError())
        if self._all:
            self._sweep_later()


def _length(method: str, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None) -> int | None:
    """The length the request declares; None for a body only whose end tells it, and where there is none."""
    if body is None:
        return None if method in _WITHOUT_BODY else 0
    if isinstance(body, bytes):
        return len(body)
    declared = headers.get(_LENGTH)
    return int(declared) if declared is not None else None
