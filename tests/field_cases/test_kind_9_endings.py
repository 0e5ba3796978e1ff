"""Kind 9, streams that end badly, on either side: FC-112 (the caller leaves), FC-114 (the agent dies)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from sidecar.model import SENDS
from tests.edge.agent import Agent, Script, event_stream
from tests.edge.conftest import Sidecar, Start, eventually
from tests.field_cases.conftest import G1_CARD
from tests.field_cases.doors import (
    END,
    STREAMING,
    V0_1,
    V1_0,
    Line,
    a_line,
    a_status,
    a_stream_of,
    a_whole_task,
    each,
    gets,
    on_the_wire,
    says,
    sse,
    unchunked,
)
from tests.field_cases.real_agents import DIALECTS, Guarded, Real, Voice, an_event, task_of
from tests.matrix.conftest import At
from tests.matrix.requests import Row

in_session = pytest.mark.asyncio(loop_scope="session")
CLIENTS = 200

ONLY_1_0: dict[str, Any] = G1_CARD | {
    "supportedInterfaces": [i for i in G1_CARD["supportedInterfaces"] if i["protocolVersion"] == "1.0"]
}


# --- FC-112 --------------------------------------------------------------------------------------


@dataclass
class Open:
    """An agent's endless streams: how many are open, and what else it was asked."""

    first: bytes
    again: bytes
    flood: bool = False  # without a pause, so that whoever does not read makes it wait
    count: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self.count += 1
        try:
            response = await event_stream(request)
            await response.write(self.first)
            if not self.flood:
                await self.stop.wait()
            while not self.stop.is_set():
                await response.write(self.again)
                await asyncio.sleep(0.001)
            await response.write(self.again)
            return response
        finally:
            self.count -= 1


async def own_task(running: Sidecar, agent: Agent) -> None:
    task = {"id": "t-1", "contextId": "c-t-1", "status": {"state": "TASK_STATE_WORKING"}}
    said = {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}
    agent.script = says(json.dumps(said).encode())
    assert (await running.submit()).json["result"]["task"]["id"] == "t-1"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


SUBSCRIBING = [row for row in STREAMING if row.operation not in SENDS and row.dialect.version is V1_0]


async def subscribed(
    stack: AsyncExitStack, running: Sidecar, row: Row, number: int, **more: Any
) -> list[Line]:
    """So many subscribers of `t-1`, each with its first event."""
    sent = on_the_wire(row.on_a_task("t-1"), running.token("alice"))
    lines = []
    for _ in range(number):
        line = await stack.enter_async_context(a_line(running.app.traffic[1], sent, **more))
        lines.append(line)
    for line in lines:
        await line.until(b"t-1")
    return lines


@pytest.mark.parametrize("row", each(SUBSCRIBING))
async def test_fc_112_two_hundred_subscribers_who_leave_free_the_agent(
    start: Start, agent: Agent, row: Row
) -> None:
    """Half with a reset, half with a close. The agent speaks 1.0 only, so nothing needs to be drained (design §2.11)."""
    agent.card = ONLY_1_0
    running = await start()
    await own_task(running, agent)
    agent.script = streams = Open(sse(a_whole_task(row, "t-1")), sse(a_status(row, "t-1")))
    baseline = descriptors()
    async with AsyncExitStack() as stack:
        lines = await subscribed(stack, running, row, CLIENTS)
        assert streams.count == CLIENTS
        for number, line in enumerate(lines):
            line.reset() if number % 2 else line.writer.close()
        await eventually(lambda: streams.count == 0)
    await eventually(lambda: descriptors() <= baseline + 2)  # a connection kept alive on either side
    asked = [r for r in agent.received if b"ancel" in r.body or "cancel" in r.target]
    assert asked == [], "a leaving subscriber cancelled something"
    async with AsyncExitStack() as stack:
        (line,) = await subscribed(stack, running, row, 1)
        streams.stop.set()
        assert unchunked(
            b"\r\n".join((await line.rest()).split(b"\r\n")[1:])
        )  # it goes on, and ends by itself


@pytest.mark.parametrize("row", each(SUBSCRIBING))
async def test_fc_112_nor_does_one_who_stays_and_does_not_read_hold_it(
    start: Start, agent: Agent, row: Row
) -> None:
    """Silent callers are gone once a write to them takes longer than its limit."""
    agent.card = ONLY_1_0
    running = await start(limits={"body_timeout": 0.3})
    await own_task(running, agent)
    again = sse(a_status(row, "t-1", metadata={"text": "x" * 60_000}))
    agent.script = streams = Open(sse(a_whole_task(row, "t-1")), again, flood=True)
    baseline = descriptors()
    async with AsyncExitStack() as stack:
        await subscribed(stack, running, row, 20, receive_buffer=4096)
        await eventually(lambda: streams.count == 0, 25)
    await eventually(lambda: descriptors() <= baseline + 2)
    assert all("ancel" not in r.target and b"ancel" not in r.body for r in agent.received)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fc_112_the_task_of_a_real_agent_goes_on(real: Real, guarded: Guarded, dialect: str) -> None:
    running = await guarded(real)
    alice = Voice(running, "alice", dialect)
    before = len(real.recorder.calls())
    task = task_of(await alice.first("stream", text="long 1"))  # and leaves
    await asyncio.gather(*(alice.first("subscribe", task=task) for _ in range(10)))  # and so do they
    assert await alice.state(task) == "working"
    async with alice.opening("subscribe", task=task) as stream:
        while b"COMPLETED" not in (event := await an_event(stream)).upper():
            assert event, "the stream ended before the task"
    assert await alice.state(task) == "completed"
    calls = real.recorder.calls()[before:]
    assert not [c for c in calls if "cancel" in c.path or b"ancel" in c.body]


