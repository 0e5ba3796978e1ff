"""Several ledgers on one file, as workers have it: the contract holds whichever of them is asked."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pytest

from sidecar import config
from sidecar.ledger import LedgerUnavailable, hold_ledger
from sidecar.ledger.opening import Held, hold_file
from sidecar.ledger.shared import Turns
from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Fact
from tests.contract.ledger_contract import (
    ALICE,
    BOB,
    DAY,
    WORKING,
    Clock,
    LedgerContract,
    context,
    final,
    reserved,
    task,
    until,
)
from tests.contract.listing_contract import ListingContract


class InTurn:
    """Two ledgers on one file, each call to the other one. The first sees, and has written that when either is asked."""

    def __init__(self, *ledgers: SqliteLedger) -> None:
        self._ledgers = ledgers
        self._turn = cycle(ledgers)
        self.sight = ledgers[0].sight

    def __getattr__(self, name: str) -> Any:
        called = getattr(next(self._turn), name)

        async def with_all_written(*of: Any) -> Any:
            for ledger in self._ledgers:
                if not ledger._closed and ledger._behind.flush():
                    await ledger._writer.submit(lambda _: None)
            return await called(*of)

        return with_all_written

    async def close(self) -> None:
        await asyncio.gather(*(ledger.close() for ledger in self._ledgers))


RACER = Path(__file__).with_name("racer.py")
IDS = 300


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return hold_file(tmp_path / "ledger.db", timeout=5.0)


@pytest.fixture
async def pair(held: Held, clock: Clock) -> AsyncIterator[list[SqliteLedger]]:
    # Each process has a descriptor of its own for the lock.
    ours = [replace(held, lock=os.dup(held.lock)) for _ in range(2)]
    ledgers = [await SqliteLedger.open(one, now=clock, timeout=5.0) for one in ours]
    yield ledgers
    for ledger in ledgers:
        with suppress(LedgerUnavailable):
            await ledger.close()
    for descriptor in (held.lock, held.block, held.queue):
        os.close(descriptor)


class TestLedgersInTurn(LedgerContract, ListingContract):
    @pytest.fixture
    def ledger(self, pair: list[SqliteLedger]) -> InTurn:
        return InTurn(*pair)


# --- what one has in memory and the other changes ------------------------------------------------


async def test_what_another_dropped_is_known_no_more(pair: list[SqliteLedger]) -> None:
    one, other = pair
    await one.record(ALICE, [reserved(context("c-1"))])
    assert await one.facts(ALICE, [context("c-1")])
    await other.drop(ALICE, [context("c-1")])
    assert await other.record(BOB, [reserved(context("c-1"))]) == frozenset()
    assert await one.facts(ALICE, [context("c-1")]) == {}
    assert await one.record(ALICE, [reserved(context("c-1"))]) == {context("c-1")}


async def test_what_another_pruned_is_known_no_more(pair: list[SqliteLedger], clock: Clock) -> None:
    one, other = pair
    await one.record(ALICE, [final(task("t-1")), final(context("c-1"))])
    clock.seconds += 181 * DAY
    assert await one.facts(ALICE, [task("t-1"), context("c-1")])
    assert await other.prune(clock()) == 2
    assert await one.facts(ALICE, [task("t-1"), context("c-1")]) == {}


async def test_what_another_made_final_is_final(pair: list[SqliteLedger]) -> None:
    one, other = pair
    await one.record(ALICE, [reserved(context("c-1"))])
    await other.record(ALICE, [final(context("c-1"))])
    assert (await one.facts(ALICE, [context("c-1")]))[context("c-1")] == WORKING
    await one.drop(ALICE, [context("c-1")])
    assert await one.facts(ALICE, [context("c-1")])


async def test_what_nobody_changed_is_answered_from_memory(pair: list[SqliteLedger]) -> None:
    one, other = pair
    await one.record(ALICE, [final(task("t-1"))])
    await other.facts(ALICE, [task("t-1")])
    for n in range(2, 50):  # of other buckets: their numbers are those of the ids, and do not change
        await other.record(BOB, [final(task(f"t-{n}"))])
    for ledger in pair:
        ledger._readers.submit = _never  # type: ignore[assignment]
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}


def _never(*_: Any) -> Any:
    raise AssertionError("it asked the file")


class Between:
    """A turn that stops once it has committed, and before others can know that it has ended."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.committed, self.go_on = threading.Event(), threading.Event()

    def __enter__(self) -> Sequence[Any]:
        return self._turns.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.committed.set()
        assert self.go_on.wait(30)
        self._turns.__exit__(kind, value, trace)


async def test_from_its_commit_on_nobody_goes_by_what_they_knew(pair: list[SqliteLedger]) -> None:
    one, other = pair
    await one.record(ALICE, [reserved(context("c-1"))])
    assert other._turns is not None
    other._writer._turn = between = Between(other._turns)
    dropping = asyncio.ensure_future(other.drop(ALICE, [context("c-1")]))
    try:
        await asyncio.to_thread(between.committed.wait, 30)
        assert await one.facts(ALICE, [context("c-1")]) == {}
    finally:
        between.go_on.set()
    await dropping
    assert await one.facts(ALICE, [context("c-1")]) == {}


