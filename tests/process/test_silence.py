"""Nothing a caller entrusted to us is said again: not in a log, not in the audit, not in metrics (FC-163, FC-165)."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest
from aiohttp import web

from tests.edge.agent import Agent, a_task, event_stream, result
from tests.process.conftest import Launch
from tests.process.running import Running, read

CANARY = "kanarienvogel"
HOOK = f"https://hooks.example.com/{CANARY}-path"
PUSH = {"url": HOOK, "token": f"{CANARY}-hook", "authentication": {"scheme": "Bearer", "credentials": CANARY}}
MESSAGE = {
    "messageId": "m-1",
    "role": "ROLE_USER",
    "parts": [
        {"text": f"{CANARY}-text"},
        {"data": {f"{CANARY}-key": f"{CANARY}-value"}},
        {"raw": "a2FuYXJpZW4="},
    ],
    "metadata": {f"{CANARY}-meta": CANARY},
}
ABSENT = "5f2b8c1e-0000-4000-8000-000000000000"


class Teller:
    """An agent that repeats what it was told, in the way `how` names."""

    how = "well"

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if body[:1] != b"{":
            return web.Response(text=CANARY, headers={"X-Told": CANARY})
        method = json.loads(body)["method"]
        match self.how:
            case "garbage":
                assert request.transport is not None
                request.transport.write(f"{CANARY} is no HTTP\r\n\r\n".encode())
                request.transport.close()
                return web.Response()
            case "bad framing":
                assert request.transport is not None
                request.transport.write(
                    f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n".encode()
                )
                request.transport.close()
                return web.Response()
            case "no JSON":
                return web.Response(text=f'{{"{CANARY}": ', content_type="application/json")
            case "twins":
                return web.Response(text=f'{{"{CANARY}": 1, "{CANARY}": 2}}', content_type="application/json")
            case "something else":
                return result(body, {CANARY: [CANARY]})
            case "an error":
                return web.json_response({"error": CANARY}, status=500, headers={"X-Error": CANARY})
            case "a bad event":
                response = await event_stream(request)
                await response.write(f"data: {{{CANARY}\n\n".encode())
                return response
            case "a wrong coding":
                return web.Response(body=CANARY.encode(), headers={"Content-Encoding": "gzip"})
        made = f"t-{uuid.uuid4()}"
        task = a_task(made, context=f"c-{made}", metadata={CANARY: CANARY})
        if method == "SendStreamingMessage":
            response = await event_stream(request)
            said = {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}
            await response.write(b"data: " + json.dumps(said).encode() + b"\n\n")
            return response
        return result(body, {"task": task})


HOW = (
    "garbage",
    "bad framing",
    "no JSON",
    "twins",
    "something else",
    "an error",
    "a bad event",
    "a wrong coding",
)

BODIES = (
    f'{{"{CANARY}": ',
    f'{{"jsonrpc": "2.0", "{CANARY}": 1, "{CANARY}": 2}}',
    f'{{"jsonrpc": "2.0", "id": "{CANARY}", "method": "{CANARY}"}}',
    f'{{"jsonrpc": "2.0", "id": ["{CANARY}"], "method": "GetTask"}}',
    f'[{{"jsonrpc": "2.0", "method": "{CANARY}"}}]',
    f'{{"message": {{"parts": ["{CANARY}"]}}}}',
    f'{{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {{"id": {{"{CANARY}": 1}}}}}}',
    f"{CANARY}: no JSON",
    json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {
                "message": MESSAGE,
                "configuration": {"taskPushNotificationConfig": {**PUSH, "url": [HOOK]}},
            },
        }
    ),
)


class Case:
    """One caller's doings; the credential is a canary in every part."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.token = running.token(
            f"{CANARY}-sub", f"w r {CANARY}-scope", email=f"{CANARY}@example.com", jti=f"{CANARY}-jti"
        )

    async def post(self, body: str | bytes, *, token: str | None = None, target: str = "/") -> int:
        """A request full of canaries, told its status."""
        headers = {
            "Authorization": f"Bearer {self.token if token is None else token}",
            "A2A-Version": "1.0",
            "Content-Type": "application/json",
            "Cookie": f"session={CANARY}",
            "Proxy-Authorization": f"Basic {CANARY}",
            "DPoP": CANARY,
            "X-Api-Key": CANARY,
            "X-Request-Id": CANARY,
        }
        async with self.running.session.post(self.running.url + target, data=body, headers=headers) as reply:
            try:
                return (await read(reply)).status
            except Exception:  # a stream that is cut
                return reply.status

    async def call(self, method: str, params: dict[str, Any], *, token: str | None = None) -> int:
        body = {"jsonrpc": "2.0", "id": CANARY, "method": method, "params": params}
        return await self.post(json.dumps(body), token=token)

    async def send(self, method: str = "SendMessage", *, token: str | None = None) -> int:
        configuration = {"taskPushNotificationConfig": PUSH}
        return await self.call(method, {"message": MESSAGE, "configuration": configuration}, token=token)

    async def require_silence(self, decisions: int) -> None:
        """Stop the sidecar, then look through everything it said."""
        metrics = (await self.running.get(f"{self.running.admin_url}/metrics")).body.decode()
        ready = (await self.running.get(f"{self.running.admin_url}/readyz")).body.decode()
        await self.running.stop()
        said = self.running.stdout.read_text() + self.running.stderr.read_text()
        assert said.count('"event":"decision"') == decisions, "what is searched is not what was said"
        for text in (said, metrics, ready):
            assert CANARY not in text.lower()
            for part in self.token.split(".")[1:]:
                assert part not in text
                assert part[:40] not in text


