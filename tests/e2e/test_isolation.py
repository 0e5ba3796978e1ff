"""Somebody else's task and no task at all are one answer, and the agent hears of neither."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.e2e.deployment import AGENTS, Deployment
from tests.e2e.wire import JSONRPC, ON_A_TASK, Answer, ask, request

PAIRS = [(kind.name, dialect) for kind in AGENTS.values() for dialect in kind.dialects]
CELLS = [
    pytest.param(agent, dialect, operation, id=f"{operation} on {agent} in {dialect}")
    for agent, dialect in PAIRS
    for operation in ON_A_TASK
]


PUSHLESS = {"google-adk"}  # its card declares no push notifications


def is_not_found(answer: Answer, dialect: str) -> bool:
    """A2A 1.0 §5.4: -32001, or 404 in HTTP+JSON."""
    if dialect in JSONRPC:
        return answer.status == 200 and answer.documents[0]["error"]["code"] == -32001
    return answer.status == 404


@pytest.mark.parametrize(("agent", "dialect", "operation"), CELLS)
def test_a_foreign_task_and_no_task_are_one_answer(
    agent: str, dialect: str, operation: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    sidecar = deployment.sidecar(agent)
    alice, bob = token("alice"), token("bob")
    task = ask(sidecar.url, request(dialect, "send", text="input"), alice).resource["id"]
    heard = len(sidecar.recorder.calls())

    message = str(uuid4())
    foreign, absent, odd = (
        ask(sidecar.url, request(dialect, operation, task=named, text="refs", message=message), bob)
        for named in (task, str(uuid4()), "no-such-task")
    )

    if agent in PUSHLESS and operation.startswith("push"):  # what the agent itself says of any task
        direct = ask(deployment.agent(agent), request(dialect, operation, task=str(uuid4())), bob)
        assert foreign.documents[0]["error"]["code"] == direct.documents[0]["error"]["code"] == -32003
    else:
        assert is_not_found(foreign, dialect), foreign
    assert foreign.but_date == absent.but_date
    assert foreign.but_date == odd.but_date
    assert sidecar.recorder.calls()[heard:] == []
    assert ask(sidecar.url, request(dialect, "get", task=task), alice).state == "input-required"
    assert ask(sidecar.url, request(dialect, "continue", task=task), alice).state == "completed"


@pytest.mark.parametrize(("agent", "dialect"), [pytest.param(*pair, id=" in ".join(pair)) for pair in PAIRS])
def test_nobody_joins_a_foreign_conversation(
    agent: str, dialect: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    """No SDK asks who a context belongs to; in google-adk it is the whole conversation."""
    sidecar = deployment.sidecar(agent)
    context = ask(sidecar.url, request(dialect, "send"), token("alice")).resource["contextId"]
    heard = len(sidecar.recorder.calls())
    joined = ask(sidecar.url, request(dialect, "join", context=context), token("bob"))
    assert is_not_found(joined, dialect), joined
    assert sidecar.recorder.calls()[heard:] == []