async def test_what_is_read_while_another_is_about_to_commit_is_not_kept(pair: list[SqliteLedger]) -> None:
    one, other = pair
    await one.record(ALICE, [reserved(context("c-1"))])
    written, go_on = threading.Event(), threading.Event()

    def drop_and_wait(db: Any) -> None:
        db.execute("DELETE FROM resources")
        written.set()
        assert go_on.wait(30)

    dropping = other._writer.submit(drop_and_wait)
    try:
        await asyncio.to_thread(written.wait, 30)
        assert await one.facts(ALICE, [context("c-1")]), "it is not gone yet"
    finally:
        go_on.set()
    await dropping
    assert await one.facts(ALICE, [context("c-1")]) == {}


async def test_a_late_sighting_does_not_undo_what_another_saw_since(
    pair: list[SqliteLedger], clock: Clock
) -> None:
    one, other = pair
    await one.record(ALICE, [final(task("t-1"), WORKING._replace(state="submitted"))])
    await other.facts(ALICE, [task("t-1")])
    clock.seconds += 0.1
    one.sight(ALICE, task("t-1"), Fact(state="working"))
    clock.seconds += 0.1
    other.sight(ALICE, task("t-1"), Fact(state="completed"))
    for ledger in (other, one):
        ledger._behind.flush()
        await ledger._writer.submit(lambda _: None)
    for ledger in pair:
        assert (await ledger.facts(ALICE, [task("t-1")]))[task("t-1")].state == "completed"


# --- processes -----------------------------------------------------------------------------------


def racing(held: Held, *arguments: str) -> subprocess.Popen[str]:
    """A process that joins the ledger as a worker does."""
    descriptors = held.lock, held.block, held.queue
    said = [str(held.path), *map(str, (*held.identity, *descriptors)), *arguments]
    return subprocess.Popen(
        [sys.executable, RACER, *said],
        pass_fds=descriptors,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


async def test_two_processes_racing_for_one_id_give_it_to_one_owner(held: Held) -> None:
    with racing(held, "record", "alice", str(IDS)) as one, racing(held, "record", "bob", str(IDS)) as other:
        racers = (one, other)
        try:
            for racer in racers:
                assert await asyncio.to_thread(line, racer.stdout) == "ready\n"
            said = await asyncio.gather(*(asyncio.to_thread(r.communicate, "go\n", 60) for r in racers))
        finally:
            one.kill()
            other.kill()
    assert [racer.returncode for racer in racers] == [0, 0]  # not one was refused: no lock was in the way
    alices, bobs = ({int(n) for n in out.split()} for out, _ in said)
    assert alices & bobs == set()
    assert alices | bobs == set(range(IDS))
    assert alices, "no race"
    assert bobs, "no race"


async def test_a_process_killed_in_its_turn_keeps_nobody_from_writing(
    held: Held, pair: list[SqliteLedger]
) -> None:
    with racing(held, "hang", "bob", "0") as killed:
        try:
            assert await asyncio.to_thread(line, killed.stdout) == "in its turn\n"
            recording = asyncio.ensure_future(pair[0].record(ALICE, [final(task("t-1"))]))
            await until(pair[0]._writer._lane._jobs.empty)
            assert not recording.done()
        finally:
            killed.kill()
    assert await recording == frozenset()
    assert await pair[1].facts(ALICE, [task("t-1")])
    assert await pair[1].facts(BOB, [task("t-0")]) == {}, "what it had not committed is there"


# --- who may have it -----------------------------------------------------------------------------


async def test_nobody_else_opens_what_is_held(held: Held, clock: Clock) -> None:
    with pytest.raises(LedgerUnavailable, match="in use by another process"):
        await SqliteLedger.open(held.path, now=clock)


async def test_a_file_that_was_replaced_is_not_joined(held: Held, clock: Clock) -> None:
    held.path.rename(held.path.with_suffix(".old"))
    hold_file(held.path.with_name("other.db"), timeout=5.0)
    held.path.with_name("other.db").rename(held.path)
    with pytest.raises(LedgerUnavailable, match="was replaced"):
        await SqliteLedger.open(held, now=clock)


def test_memory_cannot_be_held_for_others() -> None:
    with pytest.raises(ValueError, match="`memory:` is the memory of one process"):
        hold_ledger(config.Ledger(url="memory:"))


async def test_what_was_recorded_is_kept_though_another_prunes_what_it_has_not_seen(
    pair: list[SqliteLedger], clock: Clock
) -> None:
    one, other = pair
    await one.record(ALICE, [final(task("t-1"), Fact(state="completed"))])
    clock.seconds += 31 * DAY  # expired, and not pruned yet
    assert await one.facts(ALICE, [task("t-1")])
    one.sight(ALICE, task("t-1"), Fact(state="completed"))
    assert await one.record(ALICE, [final(task("t-1"), Fact(state="completed"))]) == frozenset()
    await other.prune(clock())
    assert await other.record(BOB, [final(task("t-1"))]) == {task("t-1")}
    assert await other.facts(ALICE, [task("t-1")])
