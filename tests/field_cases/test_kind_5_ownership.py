"""Kind 5, whose tasks and contexts they are: FC-064, FC-065, FC-067, FC-076."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace

import pytest

from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Operation, Version
from tests.e2e.wire import ON_A_TASK
from tests.edge.agent import Agent, a_task, answers
from tests.edge.conftest import Start
from tests.field_cases.doors import (
    EVENTS,
    SENDING,
    V0_1,
    a_message,
    a_task_in,
    each,
    gets,
    row_of,
    says,
    sse,
)
from tests.field_cases.real_agents import (
    ABSENT,
    DIALECTS,
    Guarded,
    Real,
    Voice,
    an_event,
    is_not_found,
    task_of,
)
from tests.matrix.agent import not_found, replying
from tests.matrix.cells import Asked, a_random_id, cases, every_cell, picks
from tests.matrix.conftest import At, Cell
from tests.matrix.forms import require_not_found
from tests.matrix.requests import Names, Request, Row
from tests.process.conftest import Launch

STATES = ("working", "input-required", "completed", "canceled")
in_session = pytest.mark.asyncio(loop_scope="session")


# --- FC-064 --------------------------------------------------------------------------------------


@in_session
@pytest.mark.parametrize("asked", cases(every_cell()))
async def test_fc_064_every_operation_in_every_dialect_and_every_state_of_the_task(
    at: At, asked: Asked
) -> None:
    cell = await at(asked.row)
    for state in STATES:
        task = await a_task_in(cell, state)
        untouched = cell.untouched()
        foreign = await cell.ask(asked.request(task), "mallory")
        require_not_found(asked.row, foreign)
        if not picks(asked):  # in 0.1 an id nobody has is the caller's to pick
            assert foreign.shown == (await cell.ask(asked.request(a_random_id()), "mallory")).shown
        assert untouched(), "the agent was asked"
        shown = task if asked.place != "refers to" else a_random_id()
        request = asked.request(task)
        if asked.row.dialect.version is V0_1 and asked.place == "refers to":
            request = asked.row.sending(Names(shown, (task,)), snake=asked.snake)
        script, body = replying(asked.row, shown, context=f"c-{shown}")
        cell.agent.script = script
        answer = await cell.ask(request)
        assert (answer.status in (200, 204), answer.body) == (True, body)
        assert await gets(cell, "alice", task)


async def a_real_task(voice: Voice, state: str) -> str:
    """A task of a real agent in this state."""
    if state == "working":
        return task_of(await voice.first("stream", text="long 30"))
    task = (await voice.ask("send", text="quick" if state == "completed" else "input")).resource["id"]
    if state == "canceled":
        assert await voice.cancel(task) == "canceled"
    assert await voice.state(task) == state
    return str(task)


# In this order each still finds the task as the state says; the last may change it.
OWNERS_TURN = ("get", "push-create", "push-get", "push-list", "push-delete", "refer", "cancel")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fc_064_a_real_agent_that_would_answer_anybody(
    real: Real, guarded: Guarded, dialect: str, state: str
) -> None:
    running = await guarded(real)
    alice, mallory = (Voice(running, who, dialect) for who in ("alice", "mallory"))
    task = await a_real_task(alice, state)
    refused: dict[str, object] = {}
    untouched = real.untouched()
    for operation in ON_A_TASK:
        foreign, absent = [
            await mallory.ask(operation, task=named, text="quick", message="m-1") for named in (task, ABSENT)
        ]
        assert foreign.but_date == absent.but_date, operation
        assert is_not_found(foreign, dialect), operation
        refused[operation] = foreign.but_date
    assert untouched(), "the agent was asked"
    assert await alice.state(task) == state, "mallory had an effect"
    if state == "working":
        assert task.encode() in await alice.first("subscribe", task=task)
    for operation in OWNERS_TURN:
        untouched = real.untouched()
        answer = await alice.ask(operation, task=task, text="quick")
        assert not untouched(), f"alice's own {operation} did not reach the agent"
        assert answer.but_date != refused[operation], operation
    assert await alice.state(task) == ("completed" if state == "completed" else "canceled")


# --- FC-065 --------------------------------------------------------------------------------------


async def require_stranger_finds_nothing(mallory: Voice, agent: Real, task: str) -> None:
    untouched = agent.untouched()
    for operation in ("subscribe", "cancel"):
        foreign, absent = [await mallory.ask(operation, task=named) for named in (task, ABSENT)]
        assert foreign.but_date == absent.but_date, operation
        assert is_not_found(foreign, mallory.dialect), operation
    assert untouched(), "the agent was asked"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fc_065_a_live_task_has_no_short_cut_here_or_on_the_next_replica(
    real: Real, guarded: Guarded, dialect: str
) -> None:
    ledger = MemoryLedger(now=time.time)
    here, there = [await guarded(real, ledger) for _ in range(2)]
    alice = Voice(here, "alice", dialect)
    async with alice.opening("stream", text="long 30") as stream:
        task = task_of(await an_event(stream))
        for replica in (here, there):
            await require_stranger_finds_nothing(Voice(replica, "mallory", dialect), real, task)
        for _ in range(3):
            assert task.encode() in await an_event(stream), "alice's stream ended"
        for replica in (here, there):
            assert await Voice(replica, "alice", dialect).state(task) == "working"
        assert task.encode() in await Voice(there, "alice", dialect).first("subscribe", task=task)
        assert await alice.cancel(task) == "canceled"


async def test_fc_065_nor_straight_after_a_crash(real: Real, launch: Launch) -> None:
    before = await launch(upstream=real.recorder.url)
    tasks: dict[str, str] = {}
    for dialect in DIALECTS:
        tasks[dialect] = task_of(await Voice(before, "alice", dialect).first("stream", text="long 30"))
    before.process.kill()
    await before.ended()
    after = await launch(upstream=real.recorder.url)
    for dialect, task in tasks.items():
        await require_stranger_finds_nothing(Voice(after, "mallory", dialect), real, task)
        alice = Voice(after, "alice", dialect)
        assert await alice.state(task) == "working"
        assert task.encode() in await alice.first("subscribe", task=task)
        assert await alice.cancel(task) == "canceled"


# --- FC-067 --------------------------------------------------------------------------------------


def in_context(row: Row, context: str, task: str | None = None) -> Request:
    """A send that names this context. In 0.1, where it is the session, it also picks the id of its task."""
    request = row.sending(Names(task or (a_random_id() if row.dialect.version is V0_1 else None)))
    assert request.body is not None
    body = json.loads(request.body)
    params = body["params"] if row.jsonrpc else body
    if row.dialect.version is V0_1:
        params["sessionId"] = context
    else:
        params["message"]["contextId"] = context
    return replace(request, body=json.dumps(body).encode())


async def join(cell: Cell, who: str, context: str) -> bool:
    """Whether `who` may start a task in `context`. If not, the answer is the one not-found, and the agent rests."""
    task = a_random_id()
    picked = task if cell.row.dialect.version is V0_1 else None
    cell.agent.script, _ = replying(cell.row, task, context=context)
    untouched = cell.untouched()
    answer = await cell.ask(in_context(cell.row, context, picked), who)
    if task.encode() in answer.body:
        return True
    require_not_found(cell.row, answer)
    assert untouched(), "the agent was asked"
    return False


@in_session
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_067_a_context_is_its_first_owners(at: At, row: Row) -> None:
    cell = await at(row)
    task = await a_task_in(cell, "working")
    context = f"c-{task}"
    assert not await join(cell, "mallory", context), "mallory joined alice's conversation"
    assert await join(cell, "alice", context)

    picked = a_random_id()  # a context that never was: the documented rule (`client_context_ids: own`)
    assert await join(cell, "mallory", picked)
    assert not await join(cell, "alice", picked)

    cell.agent.script = not_found(row_of(row, Operation.GET_TASK), task)
    get = row_of(row, Operation.GET_TASK)
    require_not_found(get, await cell.ask(get.on_a_task(task)))
    assert not await join(cell, "mallory", context), "free once its tasks are purged"


@in_session
@pytest.mark.parametrize("row", each(r for r in SENDING if r.dialect.version is not V0_1))
async def test_fc_067_a_context_first_seen_in_a_message_is_owned_as_well(at: At, row: Row) -> None:
    cell = await at(row)
    context = f"c-{a_random_id()}"
    message = a_message(row, context)
    cell.agent.script = says(sse(message), EVENTS) if row.streams else says(json.dumps(message).encode())
    assert context.encode() in (await cell.ask(row.sending(Names()))).body
    assert not await join(cell, "mallory", context)
    assert await join(cell, "alice", context)


@in_session
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_067_a_context_the_agent_took_without_a_word_is_its_pickers(at: At, row: Row) -> None:
    """0.1's events name no session, and in 1.0 a task may leave its context out."""
    cell = await at(row)
    picked, made = a_random_id(), a_random_id()
    _, said = replying(row, made, context="LEFT OUT")
    said = re.sub(rb'"(contextId|sessionId)": "LEFT OUT",?', b"", said)
    cell.agent.script = says(said, EVENTS if row.streams else "application/json")
    task = made if row.dialect.version is V0_1 else None
    assert (await cell.ask(in_context(row, picked, task))).body == said
    assert not await join(cell, "mallory", picked)
    assert await join(cell, "alice", picked)


