"""`python -m tests.bench.listener PORT STREAMS SECONDS FILE`: subscribe many times, and tell how old the events are.

Owns: the connections, and the time from an event's own stamp until it is here.
Never: reads more of an event than its stamp. FILE holds the request. Holds the streams until its input is closed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Final, cast

import uvloop

_STAMP: Final = re.compile(rb'"at":"(\d+)"')
_WARMING: Final = 1.0  # seconds after the last stream has begun
_PATIENCE: Final = 30.0  # seconds until all have


class Stream(asyncio.Protocol):
    """One subscription. `ages` is shared by all: nanoseconds, of what came while it is a list."""

    ages: list[int] | None = None

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.begun = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        stamps = _STAMP.findall(data)
        if stamps and not self.begun.done():
            self.begun.set_result(None)
        if Stream.ages is not None:
            Stream.ages.extend(now - int(stamp) for stamp in stamps)

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(ConnectionResetError("a stream ended before its first event"))


async def main(port: int, streams: int, seconds: float, request: bytes) -> None:
    loop = asyncio.get_running_loop()
    listening = [
        (await loop.create_connection(lambda: Stream(request), "127.0.0.1", port))[1] for _ in range(streams)
    ]
    async with asyncio.timeout(_PATIENCE):
        await asyncio.gather(*(stream.begun for stream in listening))
    await asyncio.sleep(_WARMING)
    ages: list[int] = []
    Stream.ages = ages
    await asyncio.sleep(seconds)
    Stream.ages = None
    print(json.dumps(ages), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]).read_bytes()))
