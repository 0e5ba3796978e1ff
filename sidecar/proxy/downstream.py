"""A caller's connection: bytes in through aiohttp's parser, requests out in a queue; replies are written as bytes.

Owns: the parser and its limits, how much may wait, deadlines for heads and silence, back-pressure both ways, closing.
Never: knows what a request asks or a reply says (lean_edge.py does).

aiohttp's parser and the reader of its bodies are used as its own server uses them, since their strictness is what the
tests of framing were made with; `BaseProtocol` is what that reader calls to pause and resume.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.tcp_helpers import tcp_keepalive

from sidecar.config import Limits
from sidecar.proxy.reply_head import HEAD_LIMIT, TIMEOUT_PAGE

# What reading a body raises where it was not framed as its head said, or its sender has left.
UNFRAMED = (web.RequestPayloadError, BadHttpMessage, ConnectionError)

_READ_AHEAD = 2**16  # bytes of a body, or behind an offered upgrade, that wait to be read
_QUEUED = 8  # pipelined requests the parser lets wait before it stops; each may have a head of 64 KiB
_LINGER = 2.0  # seconds in which we still read, so that the caller comes to read what we said


class Downstream(BaseProtocol):
    """One connection of a caller. `certificate` (DER) is what TLS verified of them, None without; it does not change."""

    __slots__ = (
        "_answering",
        "_behind",
        "_closing_timer",
        "_deaf",
        "_head_bytes",
        "_head_timer",
        "_idle_timer",
        "_idle_until",
        "_inbound",
        "_incoming",
        "_limits",
        "_queue",
        "_tail",
        "_waiter",
        "certificate",
    )

    def __init__(self, limits: Limits) -> None:
        loop = asyncio.get_running_loop()
        parser = HttpRequestParser(
            self,
            loop,
            _READ_AHEAD,
            max_line_size=16384,
            max_field_size=32768,
            payload_exception=web.RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=_QUEUED,
        )
        super().__init__(loop, parser)
        self.certificate: bytes | None = None
        self._limits = limits
        # What waits to be answered, with its body; a number is the status of the page that ends the connection.
        self._queue: deque[tuple[RawRequestMessage | int, StreamReader]] = deque()
        self._incoming: StreamReader = EMPTY_PAYLOAD  # the last body, the only one that can be unfinished
        self._waiter: asyncio.Future[None] | None = None
        self._answering = False
        self._deaf = False  # nothing that arrives matters any more
        self._tail = b""  # what followed an offer of an upgrade that is not decided yet
        self._inbound: asyncio.StreamReader | None = None  # what a tunnel receives
        self._head_bytes = 0
        self._behind = 0  # bytes of the last read that brought a request: some may be of the next one's head
        self._idle_until = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._closing_timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is here, though part of one may be."""
        return not self._answering and not self._queue

    # --- what the transport tells ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tcp_keepalive(cast(asyncio.Transport, transport))
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = tls.getpeercert(binary_form=True)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._deaf = True
        super().connection_lost(exc)
        for timer in (self._idle_timer, self._head_timer, self._closing_timer):
            if timer is not None:
                timer.cancel()
        if not self._incoming.is_eof():
            self._incoming.set_exception(ConnectionResetError("the caller has left"))
        if self._inbound is not None:
            self._inbound.feed_eof()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._upgraded:
            self._behind_upgrade(data)
            return
        assert self._parser is not None
        in_head = self._incoming.is_eof()
        try:
            messages, upgraded, tail = self._parser.feed_data(data)
        except HttpProcessingError as problem:
            self._refuse(431 if "TooLong" in type(problem).__name__ else 400)
            return
        if messages:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
            # A head that came in one piece may be too large as well. Most are known not to be without a look at them.
            sound = len(messages)
            if len(data) + self._head_bytes + self._behind > HEAD_LIMIT:
                sound = next((n for n, (head, _) in enumerate(messages) if _size(head) > HEAD_LIMIT), sound)
            self._head_bytes = 0
            self._behind = (
                len(data) or self._behind
            )  # nothing is given where the parser goes on with what it kept
            self._queue.extend(messages[:sound])
            if sound < len(messages):
                self._refuse(431)
                return
            self._incoming = messages[-1][1]
            self._wake()
            # One less than the parser's own limit, which may count the request being answered as well.
            if len(self._queue) >= _QUEUED - 1 and not self._buffer_paused:
                self._pause_reading_for_buffer()
        elif data and in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._refuse(431)
            elif self._head_timer is None and self.idle:
                self._head_timer = self._loop.call_later(self._limits.header_timeout, self._head_too_slow)
        if upgraded:
            self._upgraded = True
            self._behind_upgrade(tail)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """A body's reader calls this after every read; only where reading had stopped there is something to do."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _refuse(self, status: int) -> None:
        """Nothing from here on can be told apart: what came before is answered, then comes a page, and the end."""
        self._deaf = True
        if not self._incoming.is_eof():
            self._incoming.set_exception(web.RequestPayloadError("framing"))
        self._queue.append((status, EMPTY_PAYLOAD))
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    # --- requests ------------------------------------------------------------------------------------

    async def _next(self) -> tuple[RawRequestMessage | int, StreamReader]:
        """The next request with its body; until it comes, silence is counted."""
        if not self._queue:
            self._idle_until = self._loop.time() + self._limits.idle_timeout
            if self._idle_timer is None:
                self._idle_timer = self._loop.call_at(self._idle_until, self._silent)
            waiter = self._waiter = self._loop.create_future()
            await waiter
        self._answering = True
        return self._queue.popleft()

    def _make_room(self) -> None:
        """A whole request has left the queue. Once there are few, the parser goes on with what it kept."""
        cast(Any, self._parser).message_consumed()
        if not self._buffer_paused or len(self._queue) > _QUEUED // 2 or len(self._tail) >= _READ_AHEAD:
            return
        if not self._upgraded:
            self.data_received(b"")
        if len(self._queue) < _QUEUED - 1:
            self._resume_reading_for_buffer()

    async def _linger(self, payload: StreamReader) -> bool:
        """Read the rest of a body nobody wanted, for a while. Whether it ended."""
        try:
            async with asyncio.timeout(_LINGER):
                while not payload.is_eof():
                    if payload._waiter is None:
                        await payload.readany()
                    else:  # whoever sent it on has been stopped, and has not ended yet
                        await asyncio.sleep(0)
        except (TimeoutError, *UNFRAMED):
            return False
        return True

    def _behind_upgrade(self, data: bytes) -> None:
        """What follows an upgrade that was offered: the tunnel's, if there will be one."""
        if self._inbound is not None:
            self._inbound.feed_data(data)
            return
        self._tail += data
        if len(self._tail) >= _READ_AHEAD and not self._buffer_paused:
            self._pause_reading_for_buffer()

    def _switch(self) -> asyncio.StreamReader:
        """What the caller sends from now on, uninspected."""
        assert self.transport is not None
        self._inbound = inbound = asyncio.StreamReader(limit=65536)
        inbound.set_transport(self.transport)  # pauses reading while nobody takes what there is
        self._upgraded = True
        if self._buffer_paused:
            self._resume_reading_for_buffer()
        inbound.feed_data(self._tail)
        self._tail = b""
        return inbound

    # --- deadlines and endings -------------------------------------------------------------------------

    def _silent(self) -> None:
        self._idle_timer = None
        if not self.idle or self._head_timer is not None:
            return  # set again after the reply
        if self._loop.time() < self._idle_until:  # there were requests since it was set
            self._idle_timer = self._loop.call_at(self._idle_until, self._silent)
        else:
            self.hang_up()

    def _head_too_slow(self) -> None:
        self._head_timer = None
        if self.idle:
            self._end_with(TIMEOUT_PAGE)

    def say(self, data: bytes) -> None:
        """Raises ConnectionError if the caller has left."""
        transport = self.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the caller has left")
        transport.write(data)

    async def _taken(self) -> None:
        """Wait until the caller has taken most of what was written. Raises TimeoutError, ConnectionError."""
        async with asyncio.timeout(self._limits.body_timeout):
            await self._drain_helper()

    def _end_with(self, page: bytes) -> None:
        """Write and close. The caller may not have said all: closed at once, their bytes would take our page from them."""
        self._deaf = True
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write(page)
        if transport.can_write_eof():
            transport.write_eof()
            self._closing_timer = self._loop.call_later(_LINGER, self._abort)
        else:
            self.hang_up()

    def hang_up(self) -> None:
        """Close once what was written has left, and do not wait for that forever."""
        self._deaf = True
        transport = self.transport
        if transport is not None:
            transport.close()
            if self._closing_timer is None:
                self._closing_timer = self._loop.call_later(self._limits.body_timeout, self._abort)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


def _size(head: RawRequestMessage) -> int:
    return len(head.path) + sum(len(name) + len(value) + 4 for name, value in head.raw_headers)
