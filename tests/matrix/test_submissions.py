"""Every way to submit with a token that covers too little is refused, in the dialect's own form (FC-059)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sidecar.model import SENDS, Version
from tests.edge.conftest import Answer
from tests.matrix.agent import replying
from tests.matrix.cells import RPC_IDS, a_random_id
from tests.matrix.conftest import LASTING, TENANT, At
from tests.matrix.forms import require_divergence, require_early_end, require_unauthenticated
from tests.matrix.requests import HOOK, ROWS, Names, Request, Row

pytestmark = pytest.mark.asyncio(loop_scope="session")

V1_0 = Version.V1_0
Change = Callable[[Row, Request], Request | None]


def with_member(where: str, name: str, value: Any) -> Change:
    """The submission with a member more in `params` or in its `configuration`."""

    def change(row: Row, request: Request) -> Request:
        assert request.body is not None
        body = json.loads(request.body)
        params = body["params"] if row.jsonrpc else body
        inner = params if where == "params" else params.setdefault(where, {})
        inner[name] = value
        return replace(request, body=json.dumps(body).encode())

    return change


def under_a_tenant(row: Row, request: Request) -> Request | None:
    if row.dialect.version is not V1_0:
        return None
    if row.jsonrpc:
        return with_member("params", "tenant", TENANT)(row, request)
    return replace(request, target=f"/{TENANT}{request.target}")


def only_0_1(change: Change) -> Change:
    return lambda row, request: change(row, request) if row.dialect.version is Version.V0_1 else None


def since_0_2(change: Change) -> Change:
    return lambda row, request: change(row, request) if row.dialect.version is not Version.V0_1 else None


def on_another_path(row: Row, request: Request) -> Request | None:
    return replace(request, target="/some/where") if row.jsonrpc else None


def as_text(row: Row, request: Request) -> Request:
    """py runs JSON whatever its content type."""
    return replace(request, headers=request.headers | {"Content-Type": "text/plain"})


WAYS: dict[str, Change] = {
    "plainly": lambda row, request: request,
    "returning at once": since_0_2(with_member("configuration", "returnImmediately", True)),
    "waiting": since_0_2(with_member("configuration", "returnImmediately", False)),
    "blocking": since_0_2(with_member("configuration", "blocking", True)),
    "not blocking": since_0_2(with_member("configuration", "blocking", False)),
    "with a webhook": since_0_2(with_member("configuration", "pushNotificationConfig", {"url": HOOK})),
    "with a webhook of 0.1": only_0_1(with_member("params", "pushNotification", {"url": HOOK})),
    "in a session": only_0_1(with_member("params", "sessionId", "s-1")),
    "naming the skill": with_member("metadata", "skillId", "review"),
    "under a tenant": under_a_tenant,
    "on a path nobody listed": on_another_path,
    "as text": as_text,
}


def submissions() -> Iterator[Any]:
    for row in ROWS:
        if row.operation in SENDS:
            for way, change in WAYS.items():
                if change(row, row.sending(Names("t"))) is not None:
                    yield pytest.param(row, change, id=f"{row.dialect} {row.name} {way}")


def a_submission(row: Row, change: Change, rpc_id: Any = 1, *, snake: bool = False) -> tuple[Request, str]:
    """A request that creates, and the id of what it creates (the caller's choice in 0.1)."""
    made = a_random_id()
    names = Names(made) if row.dialect.version is Version.V0_1 else Names()
    request = change(row, row.sending(names, rpc_id, snake=snake))
    assert request is not None
    return request, made


@pytest.mark.parametrize(("row", "change"), list(submissions()))
async def test_a_token_too_narrow_submits_nothing(at: At, row: Row, change: Change) -> None:
    cell = await at(row)
    untouched = cell.untouched()
    for rpc_id in RPC_IDS if row.jsonrpc else (1,):
        request, _ = a_submission(row, change, rpc_id)
        require_divergence(row, await cell.ask(request, scope="w"), rpc_id)
    require_unauthenticated(row, await cell.ask(request, None), rpc_id)
    assert untouched(), "the agent was asked"


@pytest.mark.parametrize(("row", "change"), list(submissions()))
async def test_a_token_wide_enough_submits_the_same(at: At, row: Row, change: Change) -> None:
    cell = await at(row)
    request, made = a_submission(row, change)
    cell.agent.script, said = replying(row, made, context=f"c-{made}")
    answer = await cell.ask(request)
    assert (answer.status, answer.body) == (200, said)
    got = cell.agent.received[-1]
    assert (got.method, got.target, got.body) == (request.method, request.target, request.body)


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=f"{r.dialect} {r.name}") for r in ROWS if r.operation in SENDS]
)
async def test_a_token_that_ends_before_the_task_can_submits_nothing(at: At, row: Row) -> None:
    cell = await at(row)
    request, made = a_submission(row, with_member("metadata", "skillId", LASTING))
    untouched = cell.untouched()

    async def ask(seconds: int) -> Answer:
        token = cell.running.token("alice", exp=int(time.time()) + seconds)
        headers = request.headers | {"Authorization": f"Bearer {token}"}
        return await cell.ask(replace(request, headers=headers), None)

    require_early_end(row, await ask(180), skill=LASTING, needed=600)
    assert untouched(), "the agent was asked"
    cell.agent.script, said = replying(row, made, context=f"c-{made}")
    assert (await ask(3600)).body == said
    # What was made may be finished with a token that would not have begun it.
    request = row.sending(Names(made))
    assert (await ask(60)).body == said


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=f"{r.dialect} {r.name}") for r in ROWS if r.operation in SENDS]
)
async def test_a_narrow_token_may_still_go_on_with_what_it_has(at: At, row: Row) -> None:
    """Only creating is guarded; a task that exists must not lose its way to an end."""
    cell = await at(row)
    task = await cell.a_task_of("alice")
    cell.agent.script, said = replying(row, task, context=f"c-{task}")
    answer = await cell.ask(row.sending(Names(task)), scope="w")
    assert (answer.status, answer.body) == (200, said)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(r, id=f"{r.dialect} {r.name}")
        for r in ROWS
        if r.operation in SENDS and r.dialect.version is not Version.V0_1
    ],
)
async def test_naming_a_task_that_is_not_ones_own_is_no_way_round(at: At, row: Row) -> None:
    cell = await at(row)
    task = await cell.a_task_of("alice")
    untouched = cell.untouched()
    foreign, absent = [
        await cell.ask(row.sending(Names(named)), "bob", scope="w") for named in (task, a_random_id())
    ]
    assert foreign.shown == absent.shown
    assert untouched(), "the agent was asked"
