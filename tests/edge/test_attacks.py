"""Ways in that somebody found once. Each must stay shut."""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
from typing import Any

import pytest
from aiohttp import web

from sidecar.model import Reason, Refused
from sidecar.proxy.body import read_body
from tests.edge.agent import CARD, Agent, Script, a_task, answers, error, event_stream, result
from tests.edge.conftest import Sidecar, Start, a_message, eventually
from tests.unit.proxy.test_body import LIMITS, Sent

GET = '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t-alice"}}'
ENCODINGS = ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]


async def owned(
    running: Sidecar, agent: Agent, task: str = "t-alice", who: str = "alice", context: str = "c-1"
) -> None:
    agent.script = answers({"task": a_task(task, context)})
    await running.submit(who)
    agent.received.clear()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("blanks", [0, 1, 2, 255, 256, 600, 20_000])
@pytest.mark.parametrize("first", [1, 2, 4, 8, 1024, None])
async def test_blanks_do_not_hide_wide_encodings(encoding: str, blanks: int, first: int | None) -> None:
    """Python agents read UTF-16 and UTF-32 whatever the header says; `first` bytes come in a segment of their own."""
    wire = (" " * blanks + GET).encode(encoding)
    await stays(wire, first)


@pytest.mark.parametrize("encoding", [*ENCODINGS, "utf-8"])
@pytest.mark.parametrize("first", [1, 2, 4, 8, None])
@pytest.mark.parametrize("before", ["\ufeff", " \ufeff", "\ufeff  "])
async def test_nor_do_byte_order_marks(encoding: str, first: int | None, before: str) -> None:
    await stays((before + GET).encode(encoding), first)


async def stays(wire: bytes, first: int | None) -> None:
    body = await read_body(Sent(wire[:first], wire[first or len(wire) :]), LIMITS)
    assert body.whole == wire, "it would stream past without being judged"


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("before", [" " * 600, "\ufeff"])
async def test_a_wide_body_never_reaches_the_agent(
    running: Sidecar, agent: Agent, encoding: str, before: str
) -> None:
    await owned(running, agent)
    reply = await running.send("POST", "/", who="bob", data=(before + GET).encode(encoding))
    assert reply.json["error"]["code"] == -32700
    assert agent.received == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" + b"{}," * 60_000 + b"{}]", id="objects"),
        pytest.param(b"[" + b"[]," * 60_000 + b"[]]", id="lists"),
        pytest.param(b"{" + b",".join(b'"%d":1' % n for n in range(120_000)) + b"}", id="members"),
        pytest.param(b"[" + b"1," * 250_000 + b"1]", id="numbers"),
    ],
)
async def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(body: bytes) -> None:
    limits = LIMITS.model_copy(update={"values": 50_000, "body": 2**24})
    for sent in (Sent(body), Sent(gzip.compress(body), Content_Encoding="gzip")):
        with pytest.raises(Refused) as raised:
            await read_body(sent, limits)
        assert raised.value.refusal.reason is Reason.BODY_TOO_LARGE


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("a line of text; with a colon: and, a comma\n", id="prose"),
        pytest.param("1,2,3,4,5,6,7,8\n", id="a table"),
        pytest.param("if (x) { y[0] = {}; }\n", id="code"),
        pytest.param('"a";"b"\n', id="quoted text"),
    ],
)
async def test_a_long_text_is_no_trouble(line: str) -> None:
    limits = LIMITS.model_copy(update={"values": 50_000, "body": 2**24})
    text = json.dumps({"text": line * 80_000}).encode()
    assert (await read_body(Sent(text), limits)).whole == text


async def test_a_body_may_not_inflate_without_measure() -> None:
    limits = LIMITS.model_copy(update={"body": 2**24})
    with pytest.raises(Refused) as raised:
        await read_body(Sent(gzip.compress(b"[" + b" " * 2**23 + b"]"), Content_Encoding="gzip"), limits)
    assert raised.value.refusal.reason is Reason.BODY_TOO_LARGE