@pytest.fixture
async def case(launch: Launch, agent: Agent) -> Case:
    agent.script = Teller()
    allowed = HOOK.rpartition("/")[0]
    return Case(await launch(limits={"drain_timeout": "2s"}, push={"allow": [allowed]}))


async def test_of_what_succeeds(case: Case) -> None:
    assert await case.send() == 200
    assert await case.send("SendStreamingMessage") == 200
    assert await case.post(f"{CANARY}", target=f"/{CANARY}?{CANARY}={CANARY}") == 200
    await case.require_silence(3)


async def test_of_credentials_that_are_refused(case: Case) -> None:
    head, payload, signature = case.token.split(".")
    expired = case.running.token(f"{CANARY}-sub", exp=1)
    tokens = [
        expired,
        f"{head}.{payload}.{signature[:-8]}AAAAAAAA",
        f"{head}.{payload}.",
        f"{head}.{payload}",
        CANARY,
        f"{CANARY}.{CANARY}.{CANARY}",
        case.running.issuer.mint(kid=None, header={"kid": CANARY}),
        case.running.issuer.mint(aud=CANARY),
        case.running.issuer.mint(iss=f"https://{CANARY}.example"),
    ]
    for token in tokens:
        assert await case.send(token=token) == 401
    await case.require_silence(len(tokens))


async def test_of_scopes_that_do_not_suffice(case: Case) -> None:
    case.token = case.running.token(f"{CANARY}-sub", f"w {CANARY}-scope")
    assert await case.send() == 200
    await case.require_silence(1)


async def test_of_webhooks_that_are_refused(case: Case) -> None:
    hooks = [
        {**PUSH, "url": f"https://elsewhere.example.com/{CANARY}?{CANARY}={CANARY}"},
        {**PUSH, "url": f"https://{CANARY}@hooks.example.com/"},
        {**PUSH, "url": f"https://10.0.0.1/{CANARY}"},
        {**PUSH, "token": f"{CANARY}\r\n{CANARY}: 1"},
        {**PUSH, "authentication": {"scheme": f"{CANARY}\0", "credentials": CANARY}},
    ]
    for hook in hooks:
        configuration = {"taskPushNotificationConfig": hook}
        assert await case.call("SendMessage", {"message": MESSAGE, "configuration": configuration}) == 200
    await case.require_silence(len(hooks))


async def test_of_what_is_not_found(case: Case) -> None:
    assert await case.call("GetTask", {"id": ABSENT, "metadata": {CANARY: CANARY}}) == 200
    assert await case.call("CreateTaskPushNotificationConfig", {"taskId": ABSENT, **PUSH}) == 200
    await case.require_silence(2)


async def test_of_bodies_that_are_refused(case: Case) -> None:
    for body in BODIES:
        assert 200 <= await case.post(body) < 500
    await case.require_silence(len(BODIES))


async def test_of_paths_that_are_refused(case: Case) -> None:
    targets = [f"/tasks/{CANARY}:cancel/x", f"/a%2f{CANARY}", f"/tasks/x?{CANARY}=1&{CANARY}=2"]
    for target in targets:
        assert 400 <= await case.post("{}", target=target) < 500
    await case.require_silence(len(targets))


async def test_of_what_the_agent_says_wrongly(case: Case, agent: Agent) -> None:
    assert isinstance(agent.script, Teller)
    for how in HOW:
        agent.script.how = how
        for method in ("SendMessage", "SendStreamingMessage"):
            await case.send(method)
    assert len(agent.received) == 2 * len(HOW)
    await case.require_silence(2 * len(HOW))


async def test_of_an_agent_that_is_not_there(case: Case, agent: Agent) -> None:
    assert await case.send() == 200
    await agent.down()
    assert await case.send() == 503
    assert await case.call("GetTask", {"id": ABSENT}) == 200
    await case.require_silence(3)


async def test_of_what_is_no_http(case: Case) -> None:
    host, _, port = case.running.url.removeprefix("http://").rpartition(":")
    for line in (
        f"{CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\n{CANARY}\r\n\r\n",
        f"GET /{CANARY} HTTP/9.9\r\n\r\n",
        f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nX: {CANARY}{'y' * 70000}\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(line.encode())
        await reader.read()
        writer.close()
    await case.require_silence(0)


async def test_of_a_stop_with_a_call_under_way(case: Case, agent: Agent) -> None:
    asked = asyncio.Event()

    async def silent(request: web.Request, body: bytes) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    agent.script = silent
    sending = asyncio.ensure_future(case.send())
    await asked.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await case.require_silence(1)
