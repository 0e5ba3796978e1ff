"""The real thing: an agent in a process of its own, two issuers, a sidecar on real sockets, and a client.

Owns: starting and ending them, one event loop for all that runs in this process, sending, and hanging up.
Never: judges an answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import uvloop
import yarl

from sidecar.app import App
from sidecar.config import Config
from tests.e2e.deployment import DidNotStart, environment, free_port, line_of, process
from tests.issuer import Issuer
from tests.model.wire import HOOK, Answer, Request

T = TypeVar("T")

AGENT: Final = Path(__file__).parent / "agent.py"
PATIENCE: Final = 20.0  # seconds an answer may take before the run fails
TRIES: Final = 3  # a free port may be taken by somebody else before the agent binds it


@dataclass(frozen=True, slots=True)
class Person:
    """Who calls. Two of them share a subject with alice, and nothing else."""

    name: str
    subject: str
    tenant: str = "t1"
    issuer: int = 0

    def __repr__(self) -> str:
        return self.name


ALICE: Final = Person("alice", "alice")
PEOPLE: Final = (
    ALICE,
    Person("bob", "bob"),
    Person("carol", "carol"),
    Person("alice of another issuer", "alice", issuer=1),
    Person("alice of another tenant", "alice", tenant="t2"),
)

# A2A tenants the policy declares, and whose tokens may use them.
TENANTS: Final = {"blue": {}, "green": {"claims": {"tid": "t2"}}}


def may_use(who: Person, tenant: str) -> bool:
    return tenant != "green" or who.tenant == "t2"


class Stream:
    """A reply that is still being read."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self._read = bytearray()
        self._cut = False

    @property
    def answer(self) -> Answer:
        """As much as was read."""
        headers = tuple((k.decode(), v.decode()) for k, v in self._reply.raw_headers)
        return Answer(self._reply.status, headers, bytes(self._read), self._cut)

    @property
    def is_stream(self) -> bool:
        return self._reply.content_type == "text/event-stream"

    async def first_event(self) -> None:
        """Read until the first event is whole; a unary reply to its end."""
        while not (self.is_stream and (b"\r\n\r\n" in self._read or b"\n\n" in self._read)):
            if not await self._more():
                return

    async def rest(self) -> None:
        while await self._more():
            pass

    async def _more(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                chunk = await self._reply.content.readany()
        except aiohttp.ClientPayloadError:
            self._cut = True
            return False
        self._read += chunk
        return bool(chunk)

    def hang_up(self) -> None:
        self._reply.close()


class World:
    """What runs. `run` drives it: nothing in this process moves in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop, agent: str) -> None:
        self._loop = loop
        self._rounds = 0
        self.steps = 0  # operations somebody asked for
        self.calls = 0  # and those with random ids, to compare
        self.url, self.agent = "", agent
        self.issuers: Sequence[Issuer] = ()
        self.session: aiohttp.ClientSession

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def tokens(self) -> dict[Person, str]:
        """Tokens of people nobody has seen before: what they own is what they make."""
        self._rounds += 1
        return {
            who: self.issuers[who.issuer].mint(
                sub=f"{who.subject}-{self._rounds}", tid=who.tenant, azp="planner"
            )
            for who in PEOPLE
        }

    async def open(self, sent: Request, token: str) -> Stream:
        """Send, and wait for the head of the reply."""
        headers = {**sent.headers, "Authorization": f"Bearer {token}"}
        async with asyncio.timeout(PATIENCE):
            reply = await self.session.request(
                sent.verb, yarl.URL(self.url + sent.target, encoded=True), data=sent.body, headers=headers
            )
        return Stream(reply)

    async def ask(self, sent: Request, token: str, *, whole: bool = True) -> Answer:
        """Send and read the reply, of a stream perhaps the first event only."""
        stream = await self.open(sent, token)
        try:
            if whole:
                await stream.rest()
            else:
                await stream.first_event()
            return stream.answer
        finally:
            stream.hang_up()  # gives a connection back whose reply was read

    async def leave(self, sent: Request, token: str, patience: int) -> None:
        """Send, and hang up whatever has happened after so many turns of the loop, of a millisecond from the 20th on.

        Nothing is waited for here: when a caller loses patience is what is varied.
        """
        asking = asyncio.ensure_future(self.ask(sent, token))
        for turn in range(patience):
            await asyncio.sleep(0 if turn < 20 else 0.001)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    async def control(self, what: str, said: Any = None) -> Any:
        async with self.session.post(f"{self.agent}/control/{what}", json=said) as reply:
            return await reply.json(content_type=None)


@contextmanager
def running_agent(folder: Path) -> Iterator[str]:
    """The agent's address; it has ended when this is left."""
    command = environment("a2a-sdk-1").command(AGENT)
    for left in reversed(range(TRIES)):
        port, log = free_port(), folder / "agent.log"
        with ExitStack() as stack:
            started = stack.enter_context(process(command, log, PORT=str(port)))
            try:
                line_of(started, log)
            except DidNotStart:
                if not left:
                    raise
                continue
            yield f"http://127.0.0.1:{port}"
            return


@asynccontextmanager
async def started(world: World, folder: Path) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        world.issuers = [await stack.enter_async_context(Issuer(alg="ES256")) for _ in range(2)]
        app = App(policy(world.agent, world.issuers, folder))
        await app.start()
        stack.push_async_callback(app.stop)
        world.url = f"http://127.0.0.1:{app.traffic[1]}"
        world.session = await stack.enter_async_context(
            aiohttp.ClientSession(
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding",),
                connector=aiohttp.TCPConnector(limit=0),
            )
        )
        yield


@contextmanager
def running_world(folder: Path) -> Iterator[World]:
    """Everything, started; ended when this is left, whatever went wrong."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # as `a2a-sidecar run` sets it, for the ledger's threads
    with running_agent(folder) as agent, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        world = World(runner.get_loop(), agent)
        up = started(world, folder)
        world.run(up.__aenter__())
        try:
            yield world
        finally:
            world.run(up.__aexit__(None, None, None))
            sys.setswitchinterval(usual)


def policy(agent: str, issuers: Sequence[Issuer], folder: Path) -> Config:
    document = {
        "version": 1,
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "agents": [
            {
                "name": "worker",
                "upstream": agent,
                "public_url": "https://agents.test/worker",
                "tenants": TENANTS,
            }
        ],
        "identity": {
            "issuers": [
                {"issuer": each.url, "audiences": ["agent"], "claims": {"tenant": "tid"}} for each in issuers
            ]
        },
        "push": {"allow": [HOOK], "per_task": 1000},
        "other_paths": {"default": "refuse"},
        "ledger": {"url": f"sqlite:///{folder}/ledger.db"},
        "audit": {"output": str(folder / "audit.jsonl")},
        "limits": {"drain_timeout": 5},
    }
    return Config.model_validate_json(json.dumps(document))
