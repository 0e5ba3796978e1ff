"""kill -9 at any moment: whoever has received an id owns it after the restart (design §2.3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import threading
import uuid
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp import web

from tests.edge.agent import Agent, a_task, event_stream, result
from tests.issuer import Issuer
from tests.process.conftest import Launch
from tests.process.running import MESSAGE, Running

MOMENTS = 100  # of each: sends the agent had answered and the caller had not received when the sidecar died
METHODS = ("SendMessage", "SendStreamingMessage")
CALLERS = 32  # of each, at a time
ID = re.compile(rb"t-[0-9a-f]{32}")


class Making:
    """An agent's script that makes a task for every send, knows which it has answered with, and is the murderer.

    The moment is a number of answers and a little time more, so that a slow machine changes nothing.
    """

    def __init__(self) -> None:
        self.answered: dict[str, set[bytes]] = {}
        self.kill: Callable[[], None] = lambda: None
        self._left = 0
        self._more = 0.0

    def arm(self, kill: Callable[[], None], answers: int, more: float) -> None:
        """Kill `more` seconds after so many answers."""
        self.answered = {method: set() for method in METHODS}
        self.kill, self._left, self._more = kill, answers, more

    def _answering(self, method: str, made: str) -> None:
        self.answered[method].add(made.encode())
        self._left -= 1
        if self._left == 0:
            threading.Timer(self._more, self.kill).start()  # a thread: not when this loop finds time

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        asked = json.loads(body)
        if asked["method"] == "GetTask":
            return result(body, a_task(asked["params"]["id"], context=f"c-{asked['params']['id']}"))
        made = f"t-{uuid.uuid4().hex}"
        value = {"task": a_task(made, context=f"c-{made}")}
        if asked["method"] == "SendMessage":
            self._answering("SendMessage", made)
            return result(body, value)
        response = await event_stream(request)
        await response.write(b": hello\n\n")
        self._answering("SendStreamingMessage", made)
        said = {"jsonrpc": "2.0", "id": 1, "result": value}
        await response.write(b"data: " + json.dumps(said).encode() + b"\n\n")
        return response


async def calls_until_it_dies(running: Running, method: str, received: set[bytes]) -> None:
    """Send again and again. Every id in bytes that arrived counts, whole reply or not."""
    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
        while True:
            got = b""
            try:
                async with running.calling(method, {"message": MESSAGE}) as reply:
                    assert reply.status == 200
                    async for chunk in reply.content.iter_any():
                        got += chunk
            finally:
                received |= {*ID.findall(got)}


async def require_known(running: Running, agent: Agent, ids: set[bytes]) -> None:
    """Every id is its owner's: the owner's get is forwarded."""
    waiting = sorted(id_.decode() for id_ in ids)

    async def ask() -> None:
        while waiting:
            id_ = waiting.pop()
            answer = await running.call("GetTask", {"id": id_})
            assert answer.json.get("result", {}).get("id") == id_, f"{id_} reached a caller and is nobody's"

    await asyncio.gather(*(ask() for _ in range(16)))


@pytest.mark.timeout(120)  # some 20 s on an idle machine
async def test_no_id_a_caller_has_received_is_lost(
    launch: Launch, agent: Agent, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    print(f"CRASH_SEED={seed}")  # set it to see the same again, as far as the machine lets
    dice = random.Random(seed)
    agent.script = making = Making()
    token = issuer.mint(sub="alice", scope="w r", azp="planner")
    monkeypatch.setattr(Running, "token", lambda *_, **__: token)  # signing is not what this is about
    moments = dict.fromkeys(METHODS, 0)
    lives = total = 0
    received: dict[str, set[bytes]] = {}
    while min(moments.values()) < MOMENTS:
        running = await launch()
        await require_known(running, agent, set().union(*received.values()))
        received = {method: set() for method in METHODS}
        making.arm(running.process.kill, dice.randrange(1, 6 * CALLERS), dice.uniform(0, 0.02))
        await asyncio.gather(
            *(calls_until_it_dies(running, m, received[m]) for m in METHODS for _ in range(CALLERS))
        )
        await running.ended()
        for method in METHODS:
            assert received[method] <= making.answered[method]
            moments[method] += len(making.answered[method] - received[method])
            total += len(received[method])
        lives += 1
    running = await launch()
    await require_known(running, agent, set().union(*received.values()))
    print(f"{moments} moments in {lives} lives, {total} ids received")
    assert total, "nothing was received, so nothing was shown"
