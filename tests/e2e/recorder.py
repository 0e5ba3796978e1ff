"""A relay that stands before an agent and remembers what reached it.

Owns: passing bytes both ways as they come, and reading the requests off the way in.
Never: changes, delays or answers anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.e2e.background import Background

PIECE: Final = 65536  # bytes of one read


@dataclass(frozen=True, slots=True)
class Received:
    """One whole request as its bytes reached the agent. Header names are as they were sent."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header called `name`, in any case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class RequestReader:
    """Cuts one connection's bytes into requests (RFC 9112): heads, lengths and chunks, any split."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._reading = self._requests()
        self._found: list[Received] = []
        next(self._reading)

    def feed(self, data: bytes) -> list[Received]:
        """The requests that `data` completes, in order."""
        self._unread += data
        self._reading.send(None)
        found, self._found = self._found, []
        return found

    def _requests(self) -> Generator[None, None, None]:
        while True:
            head = yield from self._until(b"\r\n\r\n")
            start, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = start.split(" ")
            pairs = (line.split(":", 1) for line in lines)
            headers = tuple((name, value.strip()) for name, value in pairs)
            by_name = {name.lower(): value for name, value in headers}
            if by_name.get("transfer-encoding", "").lower() == "chunked":
                body = yield from self._chunks()
            else:
                body = yield from self._exactly(int(by_name.get("content-length", "0")))
            self._found.append(Received(method, path, headers, body))

    def _chunks(self) -> Generator[None, None, bytes]:
        body = b""
        while size := int((yield from self._until(b"\r\n")).split(b";")[0], 16):
            body += yield from self._exactly(size)
            yield from self._exactly(2)
        while (yield from self._until(b"\r\n")):
            pass  # trailers
        return body

    def _until(self, mark: bytes) -> Generator[None, None, bytes]:
        while (at := self._unread.find(mark)) < 0:
            yield
        taken = bytes(self._unread[:at])
        del self._unread[: at + len(mark)]
        return taken

    def _exactly(self, size: int) -> Generator[None, None, bytes]:
        while len(self._unread) < size:
            yield
        taken = bytes(self._unread[:size])
        del self._unread[:size]
        return taken


class Recorder:
    """`with Recorder(host, port) as recorder`: point the sidecar at `recorder.url`.

    It runs in a thread of its own, so that a test may block. A request is in `received` before its
    last byte goes on to the agent: a caller who has an answer of the agent's finds it there.
    """

    def __init__(self, host: str, port: int) -> None:
        self._agent = (host, port)
        self._background = Background()
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()
        self.received: list[Received] = []
        self.url = ""

    def calls(self) -> list[Received]:
        """What was received but for the public card, which a sidecar fetches for itself."""
        return [each for each in self.received if not each.path.startswith("/.well-known/")]

    def __enter__(self) -> Recorder:
        self._background.__enter__()
        self._background.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._background.run(self._close())
        self._background.__exit__()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for each in tuple(self._busy):
            each.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        assert current is not None
        self._busy.add(current)
        try:
            with suppress(OSError, asyncio.CancelledError):  # an absent agent, or the end of the recorder
                await self._join(reader, writer)
        finally:
            self._busy.discard(current)
            await closed(writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_agent, to_agent = await asyncio.open_connection(*self._agent)
        ways = (
            asyncio.ensure_future(self._pump(reader, to_agent, RequestReader())),
            asyncio.ensure_future(self._pump(from_agent, writer, None)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await closed(to_agent)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, requests: RequestReader | None
    ) -> None:
        with suppress(OSError):
            while data := await source.read(PIECE):
                if requests is not None:
                    self.received += requests.feed(data)
                sink.write(data)
                await sink.drain()


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
