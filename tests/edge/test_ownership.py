"""Tasks belong to their creator, seen from outside."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import web

from sidecar.ledger import LedgerUnavailable
from sidecar.ledger.memory import MemoryLedger
from tests.edge.agent import Agent, a_task, answers, error, event_stream, result
from tests.edge.conftest import Sidecar, Start, a_message, eventually
from tests.issuer import Issuer

RANDOM = "5f2b8c1e-0000-4000-8000-000000000000"


async def test_a_task_is_its_creators_and_nobody_elses(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")}, a_task("t-1"))
    made = await running.submit("alice")
    assert made.json["result"]["task"]["id"] == "t-1"
    assert (await running.call("GetTask", {"id": "t-1"}, who="alice")).json["result"]["id"] == "t-1"
    before = len(agent.received)
    foreign = await running.call("GetTask", {"id": "t-1"}, who="bob")
    absent = await running.call("GetTask", {"id": RANDOM}, who="bob")
    assert foreign.json["error"]["code"] == -32001
    assert foreign.shown == absent.shown
    assert len(agent.received) == before, "the agent was asked"


async def test_the_same_subject_of_another_issuer_is_somebody_else(
    start: Start, agent: Agent, issuer: Issuer
) -> None:
    async with Issuer() as other:
        running = await start(
            identity={"issuers": [{"issuer": i.url, "audiences": ["agent"]} for i in (issuer, other)]}
        )
        agent.script = answers({"task": a_task("t-1")})
        await running.submit("alice")
        running.issuer = other
        assert (await running.call("GetTask", {"id": "t-1"}, who="alice")).json["error"]["code"] == -32001


async def test_a_token_too_narrow_for_the_whole_life_creates_nothing(running: Sidecar, agent: Agent) -> None:
    refused = await running.call("SendMessage", {"message": a_message()}, scope="w")
    assert refused.status == 200
    assert refused.json["error"]["code"] == -32004
    assert "missing r" in refused.json["error"]["message"]
    assert refused.header("WWW-Authenticate") == 'Bearer error="insufficient_scope", scope="r w"'
    assert agent.received == []


async def test_the_bytes_that_were_judged_are_forwarded(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    body = b'{ "jsonrpc":"2.0","method":"SendMessage", "id": 36893488147419103232,\n "params":{"message":{"messageId":"m","parts":[],"metadata":{"n":1e2}}}}'
    reply = await running.send(
        "POST", "/", data=body, headers={"A2A-Version": "1.0", "Content-Type": "text/plain"}
    )
    assert reply.status == 200
    assert agent.received[0].body == body
    assert agent.received[0].values("Content-Type") == ["text/plain"]
    assert agent.received[0].values("A2A-Version") == ["1.0"]


class Gated(MemoryLedger):
    """A ledger that stores only once the gate is open."""

    def __init__(self) -> None:
        super().__init__(now=time.time)
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()

    async def record(self, owner: Any, entries: Any) -> Any:
        self.asked.set()
        await self.gate.wait()
        return await super().record(owner, entries)


async def test_no_id_reaches_the_caller_before_its_owner_is_recorded(start: Start, agent: Agent) -> None:
    ledger = Gated()
    running = await start(ledger)
    agent.script = answers({"task": a_task("t-1")})
    sending = asyncio.ensure_future(running.submit("alice"))
    await ledger.asked.wait()
    await asyncio.sleep(0)
    assert not sending.done()
    ledger.gate.set()
    assert (await sending).json["result"]["task"]["id"] == "t-1"


async def test_no_event_reaches_the_caller_before_its_owner_is_recorded(start: Start, agent: Agent) -> None:
    ledger = Gated()
    running = await start(ledger)

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(b": hello\r\n\r\n")
        said = {"jsonrpc": "2.0", "id": 1, "result": {"task": a_task("t-1")}}
        await response.write(b"data: " + json.dumps(said).encode() + b"\r\n\r\n")
        return response

    agent.script = script
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": a_message()}}
    headers = running.headers("alice") | {"A2A-Version": "1.0"}
    async with running.session.post(running.url + "/", json=call, headers=headers) as reply:
        assert await reply.content.readuntil(b"\r\n\r\n") == b": hello\r\n\r\n"  # comments leave at once
        await ledger.asked.wait()
        rest = asyncio.ensure_future(reply.content.read())
        await asyncio.sleep(0)
        assert not rest.done()
        ledger.gate.set()
        assert b"t-1" in await rest


async def test_a_caller_who_hangs_up_still_owns_what_the_agent_made(running: Sidecar, agent: Agent) -> None:
    answer, asked = asyncio.Event(), asyncio.Event()

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        if json.loads(body)["method"] == "GetTask":
            return result(body, a_task("t-late"))
        asked.set()
        await answer.wait()
        return result(body, {"task": a_task("t-late")})

    agent.script = script
    sending = asyncio.ensure_future(running.submit("alice"))
    await asked.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    answer.set()
    await running.records(lambda records: any(r.get("outcome") == "recorded" for r in records))
    assert (await running.call("GetTask", {"id": "t-late"}, who="alice")).json["result"]["id"] == "t-late"
    assert agent.ended == [], "the send was broken off at the agent"
    assert (await running.call("GetTask", {"id": "t-late"}, who="bob")).json["error"]["code"] == -32001


async def test_an_agent_that_hands_one_callers_task_to_another_is_caught(
    running: Sidecar, agent: Agent
) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit("alice")
    agent.script = answers({"task": a_task("t-1", context="c-2")})
    caught = await running.submit("bob")
    assert caught.status == 500
    assert b"t-1" not in caught.body
    assert caught.header("Retry-After") is None
    await running.records(lambda records: any(r.get("outcome") == "collision" for r in records))
    assert [r.json["method"] for r in agent.received] == ["SendMessage", "SendMessage"], (
        "something was cancelled"
    )
    agent.script = answers(a_task("t-1"))
    assert (await running.call("GetTask", {"id": "t-1"}, who="alice")).json["result"]["id"] == "t-1"


class Failing(MemoryLedger):
    """A ledger that knows and cannot store."""

    async def record(self, owner: Any, entries: Any) -> Any:
        raise LedgerUnavailable("disk full")


async def test_a_task_that_cannot_be_recorded_is_cancelled_and_not_shown(start: Start, agent: Agent) -> None:
    running = await start(Failing(now=time.time))
    agent.script = answers({"task": a_task("t-1")})
    refused = await running.submit("alice")
    assert refused.status == 500
    assert b"t-1" not in refused.body
    await eventually(lambda: len(agent.received) == 2)
    assert agent.received[1].json["method"] == "CancelTask"
    assert agent.received[1].json["params"]["id"] == "t-1"
    assert agent.received[1].values("Authorization") == agent.received[0].values("Authorization")


async def test_a_ledger_that_cannot_answer_closes_the_door_for_owner_and_stranger_alike(
    start: Start, agent: Agent
) -> None:
    class Dead(MemoryLedger):
        async def facts(self, owner: Any, resources: Any) -> Any:
            raise LedgerUnavailable("gone")

    running = await start(Dead(now=time.time))
    answers_ = [await running.call("GetTask", {"id": "t-1"}, who=who) for who in ("alice", "bob")]
    assert [a.status for a in answers_] == [503, 503]
    assert answers_[0].shown == answers_[1].shown
    assert answers_[0].header("Retry-After")
    assert agent.received == []


async def test_a_context_is_owned_as_well(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1", context="c-alice")})
    await running.submit("alice")
    before = len(agent.received)
    foreign = await running.submit("bob", contextId="c-alice")
    assert foreign.json["error"]["code"] == -32001
    assert len(agent.received) == before


async def test_a_context_the_caller_picked_is_theirs_from_then_on(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1", context="mine")})
    assert "result" in (await running.submit("alice", contextId="mine")).json
    assert (await running.submit("bob", contextId="mine")).json["error"]["code"] == -32001


async def test_a_context_picked_in_vain_is_free_again(running: Sidecar, agent: Agent) -> None:
    async def refuses(request: web.Request, body: bytes) -> web.StreamResponse:
        return error(body, -32602, "no such context")

    agent.script = refuses
    assert (await running.submit("alice", contextId="mine")).json["error"]["code"] == -32602
    agent.script = answers({"task": a_task("t-2", context="mine")})
    assert "result" in (await running.submit("bob", contextId="mine")).json


async def test_a_context_given_to_everybody_is_refused_by_the_name_of_the_setting(
    running: Sidecar, agent: Agent
) -> None:
    agent.script = answers({"task": a_task("t-1", context="default")})
    await running.submit("alice")
    agent.script = answers({"task": a_task("t-2", context="default")})
    refused = await running.submit("bob")
    assert refused.status == 500
    assert "ownership.shared_context_ids" in refused.json["error"]["message"]
    await eventually(lambda: agent.received[-1].json["method"] == "CancelTask")


async def test_the_agents_own_not_found_takes_our_form(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit("alice")

    async def purged(request: web.Request, body: bytes) -> web.StreamResponse:
        return error(body, -32001, "Task t-1 not found in store")

    agent.script = purged
    gone = await running.call("GetTask", {"id": "t-1"}, who="alice")
    absent = await running.call("GetTask", {"id": RANDOM}, who="alice")
    assert gone.shown == absent.shown


async def test_another_task_in_the_reply_to_get_is_withheld(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")}, a_task("t-other"))
    await running.submit("alice")
    withheld = await running.call("GetTask", {"id": "t-1"}, who="alice")
    assert withheld.status == 500
    assert b"t-other" not in withheld.body


@pytest.mark.parametrize("value", [{}, {"hello": 1}, None, {"task": {"id": ["t"]}}])
async def test_a_send_answered_with_neither_task_nor_message_is_no_success(
    running: Sidecar, agent: Agent, value: Any
) -> None:
    agent.script = answers(value)
    assert (await running.submit("alice")).status == 502


async def test_a_reply_past_the_limit_still_gives_its_task_an_owner(start: Start, agent: Agent) -> None:
    running = await start(limits={"reply": 4096})
    big = a_task("t-big", history=[{"messageId": "m", "parts": [{"text": "x" * 20_000}]}])
    agent.script = answers({"task": {k: big[k] for k in ("history", "status", "contextId", "id")}})
    assert (await running.submit("alice")).status == 502
    agent.script = answers(a_task("t-big"))
    assert (await running.call("GetTask", {"id": "t-big"}, who="alice")).json["result"]["id"] == "t-big"
    assert (await running.call("GetTask", {"id": "t-big"}, who="bob")).json["error"]["code"] == -32001


async def test_0_1_the_id_a_caller_picks_is_recorded_before_it_is_forwarded(
    start: Start, agent: Agent
) -> None:
    ledger = Gated()
    running = await start(
        ledger,
        agents=[
            {
                "name": "review",
                "upstream": agent.url,
                "public_url": "https://a.test",
                "dialects": ["JSONRPC/0.1"],
            }
        ],
    )
    task = {"id": "picked", "sessionId": "s-1", "status": {"state": "working"}}
    agent.script = answers(task)
    params = {
        "id": "picked",
        "sessionId": "s-1",
        "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]},
    }
    sending = asyncio.ensure_future(running.call("tasks/send", params, who="alice"))
    await ledger.asked.wait()
    assert agent.received == []
    ledger.gate.set()
    assert (await sending).json["result"]["id"] == "picked"
    before = len(agent.received)
    for method in ("tasks/send", "tasks/get", "tasks/cancel"):
        foreign = await running.call(
            method, params if method == "tasks/send" else {"id": "picked"}, who="bob"
        )
        assert foreign.json["error"]["code"] == -32001
    assert len(agent.received) == before


async def test_two_callers_race_for_one_0_1_id_and_one_of_them_gets_it(start: Start, agent: Agent) -> None:
    running = await start(
        agents=[
            {
                "name": "review",
                "upstream": agent.url,
                "public_url": "https://a.test",
                "dialects": ["JSONRPC/0.1"],
            }
        ]
    )

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return result(body, {"id": json.loads(body)["params"]["id"], "status": {"state": "working"}})

    agent.script = script
    for n in range(20):
        params = {"id": f"t-{n}", "message": {"role": "user", "parts": []}}
        two = await asyncio.gather(*(running.call("tasks/send", params, who=who) for who in ("alice", "bob")))
        assert sorted("result" in a.json for a in two) == [False, True]
    assert len(agent.received) == 20


async def test_why_it_was_a_miss_is_told_to_the_audit_only(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit("alice")
    await running.call("GetTask", {"id": "t-1"}, who="bob")
    await running.call("GetTask", {"id": RANDOM}, who="bob")
    records = await running.records(lambda rs: sum(r["event"] == "miss" for r in rs) == 2)
    assert sorted(r["cause"] for r in records if r["event"] == "miss") == ["absent", "foreign"]
    text = running.audit_file.read_text()
    assert "Bearer" not in text
    assert "hi" not in [r.get("detail") for r in records]
