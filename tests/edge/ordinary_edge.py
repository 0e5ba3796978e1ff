"""The HTTP/1.1 edge once more, on aiohttp's own low-level server: the oracle of the lean one.

Owns: framing downstream, `Expect: 100-continue`, header and write deadlines, error pages of the parser.
Never: more than translation; what a reply says is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from sidecar.bindings.refusals import encode_refusal
from sidecar.config import Limits
from sidecar.model import Duplex, Exchange, Form, Head, Reason, Refusal, Refused, Reply
from sidecar.proxy.headers import SERVER
from sidecar.proxy.reply_head import (
    CONTINUE,
    HEAD_LIMIT,
    TIMEOUT_PAGE,
    break_off,
    echo_request_id,
    error_page,
)

Answer = Callable[[Exchange], Awaitable[Reply]]

_SPOKEN = ((1, 1), (1, 0))
_SILENT = logging.Logger("sidecar.silent", level=logging.CRITICAL + 1)


class HttpExchange:
    """One aiohttp request as an Exchange."""

    __slots__ = ("_body_seconds", "_request", "head", "id")

    def __init__(self, request: web.BaseRequest, id_: str) -> None:
        self._request = request
        self.id = id_
        self.head = Head(
            request.method,
            request.raw_path,
            request.headers,
            (request.version.major, request.version.minor),
            cast(Connection, request.protocol).certificate,
        )

    @property
    def has_body(self) -> bool:
        return self._request.body_exists

    def arrived(self) -> bytes | None:
        content = self._request.content
        return content.read_nowait() if content.is_eof() and content.exception() is None else None

    async def chunks(self) -> AsyncIterator[bytes]:
        request = self._request
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(CONTINUE)
        try:
            while chunk := await request.content.readany():
                yield chunk
        except (web.RequestPayloadError, BadHttpMessage, ConnectionError):
            raise Refused(Reason.INVALID_REQUEST, "the body is not framed as its headers say") from None


class WireResponse(web.StreamResponse):
    """A reply of ours with no header added but Date, Server and the framing."""

    async def _prepare_headers(self) -> None:
        request, writer, headers = self._req, self._payload_writer, self._headers
        assert request is not None
        assert writer is not None
        keep_alive = self._keep_alive if self._keep_alive is not None else request.keep_alive
        self._keep_alive = keep_alive
        if self._must_be_empty_body:
            if self.status == 204 or self.status < 200:
                headers.popall("Content-Length", None)
        elif "Content-Length" in headers:
            writer.length = int(headers["Content-Length"])
        elif request.version >= (1, 1):
            writer.enable_chunking()
            headers["Transfer-Encoding"] = "chunked"
        else:
            self._keep_alive = keep_alive = False
        headers["Date"] = rfc822_formatted_time()
        headers["Server"] = SERVER
        if not keep_alive:
            headers["Connection"] = "close"
        elif request.version < (1, 1):
            headers["Connection"] = "keep-alive"


class Connection(RequestHandler):
    """One downstream connection: aiohttp's, with a deadline for headers and pages of our own.

    `certificate` (DER) is what the caller showed and TLS verified, None without; it does not change.
    """

    __slots__ = ("_body", "_head_bytes", "_header_seconds", "_header_timer", "certificate")

    def __init__(self, *args: Any, header_seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_seconds = header_seconds
        self._header_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._body: StreamReader | None = None  # of the last request there was a head of
        self.certificate: bytes | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = tls.getpeercert(binary_form=True)
        server = self._manager
        super().connection_made(transport)
        if tls is not None and isinstance(server, HttpServer) and server.draining:
            self.force_close()  # its handshake took until now, and nobody would wait for its calls

    def data_received(self, data: bytes) -> None:
        seen, in_head = self._request_count, self._body is None or self._body.is_eof()
        super().data_received(data)
        if self._request_count != seen:
            self._stop_timer()
            self._head_bytes = 0
            self._body = self._messages[-1][1] if self._messages else None
        elif data and in_head and self.idle:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._end_with(error_page(431))
            elif self._header_timer is None:
                self._header_timer = self._loop.call_later(self._header_seconds, self._end_with, TIMEOUT_PAGE)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What the parser refused. Nothing of the request is quoted, in the page or in a log."""
        too_large = exc is not None and "TooLong" in type(exc).__name__
        return _bad_request(431 if too_large else status)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Let what is under way end, up to `timeout` seconds; aiohttp's own would wait twice as long."""
        task = self._task_handler
        if task is not None and self._request_in_progress:
            await asyncio.wait({task}, timeout=timeout)
        if task is not None:
            task.cancel()
        self.force_close()

    @property
    def idle(self) -> bool:
        return not self._request_in_progress and not self._messages

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """aiohttp would log bytes of the request."""

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _end_with(self, page: bytes) -> None:
        self._stop_timer()
        if self.idle and self.transport is not None:
            self.transport.write(page)
            self.force_close()


