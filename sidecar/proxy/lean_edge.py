"""The HTTP/1.1 edge: parsed requests on one side, Exchange and Reply on the other.

Owns: the order of requests on a connection, framing downstream, `Expect: 100-continue`, draining.
Never: more than translation; what a reply says is decided elsewhere.

Below aiohttp's `web.Request`, whose machinery costs more than all that is decided about a call. The same edge on aiohttp's
own server is `tests/edge/ordinary_edge.py`: the tests run both and compare them.

    bytes ─► parser ─► queue of requests ─► one task for the connection: answer, write, perhaps linger, next
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import structlog
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import istr

from sidecar.config import Limits
from sidecar.model import Duplex, Exchange, Head, Reason, Refused, Reply
from sidecar.proxy import reply_head as heads
from sidecar.proxy.downstream import UNFRAMED, Downstream
from sidecar.proxy.tasks import let_go

log = structlog.get_logger()

Answer = Callable[[Exchange], Awaitable[Reply]]

_SPOKEN = ((1, 1), (1, 0))
_EXPECT = istr("Expect")
_BODILESS = frozenset({204, 304})
_ONE_WRITE = 65536  # a body up to here leaves together with its head


class LeanExchange:
    """One parsed request as an Exchange, and its body as an iterator."""

    __slots__ = ("_connection", "_payload", "head", "id")

    def __init__(
        self, message: RawRequestMessage, payload: StreamReader, connection: LeanConnection, id_: str
    ) -> None:
        self._payload = payload
        self._connection = connection
        self.id = id_
        self.head = Head(
            message.method, message.path, message.headers, message.version, connection.certificate
        )

    @property
    def has_body(self) -> bool:
        return self._payload is not EMPTY_PAYLOAD

    def arrived(self) -> bytes | None:
        payload = self._payload
        return payload.read_nowait() if payload.is_eof() and payload.exception() is None else None

    def chunks(self) -> AsyncIterator[bytes]:
        if self.head.headers.get(_EXPECT, "").lower() == "100-continue":
            self._connection.go_on()
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        payload = self._payload
        if payload.at_eof():
            raise StopAsyncIteration
        try:
            # No generator, and no waiting for what is here: most bodies come with their head.
            chunk = payload.read_nowait() if payload.is_eof() else await payload.readany()
        except UNFRAMED:
            raise Refused(Reason.INVALID_REQUEST, "the body is not framed as its headers say") from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


class LeanConnection(Downstream):
    """Answers the requests of one connection, one at a time and in order."""

    __slots__ = ("_server", "_task")

    def __init__(self, server: LeanServer) -> None:
        super().__init__(server.limits)
        self._server = server
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)
        self._task = self._loop.create_task(self._serve())
        if self._server.draining:
            self.hang_up()  # its handshake took until now, and nobody would wait for its calls

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        assert self._task is not None
        self._task.cancel()  # whoever left waits for nothing
        self._task.add_done_callback(lambda _: self._server.connections.discard(self))

    def go_on(self) -> None:
        """Tell the caller to send the body, if there still is a caller."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(heads.CONTINUE)

    async def finish(self, timeout: float | None) -> None:
        """Let what is under way end, up to `timeout` seconds."""
        task = self._task
        assert task is not None
        if self._answering:
            await asyncio.wait({task}, timeout=timeout)
        task.cancel()
        await asyncio.sleep(
            0
        )  # it breaks off what it was streaming; after a close that could not be told apart
        self.hang_up()

    async def _serve(self) -> None:
        try:
            while True:
                message, payload = await self._next()
                if isinstance(message, int):
                    self._end_with(heads.error_page(message))
                    return
                if message.version not in _SPOKEN:
                    self._end_with(heads.error_page(400, message.method))
                    return
                whole = payload.is_eof()
                if whole:
                    self._make_room()
                if not await self._answer(message, payload):
                    break
                if not whole:
                    self._make_room()
                self._answering = False
                if self._queue:
                    await asyncio.sleep(0)  # whoever pipelines does not keep the others waiting
        except ConnectionError:
            pass  # the caller has left
        except TimeoutError:
            self._abort()  # nobody takes the reply
        except Exception as problem:  # noqa: BLE001 - part of a reply may have left, there is nothing more to say
            log.error("a fault of ours", error=type(problem).__name__)
            self._abort()
        self.hang_up()

    async def _answer(self, message: RawRequestMessage, payload: StreamReader) -> bool:
        """Whether the connection goes on."""
        server = self._server
        try:
            reply = await server.answer(LeanExchange(message, payload, self, server.new_id()))
        except Exception as problem:  # noqa: BLE001 - a bug must not show itself to the caller
            log.error("a fault of ours", error=type(problem).__name__)
            self.say(heads.error_page(500, message.method))
            return False
        try:
            heads.echo_request_id(message.headers, reply.headers)
            if reply.tunnel is not None:
                await self._tunnel(reply, reply.tunnel)
                return False
            keep = await self._reply(message, payload, reply)
        finally:
            if reply.after is not None:
                reply.after()
        if not payload.is_eof():
            keep = await self._linger(payload) and keep
        return keep

    async def _reply(self, message: RawRequestMessage, payload: StreamReader, reply: Reply) -> bool:
        status, version, body, length = reply.status, message.version, reply.body, reply.length
        bodiless = message.method == "HEAD" or status in _BODILESS or status < 200
        if length is None and isinstance(body, bytes):
            length = len(body)
        chunked = length is None and not bodiless and version >= (1, 1)
        framed = chunked or length is not None
        keep = not (
            message.should_close
            or self._server.draining
            # What is left of the request must not be read as the next one.
            or message.upgrade
            or (status >= 400 and not payload.at_eof())
            # aiohttp's C parser (3.14.5) gives the last trailer to the next request as its first header (FC-013).
            or message.chunked
            # The end of the connection is the end of the body.
            or not (framed or bodiless)
        )
        try:
            head = heads.reply_head(status, version, reply.headers, length, chunked=chunked, keep=keep)
        except ValueError:
            await let_go(reply)
            log.error("a reply with a header that is none")
            self.say(heads.error_page(500, message.method))
            return False
        if isinstance(body, bytes):
            if bodiless:
                self.say(head)
            elif len(body) <= _ONE_WRITE:
                self.say(head + body)
            else:
                self.say(head)
                self.say(body)
            if self._paused:
                await self._taken()
            return keep
        try:
            await self._stream(head, body, length, chunked=chunked, bodiless=bodiless)
        except Refused:
            return False  # the agent broke off
        return keep and not self._server.draining  # since it began: its head promised to keep the connection

    async def _stream(
        self, head: bytes, body: AsyncIterator[bytes], length: int | None, *, chunked: bool, bodiless: bool
    ) -> None:
        left, complete = length, False
        try:
            self.say(head)
            async for chunk in body:
                if bodiless or not chunk:
                    continue
                if chunked:
                    self.say(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                else:
                    if left is not None:
                        chunk = chunk[:left]
                        left -= len(chunk)
                    self.say(chunk)
                if self._paused:
                    await self._taken()
            if chunked:
                self.say(b"0\r\n\r\n")
            complete = bodiless or not left
        finally:
            # The caller must see that this was not the end (field case FC-114).
            if not complete and self.transport is not None:
                heads.break_off(self.transport, framed=chunked or length is not None)
            await cast(Any, body).aclose()

    async def _tunnel(self, reply: Reply, tunnel: Duplex) -> None:
        """Answer 101 and copy bytes both ways until either side ends."""
        try:
            self.say(heads.switch_head(reply.headers))
            inbound = self._switch()

            async def upwards() -> None:
                while data := await inbound.read(65536):
                    await tunnel.write(data)

            async def downwards() -> None:
                while data := await tunnel.read():
                    self.say(data)
                    await self._drain_helper()

            ways = [self._loop.create_task(way) for way in (upwards(), downwards())]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            tunnel.close()


class LeanServer:
    """Makes one LeanConnection for each socket. Stands in for `web.Server` in aiohttp's runner and sites."""

    def __init__(self, answer: Answer, limits: Limits, new_id: Callable[[], str]) -> None:
        self.answer = answer
        self.limits = limits
        self.new_id = new_id
        self.draining = False
        self.connections: set[LeanConnection] = set()

    def __call__(self) -> LeanConnection:
        return LeanConnection(self)

    def pre_shutdown(self) -> None:
        """No new requests: idle connections close, the others after their reply."""
        self.draining = True
        for connection in tuple(self.connections):
            if connection.idle:
                connection.hang_up()

    async def shutdown(self, timeout: float | None = None) -> None:
        """Let replies under way end, up to `timeout` seconds; then close everything."""
        await asyncio.gather(*(connection.finish(timeout) for connection in tuple(self.connections)))
        self.connections.clear()
