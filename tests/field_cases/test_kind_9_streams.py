"""Kind 9, streams that go well: FC-108 (at once), FC-109 (for long), FC-111 (unchanged), FC-119 (resumed)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from sidecar.model import SENDS
from tests.edge.agent import Agent, Script, event_stream
from tests.edge.conftest import Start, eventually
from tests.field_cases.conftest import G1_CARD
from tests.field_cases.doors import (
    END,
    EVENTS,
    STREAMING,
    V1_0,
    a_line,
    a_status,
    a_stream_of,
    a_whole_task,
    each,
    on_the_wire,
    require_owned_by_alice_alone,
    says_in_pieces,
    sse,
    unchunked,
)
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import At
from tests.matrix.requests import Names, Request, Row

in_session = pytest.mark.asyncio(loop_scope="session")


# --- FC-108 --------------------------------------------------------------------------------------

TOLD = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def one_by_one(events: list[bytes], ready: list[asyncio.Event]) -> Script:
    """Sends its head, and then each event once the test lets it."""

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENTS, **TOLD})
        await response.prepare(request)
        for event, may in zip(events, ready, strict=True):
            await may.wait()
            await response.write(event)
        return response

    return script


@in_session
@pytest.mark.parametrize(
    ("version", "headers"),
    [
        pytest.param("1.1", (), id="plainly"),
        pytest.param("1.1", ("Accept-Encoding: gzip, br",), id="offering compression"),
        pytest.param("1.0", (), id="by HTTP/1.0"),
    ],
)
@pytest.mark.parametrize("row", each(STREAMING))
async def test_fc_108_each_event_leaves_before_the_next_is_there(
    at: At, row: Row, version: str, headers: tuple[str, ...]
) -> None:
    cell = await at(row)
    task, request = await a_stream_of(cell)
    events = [sse(a_whole_task(row, task)), *(sse(a_status(row, task, metadata={"n": n})) for n in range(9))]
    ready = [asyncio.Event() for _ in events]
    cell.agent.script = one_by_one(events, ready)
    sent = on_the_wire(request, cell.running.token("alice"), *headers, version=version)
    async with a_line(cell.running.app.traffic[1], sent) as line:
        head = await line.head()  # while the agent holds even the first event
        assert (head.status, head.header("Content-Type")) == (200, EVENTS)
        assert head.header("Content-Encoding") is None
        assert {name: head.header(name) for name in TOLD} == TOLD
        assert (head.header("Transfer-Encoding") == "chunked") is (version == "1.1")
        for event, may in zip(events, ready, strict=True):
            may.set()
            assert (await line.until(event)).endswith(event)
        assert await line.rest() in (b"", b"\r\n0\r\n\r\n")


# --- FC-109 --------------------------------------------------------------------------------------

# A send and a subscription over each binding; the limits do not know dialects apart.
LONG = [row for row in STREAMING if row.dialect.version is V1_0]
SHORT = dict.fromkeys(
    ("header_timeout", "body_timeout", "idle_timeout", "connect_timeout", "settle_timeout"), 0.2
)
LONGER = 0.6  # seconds, than any of these


async def long_lived(
    start: Start, agent: Agent, row: Row, script: Script, **limits: float
) -> tuple[int, bytes]:
    """The status and what came of the stream of `t-1`, whether it ended neatly or not."""
    agent.card = G1_CARD
    running = await start(limits=SHORT | limits)
    if row.operation in SENDS:
        request = row.sending(Names())
    else:
        agent.script = says_in_pieces([json.dumps(send_answer()).encode()], "application/json")
        assert (await running.submit()).json["result"]["task"]["id"] == "t-1"
        request = row.on_a_task("t-1")
    agent.script = script
    async with a_line(running.app.traffic[1], on_the_wire(request, running.token("alice"))) as line:
        return (await line.head()).status, await line.rest()


def send_answer() -> Any:
    task = {"id": "t-1", "contextId": "c-t-1", "status": {"state": "TASK_STATE_WORKING"}}
    return {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}


def chunks(*pieces: bytes) -> bytes:
    """As the sidecar frames them: each piece that arrived alone is a chunk of its own."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def paced(first: bytes, again: bytes, seconds: float, pace: float) -> tuple[Script, list[bytes]]:
    """An agent that says something at its own pace for so long, and a list of what it said."""
    said: list[bytes] = []

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        until = asyncio.get_running_loop().time() + seconds
        for piece in (first, again):
            said.append(piece)
            await response.write(piece)
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(pace)
            said.append(again)
            await response.write(again)
        return response

    return script, said


