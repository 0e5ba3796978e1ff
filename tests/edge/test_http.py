"""HTTP as it is spoken at the edge: framing, limits, deadlines, pass-through."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from io import BytesIO
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.edge.agent import Agent, a_task, answers, result
from tests.edge.conftest import Sidecar, Start, a_message, eventually

GET = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t-1"}}


async def raw(running: Sidecar, sent: bytes, *, until_closed: bool = True) -> bytes:
    """What comes back for bytes written to the traffic port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
    writer.write(sent)
    await writer.drain()
    async with asyncio.timeout(10):
        got = await reader.read() if until_closed else await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return got


def request(running: Sidecar, line: str, *headers: str, body: bytes = b"", who: str = "alice") -> bytes:
    lines = [line, "Host: x", f"Authorization: Bearer {running.token(who)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_expect_100_continue_is_answered(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": a_message()}}
    ).encode()
    head = request(
        running, "POST / HTTP/1.1", "Expect: 100-continue", f"Content-Length: {len(body)}", "A2A-Version: 1.0"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
    writer.write(head)
    async with asyncio.timeout(10):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
    writer.close()


async def test_a_head_that_never_ends_is_cut_off(start: Start) -> None:
    running = await start(limits={"header_timeout": 0.2})
    assert b"408" in await raw(running, b"GET / HTTP/1.1\r\nHost: x\r\n")


async def test_a_head_in_many_fields_is_bounded_as_a_whole(running: Sidecar) -> None:
    """Each field may be large; a head that goes on and on without its end must not be kept."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.app.traffic[1])
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
    sent = 0
    async with asyncio.timeout(10):
        got = asyncio.create_task(reader.read())
        while not got.done() and sent < 4 * 2**20:
            writer.write(b"X-%d: %s\r\n" % (sent, b"x" * 8000))
            sent += 8000
            await asyncio.wait({got}, timeout=0.001)
        with contextlib.suppress(ConnectionResetError):  # then what had been sent on took the page with it
            assert (await got).startswith(b"HTTP/1.1 431 ")
    writer.close()
    assert sent < 2**20


@pytest.mark.parametrize("method", ["TRACE", "TRACK"])
@pytest.mark.parametrize("target", ["/", "/x", "/tasks/t-1"])
async def test_nothing_is_echoed(running: Sidecar, agent: Agent, method: str, target: str) -> None:
    """What comes to the agent is not the caller's alone."""
    answer = await running.send(method, target)
    assert answer.status in (405, 400)  # not every parser knows TRACK
    assert agent.received == []


async def test_a_body_that_never_ends_is_cut_off(start: Start, agent: Agent) -> None:
    running = await start(limits={"body_timeout": 0.2})
    got = await raw(running, request(running, "POST / HTTP/1.1", "Content-Length: 100", body=b'{"a":'))
    assert got.startswith(b"HTTP/1.1 408")
    assert agent.received == []


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="CL and TE",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
            id="two lengths",
        ),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nabcde", id="a signed length"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", id="xchunked"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\nSecret-Canary : x\r\n\r\n", id="a space before the colon"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nSecret-Canary: a\x00b\r\n\r\n", id="NUL"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2 by prior knowledge"),
        pytest.param(b"Secret-Canary\r\n\r\n", id="no request at all"),
    ],
)
async def test_bad_framing_is_refused_without_quoting_it(
    running: Sidecar, agent: Agent, sent: bytes, capfd: Any
) -> None:
    got = await raw(running, sent)
    assert got.startswith(b"HTTP/1.")
    assert got.split()[1] == b"400"
    assert b"Canary" not in got
    assert agent.received == []
    assert "Canary" not in "".join(capfd.readouterr())


