"""For the rightful owner a sidecar changes nothing: what agents and clients show is the same with and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.e2e import client_runs, wire
from tests.e2e.client_runs import CLIENTS, Client
from tests.e2e.deployment import AGENTS, Deployment
from tests.e2e.wire import Answer, ask, asked, request

PAIRS = [
    pytest.param(kind.name, dialect, id=f"{kind.name} in {dialect}")
    for kind in AGENTS.values()
    for dialect in kind.dialects
]
RUNS = [
    pytest.param(client, agent, id=f"{client} to {agent}") for client in CLIENTS for agent in client.agents
]

# What every pair of client and agent can do. Not all can push: some cards or SDKs do not offer it.
PUSHLESS = frozenset({"google-adk"})
MUST_WORK = frozenset({"card", "hello", "quick", "art", "get", "input", "answer"})


@pytest.mark.parametrize(("client", "agent"), RUNS)
def test_an_application_sees_what_it_would_see_without(
    client: Client, agent: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    """To a stranger, the error that the agent itself gives about no task, or the client's own not-found."""

    def run(base: str, task: str) -> list[dict[str, object]]:
        stranger = {"token": token("bob"), "task": task}
        return client_runs.run(client, agent, base, "life", token("alice"), stranger)

    with ThreadPoolExecutor() as pool:
        places = ((deployment.agent(agent), str(uuid4())), (deployment.sidecar(agent).url, ""))
        direct, through = pool.map(lambda place: run(*place), places)

    failed = {step["step"]: step["text"] for step in direct if "error" in step}
    assert not MUST_WORK & failed.keys(), f"the agent itself: {failed}"
    refused, told = direct.pop()["error"], through.pop().get("error")
    assert told == refused or "TaskNotFound" in str(told), f"a stranger sees {told} in place of {refused}"
    parted = wire.differences(client_runs.comparable(through), client_runs.comparable(direct))
    assert not parted, "\n".join(parted)


@pytest.mark.parametrize(("agent", "dialect"), PAIRS)
def test_the_wire_carries_the_same_bytes(
    agent: str, dialect: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    alice = token("alice")
    direct = list(conversation(deployment.agent(agent), dialect, alice))
    through = list(conversation(deployment.sidecar(agent).url, dialect, alice))
    if agent in PUSHLESS:  # not every agent refuses what its card does not offer, so it is not asked
        told = [
            dict(answers).pop("push-create").documents[0]["error"]["code"] for answers in (direct, through)
        ]
        assert told == [-32003, -32003]
        direct, through = (
            [step for step in answers if step[0] != "push-create"] for answers in (direct, through)
        )
    parted = wire.differences(wire.comparable(through, TIMED), wire.comparable(direct, TIMED))
    assert not parted, "\n".join(parted)


TIMED = frozenset({"working", "watched", "cancelled", "stopped"})


def conversation(base: str, dialect: str, token: str) -> Iterator[tuple[str, Answer]]:
    """Every operation on tasks of one's own, the agent's own refusals among them."""

    def say(operation: str, **values: str) -> Answer:
        return ask(base, request(dialect, operation, **values), token)

    yield "a message in reply", say("send", text="hello")
    quick = say("send", text="quick")
    task = quick.resource["id"]
    yield "a task in reply", quick
    yield "artifacts streamed", say("stream", text="art")
    yield "read", say("get", task=task)
    yield "cancelled when done", say("cancel", task=task)
    yield "continued when done", say("continue", task=task)
    yield "subscribed when done", say("subscribe", task=task)
    yield "referred to", say("refer", task=task, text="refs")
    for operation in ("push-create", "push-get", "push-list", "push-delete"):
        yield operation, say(operation, task=task)
    for operation in ("continue", "continue-stream"):
        waiting = say("send", text="input")
        yield "input required", waiting
        yield operation, say(operation, task=waiting.resource["id"])
    yield "joined", say("join", context=quick.resource["contextId"])
    yield from while_it_works(base, dialect, token)


def while_it_works(base: str, dialect: str, token: str) -> Iterator[tuple[str, Answer]]:
    """Streams of a task that works: watched by a second one to its end, and cancelled midway."""
    for text, operation, begun, then in (
        ("long 0.5", "subscribe", "working", "watched"),
        ("long 30", "cancel", "stopped", "cancelled"),
    ):
        with asked(base, request(dialect, "stream", text=text), token) as stream:
            first = wire.first_event(stream)  # while the task works: a stream held back would be late
            task = Answer(stream.status, tuple(stream.getheaders()), first).resource["id"]
            second = ask(base, request(dialect, operation, task=task), token)
            yield begun, wire.answer(stream, first)
        yield then, second
