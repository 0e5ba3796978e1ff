"""The story: a task nobody can finish, and what becomes of it with the sidecar in front.

Owns: the steps, what each must answer, and the words.
Never: starts or ends anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from time import perf_counter
from typing import Final
from uuid import uuid4

import orjson
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, UnsupportedOperationError

from sidecar.demo.agent import QUESTION, Executor
from sidecar.demo.agent_scopes import READ, WRITE
from sidecar.demo.callers import Answer, Caller, calling, message
from sidecar.demo.issuer import Issuer
from sidecar.demo.screen import Differed, Screen, expect
from sidecar.demo.sidecar_process import Sidecar

WORK: Final = "Please review my change"
BRANCH: Final = "main"
CHAIN: Final = ("orchestrator", "planner")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of the story. `narrow` is what the planner was left with, `whole` what it needs."""

    narrow: str
    whole: str
    other_user: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The two ids bob asked for: alice's task, and one that never was."""

    foreign: str
    absent: str


def minted(issuer: Issuer) -> Tokens:
    return Tokens(
        narrow=issuer.mint("alice", CHAIN, (WRITE,)),
        whole=issuer.mint("alice", CHAIN, (WRITE, READ)),
        other_user=issuer.mint("bob", CHAIN, (WRITE, READ)),
    )


async def before(executor: Executor, tokens: Tokens, screen: Screen) -> None:
    """Straight to the agent. Raises Differed."""
    screen.chapter("BEFORE: straight to the agent")
    async with calling(executor.url, tokens.narrow) as planner:
        task = await _submitted(planner, screen)
        attempts = (
            ("read the task", await planner.call("GetTask", id=task.id)),
            ("answer the question", await planner.call("SendMessage", message=message(BRANCH, task.id))),
            ("cancel the task", await planner.call("CancelTask", id=task.id)),
        )
    for did, answer in attempts:
        expect(f"planner: {did}", (403, "insufficient_scope"), (answer.status, answer.told("error")))
        told = f"{answer.told('error')}: {answer.told('scope')}"
        screen.step("planner", did, str(answer.status), told, good=False)
    screen.conclusion("orphaned: it holds the agent's resources until a time-out, silently", good=False)
    async with calling(executor.url, tokens.other_user) as bob:
        answer = await bob.call("GetTask", id=task.id)
    expect("bob: read alice's task", (200, task.id), (answer.status, answer.told("result", "id")))
    screen.step("bob", "read alice's task", str(answer.status), "the agent shows it to any user", good=False)


async def after(executor: Executor, sidecar: Sidecar, tokens: Tokens, screen: Screen) -> Asked:
    """The same calls through the sidecar. Returns what bob asked for. Raises Differed."""
    screen.chapter("AFTER: the same agent, the same calls, the sidecar in front")
    screen.panel("its policy", sidecar.policy.rstrip())
    await _refused_at_submission(executor, sidecar, tokens, screen)
    task_id = await _run_to_completion(sidecar, tokens, screen)
    return await _not_for_others(executor, sidecar, tokens, screen, task_id)


async def _submitted(caller: Caller, screen: Screen) -> pb.Task:
    task = await caller.send(WORK)
    asked = task.status.message.parts[0].text if task.status.message.parts else ""
    expect(
        "planner: submit code-review", (pb.TASK_STATE_INPUT_REQUIRED, QUESTION), (task.status.state, asked)
    )
    screen.step("planner", "submit code-review", "200", f"task {task.id[:8]}… is input-required", good=True)
    return task


