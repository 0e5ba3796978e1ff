"""Work goes to a thread in the order given, what belongs to one turn of the loop together."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

from sidecar.ledger import LedgerUnavailable
from sidecar.ledger import lane as lanes
from sidecar.ledger.lane import AT_ONCE, Job, Lane


def numbered(number: int, failed: list[str] | None = None) -> Job[int]:
    def tell(problem: LedgerUnavailable) -> None:
        if failed is not None:
            failed.append(str(problem))

    return Job(lambda _: number, lambda _: None, tell)


def numbers(batch: list[Job[Any]]) -> list[int]:
    db = sqlite3.connect(":memory:")
    try:
        return [job.work(db) for job in batch]
    finally:
        db.close()


async def test_what_is_posted_in_one_turn_is_handed_over_together() -> None:
    lane = Lane("ledger")
    for number in range(3):
        lane.post(numbered(number))
    assert lane._jobs.empty(), "not yet: more may come in this turn"
    await asyncio.sleep(0)
    lane.post(numbered(3))
    await asyncio.sleep(0)
    assert numbers(lane.take(1)[0]) == [0, 1, 2]
    assert numbers(lane.take(1)[0]) == [3]


async def test_several_threads_share_a_large_turn() -> None:
    lane = Lane("ledger")
    for number in range(2 * AT_ONCE + 1):
        lane.post(numbered(number))
    await asyncio.sleep(0)
    taken = [numbers(lane.take(1)[0]) for _ in range(3)]
    assert [len(part) for part in taken] == [AT_ONCE, AT_ONCE, 1]
    assert [number for part in taken for number in part] == list(range(2 * AT_ONCE + 1))


async def test_a_thread_takes_what_else_waits() -> None:
    lane = Lane("ledger")
    for number in range(5):
        lane.post(numbered(number))
        await asyncio.sleep(0)
    batch, last = lane.take(3)
    assert (numbers(batch), last) == ([0, 1, 2], False)
    lane.close(1)
    batch, last = lane.take(99)
    assert (numbers(batch), last) == ([3, 4], True)


async def test_what_was_posted_before_the_end_is_done() -> None:
    lane = Lane("ledger")
    lane.post(numbered(1))
    lane.close(2)
    assert numbers(lane.take(1)[0]) == [1]
    assert lane.take(1) == ([], True)
    assert lane.take(1) == ([], True)
    with pytest.raises(LedgerUnavailable, match="closed"):
        lane.post(numbered(2))


async def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "WAITING", 4)
    lane = Lane("ledger")
    for number in range(4):
        lane.post(numbered(number))
    with pytest.raises(LedgerUnavailable, match="too slow"):
        lane.post(numbered(4))
    await asyncio.sleep(0)
    lane.post(numbered(5))
