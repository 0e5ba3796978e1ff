"""The whole sidecar in this process, on real sockets, before a scripted agent."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web

import sidecar.app
from sidecar.app import App, Edge
from sidecar.config import Config
from sidecar.ledger import Ledger, hold_ledger
from sidecar.observe.shared_output import new_lock
from sidecar.proxy.lean_edge import LeanServer
from sidecar.proxy.loads import new_loads
from sidecar.proxy.names import LookUp
from sidecar.starting import Handed
from sidecar.workers.ports import open_port
from tests.edge.agent import Agent
from tests.edge.ordinary_edge import HttpServer
from tests.issuer import Issuer


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """TLS and who accepts a connection are the event loop's own work: tested on the one the product runs on."""
    if item.path.name == "test_tls.py":
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    @property
    def shown(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """What a caller can compare: everything but the date."""
        return self.status, [(k, v) for k, v in self.headers if k.lower() != "date"], self.body


class Sidecar:
    """A running sidecar and the people who call it."""

    def __init__(self, app: App, issuer: Issuer, session: aiohttp.ClientSession, audit: Path) -> None:
        self.app = app
        self.issuer = issuer
        self.session = session
        self.audit_file = audit
        self.url = f"http://127.0.0.1:{app.traffic[1]}"
        self.admin_url = f"http://127.0.0.1:{app.admin[1]}"

    def token(self, sub: str = "alice", scope: str = "w r", **claims: Any) -> str:
        return self.issuer.mint(sub=sub, scope=scope, azp="planner", **claims)

    def headers(self, who: str | None, scope: str = "w r", **more: str) -> dict[str, str]:
        return ({"Authorization": f"Bearer {self.token(who, scope)}"} if who else {}) | more

    async def send(
        self, method: str, target: str, *, who: str | None = "alice", scope: str = "w r", **kwargs: Any
    ) -> Answer:
        headers = self.headers(who, scope) | kwargs.pop("headers", {})
        async with self.session.request(method, self.url + target, headers=headers, **kwargs) as reply:
            return Answer(
                reply.status, [(k.decode(), v.decode()) for k, v in reply.raw_headers], await reply.read()
            )

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        who: str | None = "alice",
        scope: str = "w r",
        id_: Any = 1,
    ) -> Answer:
        version = {} if "/" in method else {"A2A-Version": "1.0"}
        body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        return await self.send("POST", "/", who=who, scope=scope, json=body, headers=version)

    async def submit(self, who: str = "alice", **message: Any) -> Answer:
        return await self.call("SendMessage", {"message": a_message(**message)}, who=who)

    async def records(self, until: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The audit records, once `until` holds of them."""

        def read() -> list[dict[str, Any]]:
            whole, _, _ = self.audit_file.read_text().rpartition("\n")  # the last line may be half there
            return [json.loads(line) for line in whole.splitlines()]

        await eventually(lambda: until(read()))
        return read()


def a_message(**more: Any) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}


async def eventually(holds: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until something holds; a test that waits in vain fails."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


def no_name(host: str) -> list[str]:
    """A resolver for tests that have no use for one: none asks beyond this machine."""
    raise OSError(f"{host} is not resolved in tests")


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with Agent() as running:
        yield running


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as running:
        yield running


Start = Callable[..., Awaitable[Sidecar]]

# What is shipped, and the oracle on aiohttp's own server.
EDGES: dict[str, Edge] = {"lean": LeanServer, "ordinary": HttpServer}


class SharedEdge:
    """What is shipped, as one of several workers has it: at a port that was opened before, on a ledger held for it."""


async def as_worker(config: Config, look_up: LookUp, stack: AsyncExitStack) -> App:
    """An App that was handed everything, started, and its administration on a port, as the supervisor serves it."""
    held = hold_ledger(config.ledger)
    ports = open_port(config.listen)
    stack.callback(os.close, held.block)
    stack.callback(os.close, held.queue)
    loads, output = new_loads(2), new_lock()
    stack.callback(os.close, loads)
    stack.callback(os.close, output)
    traffic = tuple(port.detach() for port in ports)
    app = App(config, look_up, handed=Handed(config, 0, -1, traffic, held, loads, output))
    await app.start()
    assert app.health is not None
    admin = web.ServerRunner(web.Server(app.health.handle, access_log=None))
    await admin.setup()
    await web.TCPSite(admin, "127.0.0.1", 0).start()
    stack.push_async_callback(admin.cleanup)
    app.admin = admin.addresses[0][:2]
    return app


@pytest.fixture(params=EDGES)
def edge(request: pytest.FixtureRequest) -> Edge:
    return EDGES[request.param]


@pytest.fixture
async def start(
    agent: Agent,
    issuer: Issuer,
    edge: Edge | type[SharedEdge],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Start]:
    """Start a sidecar with sections of the policy changed, and perhaps with a ledger of the test's own."""
    async with AsyncExitStack() as stack:

        async def started(
            ledger: Ledger | None = None,
            agents: list[dict[str, Any]] | None = None,
            look_up: LookUp = no_name,
            **sections: Any,
        ) -> Sidecar:
            audit = tmp_path / "audit.jsonl"
            document: dict[str, Any] = {
                "version": 1,
                "listen": "127.0.0.1:0",
                "admin": "127.0.0.1:0",
                "agents": agents
                or [{"name": "review", "upstream": agent.url, "public_url": "https://agents.test/review"}],
                "identity": {"issuers": [{"issuer": issuer.url, "audiences": ["agent"]}]},
                "ledger": {"url": f"sqlite:///{tmp_path}/ledger.db"},
                "audit": {"output": str(audit)},
            }
            config = Config.model_validate_json(json.dumps(document | sections))
            if ledger is not None:

                async def given(*_: Any, **__: Any) -> Ledger:
                    return ledger

                monkeypatch.setattr(sidecar.app, "open_ledger", given)
            if edge is SharedEdge:
                app = await as_worker(config, look_up, stack)
            else:
                app = App(config, look_up, edge)
                await app.start()
            stack.push_async_callback(app.stop)
            session = await stack.enter_async_context(
                aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=20))
            )
            return Sidecar(app, issuer, session, audit)

        yield started


@pytest.fixture
async def running(start: Start) -> Sidecar:
    return await start()
