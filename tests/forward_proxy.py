"""A real forward proxy on loopback: absolute requests and CONNECT, with a password if it wants one.

Owns: passing bytes on, and remembering what was asked of it.
Never: looks a name up: every host leads to this machine, whatever it is called.
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from typing import Self
from urllib.parse import urlsplit


class ForwardProxy:
    """`asked` holds request lines, `seen` whatever passed through afterwards, in the clear or not."""

    def __init__(self, credentials: str | None = None) -> None:
        self.asked: list[str] = []
        self.seen = bytearray()
        self._expected = None if credentials is None else f"Basic {b64encode(credentials.encode()).decode()}"
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        """`host:port`."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._serve(reader, writer)
        writer.close()
        self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        self.asked.append(first)
        method, target, version = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
        if self._expected is not None and headers.get("proxy-authorization") != self._expected:
            writer.write(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        there = await asyncio.open_connection("127.0.0.1", url.port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            kept = [f for f in fields if not f.lower().startswith(("proxy-", "connection:"))]
            path = url._replace(scheme="", netloc="").geturl()
            head = "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""])
            there[1].write(head.encode())
        await asyncio.gather(self._pipe(reader, there[1]), self._pipe(there[0], writer))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(2**16):
                self.seen += chunk
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()