async def test_a_burst_of_sends_that_lose_their_caller_does_not_lock_out_others(
    start: Start, agent: Agent
) -> None:
    running = await start(limits={"settling": 8})
    never = asyncio.Event()

    async def hangs(request: web.Request, body: bytes) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    agent.script = hangs
    burst = [asyncio.ensure_future(running.submit("bob")) for _ in range(12)]
    await eventually(lambda: len(agent.received) == 12)
    for call in burst:
        call.cancel()
    await asyncio.gather(*burst, return_exceptions=True)
    agent.script = answers({"task": a_task("t-1")})
    async with asyncio.timeout(10):
        while (refused := await running.submit("bob")).status != 429:
            pass
    assert refused.header("Retry-After")
    assert "result" in (await running.submit("alice", messageId="m-2")).json
    never.set()


def replying(status: int, value: Any, content_type: str = "application/json") -> Script:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        return web.Response(status=status, body=text, headers={"Content-Type": content_type})

    return script


@pytest.mark.parametrize("status", [302, 400, 404, 409, 500, 599])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_task_under_a_status_of_failure_is_not_released(
    running: Sidecar, agent: Agent, status: int, kind: str
) -> None:
    await owned(running, agent)
    await owned(running, agent, "t-bob", "bob", "c-bob")
    leak = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": a_task("t-alice", artifacts=[{"parts": [{"text": "secret"}]}]),
    }
    said: Any = b"data: " + json.dumps(leak).encode() + b"\n\n" if kind == "text/event-stream" else leak
    agent.script = replying(status, said, kind)
    for method, params in (
        ("GetTask", {"id": "t-bob"}),
        ("CancelTask", {"id": "t-bob"}),
        ("SubscribeToTask", {"id": "t-bob"}),
        ("SendMessage", {"message": a_message()}),
    ):
        reply = await running.call(method, params, who="bob")
        assert b"t-alice" not in reply.body, method
        assert b"secret" not in reply.body, method


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b'{"jsonrpc":"2.0","id":1,"result":{"id":"t-alice","contextId":"c-1"}}', id="bare JSON"),
        pytest.param(b'DATA: {"result":{"id":"t-alice"}}\n\n', id="a field in upper case"),
        pytest.param(b'data : {"result":{"id":"t-alice"}}\n\n', id="a blank before the colon"),
        pytest.param(b': hi\n\n\xef\xbb\xbfdata: {"result":{"id":"t-alice"}}\n\n', id="a BOM in the middle"),
        pytest.param(b'{"id":"t-alice"}\n\n', id="a line that is no field"),
    ],
)
@pytest.mark.parametrize("method", ["GetTask", "SubscribeToTask", "SendMessage"])
async def test_an_event_stream_carries_nothing_but_events(
    running: Sidecar, agent: Agent, wire: bytes, method: str
) -> None:
    await owned(running, agent)
    await owned(running, agent, "t-bob", "bob", "c-bob")
    agent.script = replying(200, wire, "text/event-stream")
    params = {"message": a_message()} if method == "SendMessage" else {"id": "t-bob"}
    assert b"t-alice" not in (await running.call(method, params, who="bob")).body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xef\xbb\xbf%b", id="a BOM before it"),
        pytest.param(b"[%b]", id="in a list"),
        pytest.param(b"for(;;);%b", id="behind a guard"),
        pytest.param(b"data: %b\n\n", id="written like an event"),
        pytest.param(
            b'{"error":{"code":1,"message":"x"},"task":{"id":"t-alice","status":{"state":"working"}}}',
            id="beside an error",
        ),
    ],
)
@pytest.mark.parametrize("status", [200, 404, 500])
async def test_nor_is_one_that_hides_from_a_strict_reader(
    running: Sidecar, agent: Agent, status: int, body: bytes
) -> None:
    await owned(running, agent)
    await owned(running, agent, "t-bob", "bob", "c-bob")
    leak = json.dumps({"jsonrpc": "2.0", "id": 1, "result": a_task("t-alice")}).encode()
    agent.script = replying(status, body % leak if b"%b" in body else body)
    for method, params in (("GetTask", {"id": "t-bob"}), ("SendMessage", {"message": a_message()})):
        assert b"t-alice" not in (await running.call(method, params, who="bob")).body