async def _refused_at_submission(
    executor: Executor, sidecar: Sidecar, tokens: Tokens, screen: Screen
) -> None:
    async with calling(sidecar.url, tokens.narrow) as planner:
        await planner.call(
            "GetTask", id=str(uuid4())
        )  # opens the connection, so that the time is the answer's
        reached = len(executor.received)
        started = perf_counter()
        try:
            task = await planner.send(WORK)
        except A2AError as refused:
            error, took = refused, (perf_counter() - started) * 1000
        else:
            raise Differed(f"planner: submit code-review: expected a refusal, found task `{task.id}`")
    text = str(error)
    expect("the error the app gets", UnsupportedOperationError, type(error))
    expect("the error names itself", "CapabilityScopeDivergence", text.partition(":")[0])
    missing = re.search(r"missing ([^;]+)$", text)
    expect("the missing scope", READ, missing and missing[1].strip())
    expect("requests that reached the agent", reached, len(executor.received))
    screen.step(
        "planner", "submit code-review", "refused", f"CapabilityScopeDivergence, {took:.1f} ms", good=True
    )
    screen.panel(f"what the planner's app gets: a2a.utils.errors.{type(error).__name__}", text)
    screen.conclusion(f"missing {READ}; the agent received 0 requests, no task was made", good=True)


async def _run_to_completion(sidecar: Sidecar, tokens: Tokens, screen: Screen) -> str:
    screen.step("orchestrator", "mint a wider token", "ok", f"{WRITE} {READ}", good=True)
    async with calling(sidecar.url, tokens.whole) as planner:
        task = await _submitted(planner, screen)
        done = await planner.send(BRANCH, task.id, task.context_id)
    expect("planner: answer", (task.id, pb.TASK_STATE_COMPLETED), (done.id, done.status.state))
    review = done.artifacts[0].parts[0].text if done.artifacts else ""
    expect("the review", f"no findings on {BRANCH}", review)
    screen.step("planner", f'answer "{BRANCH}"', "200", f'completed: "{review}"', good=True)
    return task.id


async def _not_for_others(
    executor: Executor, sidecar: Sidecar, tokens: Tokens, screen: Screen, task_id: str
) -> Asked:
    asked, reached = Asked(foreign=task_id, absent=str(uuid4())), len(executor.received)
    async with calling(sidecar.url, tokens.other_user) as bob:
        foreign = await bob.call("GetTask", id=asked.foreign)
        absent = await bob.call("GetTask", id=asked.absent)
    expect("the two answers", absent, foreign)
    expect("bob: error code", -32001, foreign.told("error", "code"))  # TaskNotFoundError, A2A 1.0 §5.4
    expect("requests that reached the agent", reached, len(executor.received))
    for did, answer in (("read alice's task", foreign), ("read a random id", absent)):
        screen.step("bob", did, str(answer.status), _not_found(answer), good=True)
    screen.panel("both answers, byte for byte", foreign.body.decode())
    screen.conclusion(
        f"same status, {len(foreign.headers)} headers and {len(foreign.body)} bytes of body; agent not asked",
        good=True,
    )
    return asked


def audited(sidecar: Sidecar, asked: Asked, screen: Screen) -> None:
    """What the stopped sidecar's audit says of the refusals. Raises Differed."""
    screen.chapter("FOR THE OPERATOR ONLY: the audit knows more than the callers")
    records = [orjson.loads(line) for line in sidecar.audit.read_bytes().splitlines()]
    divergences = [record for record in records if record.get("reason") == "capability_scope_divergence"]
    found = [(record["presented_by"], record["missing"]) for record in divergences]
    expect("audited divergences", [("planner", [READ])], found)
    screen.step("audit", "planner: submission", "refused", "capability_scope_divergence", good=True)
    causes = {record["decision_id"]: record["cause"] for record in records if record["event"] == "miss"}
    for id_, did, cause in (
        (asked.foreign, "alice's task", "foreign"),
        (asked.absent, "a random id", "absent"),
    ):
        about = [record for record in records if record.get("task") == id_ and record["outcome"] == "refused"]
        expect(f"audited cause for {did}", [cause], [causes.get(record["decision_id"]) for record in about])
        screen.step("audit", f"bob: {did}", "refused", f"not_found, because {cause}", good=True)


def _not_found(answer: Answer) -> str:
    return f"{answer.told('error', 'code')} {answer.told('error', 'message')}"
