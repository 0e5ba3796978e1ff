"""Sends a file of tokens at a sidecar as fast as it answers: `python -m tests.bench.flooder PORT FILE CONNECTIONS`.

Owns: one GetTask for each line of the file, over so many connections; prints how many answers had which status.
Never: measures; whoever waits beside it does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.bench.callers import request_bytes

BODY = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}


async def flood(port: int, tokens: Iterator[str], connections: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    await asyncio.gather(*(_send(port, tokens, counts) for _ in range(connections)))
    return counts


async def _send(port: int, tokens: Iterator[str], counts: Counter[int]) -> None:
    """Takes the next token as often as there is one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for token in tokens:
        writer.write(request_bytes("POST", "/", HEADERS, BODY, token))
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        counts[int(head.split(b" ", 2)[1])] += 1
        if b"connection: close" in lines:
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


if __name__ == "__main__":
    port, file, connections = sys.argv[1:]
    told = asyncio.run(flood(int(port), iter(Path(file).read_text().split()), int(connections)))
    print(json.dumps(told))
