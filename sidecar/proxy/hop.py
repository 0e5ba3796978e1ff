"""One connection to the agent, and the reply that comes over it.

Owns: bytes both ways, back-pressure both ways, and that a connection is used again only after a clean end.
Never: opens a connection or picks one (hop_pool.py), parses (hop_reader.py), sends anything twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final, cast

from multidict import CIMultiDictProxy

from sidecar.model import Reason, Refused
from sidecar.proxy.hop_reader import BadReply, ReplyReader
from sidecar.proxy.tls import why

MOST_UNREAD: Final = 256 * 1024  # bytes of a reply held for a slow reader before the agent has to wait

_PIECE: Final = 256 * 1024  # bytes written at once; more would hold the event loop
_ONE_WRITE: Final = 32 * 1024  # a body up to this leaves together with its head


class HopReply:
    """The agent's reply, its body still to be read. `close` abandons it, connection included."""

    __slots__ = ("_failure", "_hop", "_reader", "_unread", "_waiter", "headers", "length", "status")

    status: int
    headers: CIMultiDictProxy[str]
    length: int | None

    def __init__(self, hop: Hop, *, bodiless: bool) -> None:
        self._hop: Hop | None = hop  # until the reply is complete, failed or closed
        self._reader = ReplyReader(bodiless=bodiless)
        self._failure = ""  # why there will be no more
        self._waiter: asyncio.Future[None] | None = None
        self._unread = 0

    async def begun(self) -> HopReply:
        """Wait for status and headers. Raises Refused (the agent failed)."""
        reader = self._reader
        try:
            while not reader.begun:
                await self._more()
        except BaseException:
            self.close()
            raise
        self.status, self.headers, self.length = reader.status, reader.headers, reader.length
        return self

    def arrived(self, limit: int) -> bytes | None:
        """The whole body, if all of it is here and it has no more than `limit` bytes."""
        reader = self._reader
        return self._taken() if reader.complete and sum(map(len, reader.body)) <= limit else None

    async def chunk(self) -> bytes:
        """What has arrived, waiting for at least a byte; `b""` at the end. Raises Refused (the agent failed), after all
        that arrived before was given out, since that may name a new task."""
        while not (taken := self._taken()) and (self._hop is not None or self._failure):
            await self._more()
        return taken

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = self._taken() or await self.chunk()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Abandon what has not arrived. The connection of a reply that is complete was given back already."""
        self._reader.body.clear()
        self._stop("closed before its end")

    def _taken(self) -> bytes:
        body = self._reader.body
        if not body:
            return b""
        taken = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        self._unread = 0
        if self._hop is not None:
            self._hop.resume()
        return taken

    def _more(self) -> asyncio.Future[None]:
        """Something new: await it, and look again. Raises Refused if there will be nothing."""
        if self._hop is None:
            raise Refused(Reason.AGENT_FAILED, internal=self._failure)
        if self._waiter is None or self._waiter.done():
            self._waiter = self._hop.loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _stop(self, failure: str) -> None:
        hop, self._hop = self._hop, None
        if hop is not None:
            self._failure = failure
            self._reader.let_go()
            hop.abort()
            self._wake()

    # --- what the connection tells ------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
        except BadReply as problem:
            self.fail(problem)
            return
        if reader.complete:
            self._ended(reader.reusable)
        elif reader.begun:
            self._unread += len(data)
            if self._unread > MOST_UNREAD and self._hop is not None:
                self._hop.pause()
            self._wake()

    def end(self) -> None:
        """The agent ended the connection."""
        try:
            self._reader.end()
        except BadReply as problem:
            self.fail(problem)
        else:
            self._ended(False)

    def fail(self, problem: BaseException) -> None:
        self._stop(str(problem) if isinstance(problem, BadReply | BadBody) else why(problem))

    def _ended(self, reusable: bool) -> None:
        hop, self._hop = self._hop, None
        self._reader.let_go()
        if hop is not None:
            hop.ended(reusable)
        self._wake()


class Hop(asyncio.Protocol):
    """One connection. `since` is when it became idle, `heard` since when only the agent can go on; None otherwise."""

    __slots__ = (
        "_drained",
        "_idle",
        "_last",
        "_lost",
        "_made",
        "_now",
        "_paused",
        "_pump",
        "_reply",
        "_transport",
        "context",
        "heard",
        "loop",
        "since",
    )

    def __init__(
        self,
        context: Any,
        loop: asyncio.AbstractEventLoop,
        made: Callable[[Hop], None],
        idle: Callable[[Hop], None],
        lost: Callable[[Hop], None],
    ) -> None:
        """`context` is the TLS context it is made with; `made`, `idle` and `lost` are told what becomes of it."""
        self.context = context
        self.since = 0.0
        self.heard: float | None = None
        self.loop = loop
        self._now = loop.time
        self._made, self._idle, self._lost = made, idle, lost
        self._transport: asyncio.Transport | None = None
        self._reply: HopReply | None = None
        self._pump: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None  # there while writing has to wait
        self._paused = self._last = False

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def pump(self) -> asyncio.Task[None] | None:
        """What still sends a body."""
        return self._pump

    def send(
        self,
        head: bytes,
        body: bytes | AsyncIterator[bytes] | None,
        length: int | None,
        *,
        bodiless: bool,
        last: bool,
    ) -> HopReply:
        """Send a request; its reply is still to begin. An iterator is sent in chunks, or, with `length`, as just so
        many bytes. After the `last` the connection is not used again."""
        transport = self._transport
        assert transport is not None
        assert self._reply is None
        self._reply = reply = HopReply(self, bodiless=bodiless)
        self._last = last
        if body is None or (isinstance(body, bytes) and len(body) <= _ONE_WRITE):
            transport.write(head + body if body else head)
            self.heard = self._now()
        else:
            pieces = _in_pieces(body) if isinstance(body, bytes) else body
            self._pump = self.loop.create_task(self._send(reply, head, pieces, length))
        return reply

    async def _send(
        self, reply: HopReply, head: bytes, pieces: AsyncIterator[bytes], length: int | None
    ) -> None:
        """Runs beside the reply, which may begin before all is sent."""
        transport = self._transport
        assert transport is not None
        try:
            transport.write(head)
            await self._send_body(transport, pieces, length)
            self.heard = self._now()
        except BaseException as problem:
            reply.fail(problem)  # nothing happens if that is why this was cancelled
            if not isinstance(problem, Exception):
                raise
        finally:
            self._pump = None

    async def _send_body(
        self, transport: asyncio.Transport, pieces: AsyncIterator[bytes], left: int | None
    ) -> None:
        chunked = left is None
        async with aclosing(_Closing(pieces)):
            async for piece in pieces:
                if not piece:
                    continue
                if left is not None:
                    left -= len(piece)
                    if left < 0:
                        raise BadBody("the body is longer than its Content-Length")
                transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                if self._drained is not None:
                    self.heard = self._now()
                    await self._drained
                    self.heard = None
            if left:
                raise BadBody("the body is shorter than its Content-Length")
        if chunked:
            transport.write(b"0\r\n\r\n")

    def ended(self, reusable: bool) -> None:
        """The reply is complete: the connection is free for another request, or of no more use."""
        self._reply = self.heard = None
        transport = self._transport
        assert transport is not None
        # What of the request is still on its way would become part of the next one.
        if not reusable or self._last or self._pump is not None or transport.get_write_buffer_size():
            self.abort()
        elif not transport.is_closing():
            self.resume()
            self.heard = None
            self._idle(self)

    def abort(self) -> None:
        """Be gone at once: no goodbye of TLS, nothing more of an unfinished request."""
        self._reply = self.heard = None
        if self._pump is not None and self._pump is not asyncio.current_task():
            self._pump.cancel()
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, problem: BaseException) -> None:
        """No more of the reply is waited for, if there is one under way."""
        if self._reply is not None:
            self._reply.fail(problem)
        self.abort()

    def pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self.heard = None
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self.heard = self._now()
            self._transport.resume_reading()

    # --- what the event loop calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._made(self)

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            self.abort()  # nobody asked
            return
        self.heard = self._now()
        reply.feed(data)

    def eof_received(self) -> None:
        if self._reply is not None:
            self._reply.end()
        self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.give_up(exc or ConnectionResetError())
        if self._drained is not None and not self._drained.done():
            self._drained.cancel()
        self._drained = None
        self._transport = None
        self._lost(self)

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


class BadBody(Exception):
    """The body is not what the request said of it."""


class _Closing:
    """`aclose` of an iterator that may have none."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def aclose(self) -> None:
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]
