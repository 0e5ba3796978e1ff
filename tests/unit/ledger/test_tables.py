"""That a caller's question is answered through the index that starts with the owner."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files

import pytest

from sidecar.ledger import tables
from sidecar.ledger.tables import OWN_ROW
from sidecar.model import Entry, Fact, Kind, Owner, Resource

ALICE = Owner("t1", "https://idp.example.com", "alice")
BOB = Owner("t1", "https://idp.example.com", "bob")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(files("sidecar.ledger").joinpath("schema/0001_ledger.sql").read_text())
        yield db


def plan(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> str:
    return "\n".join(row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values))


def test_a_callers_question_compares_the_owner_first(db: sqlite3.Connection) -> None:
    assert plan(db, OWN_ROW, (1, b"a", "task", b"t")) == (
        "SEARCH resources USING INDEX owned (owner=? AND agent=? AND kind=? AND id=?)"
    )


@pytest.mark.parametrize("who", [ALICE, BOB])
@pytest.mark.parametrize("owner_known", [True, False])
def test_foreign_and_absent_take_the_same_steps(
    db: sqlite3.Connection, who: Owner, owner_known: bool
) -> None:
    """SQLite's own count of virtual machine steps: what it does, whatever the clock says."""
    for n in range(500):
        tables.record(db, ALICE, None, [Entry(Resource("a", Kind.TASK, f"alice-{n:03}"))], 0.0)
    if owner_known:
        tables.record(db, BOB, None, [Entry(Resource("a", Kind.TASK, "bob"))], 0.0)
    other = BOB if who is ALICE else ALICE
    tables.record(db, other, None, [Entry(Resource("a", Kind.TASK, "theirs"))], 0.0)

    def steps(name: str) -> int:
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        db.set_progress_handler(step, 1)
        found = tables.find(db, who, None, [Resource("a", Kind.TASK, name)])
        db.set_progress_handler(None, 1)
        assert not found.rows
        return count

    assert steps("theirs") == steps("absent") > 0


def test_a_callers_own_tasks_come_newest_first_from_an_index(db: sqlite3.Connection) -> None:
    times = {
        "old": "2026-01-01T00:00:00Z",
        "new": "2026-01-01T00:00:00.5Z",
        "newest": "2026-01-01T00:00:00-01:00",
    }
    entries = [Entry(Resource("a", Kind.TASK, name), Fact(status_at=at)) for name, at in times.items()]
    tables.record(db, ALICE, None, [*entries, Entry(Resource("a", Kind.TASK, "unknown"))], 0.0)
    query = (
        "SELECT id FROM resources WHERE owner = ? AND agent = ? AND kind = ? ORDER BY status_order DESC, id"
    )
    values = (1, b"a", "task")
    assert [row[0] for row in db.execute(query, values)] == [b"newest", b"new", b"old", b"unknown"]
    assert "USING COVERING INDEX newest" in plan(db, query, values)
    assert "TEMP B-TREE" not in plan(db, query, values)


def test_pruning_finds_what_has_expired_by_an_index(db: sqlite3.Connection) -> None:
    assert "USING INDEX by_age (terminal=? AND last_seen<?)" in plan(db, tables._EXPIRED, (0, 0.0, 1))
