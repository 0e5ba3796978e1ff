"""The contract on SqliteLedger, and what only a file can go through."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from sidecar.ledger import LedgerUnavailable, behind, listing
from sidecar.ledger import opening as schema
from sidecar.ledger.sqlite import READERS, SqliteLedger
from sidecar.model import Fact
from tests.contract.ledger_contract import (
    ALICE,
    BOB,
    DAY,
    RESERVED,
    WORKING,
    Clock,
    LedgerContract,
    context,
    final,
    reserved,
    task,
    until,
)
from tests.contract.listing_contract import OWN, START, ListingContract
from tests.fsync import built_shim, preloaded, read_syncs

RECORDER = Path(__file__).with_name("recorder.py")
USER = Path(__file__).with_name("first_user.py")

Opener = Callable[..., Awaitable[SqliteLedger]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
async def opening(path: Path, clock: Clock) -> AsyncIterator[Opener]:
    ledgers: list[SqliteLedger] = []

    async def opened(**options: Any) -> SqliteLedger:
        ledgers.append(await SqliteLedger.open(path, now=clock, **options))
        return ledgers[-1]

    yield opened
    for ledger in ledgers:
        with suppress(LedgerUnavailable):
            await ledger.close()


class TestSqliteLedger(LedgerContract, ListingContract):
    @pytest.fixture
    async def ledger(self, opening: Opener) -> SqliteLedger:
        return await opening()


class TestSqliteLedgerThatRemembersOneRow(LedgerContract, ListingContract):
    """Nearly everything is read from the file."""

    @pytest.fixture
    async def ledger(self, opening: Opener) -> SqliteLedger:
        return await opening(cache_size=1)


def columns(path: Path, what: str, where: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT {what} FROM resources WHERE {where}").fetchall()


async def test_everything_is_there_after_a_restart(opening: Opener) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(task("t-1")), reserved(context("c-1")), final(task("\x00\ud800"))])
    ledger.sight(ALICE, task("t-1"), Fact(state="completed"))
    await ledger.close()
    ledger = await opening()
    facts = await ledger.facts(ALICE, [task("t-1"), context("c-1"), task("\x00\ud800")])
    assert facts[task("t-1")].state == "completed"
    assert facts[context("c-1")] == RESERVED, "a reservation a crash left behind stays its owner's"
    assert facts[task("\x00\ud800")] == WORKING
    assert await ledger.record(BOB, [reserved(context("c-1"))]) == {context("c-1")}


async def test_tombstones_outlive_a_restart(opening: Opener, clock: Clock) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(context("c-1"))])
    clock.seconds += 181 * DAY
    await ledger.prune(clock())
    await ledger.close()
    ledger = await opening()
    assert await ledger.record(BOB, [final(context("c-1"))]) == {context("c-1")}
    assert await ledger.record(ALICE, [final(context("c-1"))]) == frozenset()


async def test_webhooks_outlive_a_restart(opening: Opener) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(task("t-1"))])
    await ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1)
    await ledger.close()
    ledger = await opening()
    assert await ledger.hold_webhooks(ALICE, task("t-1"), ["b"], 1) is None
    assert await ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1) == frozenset()


async def test_first_uses_outlive_a_restart(opening: Opener, clock: Clock) -> None:
    ledger = await opening()
    assert await ledger.first_use(b"n", clock() + 60)
    await ledger.close()
    ledger = await opening()
    assert not await ledger.first_use(b"n", clock() + 60)


async def test_what_was_used_before_a_kill_was_used(opening: Opener, path: Path, clock: Clock) -> None:
    with subprocess.Popen([sys.executable, USER, path, "8"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        used = [child.stdout.readline() for _ in range(100)]
        os.kill(child.pid, signal.SIGKILL)
        used += [line for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -signal.SIGKILL
    ledger = await opening()
    assert not any([await ledger.first_use(name.strip().encode(), clock() + 60) for name in used])
    assert await ledger.first_use(b"another", clock() + 60)


async def test_a_first_use_that_cannot_be_written_is_unavailable(opening: Opener, path: Path) -> None:
    ledger = await opening(timeout=0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerUnavailable):
            await ledger.first_use(b"n", 2e9)
    assert await ledger.first_use(b"m", 2e9)


async def test_sightings_are_written_behind_and_coalesced(opening: Opener, path: Path, clock: Clock) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(task("t-1"), Fact(state="submitted"))])
    before = path.with_name("ledger.db-wal").stat().st_size
    for n in range(1000):
        clock.seconds += 1
        ledger.sight(ALICE, task("t-1"), Fact(state="working" if n % 2 else "input-required"))
    assert columns(path, "state", "kind = 'task'") == [(b"submitted",)]
    await until(lambda: columns(path, "state, last_seen", "kind = 'task'") == [(b"working", clock())])
    assert path.with_name("ledger.db-wal").stat().st_size - before < 64 * 1024, "one write, not a thousand"


async def test_a_sighting_of_a_row_not_in_memory_is_written_too(opening: Opener, path: Path) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(task("t-1"), Fact())])
    await ledger.close()
    ledger = await opening()
    ledger.sight(ALICE, task("t-1"), Fact(state="working"))
    assert (await ledger.facts(ALICE, [task("t-1")]))[task("t-1")].state == "working"
    await until(lambda: columns(path, "state", "kind = 'task'") == [(b"working",)])


async def test_gone_is_marked_and_taken_back(opening: Opener, path: Path, clock: Clock) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(task("t-1"))])
    ledger.sight(ALICE, task("t-1"), Fact(), gone=True)
    await until(lambda: columns(path, "gone_at", "kind = 'task'") == [(clock(),)])
    ledger.sight(ALICE, task("t-1"), WORKING)
    await until(lambda: columns(path, "gone_at", "kind = 'task'") == [(None,)])


async def test_sightings_survive_a_lock_from_outside(opening: Opener, path: Path) -> None:
    ledger = await opening(timeout=0.1)
    await ledger.record(ALICE, [final(task("t-1"), Fact())])
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("BEGIN EXCLUSIVE")
        ledger.sight(ALICE, task("t-1"), Fact(state="working"))
        with pytest.raises(LedgerUnavailable):
            await ledger.prune(0)  # writes the sightings first, and fails like them
    await until(lambda: columns(path, "state", "kind = 'task'") == [(b"working",)])


async def test_recording_what_is_recorded_writes_nothing(opening: Opener, path: Path) -> None:
    ledger = await opening(timeout=0.2)
    entries = [final(task("t-1")), final(context("c-1"))]
    await ledger.record(ALICE, entries)
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("BEGIN EXCLUSIVE")
        assert await ledger.record(ALICE, entries) == frozenset()


async def test_a_locked_file_is_unavailable_in_time_and_stops_nobody_else(
    opening: Opener, path: Path
) -> None:
    ledger = await opening(timeout=0.5)
    await ledger.record(ALICE, [final(task("t-1"))])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.ensure_future(tick())
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("BEGIN EXCLUSIVE")
        async with asyncio.timeout(5):
            refused = await asyncio.gather(
                *(ledger.record(ALICE, [final(task(f"new-{n}"))]) for n in range(50)),
                ledger.check(),
                ledger.drop(ALICE, [task("t-9")]),
                return_exceptions=True,
            )
        assert {type(outcome) for outcome in refused} == {LedgerUnavailable}
        assert ticks > 5, "the loop ran on while the file was locked"
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}
        assert await ledger.facts(BOB, [task("t-1"), task("never")]) == {}
    ticking.cancel()
    assert await ledger.record(ALICE, [final(task("t-2"))]) == frozenset()
    await ledger.check()


async def test_a_disk_that_does_not_answer_is_unavailable_in_time(opening: Opener) -> None:
    ledger = await opening(timeout=0.2)
    await ledger.record(ALICE, [final(task("t-1"))])
    answers = threading.Event()
    for _ in range(READERS):
        ledger._readers.submit(lambda _: answers.wait(10))
        await asyncio.sleep(0)  # each in a turn of its own, so that each reader takes one
    for owner, resource in ((ALICE, task("never")), (BOB, task("t-1")), (BOB, task("never"))):
        with pytest.raises(LedgerUnavailable, match=r"did not answer within 0\.2 s"):
            await ledger.facts(owner, [resource])
    assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}, "others are not stopped by it"
    answers.set()


async def test_sightings_past_their_bound_are_lost_and_not_believed(
    opening: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind, "LIMIT", 2)
    ledger = await opening()
    tasks = [task(f"t-{n}") for n in range(4)]
    await ledger.record(ALICE, [final(resource, Fact(state="submitted")) for resource in tasks])
    for resource in tasks:
        ledger.sight(ALICE, resource, Fact(state="working"))
    facts = await ledger.facts(ALICE, tasks)
    assert [facts[resource].state for resource in tasks] == ["working", "working", "submitted", "submitted"]
    await ledger.prune(0)
    for resource in tasks[2:]:
        ledger.sight(ALICE, resource, Fact(state="working"))
    await ledger.prune(0)
    assert columns(path, "state", "kind = 'task'") == [(b"working",)] * 4


async def test_a_full_disk_refuses_what_is_new_and_keeps_what_was(opening: Opener) -> None:
    ledger = await opening()
    await ledger.record(ALICE, [final(task("t-1"))])

    async def limit_pages(pages: str) -> None:
        await ledger._writer.submit(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())

    await limit_pages("1")  # SQLite makes that the present size: no page more
    stored = [task("t-1")]

    async def use_the_room_within_the_file() -> None:
        for n in range(10_000):
            await ledger.record(ALICE, [final(task(f"{n:0200}"))])
            stored.append(task(f"{n:0200}"))

    with pytest.raises(LedgerUnavailable, match="full"):
        await use_the_room_within_the_file()
    with pytest.raises(LedgerUnavailable, match="full"):
        await ledger.check()
    more = [task(f"more-{n}" * 1000) for n in range(4)]
    outcomes = await asyncio.gather(*(ledger.record(ALICE, [final(r)]) for r in more), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {LedgerUnavailable}
    assert set(await ledger.facts(ALICE, [*stored, *more])) == set(stored)
    await limit_pages("1000000")
    await ledger.check()
    assert await ledger.record(ALICE, [final(more[0])]) == frozenset()


async def test_one_record_that_cannot_be_stored_does_not_spoil_its_batch(opening: Opener, path: Path) -> None:
    ledger = await opening()
    await ledger._writer.submit(
        lambda db: db.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON resources WHEN NEW.id = CAST('bad' AS BLOB)"
            " BEGIN SELECT RAISE(ROLLBACK, 'refused by the test'); END"
        )
    )
    names = ["t-1", "bad", "t-2", "t-3"]
    outcomes = await asyncio.gather(
        *(ledger.record(ALICE, [final(task(name))]) for name in names), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [frozenset, LedgerUnavailable, frozenset, frozenset]
    assert set(await ledger.facts(ALICE, list(map(task, names)))) == {task("t-1"), task("t-2"), task("t-3")}


async def test_a_file_that_was_replaced_is_noticed(opening: Opener, path: Path) -> None:
    ledger = await opening()
    path.rename(path.with_name("moved.db"))
    with pytest.raises(LedgerUnavailable):
        await ledger.check()
    path.touch()
    with pytest.raises(LedgerUnavailable, match="replaced"):
        await ledger.check()


async def test_a_second_ledger_on_one_file_is_refused(opening: Opener, path: Path, clock: Clock) -> None:
    await opening()
    link = path.with_name("link.db")
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(LedgerUnavailable, match="in use by another process"):
            await SqliteLedger.open(name, now=clock)


async def test_a_second_process_on_one_file_is_refused(opening: Opener, path: Path) -> None:
    await opening()
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, RECORDER, path, "1", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode != 0
    assert "in use by another process" in child.stderr


async def test_what_was_acknowledged_survives_a_kill(opening: Opener, path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, RECORDER, path, "100000", "8"], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().split()[0] for _ in range(100)]
        os.kill(child.pid, signal.SIGKILL)
        acknowledged += [line.split()[0] for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -signal.SIGKILL
    ledger = await opening()
    wanted = [task(name) for name in acknowledged]
    assert set(await ledger.facts(ALICE, wanted)) == set(wanted)


@pytest.fixture
def syncs_of(tmp_path: Path, path: Path) -> Callable[[int, int], tuple[list[tuple[int, int]], list[int]]]:
    """Record some tasks, some at a time, in a process of its own: when each began and ended, and when the log was synced."""
    library, log = built_shim(tmp_path), tmp_path / "syncs"

    def run(count: int, at_a_time: int) -> tuple[list[tuple[int, int]], list[int]]:
        child = subprocess.run(
            [sys.executable, RECORDER, path, str(count), str(at_a_time)],
            env=preloaded(library, log),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        records = [(int(begun), int(ended)) for _, begun, ended in map(str.split, child.stdout.splitlines())]
        return records, [sync.at for sync in read_syncs(log) if sync.path.endswith("-wal")]

    return run


def test_a_record_is_synced_before_it_returns(
    syncs_of: Callable[[int, int], tuple[list[tuple[int, int]], list[int]]],
) -> None:
    records, syncs = syncs_of(10, 1)
    assert len(records) == 10
    for begun, ended in records:
        assert any(begun < at < ended for at in syncs)


def test_records_made_together_are_synced_together(
    syncs_of: Callable[[int, int], tuple[list[tuple[int, int]], list[int]]],
) -> None:
    records, syncs = syncs_of(200, 200)
    assert len(records) == 200
    begun, ended = min(begun for begun, _ in records), max(ended for _, ended in records)
    for one_begun, one_ended in records:
        assert any(one_begun < at < one_ended for at in syncs)
    assert sum(begun < at < ended for at in syncs) <= 20


async def test_sealing_keys_survive_a_restart(opening: Opener) -> None:
    first = await opening()
    keys = await first.sealing_keys()
    await first.close()
    assert await (await opening()).sealing_keys() == keys


async def test_tasks_recorded_before_there_were_lists_are_listed(
    opening: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        first = schema._schema()[:1]
        earlier.setattr(schema, "_schema", lambda: first)
        ledger = await opening()
        await ledger.record(ALICE, [final(task("t-1"), WORKING._replace(status_at=None)), final(task("t-2"))])
        await ledger.close()
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE resources SET status_order = NULL WHERE status_at IS NULL")
            db.commit()
    page = await (await opening()).tasks(ALICE, OWN, None, 10)
    assert [position for position, _ in page.tasks] == [
        (START, "t-1"),
        (1_767_323_045_000_000, "t-2"),
    ]


async def test_a_list_walks_its_owners_entries_only(opening: Opener, path: Path) -> None:
    """The work a list costs is counted in steps of SQLite's virtual machine, not in time."""
    ledger = await opening()
    await ledger.record(ALICE, [final(task(f"a-{n}")) for n in range(5)])

    def steps() -> int:
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        with closing(sqlite3.connect(path)) as db:
            db.set_progress_handler(count, 1)
            for wanted in (
                OWN,
                OWN._replace(unfinished=True),
                OWN._replace(context_id="c-1", state="working"),
            ):
                assert listing.tasks(db, ALICE, wanted, None, 50).total == 5
        return counted

    await ledger.record(BOB, [final(task("b"))])
    few = steps()
    for start in range(0, 20_000, 500):
        await ledger.record(BOB, [final(task(f"b-{start + n}")) for n in range(500)])
    assert steps() == few
