"""Lines of JSON between a supervisor and one worker.

Owns: their form, and what is asked and told.
Never: carries anything of a caller's.

    supervisor → worker   {"id": 7, "ask": "alive" | "problems" | "metrics"}    {"stop": true}
    worker → supervisor   {"id": 7, "answer": …}    {"started": true}    {"cannot start": "why"}
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

import orjson

LONGEST: Final = 2**26  # bytes of a line; the metrics are the longest there is


class Channel:
    """One end. `hear` gives None when the other end is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        return cls(*await asyncio.open_unix_connection(sock=end, limit=LONGEST))

    def say(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))

    async def hear(self) -> dict[str, Any] | None:
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        if not line.endswith(b"\n"):
            return None
        heard: dict[str, Any] = orjson.loads(line)
        return heard

    async def end(self) -> None:
        """Close it once the other end, if it is there, was sent everything."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def close(self) -> None:
        self._writer.close()
