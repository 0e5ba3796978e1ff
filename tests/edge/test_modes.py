"""Observing, opening and closing: what the modes of a policy mean at the edge."""

from __future__ import annotations

import asyncio
import json
import time
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

import sidecar.app
from sidecar.ledger import LedgerUnavailable
from sidecar.ledger.memory import MemoryLedger
from tests.edge.agent import Agent, a_task, answers, result
from tests.edge.conftest import Answer, Sidecar, Start, a_message, eventually
from tests.issuer import Issuer

BIG = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"' + b"x" * 70_000 + b'"}}'


async def echo(request: web.Request, body: bytes) -> web.StreamResponse:
    return web.Response(body=body, headers={"Content-Type": request.headers.get("Content-Type", "x/y")})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"not json", id="unreadable"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"CancelTask","params":{"id":"t"}}',
            id="twins",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"foreign"}}', id="a foreign task"
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"NoSuchThing"}', id="an unknown method"),
    ],
)
@pytest.mark.parametrize("who", ["alice", None])
async def test_observing_refuses_nothing_and_changes_nothing(
    start: Start, agent: Agent, body: bytes, who: str | None
) -> None:
    running = await start(mode="observe")
    agent.script = echo
    reply = await running.send("POST", "/", who=who, data=body)
    assert (reply.status, reply.body) == (200, body)
    assert agent.received[0].body == body
    records = await running.records(lambda rs: any(r["event"] == "decision" for r in rs))
    decision = next(r for r in records if r["event"] == "decision")
    assert decision["outcome"] == "permitted"
    assert ("observed" in decision) == (who is None or body != b"not json")


async def test_observing_a_dead_ledger_refuses_nothing(start: Start, agent: Agent) -> None:
    class Dead(MemoryLedger):
        async def facts(self, owner: Any, resources: Any) -> Any:
            raise LedgerUnavailable("gone")

        async def record(self, owner: Any, entries: Any) -> Any:
            raise LedgerUnavailable("gone")

    running = await start(Dead(now=time.time), mode="observe")
    agent.script = answers({"task": a_task("t-1")})
    assert "result" in (await running.submit(contextId="mine")).json
    assert "result" in (await running.call("GetTask", {"id": "t-1"})).json


async def test_a_caller_who_is_only_observed_owns_nothing(start: Start, agent: Agent) -> None:
    ledger = MemoryLedger(now=time.time)
    running = await start(ledger, mode="observe")
    agent.script = answers({"task": a_task("t-1")})
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": a_message()}}
    reply = await running.send("POST", "/", who=None, json=call, headers={"A2A-Version": "1.0"})
    assert "result" in reply.json
    records = await running.records(lambda rs: bool(rs))
    assert not any(r.get("outcome") == "recorded" for r in records)


async def test_paths_the_policy_opens_take_bodies_from_anybody(start: Start, agent: Agent) -> None:
    running = await start(other_paths={"anonymous": ["/hook"], "default": "refuse"})
    agent.script = echo
    for body in (b"x" * 100_000, b'{"some": "json"}'):
        reply = await running.send("POST", "/hook", who=None, data=BytesIO(body))
        assert (reply.status, reply.body) == (200, body)
    assert (await running.send("POST", "/other", data=b"x")).status == 404
    assert len(agent.received) == 2


@pytest.mark.parametrize(
    ("target", "body", "status", "code"),
    [
        pytest.param("/", BIG, 413, -32600, id="JSON-RPC"),
        pytest.param("/rest/message:send", BIG, 413, 413, id="HTTP+JSON"),
    ],
)
async def test_too_large_is_said_in_the_callers_dialect(
    start: Start, agent: Agent, target: str, body: bytes, status: int, code: int
) -> None:
    running = await start(limits={"body": 60_000})
    reply = await running.send("POST", target, data=BytesIO(body), headers={"A2A-Version": "1.0"})
    assert reply.status == status
    assert reply.json["error"]["code"] == code
    assert agent.received == []


async def test_what_is_too_large_is_refused_before_it_is_asked_for(start: Start) -> None:
    running = await start(limits={"body": 1000})
    reader, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
    head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token()}\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_stranger_is_told_so_before_anything_else(running: Sidecar, agent: Agent) -> None:
    for headers, body in (
        ({"Content-Encoding": "br"}, b"{"),
        ({}, b"{" + b" " * 200_000),
        ({}, b"{nonsense"),
    ):
        reply = await running.send("POST", "/", who=None, data=body, headers=headers)
        assert reply.status == 401


