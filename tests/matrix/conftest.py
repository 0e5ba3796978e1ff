"""One sidecar per dialect, each alone before an agent that speaks only that.

They live as long as the session, since the matrix has hundreds of cells; a cell makes tasks of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from sidecar.app import App
from sidecar.config import Config
from sidecar.model import SENDS, Binding, Dialect, Version
from tests.edge.agent import CARD, Agent
from tests.edge.conftest import Answer, Sidecar
from tests.issuer import Issuer
from tests.matrix.agent import replying
from tests.matrix.requests import HOOK, ROWS, Names, Request, Row

TENANT = "t1"
LASTING = "lasting"


def card_of(dialect: Dialect) -> dict[str, Any]:
    """A card that shows one interface. Agents of 0.1 have no way to say so, and show 0.2."""
    version = "0.2.6" if dialect.version is Version.V0_1 else dialect.version.value
    binding = "JSONRPC" if dialect.binding is Binding.JSONRPC else "HTTP+JSON"
    interface = {"url": "http://agent.internal:9000/", "protocolBinding": binding, "protocolVersion": version}
    return CARD | {"supportedInterfaces": [interface]}


class Cell:
    """One dialect's sidecar and agent, asked about tasks that are new to every test."""

    def __init__(self, row: Row, running: Sidecar, agent: Agent) -> None:
        self.row = row
        self.running = running
        self.agent = agent

    async def ask(self, request: Request, who: str | None = "alice", **more: Any) -> Answer:
        return await self.running.send(
            request.method,
            request.target,
            who=who,
            data=request.body,
            headers=dict(request.headers),
            skip_auto_headers=("Content-Type", "User-Agent"),
            **more,
        )

    async def a_task_of(self, who: str) -> str:
        """A task `who` submitted, as far as the ledger is concerned."""
        made = f"t-{uuid.uuid4()}"
        create = next(r for r in ROWS if r.dialect == self.row.dialect and r.operation in SENDS)
        names = Names(made) if create.dialect.version is Version.V0_1 else Names()
        self.agent.script, _ = replying(create, made, context=f"c-{made}")
        answer = await self.ask(create.sending(names), who)
        assert answer.status == 200
        assert made.encode() in answer.body
        return made

    def untouched(self) -> Callable[[], bool]:
        """Call now, and again to learn whether the agent received nothing in between."""
        before = len(self.agent.received)
        return lambda: len(self.agent.received) == before


At = Callable[[Row], Awaitable[Cell]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[At]:
    """The cell of a row: its dialect's sidecar is started by the first test that needs it."""
    worlds: dict[Dialect, tuple[Sidecar, Agent]] = {}
    async with AsyncExitStack() as stack:
        issuer = await stack.enter_async_context(Issuer())
        session = await stack.enter_async_context(
            aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=20))
        )

        async def started(dialect: Dialect) -> tuple[Sidecar, Agent]:
            folder: Path = tmp_path_factory.mktemp("matrix")
            agent = await stack.enter_async_context(Agent(card=card_of(dialect)))
            document = {
                "version": 1,
                "listen": "127.0.0.1:0",
                "admin": "127.0.0.1:0",
                "agents": [
                    {
                        "name": "review",
                        "upstream": agent.url,
                        "public_url": "https://agents.test/review",
                        "dialects": [str(dialect)],
                        "tenants": [TENANT],
                    }
                ],
                "identity": {"issuers": [{"issuer": issuer.url, "audiences": ["agent"]}]},
                # A skill of the policy's own: what names it needs a token that lives for ten minutes.
                "scopes": {"skills": {LASTING: {"min_remaining_lifetime": 600}}},
                "push": {"allow": [HOOK.removesuffix("/a2a")]},
                "ledger": {"url": f"sqlite:///{folder}/ledger.db"},
                "audit": {"output": str(folder / "audit.jsonl")},
            }
            app = App(Config.model_validate_json(json.dumps(document)))
            await app.start()
            stack.push_async_callback(app.stop)
            return Sidecar(app, issuer, session, folder / "audit.jsonl"), agent

        async def cell(row: Row) -> Cell:
            if row.dialect not in worlds:
                worlds[row.dialect] = await started(row.dialect)
            running, agent = worlds[row.dialect]
            agent.script = None
            return Cell(row, running, agent)

        yield cell
