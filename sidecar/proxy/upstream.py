"""The way to the agent.

Owns: sending a permitted request on, and telling what failed before from what failed after its bytes may have arrived.
Never: accepts anything but a Permit, follows a redirect, sends anything twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from sidecar.config import Limits, UpstreamTls
from sidecar.model import Permit, Reason, Refused
from sidecar.proxy.from_files import FromFiles
from sidecar.proxy.tls import UpstreamContext, why

# Agents close idle connections after 5 s (uvicorn, Node); ours must be gone before.
KEEPALIVE_SECONDS = 4.0

_PIECE = 256 * 1024  # bytes written at once

_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@dataclass(slots=True)
class UpstreamReply:
    """The agent's reply, its body still to be read. `close` abandons it, connection included."""

    status: int
    headers: CIMultiDictProxy[str]
    response: aiohttp.ClientResponse

    @property
    def length(self) -> int | None:
        return self.response.content_length

    async def chunk(self) -> bytes:
        """What has arrived, waiting for at least a byte; `b""` at the end. Raises Refused (the agent failed)."""
        content = self.response.content
        try:
            return await content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            # aiohttp raises before it gives out what arrived until then, and that may name a new task.
            if arrived := content._read_nowait(-1):
                return arrived
            self.close()
            raise Refused(Reason.AGENT_FAILED, internal=why(problem)) from None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.chunk()
        if not chunk:
            self.close()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back if the reply was read to its end, else drop it."""
        response = self.response
        if response.content.at_eof():
            response.release()
            return
        connection = response.connection
        if connection is not None and connection.transport is not None and response.url.scheme == "https":
            connection.transport.abort()  # TLS would wait for the agent's goodbye
        response.close()


class Upstream:
    """One agent's address. There is no way in without a permit."""

    def __init__(self, base: str, limits: Limits, tls: UpstreamTls, key: str) -> None:
        """`tls` is how an `https` address is verified; `key` is where it stands in the policy."""
        self._base = base.rstrip("/")
        self._limits = limits
        self._tls = (key, tls)
        self._context: UpstreamContext | None = None
        self._session: aiohttp.ClientSession | None = None

    def tls_options(self) -> dict[str, Any]:
        """What a connection to the agent needs for TLS, as the files are now; nothing for an `http` address."""
        return self._context.options() if self._context is not None else {}

    @property
    def files(self) -> Sequence[FromFiles[Any]]:
        return () if self._context is None else (self._context.files,)

    async def __aenter__(self) -> Upstream:
        """Raises ValueError: what is wrong with the files of `tls`."""
        limits = self._limits
        if URL(self._base).scheme == "https":
            self._context = UpstreamContext(*self._tls)
            self._context.start()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limits.connections, keepalive_timeout=KEEPALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=2 * limits.connect_timeout,  # a free place among `limits.connections` included
                sock_connect=limits.connect_timeout,
                sock_read=limits.stream_idle_timeout,
            ),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=65536,
            max_field_size=65536,
        )
        # Invariant 10: aiohttp would send an idempotent request again on a connection that died.
        self._session._retry_connection = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is not None:
            await self._context.close()
        if self._session is not None:
            await self._session.close()

    async def forward(
        self,
        permit: Permit,
        method: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
    ) -> UpstreamReply:
        """Send the call on. Raises Refused: AGENT_UNAVAILABLE if nothing was sent, else AGENT_FAILED."""
        return await self._send(method, permit.call.target, headers, body)

    async def ask(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes, *, limit: int, timeout: float
    ) -> tuple[int, CIMultiDictProxy[str], bytes]:
        """A request of the sidecar's own (card, cancel), read whole. Raises Refused."""
        try:
            async with (
                asyncio.timeout(timeout),
                aclosing(await self._send(method, target, headers, body or None)) as reply,
            ):
                parts, size = [], 0
                async for chunk in reply:
                    size += len(chunk)
                    if size > limit:
                        raise Refused(
                            Reason.AGENT_FAILED, internal="reply to the sidecar's own request too large"
                        )
                    parts.append(chunk)
        except TimeoutError:
            raise Refused(Reason.AGENT_UNAVAILABLE, internal="timeout") from None
        return reply.status, reply.headers, b"".join(parts)

    async def _send(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None
    ) -> UpstreamReply:
        assert self._session is not None, "used before it was entered"
        url = URL(self._base + target, encoded=True)
        if isinstance(body, bytes) and len(body) > _PIECE:
            headers["Content-Length"] = str(len(body))
            body = _in_pieces(body)
        try:
            response = await self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False, **self.tls_options()
            )
        except _NOT_SENT as problem:
            raise Refused(Reason.AGENT_UNAVAILABLE, internal=why(problem)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise Refused(Reason.AGENT_FAILED, internal=why(problem)) from None
        if response.status < 200:  # an upgrade nobody asked for
            response.close()
            raise Refused(Reason.AGENT_FAILED, internal=f"status {response.status}")
        _end_with_its_connection(response)
        return UpstreamReply(response.status, response.headers, response)


def _end_with_its_connection(response: aiohttp.ClientResponse) -> None:
    """Where the framing of a body breaks, aiohttp closes the connection and forgets who reads: the reader would wait
    for ever, past every timeout. A body that is complete already has no connection any more."""
    connection, content = response.connection, response.content
    closed = (
        connection.protocol.closed if connection is not None and connection.protocol is not None else None
    )
    if closed is None:
        return

    def end(done: asyncio.Future[None]) -> None:
        if not done.cancelled():
            done.exception()
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection ended within the body"))

    def forget() -> None:  # the connection may serve thousands more
        closed.remove_done_callback(end)

    closed.add_done_callback(end)
    content.on_eof(forget)


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """A large body must not hold the event loop while it is written."""
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]
