"""What is opened, what is made, and what is refused with which message."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sidecar import config
from sidecar.ledger import LedgerUnavailable, open_ledger, opening
from sidecar.ledger.memory import MemoryLedger
from sidecar.ledger.opening import APPLICATION_ID, open_file
from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Entry, Kind, Owner, Resource

ALICE = Owner("t1", "https://idp.example.com", "alice")
TASKS = [Resource("code-review", Kind.TASK, f"task-{n}") for n in range(2000)]


NEWEST = len(opening._schema())


def now() -> float:
    return 1_800_000_000.0


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A ledger with rows on many pages, closed."""
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", now=now)
    await ledger.record(ALICE, [Entry(resource) for resource in TASKS])
    await ledger.close()
    return tmp_path / "ledger.db"


def cut(to: Callable[[int], int]) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, to(path.stat().st_size))


def overwrite(at: int, with_bytes: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(with_bytes)

    return damage


def run(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            for statement in statements:
                db.execute(statement)

    return damage


def replace_by(content: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(content)

    return damage


def another_database(path: Path) -> None:
    path.unlink()
    run("CREATE TABLE notes (text)", "PRAGMA user_version = 1")(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(cut(lambda size: size // 2), "damaged", id="half a file"),
        pytest.param(
            cut(lambda size: size // 2 + 100), "damaged", id="half a file, not at the end of a page"
        ),
        pytest.param(cut(lambda size: size - 4096), "damaged", id="the last page is missing"),
        pytest.param(cut(lambda size: 4096), "damaged", id="only the first page"),
        pytest.param(cut(lambda size: 200), "ledger.db", id="less than a page"),
        pytest.param(cut(lambda size: 50), "ledger.db", id="less than a header"),
        pytest.param(cut(lambda size: 7), "not a SQLite file", id="less than the first words"),
        pytest.param(overwrite(3 * 4096, b"\xff" * 4096), "damaged", id="a page of ones"),
        pytest.param(overwrite(3 * 4096, b"\x00" * 4096), "damaged", id="a page of zeros"),
        pytest.param(overwrite(100, b"\xff" * 2000), "damaged", id="the schema is overwritten"),
        pytest.param(overwrite(0, b"\x00" * 4096), "not a SQLite file", id="the first page is zeros"),
        pytest.param(replace_by(b"%PDF-1.7\n" * 1000), "not a SQLite file", id="a file of another type"),
        pytest.param(replace_by(b"\n"), "not a SQLite file", id="a text file"),
        pytest.param(another_database, "something else", id="a SQLite file of another program"),
        pytest.param(run("PRAGMA application_id = 7"), "something else", id="another program's mark"),
        pytest.param(run("PRAGMA user_version = 99"), "run a newer a2a-sidecar", id="a newer schema"),
        pytest.param(run("PRAGMA user_version = 0"), "damaged: schema 0", id="tables without a version"),
    ],
)
async def test_unfit_files_are_refused_and_left_as_they_are(
    path: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(path)
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable, match=message) as refusal:
        await SqliteLedger.open(path, now=now)
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == before


def schema_with(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """As if a later version brought `script` as its next schema file."""
    scripts = [*opening._schema(), (NEWEST + 1, script)]
    monkeypatch.setattr(opening, "_schema", lambda: scripts)


async def test_an_older_schema_is_brought_up_with_its_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_with(monkeypatch, "-- a comment;\nCREATE TABLE later (x);\nCREATE TABLE latest (\n  x\n);")
    ledger = await SqliteLedger.open(path, now=now)
    assert set(await ledger.facts(ALICE, TASKS)) == set(TASKS)
    await ledger.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (NEWEST + 1,)
        assert db.execute("SELECT count(*) FROM later, latest").fetchone() == (0,)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param("CREATE TABLE owners (x);", id="a statement fails"),
        pytest.param("CREATE TABLE latest (x", id="a statement is not ended"),
    ],
)
async def test_a_step_that_fails_leaves_the_older_schema(
    path: Path, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    with monkeypatch.context() as later:
        schema_with(later, f"CREATE TABLE later (x);\n{rest}")
        with pytest.raises(LedgerUnavailable, match=r"ledger\.db"):
            await SqliteLedger.open(path, now=now)
    ledger = await SqliteLedger.open(path, now=now)
    assert set(await ledger.facts(ALICE, TASKS)) == set(TASKS)
    await ledger.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'later'").fetchone() == (0,)


@pytest.mark.parametrize("left", ["empty", "nothing"])
async def test_a_log_without_its_file_is_refused(tmp_path: Path, left: str) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", now=now)
    await ledger.record(ALICE, [Entry(TASKS[0])])
    copy = tmp_path / "copy" / "ledger.db"
    copy.parent.mkdir()
    shutil.copy(tmp_path / "ledger.db-wal", copy.with_name("ledger.db-wal"))
    await ledger.close()
    if left == "empty":
        copy.touch()
    with pytest.raises(LedgerUnavailable, match=r"missing or empty, but .*ledger.db-wal` holds rows"):
        await SqliteLedger.open(copy, now=now)
    assert copy.with_name("ledger.db-wal").stat().st_size > 0


async def test_a_file_left_by_a_crash_is_taken_up_with_its_log(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", now=now)
    await ledger.record(ALICE, [Entry(TASKS[0])])
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(tmp_path / name, copy / name)
    await ledger.close()
    ledger = await SqliteLedger.open(copy / "ledger.db", now=now)
    assert set(await ledger.facts(ALICE, TASKS[:1])) == {TASKS[0]}
    await ledger.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(
            "missing/ledger.db", "there is no directory `.*missing`; mount a volume", id="no directory"
        ),
        pytest.param("file/ledger.db", "there is no directory `.*file`", id="the directory is a file"),
        pytest.param("directory", "directory", id="the file is a directory"),
        pytest.param("unwritable/ledger.db", "must be writable for uid", id="no file can be made there"),
        pytest.param("loop.db", "symbolic links", id="a link to itself"),
    ],
)
async def test_where_no_file_can_be(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "unwritable").mkdir()
    (tmp_path / "unwritable" / "ledger.db.lock").mkdir()  # tests may run as root, whom a mode does not stop
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    with pytest.raises(LedgerUnavailable, match=message) as refusal:
        await open_ledger(config.Ledger(url=f"sqlite:///{tmp_path / name}"), now=now)
    assert str(tmp_path / name) in str(refusal.value)
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("existing", [True, False])
async def test_an_empty_or_absent_file_becomes_a_ledger(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "odd name %20 ?#.db"
    if existing:
        path.touch()
    ledger = await SqliteLedger.open(path, now=now)
    await ledger.record(ALICE, [Entry(TASKS[0])])
    await ledger.close()
    with closing(sqlite3.connect(path)) as db:
        pragmas = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        assert [*pragmas, db.execute("PRAGMA journal_mode").fetchone()[0]] == [APPLICATION_ID, NEWEST, "wal"]
    assert {file.name for file in tmp_path.iterdir()} == {path.name, f"{path.name}.lock"}


def test_commits_are_synced(tmp_path: Path) -> None:
    opened = open_file(tmp_path / "ledger.db", readers=1, timeout=1)
    assert opened.writing.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        opened.reading[0].execute("DELETE FROM resources")
    for connection in (*opened.reading, opened.writing):
        connection.close()
    os.close(opened.lock)


async def test_a_refused_file_is_free_again(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(b"not a ledger")
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="not a SQLite file"):
            await SqliteLedger.open(path, now=now)
    path.write_bytes(content)
    ledger = await SqliteLedger.open(path, now=now)
    assert set(await ledger.facts(ALICE, TASKS)) == set(TASKS)
    await ledger.close()


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("", id="empty"),
        pytest.param("memory", id="no colon"),
        pytest.param("memory://", id="slashes after memory"),
        pytest.param("sqlite:", id="no path"),
        pytest.param("sqlite://", id="two slashes"),
        pytest.param("sqlite:///", id="three slashes and no path"),
        pytest.param("sqlite:////", id="the root directory"),
        pytest.param("sqlite://data/ledger.db", id="a host"),
        pytest.param("sqlite:////data/", id="a directory"),
        pytest.param("sqlite:///:memory:", id="SQLite's own memory"),
        pytest.param("sqlite:////data/ledger.db?mode=ro", id="options"),
        pytest.param("sqlite:////data/led\x00ger.db", id="a NUL"),
        pytest.param("SQLITE:////data/ledger.db", id="capitals"),
        pytest.param("/data/ledger.db", id="a path"),
        pytest.param("redis://localhost", id="a ledger that is not there"),
    ],
)
async def test_other_urls_are_refused_with_what_to_write(url: str) -> None:
    unchecked = config.Ledger.model_construct(url=url)
    with pytest.raises(ValueError, match=r"write .*sqlite:////data/ledger.db"):
        await open_ledger(unchecked, now=now)


async def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (f"sqlite:///{tmp_path}/absolute.db", "sqlite:///relative.db"):
        ledger = await open_ledger(config.Ledger(url=url), now=now)
        await ledger.check()
        await ledger.close()
    assert {"absolute.db", "relative.db"} <= {file.name for file in tmp_path.iterdir()}
    assert isinstance(await open_ledger(config.Ledger(), now=now), MemoryLedger)