@pytest.mark.parametrize("row", each(LONG))
@pytest.mark.parametrize(
    ("again", "pace", "idle"),
    [
        pytest.param("event", 0.05, 0.4, id="with events"),
        pytest.param("comment", 0.05, 0.4, id="with pings only"),
        pytest.param("comment", LONGER, 3600.0, id="silent, within the idle limit"),
    ],
)
async def test_fc_109_no_limit_ends_a_stream_that_is_not_idle(
    start: Start, agent: Agent, row: Row, again: str, pace: float, idle: float
) -> None:
    more = sse(a_status(row, "t-1")) if again == "event" else b": ping\n\n"
    script, said = paced(sse(a_whole_task(row, "t-1")), more, LONGER, pace)
    status, got = await long_lived(start, agent, row, script, stream_idle_timeout=idle)
    assert status == 200
    assert got.endswith(b"\r\n" + END), "cut"
    assert unchunked(got) == b"".join(said), "pings of ours, or something lost"


@pytest.mark.parametrize("row", each(LONG))
async def test_fc_109_one_that_is_idle_too_long_is_seen_as_cut(start: Start, agent: Agent, row: Row) -> None:
    never, first = asyncio.Event(), sse(a_whole_task(row, "t-1"))

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(first)
        await never.wait()
        return response

    _, got = await long_lived(start, agent, row, script, stream_idle_timeout=0.3)
    assert got == chunks(first)  # no final chunk
    await eventually(lambda: agent.ended)


# --- FC-111 --------------------------------------------------------------------------------------


def failure(row: Row) -> Any:
    if row.jsonrpc:
        return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "broke"}}
    if row.dialect.version is V1_0:
        return {"error": {"code": 500, "status": "INTERNAL", "message": "broke"}}
    return {"code": -32603, "message": "broke"}


def ended_by(end: bytes) -> Callable[[Row, str], list[bytes]]:
    return lambda row, t: [sse(a_whole_task(row, t), end) + b": hi" + end + end + sse(a_status(row, t), end)]


def spread(row: Row, task: str, end: bytes) -> bytes:
    """One event over many data lines, with and without the blank after the colon."""
    lines = json.dumps(a_whole_task(row, task), indent=1).encode().split(b"\n")
    return b"".join(b"data:" + b" " * (n % 2) + line + end for n, line in enumerate(lines)) + end


def split_character(row: Row, task: str) -> list[bytes]:
    told = a_status(row, task, metadata={"text": "grüß €"})
    event = b"data: " + json.dumps(told, ensure_ascii=False).encode() + b"\n\n"
    at = event.index("€".encode()) + 1
    return [sse(a_whole_task(row, task)), event[:at], event[at : at + 1], event[at + 1 :]]


FORMATS: Mapping[str, Callable[[Row, str], list[bytes]]] = {
    "LF": ended_by(b"\n"),
    "CR LF": ended_by(b"\r\n"),
    "CR": ended_by(b"\r"),
    "line ends that vary": lambda row, t: [
        b"id: 1\r" + sse(a_whole_task(row, t), b"\r\n") + b": x\r\n\n" + sse(a_status(row, t), b"\r")
    ],
    "several data lines": lambda row, t: [spread(row, t, b"\n"), spread(row, t, b"\r\n")],
    "no blank after the colon": lambda row, t: [sse(a_whole_task(row, t)).replace(b"data: ", b"data:")],
    "id and retry": lambda row, t: [
        b"id: 1\nretry: 10\n" + sse(a_whole_task(row, t)),
        b"id\nretry: x\n\n",
        sse(a_status(row, t))[:-1] + b"id: 2\n\n",
    ],
    "an event called error": lambda row, t: [
        sse(a_whole_task(row, t)),
        b"event: error\n" + sse(failure(row)),
    ],
    "comments before, within and after": lambda row, t: [
        b": one\n\n",
        b":two\n" + sse(a_whole_task(row, t))[:-1] + b":three\n\n",
        b":\n\n:" + b"x" * 5000 + b"\n\n",
    ],
    "a BOM at the start": lambda row, t: [b"\xef\xbb\xbf" + sse(a_whole_task(row, t)), sse(a_status(row, t))],
    "a character over two segments": split_character,
    "no line end at the end": lambda row, t: [sse(a_whole_task(row, t)), sse(a_status(row, t))[:-1]],
}


