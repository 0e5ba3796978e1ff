"""The SQL of first uses: one winner between connections, and old names go a few at a time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from sidecar.ledger import first_uses
from sidecar.ledger.first_uses import CLEARED_AT_ONCE, take


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(files("sidecar.ledger").joinpath("schema/0004_first_uses.sql").read_text())
    return path


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM first_uses").fetchone()[0])


def test_between_connections_each_name_has_one_first_user(path: Path, db: sqlite3.Connection) -> None:
    """As two processes would: each its own connection and transactions, all names expired and taken anew at once."""
    names = [b"%d" % n for n in range(200)]
    for name in names:
        take(db, name, 1.0, 0.0)
    together = threading.Barrier(4)

    def use() -> list[bool]:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as own:
            together.wait(20)
            taken = []
            for name in names:
                own.execute("BEGIN IMMEDIATE")
                taken.append(take(own, name, 100.0, 2.0))
                own.execute("COMMIT")
            return taken

    with ThreadPoolExecutor(4) as pool:
        outcomes = [future.result(30) for future in [pool.submit(use) for _ in range(4)]]
    assert [sum(each) for each in zip(*outcomes, strict=True)] == [1] * len(names)


def test_old_names_go_a_few_at_a_time(db: sqlite3.Connection) -> None:
    for n in range(3 * CLEARED_AT_ONCE):
        assert take(db, b"old %d" % n, 10.0, 0.0)
    assert take(db, b"kept", 1000.0, 0.0)
    assert count(db) == 3 * CLEARED_AT_ONCE + 1
    for n in range(4):
        assert take(db, b"new %d" % n, 1000.0, 10.0)
        assert count(db) == max(0, 2 - n) * CLEARED_AT_ONCE + 2 + n
    assert not take(db, b"kept", 1000.0, 10.0)


def test_clearing_costs_the_same_however_many_names_there_are(db: sqlite3.Connection) -> None:
    """Counted in steps of SQLite's virtual machine, not in time."""

    def steps() -> int:
        counted = 0

        def step() -> int:
            nonlocal counted
            counted += 1
            return 0

        db.set_progress_handler(step, 1)
        take(db, b"asked", 1000.0, 0.0)
        db.set_progress_handler(None, 1)
        return counted

    take(db, b"asked", 1000.0, 0.0)
    few = steps()
    for n in range(2000):
        take(db, b"%d" % n, 1000.0 + n, 0.0)
    assert steps() == few


def test_what_has_expired_is_found_by_an_index(db: sqlite3.Connection) -> None:
    plan = "\n".join(row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {first_uses._CLEAR}", (0.0, 1)))
    assert "USING COVERING INDEX first_uses_by_expiry (expires<?)" in plan
    assert "SCAN" not in plan
