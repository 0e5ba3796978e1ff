"""The owner is on disk before the caller has the id: an fsync of the ledger lies in between (design §2.3)."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from aiohttp import web

from tests.edge.agent import Agent, a_task, event_stream, result
from tests.fsync import built_shim, preloaded, read_syncs
from tests.process.conftest import Launch
from tests.process.running import MESSAGE

SENDS = 20


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_fsync_lies_between_the_agents_answer_and_the_callers_receipt(
    launch_either: Launch, agent: Agent, tmp_path: Path, method: str
) -> None:
    log = tmp_path / "syncs"
    written: list[int] = []

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        made = f"t-{len(written)}"
        value = {"task": a_task(made, context=f"c-{made}")}
        if method == "SendMessage":
            response: web.StreamResponse = result(body, value)
            written.append(time.monotonic_ns())
            return response
        response = await event_stream(request)
        said = {"jsonrpc": "2.0", "id": 1, "result": value}
        written.append(time.monotonic_ns())
        await response.write(b"data: " + json.dumps(said).encode() + b"\n\n")
        return response

    agent.script = script
    running = await launch_either(env=preloaded(built_shim(tmp_path), log))
    for number in range(SENDS):
        async with running.calling(method, {"message": MESSAGE}) as reply:
            got = b""
            while f'"t-{number}"'.encode() not in got:
                chunk = await reply.content.readany()
                assert chunk, got
                got += chunk
            arrived = time.monotonic_ns()
            await reply.read()
        between = [sync for sync in read_syncs(log) if written[number] < sync.at < arrived]
        assert [s for s in between if s.path.startswith(str(tmp_path / "ledger.db"))], (
            f"send {number}: the id arrived {arrived - written[number]} ns after the agent's answer, unsynced"
        )
    assert len(written) == SENDS
