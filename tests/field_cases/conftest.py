"""What the field cases share: the whole sidecar on real sockets, before a stub that remembers every byte it gets.

Owns: scenes (a sidecar in which alice and mallory have a task each), requests written byte by byte, and reading what
comes back.
Never: lets a client library tidy up what a test sends.

A test's name begins with the id of its case: `test_fc_001_…`. `agent`, `issuer`, `start` and `running` are those of
`tests/edge`, for cases that need a sidecar of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from sidecar.app import App, Edge
from sidecar.config import Config
from sidecar.proxy.lean_edge import LeanServer
from tests.edge.agent import CARD, Agent, Script, a_task, answers
from tests.edge.conftest import Answer, Sidecar, a_message, agent, issuer, running, start
from tests.edge.ordinary_edge import HttpServer
from tests.field_cases.real_agents import guarded, racing, real
from tests.issuer import Issuer
from tests.matrix.conftest import at
from tests.process.conftest import launch, policy, processes, session
from tests.process.running import Running, command

__all__ = [
    "agent",
    "at",
    "guarded",
    "issuer",
    "launch",
    "policy",
    "processes",
    "racing",
    "real",
    "running",
    "session",
    "start",
]

T_A, C_A = "aaaaaaaa-1111-4111-8111-111111111111", "aaaaaaaa-2222-4222-8222-222222222222"  # alice's
T_M, C_M = "dddddddd-1111-4111-8111-111111111111", "dddddddd-2222-4222-8222-222222222222"  # mallory's
N = "eeeeeeee-9999-4999-8999-999999999999"  # nobody's, ever
SECRET = "what alice's task says"

# JSON-RPC at `/`, HTTP+JSON at the root, 1.0 and 0.3 both: the agent called G1 in the cases.
G1_CARD: dict[str, Any] = CARD | {
    "supportedInterfaces": [
        {"url": "http://agent.internal:9000/", "protocolBinding": binding, "protocolVersion": version}
        for version in ("1.0", "0.3")
        for binding in ("JSONRPC", "HTTP+JSON")
    ]
}
EVERY_DIALECT = ["JSONRPC/1.0", "JSONRPC/0.3", "JSONRPC/0.2", "JSONRPC/0.1", "HTTP+JSON/1.0", "HTTP+JSON/0.3"]


# --- bytes ---------------------------------------------------------------------------------------


def http(line: str, *headers: str | bytes, body: bytes = b"") -> bytes:
    """One request exactly as written. No header is added, not even the length of the body."""
    lines = [line.encode("latin-1"), *(h if isinstance(h, bytes) else h.encode("latin-1") for h in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def speak(port: int, *sent: bytes, hang_up: bool = False, seconds: float = 10.0) -> bytes:
    """Write to a port, piece by piece, and read until the other side closes. `hang_up`: say no more after that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(seconds):
            try:
                for piece in sent:
                    writer.write(piece)
                    await writer.drain()
                if hang_up:
                    writer.write_eof()
                return await reader.read()
            except ConnectionError:  # closed while there was more to write, or reset after a reply
                return b""
    finally:
        writer.close()


def read_answers(got: bytes, *, head: bool = False) -> list[Answer]:
    """Every reply in what came back. `head`: to HEAD, so none has a body."""
    found: list[Answer] = []
    while got:
        start, _, got = got.partition(b"\r\n\r\n")
        status_line, *lines = start.split(b"\r\n")
        pairs = [line.decode("latin-1").split(":", 1) for line in lines]
        answer = Answer(int(status_line.split()[1]), [(k, v.strip()) for k, v in pairs], b"")
        if not head and answer.status >= 200:
            answer.body, got = _body(answer, got)
        found.append(answer)
    return found


def _body(answer: Answer, got: bytes) -> tuple[bytes, bytes]:
    if "chunked" in (answer.header("Transfer-Encoding") or ""):
        parts: list[bytes] = []
        while True:
            size, _, got = got.partition(b"\r\n")
            n = int(size, 16)
            parts.append(got[:n])
            got = got[n + 2 :]
            if n == 0:
                return b"".join(parts), got
    length = int(answer.header("Content-Length") or 0)
    return got[:length], got[length:]


