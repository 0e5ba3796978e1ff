"""The audit on stdout: one decision a request, and what nobody else may learn."""

from __future__ import annotations

from typing import Any

from tests.edge.agent import Agent, a_task, answers
from tests.process.conftest import Launch
from tests.process.running import Running

ABSENT = "5f2b8c1e-0000-4000-8000-000000000000"


async def test_every_request_leaves_one_decision(launch: Launch, agent: Agent) -> None:
    running = await launch()
    agent.script = answers({"task": a_task("t-1")}, a_task("t-1"))
    headers = running.bearer() | {"A2A-Version": "1.0"}

    async def post(body: str, target: str = "/", who: dict[str, str] | None = None) -> None:
        sent = headers if who is None else who
        async with running.session.post(running.url + target, data=body, headers=sent) as reply:
            await reply.read()

    async def get(target: str) -> None:
        async with running.session.get(running.url + target, headers=headers) as reply:
            await reply.read()

    expected: list[tuple[str, str | None]] = []

    async def doing(work: Any, outcome: str, reason: str | None) -> None:
        await work
        expected.append((outcome, reason))

    await doing(running.submit(), "permitted", None)
    await doing(running.call("GetTask", {"id": "t-1"}), "permitted", None)
    await doing(running.call("GetTask", {"id": "t-1"}, who="bob"), "refused", "not_found")
    await doing(running.call("GetTask", {"id": ABSENT}, who="bob"), "refused", "not_found")
    await doing(running.submit(scope="w"), "refused", "capability_scope_divergence")
    await doing(post("{}", who={}), "refused", "unauthenticated")
    await doing(post("{"), "refused", "unparsable")
    await doing(running.call("Nonsense", {}), "refused", "unknown_operation")
    await doing(running.call("ListTasks", {}), "permitted", None)
    await doing(get("/anything"), "permitted", None)
    await doing(get("/tasks/t-1/nothing"), "refused", "unknown_path")
    await doing(get("/a%2f..%2fb"), "refused", "bad_path")
    await running.stop()

    decisions = [r for r in running.audited() if r["event"] == "decision"]
    assert [(r["outcome"], r.get("reason")) for r in decisions] == expected
    assert len({r["decision_id"] for r in decisions}) == len(expected)
    ours = {r["decision_id"] for r in decisions}
    assert all(r["decision_id"] in ours for r in running.audited()), "a record of no request"


async def test_absent_and_foreign_are_told_apart_in_the_audit_alone(launch: Launch, agent: Agent) -> None:
    running: Running = await launch()
    agent.script = answers({"task": a_task("t-1")})
    await running.submit()
    foreign = await running.call("GetTask", {"id": "t-1"}, who="bob")
    absent = await running.call("GetTask", {"id": ABSENT}, who="bob")
    assert foreign.shown == absent.shown
    await running.until(lambda: sum(r["event"] == "miss" for r in running.audited()) == 2)
    await running.stop()
    records = running.audited()
    refused = [r for r in records if r["event"] == "decision" and r["outcome"] == "refused"]
    differing = {"decision_id", "time", "task"}
    first, second = ({k: v for k, v in r.items() if k not in differing} for r in refused)
    assert first == second, "the decision itself knows more than it may"
    causes = {r["decision_id"]: r["cause"] for r in records if r["event"] == "miss"}
    assert [causes[r["decision_id"]] for r in refused] == ["foreign", "absent"]
    for record in refused:
        places = [n for n, r in enumerate(records) if r["decision_id"] == record["decision_id"]]
        assert [records[n]["event"] for n in places] == ["decision", "miss"]
