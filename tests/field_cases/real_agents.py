"""Real SDK agents for the cases that are about them, each behind a recorder.

Owns: starting each once a session, a sidecar before one, and asking either in the words of `tests.e2e.wire`.
Never: looks inside an agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from sidecar.config import Config
from tests.e2e.deployment import READ, WRITE, DidNotStart, environment, free_port, line_of, process
from tests.e2e.recorder import Recorder
from tests.e2e.wire import HOOK, JSONRPC_0, JSONRPC_1, REST_0, REST_1, Answer, Request, request
from tests.edge.conftest import Sidecar, Start

SCOPE: Final = f"{WRITE} {READ}"
DIALECTS: Final = (JSONRPC_1, REST_1, JSONRPC_0, REST_0)
HERE: Final = Path(__file__).parent
ORDINARY: Final = HERE.parent / "e2e" / "agents" / "python_1.py"
ABSENT: Final = "5f2b8c1e-0000-4000-8000-000000000000"  # no task of any agent
RACING: Final = HERE / "racing_agent.py"


@dataclass(frozen=True)
class Real:
    """An agent on a2a-sdk 1.3 that speaks 1.0 and 0.3 over both bindings; `recorder` stands before it."""

    url: str
    recorder: Recorder

    def untouched(self) -> Callable[[], bool]:
        """Call now, and again to learn whether the agent received nothing in between."""
        before = len(self.recorder.calls())
        return lambda: len(self.recorder.calls()) == before


@contextmanager
def running_agent(script: Path, folder: Path) -> Iterator[Real]:
    command = environment("a2a-sdk-1").command(script)
    log = folder / f"{script.stem}.log"
    port = free_port()
    environ = {"PORT": str(port), "SCOPES": "1", "COMPAT": "1", "PYTHONPATH": str(ORDINARY.parent)}
    with process(command, log, **environ) as started:
        if (said := line_of(started, log)) != "ready":
            raise DidNotStart(f"`{said}` in place of `ready`: {log.read_text()[-2000:]}")
        with Recorder("127.0.0.1", port) as recorder:
            yield Real(f"http://127.0.0.1:{port}", recorder)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """The ordinary agent of the end-to-end tests."""
    with running_agent(ORDINARY, tmp_path_factory.mktemp("real")) as made:
        yield made


@pytest.fixture(scope="session")
def racing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """The agent whose tasks end when a test wants them to, and that remembers what it answered."""
    with running_agent(RACING, tmp_path_factory.mktemp("racing")) as made:
        yield made


def worker(agent: Real, **more: Any) -> list[dict[str, Any]]:
    """The `agents` section of a policy for it."""
    hooks = {"upstream": agent.recorder.url, "public_url": "https://agents.test/worker"}
    return [{"name": "worker", **hooks, **more}]


Guarded = Callable[..., Awaitable[Sidecar]]


@pytest.fixture
def guarded(start: Start) -> Guarded:
    """Start a sidecar in this process before a real agent."""

    async def started(agent: Real, *args: Any, **sections: Any) -> Sidecar:
        if "push" in Config.model_fields:  # a host written out is trusted as it stands
            sections.setdefault("push", {"allow": [HOOK.rpartition("/")[0]]})
        return await start(*args, agents=worker(agent), **sections)

    return started


def token(running: Any, who: str) -> str:
    return str(running.token(who, SCOPE))


def opened(session: aiohttp.ClientSession, base: str, sent: Request, bearer: str) -> Any:
    """Send `sent`; to be entered: the reply may be a stream."""
    headers = {**sent.headers, "Authorization": f"Bearer {bearer}"}
    return session.request(sent.method, base + sent.path, data=sent.body or None, headers=headers)


async def ask(session: aiohttp.ClientSession, base: str, sent: Request, bearer: str) -> Answer:
    """Send `sent` and read the whole reply."""
    async with opened(session, base, sent, bearer) as reply:
        body = await reply.read()
        return Answer(reply.status, tuple((k.decode(), v.decode()) for k, v in reply.raw_headers), body)


def state_in(answer: Answer) -> str:
    """The state in a reply. The 0.3 proto writes it with two l."""
    return answer.state.replace("cancelled", "canceled")


class Voice:
    """One caller of one sidecar (or of the agent itself) in one dialect."""

    def __init__(self, running: Sidecar, who: str, dialect: str, *, base: str = "") -> None:
        self._running = running
        self._base = base or running.url
        self._token = token(running, who)
        self.dialect = dialect

    async def ask(self, operation: str, **values: str) -> Answer:
        return await ask(
            self._running.session, self._base, request(self.dialect, operation, **values), self._token
        )

    def opening(self, operation: str, **values: str) -> Any:
        return opened(
            self._running.session, self._base, request(self.dialect, operation, **values), self._token
        )

    async def first(self, operation: str, **values: str) -> bytes:
        """The first event of a stream; then leave."""
        async with self.opening(operation, **values) as reply:
            assert reply.status == 200, await reply.read()
            return await an_event(reply)

    async def state(self, task: str) -> str:
        return state_in(await self.ask("get", task=task))

    async def cancel(self, task: str) -> str:
        """The state the answer to a cancel shows."""
        return state_in(await self.ask("cancel", task=task))


async def an_event(reply: aiohttp.ClientResponse) -> bytes:
    """The next event of a stream, as bytes."""
    read = b""
    while line := await reply.content.readline():
        read += line
        if not line.strip() and b"data:" in read:
            break
    return read


def task_of(event: bytes) -> str:
    """The task in the first event of a stream."""
    return str(Answer(200, (("Content-Type", "text/event-stream"),), event).resource["id"])


def is_not_found(answer: Answer, dialect: str) -> bool:
    """A2A 1.0 §5.4: -32001, or 404 in HTTP+JSON."""
    if dialect.startswith("HTTP"):
        return answer.status == 404
    return "error" in answer.documents[0] and answer.documents[0]["error"]["code"] == -32001
