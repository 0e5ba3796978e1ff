"""`python -m tests.bench.events PORT FOLDER`: an agent that streams events of one task, each with the moment it was sent.

Owns: 1.0's SendMessage and SubscribeToTask over JSON-RPC, ten events a second on every stream; the card and keys.
Never: keeps anything of a stream that has ended.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Final

import uvloop
from aiohttp import web

from tests.bench.scene import TASK, compact

EVERY: Final = 0.1  # seconds between two events of a stream
_STATUS: Final = {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-01T10:00:00.000Z"}
_WORKING: Final = {**TASK, "status": _STATUS}


def event(result: dict[str, object]) -> bytes:
    return f"data: {compact({'jsonrpc': '2.0', 'id': 1, 'result': result})}\n\n".encode()


def update() -> dict[str, object]:
    """An update that says when it was sent, in nanoseconds of CLOCK_MONOTONIC."""
    status = {"taskId": TASK["id"], "contextId": TASK["contextId"], "status": _STATUS}
    return {"statusUpdate": status | {"metadata": {"at": str(time.monotonic_ns())}}}


class Events:
    def __init__(self, folder: Path) -> None:
        self._files = {
            "/.well-known/agent-card.json": (folder / "card.json").read_bytes(),
            "/keys": (folder / "keys.json").read_bytes(),
        }
        self._numbers = itertools.count()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            found = self._files.get(request.path)
            return web.Response(
                status=404 if found is None else 200, body=found, content_type="application/json"
            )
        method = json.loads(await request.read())["method"]
        if method == "SendMessage":
            body = {"jsonrpc": "2.0", "id": 1, "result": {"task": _WORKING}}
            return web.Response(body=compact(body), content_type="application/json")
        return await self._stream(request)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(event({"task": _WORKING}))
        # Spread over the period, so that not all streams speak at once.
        due = time.monotonic() + EVERY * (next(self._numbers) * 0.618 % 1)
        while True:
            await asyncio.sleep(due - time.monotonic())
            await response.write(event(update()))
            due += EVERY


async def main(port: int, folder: Path) -> None:
    server = web.Server(Events(folder).answer, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), Path(sys.argv[2])))