async def test_a_huge_header_is_refused(running: Sidecar, agent: Agent) -> None:
    got = await raw(running, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n")
    assert got.split()[1] in (b"400", b"431")


async def test_every_reply_of_ours_has_one_server_name(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    replies = [
        await running.submit(),
        await running.call("GetTask", {"id": "t-9"}),
        await running.send("GET", "/x"),
    ]
    assert {r.header("Server") for r in replies} == {"a2a-sidecar"}


@pytest.mark.parametrize("size", [0, 1])
async def test_bodies_up_to_the_limit_pass_and_no_further(start: Start, agent: Agent, size: int) -> None:
    running = await start(limits={"body": 2 * 2**20})
    agent.script = answers({"task": a_task("t-1")})
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": a_message()}}
    ).encode()
    body += b" " * (2 * 2**20 - len(body) + size)
    reply = await running.send("POST", "/", data=BytesIO(body), headers={"A2A-Version": "1.0"})
    assert reply.status == (413 if size else 200)
    assert len(agent.received) == (0 if size else 1)


@pytest.mark.parametrize(
    ("coding", "encode", "status"),
    [
        pytest.param("gzip", gzip.compress, 200, id="gzip is inflated"),
        pytest.param("identity", bytes, 200, id="identity is nothing"),
        pytest.param("gzip, gzip", lambda b: gzip.compress(gzip.compress(b)), 415, id="two layers"),
        pytest.param("br", bytes, 415, id="brotli"),
        pytest.param("gzip", bytes, 415, id="a lie"),
        pytest.param("gzip", lambda b: gzip.compress(b)[:-9], 415, id="cut short"),
    ],
)
async def test_compressed_bodies(
    running: Sidecar, agent: Agent, coding: str, encode: Any, status: int
) -> None:
    agent.script = answers({"task": a_task("t-1")})
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": a_message()}}
    ).encode()
    reply = await running.send(
        "POST", "/", data=encode(body), headers={"Content-Encoding": coding, "A2A-Version": "1.0"}
    )
    assert reply.status == status
    assert [r.body for r in agent.received] == ([body] if status == 200 else [])
    assert all(r.values("Content-Encoding") in ([], ["identity"]) for r in agent.received)


async def test_a_bomb_does_not_go_off(start: Start, agent: Agent) -> None:
    running = await start(limits={"body": 2**20})
    bomb = gzip.compress(b"\0" * (50 * 2**20))
    assert (await running.send("POST", "/", data=bomb, headers={"Content-Encoding": "gzip"})).status == 413
    assert agent.received == []


@pytest.mark.parametrize(
    ("encoded", "content_type"),
    [
        pytest.param(json.dumps(GET).encode("utf-16"), "application/json", id="UTF-16 with BOM"),
        pytest.param(json.dumps(GET).encode("utf-16-le"), "application/json", id="UTF-16"),
        pytest.param(json.dumps(GET).encode("utf-32"), "text/plain", id="UTF-32"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps(GET).encode(), "application/json", id="UTF-8 with BOM"),
        pytest.param(
            json.dumps(GET).replace("{", "+AHs-").encode(), "application/json; charset=utf-7", id="UTF-7"
        ),
        pytest.param(
            b" " * 5000 + json.dumps(GET).encode("utf-16-le"), "application/json", id="after a lot of blank"
        ),
    ],
)
async def test_what_is_not_plain_utf_8_never_reaches_the_agent(
    running: Sidecar, agent: Agent, encoded: bytes, content_type: str
) -> None:
    reply = await running.send("POST", "/", data=encoded, headers={"Content-Type": content_type})
    assert reply.status in (200, 400, 415)
    assert agent.received == []