# --- FC-114 --------------------------------------------------------------------------------------


def closes(transport: asyncio.Transport) -> None:
    transport.close()


def resets(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def breaks_the_framing(transport: asyncio.Transport) -> None:
    transport.write(b"zz\r\nno size\r\n")
    transport.close()


def ends_the_body(transport: asyncio.Transport) -> None:
    transport.write(b"0\r\n\r\n")
    transport.close()


Death = Callable[[asyncio.Transport], None]
DEATHS: Mapping[str, tuple[str, Death]] = {
    "it closes after half an event": ("half", closes),
    "it closes after a whole event": ("whole", closes),
    "it resets after half an event": ("half", resets),
    "it resets after a whole event": ("whole", resets),
    "it sends a chunk size that is none": ("whole", breaks_the_framing),
    "it ends the body within an event": ("half", ends_the_body),
}


def dying(event: bytes, cut: bytes, seen: asyncio.Event, death: Death) -> Script:
    """One event, and once the caller has it, what is left and the end."""

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(event)
        await seen.wait()
        if cut:
            await response.write(cut)
        assert request.transport is not None
        death(request.transport)
        return response

    return script


async def counted(running: Sidecar, outcome: str) -> float:
    async with running.session.get(running.admin_url + "/metrics") as reply:
        text = await reply.text()
    lines = [line for line in text.splitlines() if f'outcome="{outcome}"' in line and "_total" in line]
    return sum(float(line.split()[-1]) for line in lines)


@in_session
@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("row", each(STREAMING))
async def test_fc_114_an_end_that_was_none_is_seen_as_none(at: At, row: Row, how: str) -> None:
    cell = await at(row)
    task, request = await a_stream_of(cell)
    event, more = sse(a_whole_task(row, task)), sse(a_status(row, task))
    where, death = DEATHS[how]
    seen = asyncio.Event()
    cell.agent.script = dying(event, more[: len(more) // 2] if where == "half" else more, seen, death)
    broken = await counted(cell.running, "stream_broken")
    sent = on_the_wire(request, cell.running.token("alice"))
    async with a_line(cell.running.app.traffic[1], sent) as line:
        assert (await line.head()).status == 200
        await line.until(event + b"\r\n")
        seen.set()
        got = await line.rest()
    assert not got.endswith(END), "the cut stream was ended neatly"
    assert unchunked(got) == (more if where == "whole" else b"")
    assert await counted(cell.running, "stream_broken") == broken + 1
    assert await gets(cell, "alice", task)
    assert not await gets(cell, "mallory", task)


@in_session
@pytest.mark.parametrize("death", [closes, resets, breaks_the_framing])
@pytest.mark.parametrize("row", each(row for row in STREAMING if row.operation in SENDS))
async def test_fc_114_what_it_made_before_it_died_has_its_owner(at: At, row: Row, death: Death) -> None:
    """The event and the end arrive in one: the id is still read, recorded, and shown."""
    cell = await at(row)
    task, request = await a_stream_of(cell)
    event, at_once = sse(a_whole_task(row, task)), asyncio.Event()
    at_once.set()
    cell.agent.script = dying(event, b"", at_once, death)
    sent = on_the_wire(request, cell.running.token("alice"))
    async with a_line(cell.running.app.traffic[1], sent) as line:
        got = await line.rest()
    assert not got.endswith(END), "the cut stream was ended neatly"
    assert (
        event in got or death is not closes
    )  # a reset or broken framing may take with it what was not read yet
    recorded_before = row.dialect.version is V0_1  # the caller picked the id
    assert await gets(cell, "alice", task) is (recorded_before or event in got)
    assert not await gets(cell, "mallory", task)


@in_session
@pytest.mark.parametrize("row", each(row for row in STREAMING if row.dialect.version is V1_0))
async def test_fc_114_by_http_1_0_too(at: At, row: Row) -> None:
    """There only a reset can tell: the end of the connection is the end of the body."""
    cell = await at(row)
    task, request = await a_stream_of(cell)
    event, seen = sse(a_whole_task(row, task)), asyncio.Event()
    cell.agent.script = dying(event, b"data: {", seen, closes)
    sent = on_the_wire(request, cell.running.token("alice"), version="1.0")
    async with a_line(cell.running.app.traffic[1], sent) as line:
        await line.until(event)
        seen.set()
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionResetError):
                await line.reader.read()
