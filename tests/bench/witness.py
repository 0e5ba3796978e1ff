"""`python -m tests.bench.witness PORT FOLDER`: an agent that knows every task, and how often it was asked.

Owns: what a task looks like, by its id alone, so that a ledger can be filled without asking; the count of
operations; the issuer's keys, since it plays that as well.
Never: counts a request for its card, for the keys, or for the count.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from sidecar.model import Fact

COUNT: Final = "/count"
CARD: Final = "card.json"
KEYS: Final = "keys.json"
_STATES: Final = {True: ("TASK_STATE_WORKING", "working"), False: ("TASK_STATE_COMPLETED", "completed")}


def is_open(task: str) -> bool:
    """Whether a task is still being worked on: such end in `0`."""
    return task.endswith("0")


def context_of(task: str) -> str:
    return f"c-{task}"


def shown(task: str) -> dict[str, Any]:
    """The Task the agent answers with (1.0's form)."""
    return {
        "id": task,
        "contextId": context_of(task),
        "status": {"state": _STATES[is_open(task)][0], "timestamp": _moment(task)},
        "artifacts": [{"artifactId": "a-1", "name": "review", "parts": [{"text": "Two findings. " * 8}]}],
        "history": [{"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Review the change."}]}],
    }


def fact(task: str) -> Fact:
    """What a ledger knows of a task once it has been shown: seeing it again is no news."""
    return Fact(context_id=context_of(task), state=_STATES[is_open(task)][1], status_at=_moment(task))


def _moment(task: str) -> str:
    return f"2026-01-01T10:{int(task[:2], 16) % 60:02}:00.000Z"


class Witness:
    """Answers GetTask and SendMessage of 1.0, and GET of a task: what the task's owner uses."""

    def __init__(self, folder: Path) -> None:
        self._asked = 0
        self._files = {
            "/.well-known/agent-card.json": (folder / CARD).read_bytes(),
            "/keys": (folder / KEYS).read_bytes(),
        }

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path in self._files:
            return web.Response(body=self._files[request.path], content_type="application/json")
        if request.path == COUNT:
            return web.Response(text=str(self._asked))
        if request.path == "/":  # somebody waits until this answers
            if request.method == "GET":
                return web.Response()
            self._asked += 1
            return web.json_response(_called(json.loads(await request.read())))
        self._asked += 1
        return web.json_response(shown(request.path.rpartition("/")[2]))


def _called(call: dict[str, Any]) -> dict[str, Any]:
    params = call["params"]
    if call["method"] == "GetTask":
        result = shown(params["id"])
    else:
        result = {"task": shown(params["message"]["taskId"])}
    return {"jsonrpc": "2.0", "id": call["id"], "result": result}


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])

    async def serve() -> None:
        runner = web.ServerRunner(web.Server(Witness(folder), access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
