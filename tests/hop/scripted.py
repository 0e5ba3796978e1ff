"""An upstream on a raw socket that says exactly the bytes it is told, cut where it is told."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

Script = Callable[["Connection"], Awaitable[None]]


@dataclass
class Connection:
    """One accepted connection; `number` counts from 0."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[bytes] = field(default_factory=list)

    async def request(self) -> bytes | None:
        """The next request with its body, as sent; None if the other side is gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            body = b""
            if b"\r\ntransfer-encoding: chunked\r\n" in lower:
                while not body.endswith(b"0\r\n\r\n"):
                    size = await self.reader.readuntil(b"\r\n")
                    body += size + await self.reader.readexactly(int(size, 16) + 2)
            elif b"\r\ncontent-length: " in lower:
                length = int(lower.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
                body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            return None
        self.requests.append(head + body)
        return head + body

    async def say(self, *pieces: bytes) -> None:
        """Each piece arrives apart from the next."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            if len(pieces) > 1:
                await _turns()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the other side has closed; what it still sends is thrown away."""
        try:
            while await self.reader.read(65536):
                pass
        except OSError:
            pass


async def _turns() -> None:
    """Let the other side read what was written: both sides run in this event loop."""
    for _ in range(6):
        await asyncio.sleep(0)


@dataclass
class Upstream:
    """Runs `script` once for each connection."""

    script: Script
    tls: ssl.SSLContext | None = None
    path: str | None = None
    connections: list[Connection] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        if self.path is not None:
            self._server = await asyncio.start_unix_server(self._accept, self.path)
        else:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.writer.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not self.failures, self.failures

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[bytes]:
        return [request for connection in self.connections for request in connection.requests]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        connection = Connection(len(self.connections), reader, writer)
        self.connections.append(connection)
        try:
            await self.script(connection)
        except (OSError, asyncio.CancelledError):
            pass
        except Exception as problem:
            self.failures.append(problem)
        finally:
            writer.close()


def says(*pieces: bytes, end: str = "keep", count: int = 0) -> Script:
    """Answers every request so, or with `count` so many. `end`: `keep` the connection, `close` or `reset` it after one."""

    async def script(connection: Connection) -> None:
        answered = 0
        while await connection.request() is not None:
            await connection.say(*pieces)
            answered += 1
            if end == "reset":
                await _turns()  # a reset may overtake what was said; let it be read first
                connection.reset()
            if end != "keep" or answered == count:
                return

    return script