@in_session
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("row", each(STREAMING))
async def test_fc_111_the_bytes_of_a_stream_do_not_change(at: At, row: Row, kind: str) -> None:
    cell = await at(row)
    task, request = await a_stream_of(cell)
    pieces = FORMATS[kind](row, task)
    cell.agent.script = says_in_pieces(pieces)
    answer = await cell.ask(request)
    assert answer.body == b"".join(pieces)
    await require_owned_by_alice_alone(cell, task)


@in_session
@pytest.mark.parametrize(
    "row", each(r for r in STREAMING if r.dialect.version is V1_0 and r.operation in SENDS)
)
async def test_fc_111_wherever_the_segments_are_cut(at: At, row: Row) -> None:
    cell = await at(row)
    bearer = {"Authorization": f"Bearer {cell.running.token('alice')}"}
    request = row.sending(Names())
    request = Request(request.method, request.target, request.body, request.headers | bearer)
    made = a_random_id()
    sample = b"id: 1\r\n" + sse(a_whole_task(row, made), b"\r\n") + spread(row, made, b"\r") + b": bye\n\n"
    for cut in range(1, len(sample)):
        made_now = a_random_id()
        whole = sample.replace(made.encode(), made_now.encode())
        cell.agent.script = says_in_pieces([whole[:cut], whole[cut:]])
        assert (await cell.ask(request, None)).body == whole, cut
    await require_owned_by_alice_alone(cell, made_now)


# --- FC-119 --------------------------------------------------------------------------------------


@in_session
@pytest.mark.parametrize(
    "supported", [pytest.param(True, id="the agent goes on"), pytest.param(False, id="the agent starts anew")]
)
@pytest.mark.parametrize("row", each(STREAMING))
async def test_fc_119_where_to_go_on_is_the_agents_business(at: At, row: Row, supported: bool) -> None:
    cell = await at(row)
    task, request = await a_stream_of(cell)
    events = [b"id: %d\n" % n + sse(a_whole_task(row, task)) for n in range(6 if supported else 1, 9)]
    cell.agent.script = says_in_pieces(events)
    untouched = len(cell.agent.received)
    headers = request.headers | {"Last-Event-ID": "5"}
    answer = await cell.ask(Request(request.method, request.target, request.body, headers))
    assert answer.body == b"".join(events)
    assert len(cell.agent.received) == untouched + 1
    assert cell.agent.received[-1].values("Last-Event-ID") == ["5"]


@in_session
@pytest.mark.parametrize("row", each(STREAMING))
async def test_fc_119_a_stream_that_drops_is_not_taken_up_again(at: At, row: Row) -> None:
    """A GET least of all, which an HTTP client may repeat by itself."""
    cell = await at(row)
    task, request = await a_stream_of(cell)
    events = [b"id: %d\n" % n + sse(a_whole_task(row, task)) for n in range(1, 4)]

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        for event in events:
            await response.write(event)
        assert request.transport is not None
        request.transport.close()
        return response

    cell.agent.script = script
    before = len(cell.agent.received)
    sent = on_the_wire(request, cell.running.token("alice"), "Last-Event-ID: 0")
    async with a_line(cell.running.app.traffic[1], sent) as line:
        assert (await line.head()).status == 200
        got = await line.rest()
    assert unchunked(got) == b"".join(events)
    assert not got.endswith(END)
    assert len(cell.agent.received) == before + 1
