"""Lists on real agents: the caller's own tasks, also where the agent has no list, and as its own list would show them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e import client_runs, wire
from tests.e2e.client_runs import CLIENTS, Client
from tests.e2e.deployment import AGENTS, Deployment
from tests.e2e.wire import Answer, ask, request

PAIRS = [
    pytest.param(kind.name, dialect, id=f"{kind.name} in {dialect}")
    for kind in AGENTS.values()
    if kind.name != "a2a-sdk-0.2.16"  # its card says 0.2, which has no list
    for dialect in kind.dialects
]
# Clients and agents that have lists themselves.
RUNS = [
    pytest.param(client, agent, id=f"{client} to {agent}")
    for client in CLIENTS
    if client.environment in ("a2a-sdk-1", "a2a-js-1")
    for agent in ("a2a-sdk-1", "a2a-js-1")
]


def page_of(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer
    document = answer.documents[0]
    page: dict[str, Any] = document.get("result", document)
    return page


@pytest.mark.parametrize(("agent", "dialect"), PAIRS)
def test_a_list_holds_ones_own_tasks(
    agent: str, dialect: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    sidecar = deployment.sidecar(agent)
    lister, bob = token(f"lister in {dialect}"), token("bob")
    first = ask(sidecar.url, request(dialect, "send", text="quick"), lister).resource
    second = ask(sidecar.url, request(dialect, "send", text="input"), lister).resource
    ask(sidecar.url, request(dialect, "send", text="quick"), bob)

    every = page_of(ask(sidecar.url, request(dialect, "list"), lister))
    one = page_of(ask(sidecar.url, request(dialect, "list", context=second["contextId"]), lister))

    assert {task["id"] for task in every["tasks"]} == {first["id"], second["id"]}
    assert (every["totalSize"], every["nextPageToken"]) == (2, "")
    assert [task["id"] for task in one["tasks"]] == [second["id"]]
    heard = len(sidecar.recorder.calls())
    foreign, absent = (
        ask(sidecar.url, request(dialect, "list", context=context), bob)
        for context in (second["contextId"], "no-such-context")
    )
    assert foreign.but_date == absent.but_date
    assert page_of(foreign)["totalSize"] == 0
    assert sidecar.recorder.calls()[heard:] == []


@pytest.mark.parametrize(("client", "agent"), RUNS)
def test_an_application_sees_the_list_it_would_see_without(
    client: Client, agent: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    """Of one context, since the agents themselves show everybody's tasks to everybody."""

    def run(base: str) -> list[dict[str, Any]]:
        return client_runs.run(client, agent, base, "lists", token("alice"))

    with ThreadPoolExecutor() as pool:
        direct, through = pool.map(run, (deployment.agent(agent), deployment.sidecar(agent).url))
    assert [step for step in direct if "error" in step] == []
    pages = {step["step"]: step["saw"] for step in direct}
    assert [len(page.get("tasks", [])) for page in pages["list"]] == [2, 1]
    parted = wire.differences(client_runs.comparable(through), client_runs.comparable(direct))
    assert not parted, "\n".join(parted)
