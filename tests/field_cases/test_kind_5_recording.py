"""Kind 5, that every task gets its owner before anybody can name it: FC-073, FC-074."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from typing import Any

import pytest
from aiohttp import web

from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Kind
from tests.edge.agent import Agent, Received, Script, a_task, event_stream, result
from tests.edge.conftest import Sidecar, Start, eventually
from tests.field_cases.doors import (
    SENDING,
    V0_1,
    a_line,
    each,
    gets,
    on_the_wire,
    sse,
    until_gets,
)
from tests.matrix.agent import replying
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import At
from tests.matrix.requests import Names, Request, Row

in_session = pytest.mark.asyncio(loop_scope="session")
TIMES = 200


def calling(running: Sidecar, bearer: str, method: str, **params: Any) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Authorization": f"Bearer {bearer}", "A2A-Version": "1.0"}
    return running.session.post(running.url + "/", json=call, headers=headers)


def saying(name: str) -> dict[str, Any]:
    return {"messageId": name, "role": "ROLE_USER", "parts": [{"text": "hi"}]}


# --- FC-073 --------------------------------------------------------------------------------------


class Slow(MemoryLedger):
    """A ledger that stores a task once its gate is open."""

    def __init__(self) -> None:
        super().__init__(now=time.time)
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.asked: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def record(self, owner: Any, entries: Any) -> Any:
        for entry in entries:
            if entry.resource.kind is Kind.TASK:
                self.asked[entry.resource.id].set()
                await self.gates[entry.resource.id].wait()
        return await super().record(owner, entries)


async def making(request: web.Request, body: bytes) -> web.StreamResponse:
    """An agent that makes a task for every send, named by its message, and answers whoever asks."""
    call = json.loads(body)
    params = call["params"]
    name = params["message"]["messageId"] if "message" in params else params["id"]
    task = a_task(name, context=f"c-{name}")
    if call["method"] == "GetTask":
        return result(body, task)
    response = await event_stream(request)
    await response.write(sse({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}))
    return response


async def test_fc_073_nobody_has_an_id_before_its_owner_is_recorded(start: Start, agent: Agent) -> None:
    ledger = Slow()
    replicas = [await start(ledger) for _ in range(2)]
    agent.script = making
    alice, mallory = (replicas[0].token(who) for who in ("alice", "mallory"))
    everywhere = [(r, m) for r in replicas for m in ("GetTask", "SubscribeToTask")]

    async def told(replica: Sidecar, who: str, method: str, task: str) -> bytes:
        async with calling(replica, who, method, id=task) as reply:
            return bytes(await reply.read())

    def about(task: str) -> list[Received]:
        return [each for each in agent.received if f'"{task}"'.encode() in each.body]

    async def race(number: int) -> None:
        task = f"t-{number}"
        before = len(about(task))
        async with calling(replicas[0], alice, "SendStreamingMessage", message=saying(task)) as reply:
            first = asyncio.ensure_future(reply.content.readuntil(b"\n\n"))
            await ledger.asked[task].wait()
            for replica, method in everywhere:
                assert b"Task not found" in await told(replica, mallory, method, task)
            assert not first.done(), "the id left before it was recorded"
            assert len(about(task)) == before + 1
            ledger.gates[task].set()
            assert task.encode() in await first
            for replica, method in everywhere:
                assert b'"result"' in await told(replica, alice, method, task), "alice's own id is unknown"
                assert b"Task not found" in await told(replica, mallory, method, task)

    for start_ in range(0, TIMES, 20):
        await asyncio.gather(*(race(number) for number in range(start_, start_ + 20)))


# --- FC-074 --------------------------------------------------------------------------------------


class Held:
    """An agent that answers once it may, and knows who was cut off meanwhile."""

    def __init__(self, answer: Script) -> None:
        self._answer = answer
        self.asked = 0
        self.answered = 0
        self.go_on = asyncio.Event()

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self.asked += 1
        await self.go_on.wait()
        self.answered += 1
        return await self._answer(request, body)


@in_session
@pytest.mark.parametrize("leave", ["reset", "close"])
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_074_who_leaves_before_the_answer_owns_what_was_made(at: At, row: Row, leave: str) -> None:
    cell = await at(row)
    made = a_random_id()
    script, _ = replying(row, made, context=f"c-{made}")
    cell.agent.script = held = Held(script)
    request = row.sending(Names(made if row.dialect.version is V0_1 else None))
    sent = on_the_wire(request, cell.running.token("alice"))
    async with a_line(cell.running.app.traffic[1], sent) as line:
        await eventually(lambda: held.asked)
        line.reset() if leave == "reset" else line.writer.close()
    assert not await gets(cell, "mallory", made)
    held.go_on.set()
    await until_gets(cell, "alice", made)
    assert held.answered == 1, "the agent was cut off"
    assert not await gets(cell, "mallory", made)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_fc_074_two_hundred_who_leave_at_once_lose_nothing(
    start: Start, agent: Agent, method: str
) -> None:
    running = await start()

    async def answering(request: web.Request, body: bytes) -> web.StreamResponse:
        call = json.loads(body)
        if call["method"] != "SendMessage":
            return await making(request, body)
        name = call["params"]["message"]["messageId"]
        return result(body, {"task": a_task(name, context=f"c-{name}")})

    agent.script = held = Held(answering)
    alice, mallory = (running.token(who) for who in ("alice", "mallory"))
    lines = []
    for number in range(TIMES):
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": saying(f"t-{number}")}}
        request = Request("POST", "/", json.dumps(call).encode(), {"A2A-Version": "1.0"})
        line = a_line(running.app.traffic[1], on_the_wire(request, alice))
        lines.append((line, await line.__aenter__()))
    await eventually(lambda: held.asked == TIMES)
    for number, (_, line) in enumerate(lines):
        line.reset() if number % 2 else line.writer.close()
    held.go_on.set()
    await running.records(lambda rs: sum(r.get("outcome") == "recorded" for r in rs) == TIMES)
    assert held.answered == TIMES, "the agent was cut off"
    agent.script = making
    for number in range(TIMES):
        async with calling(running, alice, "GetTask", id=f"t-{number}") as reply:
            assert (await reply.json())["result"]["id"] == f"t-{number}"
    listed: list[str] = []
    token = ""
    while len(listed) < TIMES:
        async with calling(running, alice, "ListTasks", pageSize=100, pageToken=token) as reply:
            page = (await reply.json())["result"]
        listed += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        assert page["totalSize"] == TIMES
    assert sorted(listed) == sorted(f"t-{number}" for number in range(TIMES))
    assert token == ""
    async with calling(running, mallory, "ListTasks") as reply:
        assert (await reply.json())["result"]["tasks"] == []
    async with calling(running, mallory, "GetTask", id="t-0") as reply:
        assert (await reply.json())["error"]["code"] == -32001
    for context, _ in lines:
        await context.__aexit__(None, None, None)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_fc_074_what_the_agent_never_answers_is_nobodys_to_take(
    start: Start, agent: Agent, method: str
) -> None:
    running = await start(limits={"settle_timeout": 0.2})
    asked, never = asyncio.Event(), asyncio.Event()

    async def hangs(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request) if method == "SendStreamingMessage" else None
        asked.set()
        await never.wait()
        return response or web.Response()

    agent.script = hangs
    params = {"message": saying("m") | {"contextId": "c-late"}}
    leaving = asyncio.ensure_future(running.call(method, params))
    await asked.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await eventually(lambda: agent.ended)  # `settle_timeout` is over
    agent.script = making
    before = len(agent.received)
    for who in ("mallory", "alice"):
        assert (await running.call("GetTask", {"id": "t-late"}, who=who)).json["error"]["code"] == -32001
    joined = await running.call(
        "SendMessage", {"message": saying("m-2") | {"contextId": "c-late"}}, who="mallory"
    )
    assert joined.json["error"]["code"] == -32001, "the context alice picked was given away"
    assert len(agent.received) == before