async def test_a_continuing_send_that_creates_is_judged_then(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit()

    async def other_task(request: web.Request, body: bytes) -> web.StreamResponse:
        return result(body, {"task": a_task("t-2")})

    agent.script = other_task
    message = a_message(taskId="t-1")
    refused = await running.call("SendMessage", {"message": message}, scope="w")
    assert "was asked to cancel it" in refused.json["error"]["message"]
    assert b"t-2" not in refused.body
    await eventually(lambda: agent.received[-1].json["method"] == "CancelTask")
    assert agent.received[-1].json["params"]["id"] == "t-2"
    permitted = await running.call("SendMessage", {"message": message})
    assert permitted.json["result"]["task"]["id"] == "t-2"


async def test_a_continuing_send_that_creates_needs_a_token_that_lasted_when_it_came(
    start: Start, agent: Agent, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    clock = SimpleNamespace(time=lambda: time.time() + passed, monotonic=time.monotonic)
    monkeypatch.setattr(sidecar.app, "time", clock)
    running = await start(scopes={"min_remaining_lifetime": 600})
    agent.script = answers({"task": a_task("t-1")})

    async def call(lives: int, **message: Any) -> Answer:
        token = running.token("alice", exp=int(clock.time()) + lives)
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
        params = {"message": a_message(**message)}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        return await running.send("POST", "/", who=None, json=body, headers=headers)

    assert (await call(3600)).json["result"]["task"]["id"] == "t-1"

    async def another_task_after_an_hour(request: web.Request, body: bytes) -> web.StreamResponse:
        nonlocal passed
        passed += 3600
        return result(body, {"task": a_task(f"t-{passed:.0f}")})

    agent.script = another_task_after_an_hour
    refused = await call(60, taskId="t-1")
    told = refused.json["error"]["message"]
    assert told.startswith("TokenLifetimeTooShort: the agent made a new task and was asked to cancel it: ")
    assert "expires in 59s" in told or "expires in 1m" in told
    assert b"t-3600" not in refused.body
    await eventually(lambda: agent.received[-1].json["method"] == "CancelTask")
    assert agent.received[-1].json["params"]["id"] == "t-3600"
    # That the agent took longer than the token lives is no fault of the caller's.
    agent.script = another_task_after_an_hour
    before = passed
    assert (await call(1200, taskId="t-1")).json["result"]["task"]["id"] == f"t-{before + 3600:.0f}"


async def test_a_caller_who_leaves_a_plain_call_frees_the_agents_connection(
    running: Sidecar, agent: Agent
) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit()
    asked, never = asyncio.Event(), asyncio.Event()

    async def hangs(request: web.Request, body: bytes) -> web.StreamResponse:
        asked.set()
        await never.wait()
        return web.Response()

    agent.script = hangs
    for call in (running.call("GetTask", {"id": "t-1"}), running.send("GET", "/download")):
        asked.clear()
        ended = len(agent.ended)
        calling = asyncio.ensure_future(call)
        await asked.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await eventually(lambda before=ended: len(agent.ended) > before)


async def test_credentials_stay_here_where_the_policy_strips_them(start: Start, agent: Agent) -> None:
    running = await start(
        agents=[
            {"name": "r", "upstream": agent.url, "public_url": "https://a.test", "authorization": "strip"}
        ]
    )
    agent.script = answers({"task": a_task("t-1")})
    await running.send("GET", "/other", headers={"Cookie": "a=b", "DPoP": "x"})
    await running.submit()
    for got in agent.received:
        assert not {"authorization", "cookie", "dpop"} & {name.lower() for name, _ in got.headers}


async def test_a_ledger_of_one_life_is_the_ledger_of_the_next(start: Start, agent: Agent) -> None:
    first = await start()
    agent.script = answers({"task": a_task("t-1")})
    await first.submit()
    await first.app.stop()
    second = await start()
    agent.script = answers(a_task("t-1"))
    assert (await second.call("GetTask", {"id": "t-1"})).json["result"]["id"] == "t-1"
    assert (await second.call("GetTask", {"id": "t-1"}, who="bob")).json["error"]["code"] == -32001
    assert json.loads(agent.received[-1].body)["method"] == "GetTask"
