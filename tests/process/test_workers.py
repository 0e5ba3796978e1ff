"""`--workers 2`: one port, one ledger, one set of figures, and no caller who notices that a worker died."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.edge.agent import Agent, a_task, error, event_stream, result
from tests.process.conftest import Launch, Policy
from tests.process.running import MESSAGE, Running, read, run_to_its_end

# The callers' own aiohttp leaves a connection to a worker that was killed to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function Connection.__del__:pytest.PytestUnraisableExceptionWarning"
)

WRONG_CONFIGURATION = 2
CONNECTIONS = 24


class Making:
    """An agent's script that makes a task for each send, and knows the tasks it is asked for."""

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        asked = json.loads(body)
        if asked["method"] == "GetTask":
            return result(body, a_task(asked["params"]["id"]))
        made = f"t-{uuid.uuid4().hex}"
        return result(body, {"task": a_task(made, context=f"c-{made}")})


class Streaming(Making):
    """The same; a stream shows its task at once and ends when told to."""

    def __init__(self) -> None:
        self.end = asyncio.Event()

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if json.loads(body)["method"] != "SendStreamingMessage":
            return await super().__call__(request, body)
        made = f"t-{uuid.uuid4().hex}"
        response = await event_stream(request)
        await response.write(event({"task": a_task(made, context=f"c-{made}")}))
        await self.end.wait()
        status = {"taskId": made, "contextId": f"c-{made}", "status": {"state": "TASK_STATE_COMPLETED"}}
        await response.write(event({"statusUpdate": status}))
        return response


def event(value: Any) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}).encode() + b"\n\n"


@asynccontextmanager
async def callers(running: Running, count: int) -> AsyncIterator[list[Running]]:
    """Callers with one connection each, which is kept."""
    async with AsyncExitStack() as stack:

        async def one() -> Running:
            session = await stack.enter_async_context(
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=1), timeout=aiohttp.ClientTimeout(total=40)
                )
            )
            return Running(
                running.process,
                running.stdout,
                running.stderr,
                running.issuer,
                session,
                running.url,
                running.admin_url,
            )

        yield [await one() for _ in range(count)]
    gc.collect()  # here and not in somebody else's test


async def open_streams(all_: list[Running]) -> tuple[list[aiohttp.ClientResponse], list[str]]:
    """One stream of each caller, each with its task shown."""
    replies = await asyncio.gather(*(c.calling("SendStreamingMessage", {"message": MESSAGE}) for c in all_))
    first = await asyncio.gather(*(reply.content.readuntil(b"\n\n") for reply in replies))
    return replies, [json.loads(f[6:])["result"]["task"]["id"] for f in first]


async def rest_of(reply: aiohttp.ClientResponse) -> bytes | None:
    """None where the stream was broken off."""
    try:
        return await reply.content.read()
    except (aiohttp.ClientError, ConnectionError):
        return None


def alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something that is asked for holds."""
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.02)


async def ready(running: Running) -> dict[str, Any]:
    answer = await running.get(f"{running.admin_url}/readyz")
    assert answer.status == (200 if answer.json["ready"] else 503)
    problems: dict[str, Any] = answer.json["problems"]
    return problems


async def require_owned(running: Running, tasks: list[str]) -> None:
    """Alice's tasks are hers and not Bob's, whichever worker is asked."""
    async with callers(running, 6) as all_:
        for task in tasks:
            own = await asyncio.gather(*(c.call("GetTask", {"id": task}) for c in all_))
            assert [a.json["result"]["id"] for a in own] == [task] * len(all_)
            foreign = await asyncio.gather(*(c.call("GetTask", {"id": task}, who="bob") for c in all_))
            assert {a.json["error"]["code"] for a in foreign} == {-32001}


# --- serving -------------------------------------------------------------------------------------


async def test_both_serve_a_share_and_the_figures_are_the_sum(launch: Launch, agent: Agent) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    async with callers(running, CONNECTIONS) as all_:
        sent = await asyncio.gather(*(c.submit() for c in all_))
        made = [answer.json["result"]["task"]["id"] for answer in sent]
        got = await asyncio.gather(*(c.call("GetTask", {"id": t}) for c in all_ for t in made[:4]))
        assert {answer.status for answer in got} == {200}
        metrics = await running.metrics()
    shares = [metrics[f'a2a_sidecar_worker_connections{{worker="{n}"}}'] for n in range(2)]
    assert sum(shares) == CONNECTIONS
    assert min(shares) > 0, "how even the shares are is a matter of time: tests/bench"
    decided = 'a2a_sidecar_decisions_total{{agent="agent",dialect="JSONRPC/1.0",operation="{}",outcome="permitted",reason=""}}'
    assert metrics[decided.format("send")] == CONNECTIONS
    assert metrics[decided.format("get")] == 4 * CONNECTIONS
    await running.stop()
    decisions = [record for record in running.audited() if record["event"] == "decision"]
    assert len(decisions) == 5 * CONNECTIONS
    by_worker = Counter(record["decision_id"].partition("-")[0] for record in decisions)
    assert len(by_worker) == 2, "one worker did everything"
    assert len({record["decision_id"] for record in decisions}) == len(decisions)


async def test_two_callers_racing_for_one_context_have_one_owner(launch: Launch, agent: Agent) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        context = json.loads(body)["params"]["message"]["contextId"]
        return result(body, {"task": a_task(f"t-{uuid.uuid4().hex}", context=context)})

    agent.script = script
    running = await launch(workers=2)
    async with callers(running, 8) as all_:
        for number in range(20):
            message = MESSAGE | {"contextId": f"c-{number}"}
            whose = ["alice", "bob"] * 4
            sent = await asyncio.gather(
                *(
                    c.call("SendMessage", {"message": message}, who=who)
                    for c, who in zip(all_, whose, strict=True)
                )
            )
            owners = {who for who, answer in zip(whose, sent, strict=True) if "result" in answer.json}
            assert len(owners) == 1
            again = await asyncio.gather(
                *(c.call("SendMessage", {"message": message}, who=w) for c in all_ for w in ("alice", "bob"))
            )
            for who, answer in zip(["alice", "bob"] * len(all_), again, strict=True):
                assert ("result" in answer.json) == (who in owners)
    await running.stop()
    assert not [r for r in running.audited() if r.get("reason") == "ledger_unavailable"]


async def test_what_one_worker_gave_back_is_nobodys_for_the_other(launch: Launch, agent: Agent) -> None:
    """A reservation of a chosen context, dropped when the agent refused, in whichever worker that was."""

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        message = json.loads(body)["params"]["message"]
        if message["parts"] == [{"text": "refuse"}]:
            return error(body, -32603, "no")
        return result(body, {"task": a_task(f"t-{uuid.uuid4().hex}", context=message["contextId"])})

    agent.script = script
    running = await launch(workers=2)
    async with callers(running, 6) as all_:
        for number in range(10):
            context = {"contextId": f"c-{number}"}
            refused = MESSAGE | context | {"parts": [{"text": "refuse"}]}
            await asyncio.gather(*(c.call("SendMessage", {"message": refused}) for c in all_))
            bobs = await all_[number % 6].call("SendMessage", {"message": MESSAGE | context}, who="bob")
            assert "result" in bobs.json
            alices = await asyncio.gather(
                *(c.call("SendMessage", {"message": MESSAGE | context}) for c in all_)
            )
            assert {answer.json["error"]["code"] for answer in alices} == {-32001}


# --- the end of a worker -------------------------------------------------------------------------


async def test_the_calls_of_the_other_worker_go_on_when_one_is_killed(launch: Launch, agent: Agent) -> None:
    agent.script = streaming = Streaming()
    running = await launch(workers=2)
    async with callers(running, 8) as all_:
        replies, tasks = await open_streams(all_)
        before = running.workers()
        os.kill(before[0], signal.SIGKILL)
        await running.until(lambda: running.workers()[0] != before[0])
        await until(lambda: _is_ready(running))
        streaming.end.set()
        ends = await asyncio.gather(*map(rest_of, replies))
    went_on = [end for end in ends if end is not None]
    assert 0.25 * len(ends) <= len(went_on) < len(ends)
    assert all(b"TASK_STATE_COMPLETED" in end for end in went_on)
    assert running.workers()[1] == before[1]
    await require_owned(running, tasks)
    (told,) = running.logged("a worker ended")
    assert (told["worker"], told["how"], told["another_in_seconds"]) == (0, "killed by SIGKILL", 0)
    metrics = await running.metrics()
    assert metrics["a2a_sidecar_worker_restarts_total"] == 1
    await running.stop()


async def _is_ready(running: Running) -> bool:
    return not await ready(running)


async def _has_problems(running: Running, names: set[str]) -> bool:
    return set(await ready(running)) == names


async def test_what_a_dead_worker_counted_stays_counted(launch: Launch, agent: Agent) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    async with callers(running, 8) as all_:
        await asyncio.gather(*(c.submit() for c in all_))
    counted = 'a2a_sidecar_outcomes_total{agent="agent",outcome="recorded"}'
    assert (await running.metrics())[counted] == 8
    before = running.workers()
    for n in range(2):
        os.kill(before[n], signal.SIGKILL)
    await running.until(lambda: all(running.workers()[n] != before[n] for n in range(2)))
    await until(lambda: _is_ready(running))
    assert (await running.metrics())[counted] == 8
    await running.submit()
    assert (await running.metrics())[counted] == 9


async def test_one_that_dies_again_and_again_is_started_less_often(launch: Launch) -> None:
    running = await launch(workers=2)
    for _ in range(3):
        pid = running.workers()[0]
        os.kill(pid, signal.SIGKILL)
        await running.until(lambda pid=pid: running.workers()[0] != pid)
    pauses = [said["another_in_seconds"] for said in running.logged("a worker ended")]
    assert pauses == [0, 0.5, 1]
    assert (await running.get(f"{running.admin_url}/livez")).status == 200
    await running.stop()


async def test_no_id_a_caller_has_received_is_lost_with_a_worker(launch: Launch, agent: Agent) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    received: list[str] = []

    async def calls(caller: Running) -> None:
        for _ in range(25):
            with suppress(aiohttp.ClientError, ConnectionError):
                received.append((await caller.submit()).json["result"]["task"]["id"])

    async def kills() -> None:
        for round_ in range(4):
            reached = len(received) + 30
            await running.until(lambda reached=reached: len(received) >= reached)
            pid = running.workers()[round_ % 2]
            os.kill(pid, signal.SIGKILL)
            await running.until(lambda pid=pid, n=round_ % 2: running.workers()[n] != pid)

    async with callers(running, 16) as all_:
        calling = asyncio.gather(*map(calls, all_))
        with suppress(TimeoutError):
            async with asyncio.timeout(20):
                await kills()
        await calling
        owned = await asyncio.gather(*(all_[0].call("GetTask", {"id": t}) for t in received[::3]))
    assert len(running.logged("a worker ended")) >= 2
    assert [a.json.get("result", {}).get("id") for a in owned] == received[::3]
    await running.stop()


async def test_a_policy_that_has_changed_meanwhile_is_not_for_one_worker_alone(
    launch: Launch, agent: Agent, policy: Policy
) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    path = running.stdout.with_suffix(".yaml")
    path.write_text(path.read_text().replace('"audience": "agent"', '"audience": "another"'))
    before = running.workers()
    os.kill(before[1], signal.SIGKILL)
    await running.until(lambda: running.workers()[1] != before[1])
    await until(lambda: _is_ready(running))
    async with callers(running, 8) as all_:
        assert {answer.status for answer in await asyncio.gather(*(c.submit() for c in all_))} == {200}
    await running.stop()
    assert len({r["policy"] for r in running.audited() if r["event"] == "decision"}) == 1


async def test_a_worker_that_cannot_start_again_leaves_the_other_serving(
    launch: Launch, agent: Agent, tmp_path: Path
) -> None:
    agent.script = Making()
    key = tmp_path / "key"
    key.write_text("x" * 40)
    running = await launch(workers=2, list={"key_files": [str(key)]})
    key.rename(tmp_path / "gone")
    os.kill(running.workers()[0], signal.SIGKILL)
    await running.until(lambda: bool(running.logged("a worker cannot start")))
    assert running.logged("a worker cannot start")[0]["problem"].startswith("list.key_files: cannot read")
    assert (await running.submit()).status == 200
    assert list(await ready(running)) == ["worker 0"]
    (tmp_path / "gone").rename(key)
    await until(lambda: _is_ready(running))
    await running.stop()


# --- the end of the supervisor -------------------------------------------------------------------


async def test_without_their_supervisor_workers_finish_and_end(launch: Launch, agent: Agent) -> None:
    agent.script = streaming = Streaming()
    running = await launch(workers=2)
    pids = running.workers().values()
    async with callers(running, 4) as all_:
        replies, tasks = await open_streams(all_)
        running.process.kill()
        await running.until_closed()
        assert all(map(alive, pids)), "they left streams behind"
        streaming.end.set()
        ends = await asyncio.gather(*map(rest_of, replies))
    assert all(end is not None and b"TASK_STATE_COMPLETED" in end for end in ends)
    await running.until(lambda: not any(map(alive, pids)))
    port = int(running.url.rpartition(":")[2])
    again = await launch(workers=2, listen=f"127.0.0.1:{port}")  # port and ledger are free
    await require_owned(again, tasks)
    await again.stop()


async def test_nobody_else_has_the_ledger_before_the_last_worker_has_ended(
    launch: Launch, agent: Agent, policy: Policy
) -> None:
    agent.script = streaming = Streaming()
    running = await launch(workers=2)
    async with callers(running, 1) as all_:
        (reply,), _ = await open_streams(all_)
        running.process.kill()
        await running.until_closed()
        ended = await run_to_its_end(policy(), workers=2)
        assert ended.returncode == WRONG_CONFIGURATION
        assert "is in use by another process" in ended.stderr
        streaming.end.set()
        assert b"TASK_STATE_COMPLETED" in (await rest_of(reply) or b"")
    await running.until(lambda: not any(map(alive, running.workers().values())))


# --- readiness and health ------------------------------------------------------------------------


async def test_a_worker_that_hangs_is_named_and_keeps_no_caller_waiting(launch: Launch, agent: Agent) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    await until(lambda: _is_ready(running))
    pid = running.workers()[1]
    os.kill(pid, signal.SIGSTOP)
    try:
        async with callers(running, 8) as all_:  # the other one takes them, though it has more each time
            assert {answer.status for answer in await asyncio.gather(*(c.submit() for c in all_))} == {200}
        problems, live, metrics = await asyncio.gather(
            ready(running), running.get(f"{running.admin_url}/livez"), running.metrics()
        )
        assert problems == {"worker 1": "did not answer within 4 s"}
        assert (live.status, live.body) == (503, b"worker 1 did not answer within 4 s\n")
        assert [metrics[f'a2a_sidecar_worker_up{{worker="{n}"}}'] for n in range(2)] == [1, 0]
        counted = 'a2a_sidecar_outcomes_total{agent="agent",outcome="recorded"}'
        assert metrics[counted] == 8
    finally:
        os.kill(pid, signal.SIGCONT)
    await until(lambda: _is_ready(running))
    assert (await running.get(f"{running.admin_url}/livez")).status == 200


async def test_an_agent_that_hangs_is_no_reason_to_call_workers_dead(launch: Launch, agent: Agent) -> None:
    asked, let_go = asyncio.Event(), asyncio.Event()

    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await let_go.wait()
        return web.Response(status=503)

    await agent.down()
    agent._handle = hang  # type: ignore[method-assign]
    await agent.up()
    running = await launch(workers=2)
    await asked.wait()
    assert (await running.get(f"{running.admin_url}/readyz")).status == 503
    live = await running.get(f"{running.admin_url}/livez")
    let_go.set()
    assert (live.status, live.body) == (200, b"ok\n")


async def test_a_part_that_is_not_ready_is_named_with_its_worker(launch: Launch, agent: Agent) -> None:
    await agent.down()
    running = await launch(workers=2)
    both = {"worker 0: card of agent", "worker 1: card of agent"}
    await until(lambda: _has_problems(running, both))
    await agent.up()
    await until(lambda: _is_ready(running))
    assert (await running.get(f"{running.admin_url}/nothing")).status == 404
    async with running.session.post(f"{running.admin_url}/livez") as reply:
        assert (await read(reply)).status == 405


# --- the start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["listen", "admin"])
async def test_a_port_in_use_stops_the_start(policy: Policy, port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = await run_to_its_end(policy(**{port: address}), workers=2)
    assert ended.returncode == WRONG_CONFIGURATION
    assert ended.stderr == f"cannot listen on {address}: Address already in use\n"


async def test_a_ledger_that_is_one_processs_memory_stops_the_start(policy: Policy) -> None:
    ended = await run_to_its_end(policy(ledger={"url": "memory:"}), workers=2)
    assert ended.returncode == WRONG_CONFIGURATION
    assert ended.stderr.startswith("ledger.url: `memory:` is the memory of one process; write `sqlite:")


async def test_what_no_worker_can_start_with_stops_the_start_and_is_told_once(
    policy: Policy, tmp_path: Path
) -> None:
    ended = await run_to_its_end(policy(list={"key_files": [f"{tmp_path}/none"]}), workers=2)
    assert ended.returncode == WRONG_CONFIGURATION
    told = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert told == [f"list.key_files: cannot read `{tmp_path}/none`: No such file or directory"]


async def test_a_worker_that_dies_before_it_has_started_stops_the_start(
    policy: Policy, tmp_path: Path
) -> None:
    planted = planted_in_every_process(
        tmp_path, "import os, sys\nif '--as-worker' in sys.orig_argv: os._exit(9)\n"
    )
    ended = await run_to_its_end(policy(), workers=2, env=planted)
    assert ended.returncode == WRONG_CONFIGURATION
    assert "a worker ended before it had started" in ended.stderr
    assert "Traceback" not in ended.stderr


def planted_in_every_process(folder: Path, code: str) -> dict[str, str]:
    """An environment in which Python runs `code` before anything else."""
    (folder / "planted").mkdir()
    (folder / "planted" / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([str(folder / "planted"), os.environ.get("PYTHONPATH", os.getcwd())])
    return {**os.environ, "PYTHONPATH": path}


async def test_a_port_that_others_could_share_stops_the_start(policy: Policy, tmp_path: Path) -> None:
    planted = planted_in_every_process(
        tmp_path,
        "import socket\n"
        "class Shared(socket.socket):\n"
        "    def bind(self, where):\n"
        "        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        "        super().bind(where)\n"
        "socket.socket = Shared\n",
    )
    ended = await run_to_its_end(policy(), workers=2, env=planted)
    assert ended.returncode == WRONG_CONFIGURATION
    assert "cannot listen on 127.0.0.1:0: SO_REUSEPORT is set" in ended.stderr


async def test_nobody_of_the_same_user_can_share_the_port(launch: Launch, agent: Agent) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    port = int(running.url.rpartition(":")[2])

    def grab() -> None:
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            for host in ("127.0.0.1", "0.0.0.0"):
                with pytest.raises(OSError, match="in use"):
                    thief.bind((host, port))

    grab()
    before = running.workers()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    grab()
    await running.until(lambda: all(running.workers()[n] != before[n] for n in before))
    grab()
    assert (await running.submit()).status == 200  # what came in between was kept for a worker


# --- what they say -------------------------------------------------------------------------------


async def test_lines_of_the_audit_and_of_the_log_are_whole(launch: Launch, agent: Agent) -> None:
    agent.script = Making()
    running = await launch(workers=2)
    async with callers(running, 16) as all_:
        for _ in range(6):
            await asyncio.gather(*(c.call("GetTask", {"id": "x" * 200}, who="bob") for c in all_))
    await running.stop()
    records = running.audited()  # each line is JSON
    assert Counter(record["event"] for record in records) == {"decision": 96, "miss": 96}
    assert all(json.loads(line) for line in running.stderr.read_text().splitlines())
    assert {said["worker"] for said in running.logged("started")} == {0, 1}
