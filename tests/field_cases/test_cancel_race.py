"""Cancel against completion, a thousand times, on a real a2a-sdk 1.3 agent (FC-076).

Whatever came first at the agent is what the owner is told, byte for byte: never what the ledger last saw. When the cancel
has arrived at the agent, the task completes and the cancel is read each a few turns of the event loop later: either may win. (The agent's answers need not agree with each other: a2a-sdk 1.3 now and then answers a cancel
`completed` and shows the task `canceled` afterwards. That is what the owner sees then.)
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections import Counter
from typing import Any

import pytest

from tests.e2e.wire import Answer
from tests.field_cases.real_agents import (
    ABSENT,
    DIALECTS,
    Guarded,
    Real,
    Voice,
    is_not_found,
    state_in,
    task_of,
)

RACES = 1000
AT_A_TIME = 10
TURNS = 16  # of the agent's event loop, at most, that either waits


@pytest.mark.timeout(110)
async def test_fc_076_cancel_against_completion_a_thousand_times(racing: Real, guarded: Guarded) -> None:
    running = await guarded(racing)
    voices = {d: [Voice(running, who, d) for who in ("alice", "mallory")] for d in DIALECTS}
    direct = {d: Voice(running, "alice", d, base=racing.url) for d in DIALECTS}
    absent = {
        d: {op: (await mallory.ask(op, task=ABSENT)).but_date for op in ("cancel", "get")}
        for d, (_, mallory) in voices.items()
    }
    told: dict[str, list[Answer]] = {}
    ends: Counter[str] = Counter()
    before = len(racing.recorder.calls())

    async def race(number: int) -> None:
        dialect = DIALECTS[number % len(DIALECTS)]
        alice, mallory = voices[dialect]
        lots = random.randrange(TURNS), random.randrange(TURNS)
        task = task_of(await alice.first("stream", text="race {} {}".format(*lots)))
        if number % 2:  # so that the ledger has seen it working
            assert await alice.state(task) in ("submitted", "working")
        first, cancelled, got = await asyncio.gather(
            alice.ask("cancel", task=task), mallory.ask("cancel", task=task), mallory.ask("get", task=task)
        )
        again = await alice.ask("cancel", task=task)
        told[task] = [first, again]
        strangers = {"cancel": cancelled.but_date, "get": got.but_date}
        assert strangers == absent[dialect], "a stranger learnt of the race"
        through, at_the_agent = await alice.ask("get", task=task), await direct[dialect].ask("get", task=task)
        assert through.body == at_the_agent.body
        ended = state_in(through)
        assert ended in ("completed", "canceled")
        assert not is_not_found(first, dialect)
        ends[ended] += 1

    for start in range(0, RACES, AT_A_TIME):
        await asyncio.gather(*(race(number) for number in range(start, start + AT_A_TIME)))

    async with running.session.get(f"{racing.url}/answers") as reply:
        answered: dict[str, list[Any]] = await reply.json()
    for task, answers in told.items():
        at_the_agent = [(status, base64.b64decode(body)) for status, body in answered[task]]
        assert [(each.status, each.body) for each in answers] == at_the_agent, "not what the agent answered"
    print(f"{RACES} races: {dict(ends)}")
    assert min(ends["completed"], ends["canceled"]) >= RACES // 50, f"one side always won: {ends}"
    assert all(b"mallory" not in call.body for call in racing.recorder.calls()[before:])