MULTI = [r for r in SENDING if r.dialect.version in (Version.V0_3, Version.V1_0)]


def on_the_card(row: Row) -> str:
    """Where the scripted agent's card has the binding of this row."""
    return "" if row.jsonrpc else "/rest"


@pytest.mark.parametrize("row", each(MULTI))
async def test_fc_067_where_callers_may_not_pick_contexts_foreign_and_unknown_are_one(
    start: Start, agent: Agent, row: Row
) -> None:
    running = await start(ownership={"client_context_ids": "refuse"})
    agent.script = answers({"task": a_task("t-1", "c-alice")})
    await running.submit("alice")
    agent.received.clear()
    asked = [moved(in_context(row, c), on_the_card(row)) for c in ("c-alice", f"c-{ABSENT}")]
    foreign, absent = [await Cell(row, running, agent).ask(request, "mallory") for request in asked]
    assert foreign.shown == absent.shown
    assert agent.received == []
    assert b"c-alice" not in foreign.body
    agent.script, _ = replying(row, "t-2", context="c-alice")
    assert b"t-2" in (await Cell(row, running, agent).ask(asked[0], "alice")).body


def moved(request: Request, base: str) -> Request:
    return replace(request, target=(base + request.target).rstrip("/") or "/")


@pytest.mark.parametrize("row", each(MULTI))
async def test_fc_067_a_context_outlives_its_rows(start: Start, agent: Agent, row: Row) -> None:
    """Retention has removed task and context; a tombstone still lets nobody in but the owner."""
    now = [time.time()]
    ledger = MemoryLedger(now=lambda: now[0])
    running = await start(ledger)
    agent.script = answers({"task": a_task("t-1", "c-alice", "TASK_STATE_COMPLETED")})
    await running.submit("alice")
    now[0] += 400 * 86400
    assert await ledger.prune(now[0]) == 2
    agent.received.clear()
    request = moved(in_context(row, "c-alice"), on_the_card(row))
    require_not_found(row, await Cell(row, running, agent).ask(request, "mallory"))
    assert (await running.call("GetTask", {"id": "t-1"}, who="mallory")).json["error"]["code"] == -32001
    assert agent.received == []
    agent.script, _ = replying(row, "t-2", context="c-alice")
    assert b"t-2" in (await Cell(row, running, agent).ask(request, "alice")).body