def _bad_request(status: int = 400) -> web.Response:
    reason = Reason.INTERNAL if status >= 500 else Reason.INVALID_REQUEST
    reply = encode_refusal(Refusal(reason), Form(), "")
    assert isinstance(reply.body, bytes)
    response = web.Response(status=status, headers={**reply.headers, "Server": SERVER}, body=reply.body)
    response.force_close()
    return response


class HttpServer(web.Server):
    """Makes one Connection for each socket."""

    def __init__(self, answer: Answer, limits: Limits, new_id: Callable[[], str]) -> None:
        self._answer = answer
        self._limits = limits
        self._new_id = new_id
        self.draining = False
        super().__init__(self._handle, handler_cancellation=True)

    def __call__(self) -> RequestHandler:
        return Connection(
            self,
            loop=self._loop,
            header_seconds=self._limits.header_timeout,
            keepalive_timeout=self._limits.idle_timeout,
            logger=_SILENT,
            access_log=None,
            auto_decompress=False,
            max_line_size=16384,
            max_field_size=32768,
            lingering_time=2.0,
        )

    def pre_shutdown(self) -> None:
        """No new requests: idle connections close, the others after their reply. aiohttp's own would drop uploads."""
        self.draining = True
        for connection in self.connections:
            if isinstance(connection, Connection) and connection.idle:
                connection.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        exchange = HttpExchange(request, self._new_id())
        if exchange.head.http_version not in _SPOKEN:
            return _bad_request()
        reply = await self._answer(exchange)
        try:
            return await self._respond(request, reply)
        finally:
            if reply.after is not None:
                reply.after()

    async def _respond(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        echo_request_id(request.headers, reply.headers)
        if reply.tunnel is not None:
            return await _switch(request, reply, reply.tunnel)
        response = WireResponse(status=reply.status, headers=reply.headers)
        if self.draining:
            response.force_close()
        if request._message.upgrade or (reply.status >= 400 and not request.content.at_eof()):
            response.force_close()  # what is left of the request must not be read as the next one
        if request._message.chunked:
            # aiohttp's C parser (3.14.5) gives the last trailer to the next request as its first header (FC-013).
            response.force_close()
        if isinstance(reply.body, bytes):
            response._send_headers_immediately = False  # head and body leave in one write
            if reply.length is None:
                response.headers["Content-Length"] = str(len(reply.body))
            await response.prepare(request)
            async with asyncio.timeout(self._limits.body_timeout):
                await response.write_eof(b"" if response._must_be_empty_body else reply.body)
            return response
        if reply.length is not None:
            response.headers["Content-Length"] = str(reply.length)
        async with aclosing(reply.body) as body:  # type: ignore[type-var]
            complete = False
            try:
                await response.prepare(request)
                async for chunk in body:
                    async with asyncio.timeout(self._limits.body_timeout):
                        await response.write(chunk)
                await response.write_eof()
                complete = True
            except (Refused, TimeoutError):
                response.force_close()
            finally:
                # The caller must see that this was not the end (field case FC-114).
                if not complete and request.transport is not None:
                    break_off(
                        request.transport,
                        framed=bool({"Transfer-Encoding", "Content-Length"} & response.headers.keys()),
                    )
        if self.draining:  # since it began: its head promised to keep the connection
            response.force_close()
        return response


class _Inbound:
    """What a caller sends after the switch: takes the place of aiohttp's request parser on that connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.reader = asyncio.StreamReader(limit=65536)
        self.reader.set_transport(transport)  # pauses reading while the agent does not take what there is

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self.reader.feed_eof()


async def _switch(request: web.BaseRequest, reply: Reply, tunnel: Duplex) -> web.StreamResponse:
    """Answer 101 and copy bytes both ways until either side ends."""
    protocol, transport = request.protocol, request.transport
    response = WireResponse(status=101)
    response._eof_sent = True  # nothing of HTTP follows
    response.force_close()
    try:
        if transport is None:
            return response
        inbound = _Inbound(transport)
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            *(f"{name}: {value}" for name, value in reply.headers.items()),
        ]
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape"))
        protocol.set_parser(cast(Any, inbound))

        async def upwards() -> None:
            while data := await inbound.reader.read(65536):
                await tunnel.write(data)

        async def downwards() -> None:
            while data := await tunnel.read():
                transport.write(data)
                await protocol._drain_helper()

        ways = [asyncio.ensure_future(upwards()), asyncio.ensure_future(downwards())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
    finally:
        tunnel.close()
        if transport is not None:
            transport.close()
    return response
