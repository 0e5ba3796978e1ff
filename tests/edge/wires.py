"""A connection without a socket: bytes go into an edge cut exactly where a test says, and what comes out is kept.

Owns: the transport, and running the event loop until nothing moves any more.
Never: knows which edge it drives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from multidict import CIMultiDict

from sidecar.app import Edge
from sidecar.config import Limits
from sidecar.model import Exchange, Refused, Reply


class Wire(asyncio.Transport):
    """The server's end of a connection. `sent` holds each write by itself."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self._protocol = protocol
        self.sent: list[bytes] = []
        self.closing = False
        self.aborted = False
        self.lost = False
        self.reading = True
        self.stuck = False
        self.heard = 0  # how many pieces were
        self.full = False  # whether the caller takes nothing of what is written
        self._paused = False
        self.steps = 0  # grows with whatever happens
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        self.steps += 1
        assert not self.closing
        self.sent.append(bytes(data))
        if self.full and len(data) > 65536 and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def take(self) -> None:
        """The caller takes what there is, and goes on taking."""
        self.full = self._paused = False
        self._protocol.resume_writing()

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.steps += 1
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._lose)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def _lose(self) -> None:
        self.steps += 1
        self.lost = True
        self._protocol.connection_lost(None)

    async def hear(self, *pieces: bytes) -> None:
        """The caller's bytes, piece by piece; after each everything comes to rest. Paused bytes wait, as in a socket."""
        waiting = list(pieces)
        while waiting and not self.closing:
            if self.reading:
                self._protocol.data_received(waiting.pop(0))
                self.heard += 1
                await self.rest()
            else:
                before = self.steps
                await self.rest()
                if not self.reading and self.steps == before:
                    self.stuck = True  # nothing will ever be read again
                    return
        await self.rest()

    async def hang_up(self) -> None:
        if not self.closing:
            self._protocol.eof_received()
            self.close()
        await self.rest()

    async def rest(self) -> None:
        quiet, seen = 0, -1
        while quiet < 6:  # more turns of the loop than any one thing takes
            await asyncio.sleep(0)
            quiet, seen = (quiet + 1, seen) if self.steps == seen else (0, self.steps)


@dataclass
class Told:
    """What `answer` was told of one request. `body` is None where it never came whole."""

    method: str
    target: str
    version: tuple[int, int]
    headers: list[tuple[str, str]]
    body: bytes | None = None


@dataclass
class Listener:
    """An `answer` that remembers what it was told, and answers by the target."""

    replies: Callable[[Told], Reply]
    reads: bool = True
    told: list[Told] = field(default_factory=list)
    wire: Wire | None = None

    async def __call__(self, exchange: Exchange) -> Reply:
        head = exchange.head
        told = Told(head.method, head.target, tuple(head.http_version), list(head.headers.items()))
        self.told.append(told)
        self._step()
        if self.reads:
            try:
                body = b"".join([chunk async for chunk in exchange.chunks()])
            except Refused:
                return Reply(400, CIMultiDict(), b"unframed")
            told.body = body
        self._step()
        return self.replies(told)

    def _step(self) -> None:
        if self.wire is not None:
            self.wire.steps += 1


def connect(edge: Edge, listener: Listener, limits: Limits | None = None) -> Wire:
    server: Any = edge(listener, limits or Limits(), lambda: "d-1")
    listener.wire = Wire(server())
    return listener.wire


class Body:
    """A streamed body that knows whether it was closed."""

    def __init__(self, chunks: Iterable[bytes | Exception]) -> None:
        self._chunks = iter(chunks)
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            return chunk
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True