# --- FC-076 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "state"),
    [
        pytest.param("done", "completed", id="completed"),
        pytest.param("fail", "failed", id="failed"),
        pytest.param("hold", "canceled", id="canceled by alice"),
        pytest.param("done", "purged", id="purged by the agent"),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fc_076_only_the_owner_learns_that_a_task_is_finished(
    racing: Real, guarded: Guarded, dialect: str, word: str, state: str
) -> None:
    running = await guarded(racing)
    alice, mallory = (Voice(running, who, dialect) for who in ("alice", "mallory"))
    direct = Voice(running, "alice", dialect, base=racing.url)
    task = task_of(await alice.first("stream", text=word))
    if word == "hold":
        assert await alice.cancel(task) == "canceled"
    while await direct.state(task) in ("submitted", "working"):
        await asyncio.sleep(0.01)
    if state == "purged":
        async with running.session.post(f"{racing.url}/purge/{task}") as reply:
            assert reply.status == 200

    untouched = racing.untouched()
    for operation in ("cancel", "cancel", "subscribe"):
        foreign, absent = [await mallory.ask(operation, task=named) for named in (task, ABSENT)]
        assert foreign.but_date == absent.but_date
        assert is_not_found(foreign, dialect)
    assert untouched(), "the agent was asked"

    native = await direct.ask("cancel", task=task)
    for _ in range(2):
        untouched = racing.untouched()
        answer = await alice.ask("cancel", task=task)
        assert not untouched(), "answered without the agent"
        if state == "purged":
            assert answer.but_date == (await alice.ask("cancel", task=ABSENT)).but_date
            assert is_not_found(answer, dialect)
        else:
            assert (answer.status, answer.body) == (native.status, native.body)
            assert not is_not_found(answer, dialect)
    if state != "purged":
        assert await alice.state(task) == state