async def test_other_requests_pass_both_ways_as_they_are(running: Sidecar, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(
            status=207, headers={"X-Theirs": "1", "Content-Type": "application/x-thing", "Set-Cookie": "a=b"}
        )
        await response.prepare(request)
        await response.write(body[::-1])
        return response

    agent.script = script
    blob = bytes(range(1, 256)) * 4000
    reply = await running.send(
        "PUT", "/files/a%20b?x=1&x=2", data=blob, headers={"X-Mine": "yes", "Accept-Encoding": "br"}
    )
    assert reply.status == 207
    assert reply.body == blob[::-1]
    assert (reply.header("X-Theirs"), reply.header("Set-Cookie")) == ("1", "a=b")
    got = agent.received[0]
    assert (got.method, got.target, got.body) == ("PUT", "/files/a%20b?x=1&x=2", blob)
    assert (got.values("X-Mine"), got.values("Accept-Encoding")) == (["yes"], ["br"])


async def test_a_large_upload_is_not_kept_in_memory_and_a_redirect_not_followed(
    running: Sidecar, agent: Agent
) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(
            status=302, headers={"Location": "http://169.254.169.254/", "X-Size": str(len(body))}
        )

    agent.script = script

    async def upload() -> Any:
        for _ in range(40):
            yield b"x" * 2**20

    reply = await running.send("POST", "/upload", data=upload(), allow_redirects=False)
    assert reply.status == 302
    assert reply.header("X-Size") == str(40 * 2**20)
    assert len(agent.received) == 1


@pytest.mark.parametrize(
    "body", [b"POST / HTTP/1.1\r\n\r\n", b"\xff\xfePOST / HTTP/1.1\r\n\r\n"], ids=["streamed", "read whole"]
)
async def test_a_body_nobody_has_read_cannot_become_the_agents_next_request(
    running: Sidecar, agent: Agent, body: bytes
) -> None:
    """It would not be judged. An agent that answers without reading a body may leave it on the connection."""
    agent.script = answers({"task": a_task("t-1")})
    await running.send("POST", "/upload", data=body, headers={"Content-Type": "text/plain"})
    await running.send("GET", "/other")
    assert agent.received[0].body == body
    assert [got.values("Connection") for got in agent.received] == [["close"], []]


async def test_headers_of_one_hop_and_claims_of_identity_stay_here(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    forged = {
        "X-Forwarded-User": "root",
        "X_Forwarded_User": "root",
        "X-A2A-Principal": "root",
        "x_a2a_sidecar_subject": "root",
        "Forwarded": "by=root",
        "X-HTTP-Method-Override": "DELETE",
        "X-Original-URL": "/admin",
        "Proxy-Authorization": "Basic x",
        "TE": "trailers",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "A2A_Version": "0.3",
    }
    await running.send("GET", "/other", headers=forged | {"traceparent": "00-1", "X-A2A-Extensions": "urn:x"})
    names = {name.lower() for name, _ in agent.received[0].headers}
    assert not names & {name.lower() for name in forged}
    assert {"traceparent", "x-a2a-extensions", "authorization"} <= names


async def test_connection_may_not_take_away_what_was_judged_by(running: Sidecar, agent: Agent) -> None:
    reply = await running.send("GET", "/other", headers={"Connection": "Authorization"})
    assert reply.status == 400
    assert agent.received == []


async def test_two_credentials_are_none(running: Sidecar, agent: Agent) -> None:
    sent = request(
        running, "GET /other HTTP/1.1", f"Authorization: Bearer {running.token('bob')}", "Connection: close"
    )
    assert (await raw(running, sent)).startswith(b"HTTP/1.1 401")
    assert agent.received == []


async def test_an_upgrade_is_refused_and_nothing_after_it_is_read(running: Sidecar, agent: Agent) -> None:
    hidden = request(running, "GET /second HTTP/1.1")
    got = await raw(
        running, request(running, "GET /ws HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket") + hidden
    )
    assert got.startswith(b"HTTP/1.1 400")
    assert got.count(b"HTTP/1.1") == 1
    assert agent.received == []


async def test_head_on_an_a2a_route_is_no_oracle(running: Sidecar, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")})
    await running.submit()
    own, absent = [await running.send("HEAD", f"/rest/tasks/{id_}") for id_ in ("t-1", "t-2")]
    assert own.status == 405
    assert own.shown == absent.shown
    assert len(agent.received) == 1


async def test_head_passes_elsewhere_with_the_length_the_agent_declared(
    running: Sidecar, agent: Agent
) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(body=b"12345", headers={"X-Theirs": "1"})

    agent.script = script
    reply = await running.send("HEAD", "/file")
    assert (reply.status, reply.body, reply.header("Content-Length")) == (200, b"", "5")


async def test_an_agent_that_is_down_is_503_and_comes_back_without_us_restarting(
    running: Sidecar, agent: Agent
) -> None:
    agent.script = answers({"task": a_task("t-1")}, a_task("t-1"))
    await running.submit()
    await agent.down()
    down = await running.call("GetTask", {"id": "t-1"})
    assert (down.status, down.json["error"]["code"]) == (503, -32603)
    assert down.header("Retry-After")
    await agent.up()
    assert (await running.call("GetTask", {"id": "t-1"})).status == 200


async def test_started_before_its_agent_the_sidecar_is_not_ready_and_then_is(
    start: Start, agent: Agent
) -> None:
    await agent.down()
    running = await start()

    async def ready() -> int:
        async with running.session.get(running.admin_url + "/readyz") as reply:
            return reply.status

    assert await ready() == 503
    refused = await running.submit()
    assert refused.status == 503
    assert refused.header("Retry-After")
    assert (await running.send("GET", "/.well-known/agent-card.json", who=None)).status == 503
    await agent.up()
    agent.script = answers({"task": a_task("t-1")})
    async with asyncio.timeout(10):
        while await ready() != 200:
            await asyncio.sleep(0.02)
    assert (await running.submit()).status == 200


async def test_a_failure_after_forwarding_never_invites_a_retry(running: Sidecar, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    agent.script = script
    failed = await running.submit()
    assert failed.status == 500
    assert failed.header("Retry-After") is None
    assert len(agent.received) == 1, "sent twice"
    for method in ("GET", "DELETE"):
        agent.received.clear()
        assert (await running.send(method, "/other")).status == 500
        assert len(agent.received) == 1, "sent twice"


async def test_nobody_in_particular_gets_a_challenge(running: Sidecar, agent: Agent) -> None:
    for target, version in (("/", "1.0"), ("/", "0.3")):
        body = GET if version == "1.0" else GET | {"method": "tasks/get"}
        reply = await running.send("POST", target, who=None, json=body)
        assert reply.status == 401
        assert reply.header("WWW-Authenticate") == "Bearer"
        assert reply.json["id"] == 1
    rest = await running.send("GET", "/rest/tasks/t-1", who=None)
    assert (rest.status, rest.json["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert agent.received == []


async def test_a_stranger_cannot_make_us_read_much(running: Sidecar, agent: Agent) -> None:
    reply = await running.send("POST", "/", who=None, data=b"{" + b" " * 200_000)
    assert reply.status in (401, 413)


async def test_the_card_names_the_public_address_only(running: Sidecar, agent: Agent) -> None:
    card = await running.send("GET", "/.well-known/agent-card.json", who=None, headers={"Host": "evil.test"})
    old = await running.send(
        "GET", "/.well-known/agent.json", who=None, headers={"X-Forwarded-Host": "evil.test"}
    )
    assert card.body == old.body
    urls = {i["url"] for i in card.json["supportedInterfaces"]}
    assert urls == {"https://agents.test/review/", "https://agents.test/review/rest"}
    assert b"internal" not in card.body
    assert b"evil" not in card.body
    again = await running.send(
        "GET", "/.well-known/agent-card.json", who=None, headers={"If-None-Match": card.header("ETag") or ""}
    )
    assert (again.status, again.body) == (304, b"")
    assert agent.card_requests == 1


async def test_several_agents_behind_one_sidecar(start: Start, agent: Agent) -> None:
    async with Agent() as second:
        running = await start(
            agents=[
                {
                    "name": "one",
                    "upstream": agent.url + "/base",
                    "public_url": "https://a.test/one",
                    "mount": "/one",
                },
                {"name": "two", "upstream": second.url, "public_url": "https://a.test/two", "mount": "/two"},
            ]
        )
        second.script = answers({"task": a_task("t-1")})
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": a_message()}}
        sent = await running.send("POST", "/two/", json=call, headers={"A2A-Version": "1.0"})
        assert sent.json["result"]["task"]["id"] == "t-1"
        assert second.received[0].target == "/"
        # The same id at another agent is another task.
        get = await running.send("POST", "/one/", json=GET, headers={"A2A-Version": "1.0"})
        assert get.json["error"]["code"] == -32001
        assert (await running.send("GET", "/three/x")).status == 404
        assert (await running.send("GET", "/onex")).status == 404
        assert agent.received == []


async def test_stopping_lets_a_running_call_finish(start: Start, agent: Agent) -> None:
    running = await start()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        asked.set()
        await go_on.wait()
        return result(body, {"task": a_task("t-1")})

    agent.script = script
    sending = asyncio.ensure_future(running.submit())
    await asked.wait()
    stopping = asyncio.ensure_future(running.app.stop())
    await eventually(lambda: running.app.stopping)
    go_on.set()
    assert (await sending).json["result"]["task"]["id"] == "t-1"
    await stopping


async def test_x_request_id_comes_back(running: Sidecar, agent: Agent) -> None:
    reply = await running.send("POST", "/", json=GET, headers={"A2A-Version": "1.0", "X-Request-Id": "abc-1"})
    assert reply.header("X-Request-Id") == "abc-1"
    bad = await running.send(
        "POST", "/", json=GET, headers={"A2A-Version": "1.0", "X-Request-Id": "<script>"}
    )
    assert bad.header("X-Request-Id") is None


async def test_an_upgrade_the_policy_opens_is_a_tunnel(start: Start, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"you said {message.data}")
        return socket

    agent.script = script
    running = await start(other_paths={"upgrades": ["/ws"]})
    url = running.url.replace("http", "ws")
    async with running.session.ws_connect(url + "/ws", headers=running.headers("alice")) as socket:
        for word in ("one", "two", "x" * 200_000):
            await socket.send_str(word)
            assert (await socket.receive_str()) == f"you said {word}"
    assert agent.received[0].values("Upgrade") == ["websocket"]
    for target, who, status in (("/ws", None, 401), ("/other", "alice", 400)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await running.session.ws_connect(url + target, headers=running.headers(who))
        assert refused.value.status == status
    assert len(agent.received) == 1


async def test_an_agent_that_declines_an_upgrade_is_heard(start: Start, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=426)

    agent.script = script
    running = await start(other_paths={"upgrades": ["/ws"]})
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await running.session.ws_connect(running.url + "/ws", headers=running.headers("alice"))
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "offer", ["h2c", "websocket, h2c", "h2c, websocket", "TLS/1.0", "websocket\r\nUpgrade: h2c"]
)
async def test_an_opened_path_opens_nothing_but_websocket(start: Start, agent: Agent, offer: str) -> None:
    """HTTP/2 by h2c would lead to every route of the agent, judged by nobody."""

    async def agrees(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=200 if "Upgrade" not in request.headers else 500)

    agent.script = agrees
    running = await start(other_paths={"upgrades": ["/ws"]})
    wants = (
        "Connection: Upgrade, HTTP2-Settings",
        f"Upgrade: {offer}",
        "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
    )
    got = await raw(running, request(running, "GET /ws HTTP/1.1", *wants, "Connection: close"))
    assert b" 101 " not in got.partition(b"\r\n")[0]
    assert all("upgrade" not in {name.lower() for name, _ in r.headers} for r in agent.received)
    assert all("http2-settings" not in {name.lower() for name, _ in r.headers} for r in agent.received)