# --- scenes --------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A sidecar before G2, the recording stub. Alice owns `T_A` in `C_A`, mallory `T_M` in `C_M`."""

    running: Sidecar | Running
    agent: Agent
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.running.url.rpartition(":")[2])

    @property
    def untouched(self) -> bool:
        """Whether the agent saw no request since the test began or last asked `forget`."""
        return self.agent.received == []

    def forget(self) -> None:
        self.agent.received.clear()

    def token(self, who: str, scope: str = "w r") -> str:
        """A token of this caller; the same one each time, since signing takes longer than a request."""
        key = (who, scope)
        if key not in self.tokens:
            self.tokens[key] = self.running.token(who, scope)
        return self.tokens[key]

    def bearer(self, who: str | None = "mallory", scope: str = "w r") -> tuple[str, ...]:
        return (f"Authorization: Bearer {self.token(who, scope)}",) if who else ()

    async def ask(
        self,
        line: str,
        *headers: str | bytes,
        body: bytes | None = None,
        who: str | None = "mallory",
        scope: str = "w r",
    ) -> Answer:
        """The answer to `METHOD target` on a connection of its own. `Host`, credential and length are added."""
        framing = () if body is None else (f"Content-Length: {len(body)}",)
        if line.count(" ") == 1:
            line += " HTTP/1.1"
        sent = http(
            line,
            "Host: agents.test",
            *self.bearer(who, scope),
            *framing,
            *headers,
            "Connection: close",
            body=body or b"",
        )
        (answer,) = read_answers(await speak(self.port, sent), head=line.startswith("HEAD "))
        return answer

    async def rpc(self, body: bytes | dict[str, Any], *headers: str | bytes, **who: Any) -> Answer:
        """The answer to a JSON-RPC request at the endpoint."""
        written = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST /", "Content-Type: application/json", *headers, body=written, **who)


def envelope(method: Any, params: Any, id_: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def leaking() -> Script:
    """An agent that tells everybody everything: nothing it says may be heard by the wrong one."""

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        task = a_task(T_A, C_A, artifacts=[{"artifactId": "x", "parts": [{"text": SECRET}]}])
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": task}, "task": task})

    return script


def saying(value: Any) -> Script:
    """An agent whose answer to everything is this JSON."""

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.json_response(value)

    return script


def require_equal_to_nf(foreign: Answer, absent: Answer, *, of: str = T_A, never: str = N) -> None:
    """Status, headers, names, values and body are one, once the id is substituted; and nothing was told."""
    assert foreign.status == absent.status
    assert foreign.shown[1] == absent.shown[1]
    assert foreign.body.replace(of.encode(), never.encode()) == absent.body
    assert SECRET.encode() not in foreign.body


def require_not_found(answer: Answer) -> None:
    """The not-found of some dialect: -32001, or 404 with TASK_NOT_FOUND (1.0) or a2a-js 0.3's form."""
    assert answer.status in (200, 404), answer.body
    body = answer.json if not answer.body.startswith(b"data: ") else json.loads(answer.body[6:])
    error = body.get("error", body)
    assert error["code"] in (-32001, 404), body
    assert error["message"] == "Task not found"


def require_unparsed(answer: Answer) -> None:
    """refuse-parse: HTTP 400 (or 415, for what is not even UTF-8), or JSON-RPC -32700, -32600 or -32602."""
    if answer.status in (400, 415):
        return
    assert answer.status == 200, (answer.status, answer.body)
    body = answer.json if not answer.body.startswith(b"data: ") else json.loads(answer.body[6:])
    assert body["error"]["code"] in (-32700, -32600, -32602), body
    assert "result" not in body


@pytest.fixture
def edge() -> Edge:
    """What is shipped. The cases of framing run on the other one too, by `by_parser`."""
    return LeanServer


Scenes = Callable[..., Awaitable[Scene]]
ByParser = Callable[[str], Awaitable[Scene]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scenes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scenes]:
    """Scenes by policy. Each is started once a session, so tests that use them need `loop_scope="session"`."""
    known: dict[str, Scene] = {}
    async with AsyncExitStack() as stack:
        issuer = await stack.enter_async_context(Issuer())
        session = await stack.enter_async_context(
            aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=20))
        )

        async def started(policy: dict[str, Any], of_agent: dict[str, Any], edge: Edge) -> Scene:
            folder = tmp_path_factory.mktemp("field")
            agent = await stack.enter_async_context(Agent(card=G1_CARD))
            guarded = {"name": "review", "upstream": agent.url, "public_url": "https://agents.test/review"}
            document: dict[str, Any] = {
                "version": 1,
                "listen": "127.0.0.1:0",
                "admin": "127.0.0.1:0",
                "agents": [guarded | {"dialects": EVERY_DIALECT} | of_agent],
                "identity": {"issuers": [{"issuer": issuer.url, "audiences": ["agent"]}]},
                "other_paths": {"anonymous": ["/healthz"]},
                "push": {"allow": ["https://hooks.example.com"]},
                "ledger": {"url": f"sqlite:///{folder}/ledger.db"},
                "audit": {"output": str(folder / "audit.jsonl")},
            }
            app = App(Config.model_validate_json(json.dumps(document | policy)), edge=edge)
            await app.start()
            stack.push_async_callback(app.stop)
            scene = Scene(Sidecar(app, issuer, session, folder / "audit.jsonl"), agent)
            for who, task, context in (("alice", T_A, C_A), ("mallory", T_M, C_M)):
                agent.script = answers({"task": a_task(task, context)})
                call = json.dumps(envelope("SendMessage", {"message": a_message()})).encode()
                target = document["agents"][0].get("mount", "").rstrip("/") + "/"
                made = await scene.ask(f"POST {target}", "A2A-Version: 1.0", body=call, who=who)
                assert made.json["result"]["task"]["id"] == task
            return scene

        async def scene(
            *, of_agent: dict[str, Any] | None = None, edge: Edge = LeanServer, **policy: Any
        ) -> Scene:
            key = json.dumps([policy, of_agent, edge is LeanServer], sort_keys=True)
            if key not in known:
                known[key] = await started(policy, of_agent or {}, edge)
            known[key].agent.script = leaking()
            known[key].forget()
            return known[key]

        yield scene


