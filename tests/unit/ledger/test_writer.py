"""Group commit: what is committed together, and what a failing job does to the others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.ledger import LedgerUnavailable, lane
from sidecar.ledger.writer import Writer

Work = Callable[[sqlite3.Connection], object]


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    db = sqlite3.connect(tmp_path / "file.db", isolation_level=None, check_same_thread=False, timeout=0.1)
    db.execute("CREATE TABLE numbers (n UNIQUE)")
    writer = Writer(db, "ledger `file.db`")
    yield writer
    await writer.stop()


def add(n: int) -> Work:
    return lambda db: db.execute("INSERT INTO numbers VALUES (?)", (n,)).rowcount


def numbers(tmp_path: Path) -> list[int]:
    with closing(sqlite3.connect(tmp_path / "file.db")) as db:
        return [row[0] for row in db.execute("SELECT n FROM numbers ORDER BY n")]


async def held(writer: Writer) -> threading.Event:
    """Keep the writer busy until the event is set, so that what is submitted meanwhile is one batch."""
    begun, release = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        release.wait(10)

    writer.submit(hold)
    await asyncio.to_thread(begun.wait, 10)
    return release


def breaks(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO numbers VALUES (100)")
    raise RuntimeError("a bug")


def rolls_back(db: sqlite3.Connection) -> None:
    db.execute("ROLLBACK")  # as SQLite itself may do when the disk is full
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(add(1), id="a constraint fails"),
        pytest.param(breaks, id="a bug in a job, after it wrote something"),
        pytest.param(rolls_back, id="SQLite rolls back the whole transaction"),
    ],
)
async def test_one_failing_job_does_not_spoil_the_others(writer: Writer, tmp_path: Path, bad: Work) -> None:
    release = await held(writer)
    futures = [writer.submit(work) for work in (add(1), add(2), bad, add(3), bad, add(4))]
    release.set()
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [
        int,
        int,
        LedgerUnavailable,
        int,
        LedgerUnavailable,
        int,
    ]
    assert numbers(tmp_path) == [1, 2, 3, 4]


async def test_what_waits_is_committed_at_once(writer: Writer, tmp_path: Path) -> None:
    statements: list[str] = []
    await writer.submit(lambda db: db.set_trace_callback(statements.append))
    release = await held(writer)
    futures = [writer.submit(add(n)) for n in range(100)]
    release.set()
    await asyncio.gather(*futures)
    await writer.submit(lambda db: db.set_trace_callback(None))
    inserted = [n for n, statement in enumerate(statements) if statement.startswith("INSERT")]
    committed = [n for n, statement in enumerate(statements) if statement == "COMMIT"]
    assert len(inserted) == 100
    assert not [n for n in committed if inserted[0] < n < inserted[-1]]


async def test_a_result_comes_after_the_commit_and_is_learnt_before(writer: Writer, tmp_path: Path) -> None:
    learnt: list[object] = []
    assert await writer.submit(add(1), learnt.append) == 1
    assert learnt == [1]
    assert numbers(tmp_path) == [1]


async def test_a_result_nobody_waits_for_is_learnt_all_the_same(writer: Writer) -> None:
    release, learnt = await held(writer), asyncio.Event()
    writer.submit(add(1), lambda _: learnt.set()).cancel()
    release.set()
    async with asyncio.timeout(10):
        await learnt.wait()


async def test_a_locked_file_fails_jobs_and_not_the_writer(writer: Writer, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file.db", isolation_level=None)) as outside:
        outside.execute("BEGIN EXCLUSIVE")
        with pytest.raises(
            LedgerUnavailable, match=r"ledger `file.db` could not be written: .*locked"
        ) as failure:
            await writer.submit(add(1))
        assert isinstance(failure.value.__cause__, sqlite3.OperationalError)
    assert await writer.submit(add(1)) == 1


async def test_too_many_waiting_jobs_are_refused_at_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "WAITING", 5)
    release = await held(writer)
    futures = [writer.submit(add(n)) for n in range(5)]
    with pytest.raises(LedgerUnavailable, match="5 jobs are waiting"):
        writer.submit(add(9))
    release.set()
    assert await asyncio.gather(*futures) == [1] * 5


async def test_stopping_finishes_what_waits_and_takes_no_more(writer: Writer, tmp_path: Path) -> None:
    release = await held(writer)
    futures = [writer.submit(add(n)) for n in range(3)]
    stopping = asyncio.ensure_future(writer.stop())
    release.set()
    await stopping
    assert [future.result() for future in futures] == [1, 1, 1]
    with pytest.raises(LedgerUnavailable, match="closed"):
        writer.submit(add(9))
    assert numbers(tmp_path) == [0, 1, 2]