async def test_an_error_as_an_event_stream_is_still_the_agents_answer(running: Sidecar, agent: Agent) -> None:
    await owned(running, agent)
    said = b'data: {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}\n\n'
    for status, body in ((400, said), (401, b"")):
        agent.script = replying(status, body, "text/event-stream")
        reply = await running.call("SendStreamingMessage", {"message": a_message()})
        assert (reply.status, reply.body) == (status, body)


async def test_unknown_fields_of_a_stream_are_ignored_as_the_standard_says(
    running: Sidecar, agent: Agent
) -> None:
    event = (
        b"x-trace: 1\ndata: "
        + json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": a_task("t-1")}}).encode()
    )
    agent.script = replying(200, event + b"\n\n", "text/event-stream")
    assert (await running.call("SendStreamingMessage", {"message": a_message()})).body == event + b"\n\n"


@pytest.mark.parametrize("end", ["\u2028", "\x0b", "\x0c", "\x85", "\x1c"])
async def test_what_only_some_take_for_a_line_end_hides_nothing(
    running: Sidecar, agent: Agent, end: str
) -> None:
    await owned(running, agent)
    await owned(running, agent, "t-bob", "bob", "c-bob")
    agent.script = replying(200, f': hi{end}data: {{"id":"t-alice"}}\n\n'.encode(), "text/event-stream")
    assert b"t-alice" not in (await running.call("SubscribeToTask", {"id": "t-bob"}, who="bob")).body


def held(first: asyncio.Event, asked: asyncio.Event, task: dict[str, Any]) -> Script:
    """The first send waits and then fails; every other one succeeds."""
    count = 0

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count == 1:
            asked.set()
            await first.wait()
            return error(body, -32603, "failed")
        return result(body, task if "tasks/" in json.loads(body)["method"] else {"task": task})

    return script


async def test_a_failed_call_does_not_take_a_picked_context_from_one_that_succeeded(
    running: Sidecar, agent: Agent
) -> None:
    first, asked = asyncio.Event(), asyncio.Event()
    agent.script = held(first, asked, a_task("t-2", "room"))
    failing = asyncio.ensure_future(running.submit("alice", contextId="room"))
    await asked.wait()
    assert "result" in (await running.submit("alice", contextId="room")).json
    first.set()
    assert "error" in (await failing).json
    assert (await running.submit("bob", contextId="room")).json["error"]["code"] == -32001


async def test_nor_a_picked_task_nor_does_a_reservation_open_the_scope_guard(
    start: Start, agent: Agent
) -> None:
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
    first, asked = asyncio.Event(), asyncio.Event()
    agent.script = held(first, asked, {"id": "picked", "status": {"state": "working"}})
    params = {"id": "picked", "message": {"role": "user", "parts": []}}
    failing = asyncio.ensure_future(running.call("tasks/send", params))
    await asked.wait()
    assert (await running.call("tasks/send", params, scope="w")).json["error"]["code"] == -31403
    assert "result" in (await running.call("tasks/send", params)).json
    first.set()
    assert "error" in (await failing).json
    for method in ("tasks/send", "tasks/get"):
        assert (await running.call(method, params, who="bob")).json["error"]["code"] == -32001


