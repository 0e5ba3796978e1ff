"""Streams stream: unchanged, in order, withheld where they must be, and never ended neatly when they were cut."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.edge.agent import Agent, Script, a_task, answers, event_stream, result
from tests.edge.conftest import Sidecar, Start, a_message, eventually


def event(value: Any, end: str = "\n") -> bytes:
    return f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': value})}{end}{end}".encode()


def status(task: str, state: str = "TASK_STATE_WORKING", context: str = "c-1") -> dict[str, Any]:
    return {"statusUpdate": {"taskId": task, "contextId": context, "status": {"state": state}}}


def streams(*chunks: bytes, then: str = "end") -> Script:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "abort":
            assert request.transport is not None
            request.transport.abort()
        return response

    return script


def opening(running: Sidecar, who: str = "alice", method: str = "SendStreamingMessage", **params: Any) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {"message": a_message()}}
    version = {} if "/" in method else {"A2A-Version": "1.0"}
    return running.session.post(running.url + "/", json=call, headers=running.headers(who) | version)


SPREAD = b'data: {"jsonrpc": "2.0", "id": 1,\r\ndata:  "result": {"task":\r\ndata: {"id": "t-1", "contextId": "c-1"}}}\r\n\r\n'


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([event({"task": a_task("t-1")}), event(status("t-1"))], id="LF"),
        pytest.param(
            [event({"task": a_task("t-1")}, "\r\n"), b": ping\r\n\r\n", event(status("t-1"), "\r\n")],
            id="CRLF",
        ),
        pytest.param([event({"task": a_task("t-1")}, "\r"), event(status("t-1"), "\r")], id="CR"),
        pytest.param([SPREAD], id="an event over many data lines"),
        pytest.param([b"\xef\xbb\xbf" + event({"task": a_task("t-1")})], id="a BOM at the start"),
        pytest.param(
            [b"id: 7\nretry: 10\n" + event({"task": a_task("t-1")}), b": end\n\n"], id="id, retry, comments"
        ),
        pytest.param([event(status("t-1"))], id="a status first"),
        pytest.param([event({"message": a_message(contextId="c-9", taskId="t-x")})], id="a message only"),
        pytest.param([event({"task": a_task("t-1")})[i : i + 1] for i in range(150)], id="byte by byte"),
    ],
)
async def test_the_bytes_of_a_stream_do_not_change(
    running: Sidecar, agent: Agent, chunks: list[bytes]
) -> None:
    if len(chunks) == 150:
        chunks = [bytes([b]) for b in event({"task": a_task("t-1")})]
    agent.script = streams(*chunks)
    async with opening(running) as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        assert await reply.read() == b"".join(chunks)


async def test_events_leave_as_they_arrive(running: Sidecar, agent: Agent) -> None:
    more = asyncio.Event()

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(event({"task": a_task("t-1")}))
        await more.wait()
        await response.write(event(status("t-1", "TASK_STATE_COMPLETED")))
        return response

    agent.script = script
    async with opening(running) as reply:
        assert b"t-1" in await reply.content.readuntil(b"\n\n")  # while the agent still holds the second
        more.set()
        assert b"COMPLETED" in await reply.content.read()


async def test_what_a_stream_made_has_its_owner(running: Sidecar, agent: Agent) -> None:
    agent.script = streams(event(status("t-1")))
    async with opening(running) as reply:
        await reply.read()
    agent.script = answers(a_task("t-1"))
    assert "result" in (await running.call("GetTask", {"id": "t-1"}, who="alice")).json
    assert (await running.call("GetTask", {"id": "t-1"}, who="bob")).json["error"]["code"] == -32001


async def test_an_event_about_anothers_task_is_not_delivered(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-alice")})
    await running.submit("alice")
    agent.script = streams(
        event({"task": a_task("t-bob", "c-bob")}),
        event(status("t-alice")),
        event(status("t-bob", context="c-bob")),
    )
    async with opening(running, "bob") as reply:
        got = await reply.read()
    assert got.startswith(event({"task": a_task("t-bob", "c-bob")}))
    assert b"t-alice" not in got
    assert b'"error"' in got
    await running.records(lambda rs: any(r.get("outcome") in ("collision", "foreign_reply") for r in rs))


async def test_a_second_task_in_the_callers_own_context_is_the_callers(
    running: Sidecar, agent: Agent
) -> None:
    agent.script = streams(event({"task": a_task("t-1")}), event({"task": a_task("t-2")}))
    async with opening(running) as reply:
        assert b"t-2" in await reply.read()
    agent.script = answers(a_task("t-2"))
    assert "result" in (await running.call("GetTask", {"id": "t-2"}, who="alice")).json


async def test_a_stream_the_agent_cut_is_seen_as_cut(running: Sidecar, agent: Agent) -> None:
    agent.script = streams(event({"task": a_task("t-1")}), b"data: {", then="abort")
    async with opening(running) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()


async def test_a_stream_that_ends_within_an_event_is_seen_as_cut(running: Sidecar, agent: Agent) -> None:
    agent.script = streams(event({"task": a_task("t-1")}), b'data: {"jsonrpc')
    async with opening(running) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()


async def test_a_whole_last_event_without_its_blank_line_passes(running: Sidecar, agent: Agent) -> None:
    last = event(status("t-1"))[:-1]
    agent.script = streams(event({"task": a_task("t-1")}), last)
    async with opening(running) as reply:
        assert (await reply.read()).endswith(last)


async def test_a_stream_call_answered_with_json_is_recorded_as_well(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    async with opening(running) as reply:
        assert b"t-1" in await reply.read()
    agent.script = answers(a_task("t-1"))
    assert (await running.call("GetTask", {"id": "t-1"}, who="bob")).json["error"]["code"] == -32001


async def test_a_plain_call_answered_with_events_is_recorded_as_well(running: Sidecar, agent: Agent) -> None:
    agent.script = streams(event({"task": a_task("t-1")}))
    assert (await running.submit("alice")).status == 200
    agent.script = answers(a_task("t-1"))
    assert "result" in (await running.call("GetTask", {"id": "t-1"}, who="alice")).json


async def test_a_caller_who_leaves_before_the_first_event_still_owns_it(
    running: Sidecar, agent: Agent
) -> None:
    go_on, asked = asyncio.Event(), asyncio.Event()

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(b": wait\n\n")
        asked.set()
        await go_on.wait()
        await response.write(event({"task": a_task("t-late")}))
        return response

    agent.script = script
    reply = await opening(running)
    await reply.content.readuntil(b"\n\n")
    reply.close()
    go_on.set()
    await running.records(lambda rs: any(r.get("outcome") == "recorded" for r in rs))
    agent.script = answers(a_task("t-late"))
    assert "result" in (await running.call("GetTask", {"id": "t-late"}, who="alice")).json
    assert (await running.call("GetTask", {"id": "t-late"}, who="bob")).json["error"]["code"] == -32001


async def own_task(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit("alice")


def endless(started: asyncio.Event, stop: asyncio.Event) -> Script:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(event({"task": a_task("t-1")}))
        started.set()
        await stop.wait()
        return response

    return script


async def test_a_subscriber_who_leaves_frees_the_agents_stream(start: Start, agent: Agent) -> None:
    running = await start(
        agents=[
            {
                "name": "review",
                "upstream": agent.url,
                "public_url": "https://a.test",
                "abandoned_streams": "close",
            }
        ]
    )
    await own_task(running, agent)
    started, stop = asyncio.Event(), asyncio.Event()
    agent.script = endless(started, stop)
    reply = await opening(running, method="SubscribeToTask", id="t-1")
    await reply.content.readuntil(b"\n\n")
    reply.close()
    await eventually(lambda: agent.ended)


async def test_a_subscriber_who_leaves_an_old_agent_is_not_passed_on(running: Sidecar, agent: Agent) -> None:
    """a2a-sdk 0.3 hangs for good when a resubscriber leaves: the card shows 0.3, so the stream is drained."""
    await own_task(running, agent)
    started, stop = asyncio.Event(), asyncio.Event()
    agent.script = endless(started, stop)
    reply = await opening(running, method="tasks/resubscribe", id="t-1")
    await reply.content.readuntil(b"\n\n")
    reply.close()
    metrics = await settling(running)
    assert metrics == 1
    assert agent.ended == []
    stop.set()
    while await settling(running):
        await asyncio.sleep(0.005)
    assert agent.ended == []


async def settling(running: Sidecar) -> int:
    """How many streams without a caller are read on, once the edge has noticed the leaving."""
    async with asyncio.timeout(10):
        while True:
            async with running.session.get(running.admin_url + "/metrics") as reply:
                text = await reply.text()
            count = next(
                float(x.split()[1]) for x in text.splitlines() if x.startswith("a2a_sidecar_draining ")
            )
            if count or "drained" in running.__dict__:
                running.__dict__["drained"] = True
                return int(count)
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("method", ["message/stream", "tasks/resubscribe"])
async def test_0_x_streams_are_refused_as_events(running: Sidecar, agent: Agent, method: str) -> None:
    params = (
        {"id": "nope"} if method == "tasks/resubscribe" else {"message": {**a_message(), "taskId": "nope"}}
    )
    async with opening(running, method=method, **params) as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/event-stream"
        body = await reply.read()
    assert json.loads(body.removeprefix(b"data: "))["error"]["code"] == -32001
    assert agent.received == []


async def test_1_0_streams_are_refused_as_json(running: Sidecar, agent: Agent) -> None:
    async with opening(running, method="SubscribeToTask", id="nope") as reply:
        assert reply.headers["Content-Type"] == "application/json"
        assert (await reply.json())["error"]["code"] == -32001


async def test_a_purged_task_is_not_found_in_our_form_on_a_stream_as_well(
    running: Sidecar, agent: Agent
) -> None:
    await own_task(running, agent)
    said = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task t-1 was purged"}}
    agent.script = streams(b"data: " + json.dumps(said).encode() + b"\r\n\r\n")
    async with opening(running, method="tasks/resubscribe", id="t-1") as reply:
        gone = await reply.read()
    async with opening(running, method="tasks/resubscribe", id="nope") as reply:
        assert gone == await reply.read()


async def test_the_result_of_a_rest_stream_is_watched_too(running: Sidecar, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(b"data: " + json.dumps({"task": a_task("t-1")}).encode() + b"\n\n")
        return response

    agent.script = script
    headers = running.headers("alice") | {"A2A-Version": "1.0"}
    async with running.session.post(
        running.url + "/rest/message:stream", json={"message": a_message()}, headers=headers
    ) as reply:
        assert b"t-1" in await reply.read()

    async def get(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.json_response(a_task("t-1"))

    agent.script = get
    assert (await running.send("GET", "/rest/tasks/t-1", headers={"A2A-Version": "1.0"})).json["id"] == "t-1"
    foreign = await running.send("GET", "/rest/tasks/t-1", who="bob", headers={"A2A-Version": "1.0"})
    absent = await running.send("GET", "/rest/tasks/t-2", who="bob", headers={"A2A-Version": "1.0"})
    assert foreign.status == 404
    assert foreign.shown == absent.shown


def test_the_helpers_say_what_they_mean() -> None:
    assert result(b'{"id": 3}', None).body == b'{"jsonrpc": "2.0", "id": 3, "result": null}'