@pytest_asyncio.fixture(loop_scope="session")
async def scene(scenes: Scenes) -> Scene:
    """The scene of the usual policy: every dialect, other paths for any valid caller, `/healthz` for everybody."""
    return await scenes()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def by_parser(scenes: Scenes, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ByParser]:
    """The usual scene by which of aiohttp's two HTTP parsers reads it: `C` (what is shipped), or `Python`. `server` is
    the C parser under aiohttp's own server, the ordinary edge.

    aiohttp chooses when it is imported, so the second is a process: the command itself, told by the environment.
    """
    async with AsyncExitStack() as stack:
        started: list[Scene] = []

        async def pure() -> Scene:
            issuer = await stack.enter_async_context(Issuer())
            agent = await stack.enter_async_context(Agent(card=G1_CARD))
            session = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
            folder = tmp_path_factory.mktemp("pure")
            path, out, err = folder / "policy.yaml", folder / "out", folder / "err"
            document = {
                "version": 1,
                "listen": "127.0.0.1:0",
                "admin": "127.0.0.1:0",
                "upstream": agent.url,
                "public_url": "https://agents.test/review",
                "issuer": issuer.url,
                "audience": "agent",
                "ledger": {"url": f"sqlite:///{folder}/ledger.db"},
            }
            path.write_text(json.dumps(document))
            env = os.environ | {"AIOHTTP_NO_EXTENSIONS": "1"}
            process = subprocess.Popen(
                command(path),
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(out.open("wb")),
                stderr=stack.enter_context(err.open("wb")),
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            found = Running(process, out, err, issuer, session)
            await found.until_listening()
            scene = Scene(found, agent)
            for who, task, context in (("alice", T_A, C_A), ("mallory", T_M, C_M)):
                agent.script = answers({"task": a_task(task, context)})
                assert (await found.submit(who=who)).json["result"]["task"]["id"] == task
            return scene

        async def scene(parser: str) -> Scene:
            if parser in ("C", "server"):
                return await scenes(edge=LeanServer if parser == "C" else HttpServer)
            if not started:
                started.append(await pure())
            started[0].agent.script = leaking()
            started[0].forget()
            return started[0]

        yield scene