async def test_a_path_escaped_over_and_over_costs_nothing(running: Sidecar) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
    writer.write(b"GET /%" + b"25" * 7000 + b"x HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(10):
        assert b" 400 " in await reader.readline()
    writer.close()


async def test_a_stalled_upload_gives_the_agents_connection_back(start: Start, agent: Agent) -> None:
    running = await start(limits={"connections": 2, "body_timeout": 0.3, "connect_timeout": 5.0})
    head = f"POST /up HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token('bob')}\r\nContent-Length: 9999\r\n\r\nbinary"
    stalled = []
    for _ in range(4):
        stalled.append(await asyncio.open_connection("127.0.0.1", running.app.traffic[1]))
        stalled[-1][1].write(head.encode())
    agent.script = answers({"task": a_task("t-1")})
    assert "result" in (await running.submit("alice")).json
    for _, writer in stalled:
        writer.close()


async def test_no_free_connection_is_a_clear_answer(start: Start, agent: Agent) -> None:
    running = await start(limits={"connections": 1, "connect_timeout": 0.1})
    asked, never = asyncio.Event(), asyncio.Event()

    async def hangs(request: web.Request, body: bytes) -> web.StreamResponse:
        asked.set()
        await never.wait()
        return web.Response()

    agent.script = hangs
    first = asyncio.ensure_future(running.send("GET", "/slow"))
    await asked.wait()
    second = await running.submit("alice")
    assert second.status == 503
    assert second.header("Retry-After")
    assert len(agent.received) == 1
    never.set()
    await first


async def test_a_redirect_does_not_lead_around_us(running: Sidecar, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": f"{agent.url}/foo/"})

    agent.script = script
    reply = await running.send("GET", "/foo", allow_redirects=False)
    assert reply.header("Location") == "https://agents.test/review/foo/"


@pytest.mark.parametrize("line", [b"GET / HTTP/2.0", b"GET / HTTP/1.2", b"GET / HTTP/0.9"])
async def test_other_versions_of_http_are_not_spoken(running: Sidecar, agent: Agent, line: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
    writer.write(line + b"\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(10):
        assert b" 400 " in (await reader.read()).partition(b"\r\n")[0]
    writer.close()
    assert agent.received == []


async def test_a_switch_of_protocols_nobody_asked_for_is_a_failure_of_the_agent(start: Start) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"agent-card" in head:
            card = json.dumps(CARD).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(card) + card
            )
        else:
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        running = await start(
            agents=[{"name": "r", "upstream": f"http://127.0.0.1:{port}", "public_url": "https://a.test"}]
        )
        assert (await running.send("GET", "/x")).status == 500


async def test_a_compressed_extended_card_is_rewritten_all_the_same(start: Start, agent: Agent) -> None:
    card = copy.deepcopy(CARD)
    card["capabilities"]["extendedAgentCard"] = True

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        packed = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": card}).encode())
        return web.Response(
            body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}
        )

    agent.card, agent.script = card, script
    running = await start()
    reply = await running.call("GetExtendedAgentCard", {})
    assert reply.header("Content-Encoding") is None
    assert b"internal" not in reply.body
    assert reply.json["result"]["name"] == "scripted"


async def test_hanging_up_as_the_head_arrives_loses_no_owner(running: Sidecar, agent: Agent) -> None:
    """Whatever moment a caller leaves a stream, the task the agent made has its owner."""
    made: list[str] = []

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await event_stream(request)
        made.append(f"t-{len(made)}")
        said = {"jsonrpc": "2.0", "id": 1, "result": {"task": a_task(made[-1], f"c-{len(made)}")}}
        await response.write(b"data: " + json.dumps(said).encode() + b"\n\n")
        return response

    agent.script = script
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": a_message()}}
    headers = running.headers("alice") | {"A2A-Version": "1.0"}
    body = json.dumps(call).encode()
    head = "".join(
        f"{k}: {v}\r\n" for k, v in (headers | {"Host": "x", "Content-Length": str(len(body))}).items()
    )
    for n in range(60):
        _, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
        writer.write(b"POST / HTTP/1.1\r\n" + head.encode() + b"\r\n" + body)
        await eventually(lambda n=n: len(made) > n)
        for _ in range(n % 12):
            await asyncio.sleep(0)
        writer.transport.abort()
    await running.records(lambda rs: sum(r.get("outcome") == "recorded" for r in rs) == 60)
    agent.script = None
    for task in made:
        assert (await running.call("GetTask", {"id": task}, who="alice")).status == 500, (
            "not forwarded: no owner"
        )
