"""SIGTERM: no new work, what is under way comes to its end, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.edge.agent import Agent, a_task, answers, event_stream, result
from tests.process.conftest import Launch
from tests.process.running import MESSAGE, Running


@pytest.fixture
def launch(launch_either: Launch) -> Launch:
    return launch_either


@dataclass
class Holding:
    """An agent's script that answers a send only when told to."""

    task: str
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self.asked.set()
        await self.answer.wait()
        return result(body, {"task": a_task(self.task)})


@dataclass
class Streaming:
    """An agent's script that sends a task at once and ends the stream when told to."""

    task: str
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(self.event({"task": a_task(self.task)}))
        await self.end.wait()
        status = {"taskId": self.task, "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
        await response.write(self.event({"statusUpdate": status}))
        return response

    def event(self, value: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}).encode() + b"\n\n"


async def require_owned(launch: Launch, agent: Agent, task: str) -> None:
    """A second process on the same ledger knows whose the task is."""
    agent.script = answers(a_task(task))
    again: Running = await launch()
    assert (await again.call("GetTask", {"id": task})).json["result"]["id"] == task
    assert (await again.call("GetTask", {"id": task}, who="bob")).json["error"]["code"] == -32001
    await again.stop()


async def test_a_unary_call_under_way_is_finished_and_nothing_new_begun(launch: Launch, agent: Agent) -> None:
    agent.script = held = Holding("t-1")
    running = await launch()
    sending = asyncio.ensure_future(running.submit())
    await held.asked.wait()
    running.terminate()
    await running.until_closed()
    assert running.process.poll() is None, "it left a call behind"
    held.answer.set()
    answer = await sending
    assert answer.status == 200
    assert answer.json["result"]["task"]["id"] == "t-1"
    assert await running.ended() == 0
    assert len(agent.received) == 1
    await require_owned(launch, agent, "t-1")


async def test_a_stream_runs_to_its_end_within_the_time_there_is(launch: Launch, agent: Agent) -> None:
    agent.script = streaming = Streaming("t-1")
    running = await launch(limits={"drain_timeout": "60s"})
    async with running.calling("SendStreamingMessage", {"message": MESSAGE}) as reply:
        first = await reply.content.readuntil(b"\n\n")
        running.terminate()
        await running.until_closed()
        assert running.process.poll() is None, "it left a stream behind"
        streaming.end.set()
        rest = await reply.content.read()  # raises if the stream is cut
    assert b"t-1" in first
    assert b"TASK_STATE_COMPLETED" in rest
    assert await running.ended() == 0
    await require_owned(launch, agent, "t-1")


async def test_a_stream_without_an_end_is_cut_when_time_is_up(launch: Launch, agent: Agent) -> None:
    agent.script = Streaming("t-1")
    running = await launch(limits={"drain_timeout": "1s"})
    async with running.calling("SendStreamingMessage", {"message": MESSAGE}) as reply:
        assert b"t-1" in await reply.content.readuntil(b"\n\n")
        running.terminate()
        await running.until_closed()
        with pytest.raises(aiohttp.ClientPayloadError):  # an end that is none must not look like one
            await reply.content.read()
    assert await running.ended() == 0
    for event in ("stopping", "stopped"):
        assert len([said for said in running.logged(event) if "worker" not in said]) == 1
    await require_owned(launch, agent, "t-1")


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_send_whose_caller_hung_up_is_seen_through(launch: Launch, agent: Agent, method: str) -> None:
    agent.script = held = Holding("t-late")
    running = await launch()
    sending = asyncio.ensure_future(running.call(method, {"message": MESSAGE}))
    await held.asked.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    running.terminate()
    await running.until_closed()
    assert running.process.poll() is None, "it did not wait for the task's id"
    held.answer.set()
    assert await running.ended() == 0
    assert agent.ended == [], "the send was broken off at the agent"
    await require_owned(launch, agent, "t-late")


async def test_a_send_that_is_never_answered_does_not_keep_it_alive(launch: Launch, agent: Agent) -> None:
    agent.script = held = Holding("t-never")
    running = await launch(limits={"drain_timeout": "1s"})
    sending = asyncio.ensure_future(running.submit())
    await held.asked.wait()
    running.terminate()
    assert await running.ended() == 0
    (broken,) = await asyncio.gather(sending, return_exceptions=True)
    assert isinstance(broken, aiohttp.ClientError), broken


async def test_idle_connections_do_not_hold_it_up(launch: Launch, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    running = await launch(limits={"drain_timeout": "60s"})
    await running.submit()  # the connection stays open
    await running.stop()
