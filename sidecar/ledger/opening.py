"""Opening the file of a SQLite ledger: find it fit, or say what is wrong with it.

Owns: the lock that keeps a second sidecar out, the inspection of an existing file, the schema and
its versions, how a connection is set up, and a file that one process holds for the workers it starts.
Never: starts empty over existing data, repairs, moves aside, or falls back to memory.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from sidecar.ledger import LedgerUnavailable
from sidecar.ledger.shared import new_block
from sidecar.ledger.tables import probe

APPLICATION_ID: Final = (
    0x41324153  # "A2AS", in the file's header (sqlite.org/pragma.html#pragma_application_id)
)
PAGES_KIB: Final = 1024  # of the file that a connection keeps; the kernel keeps them for all connections
_MAGIC: Final = b"SQLite format 3\x00"  # sqlite.org/fileformat2.html §1.3.1


@dataclass(frozen=True, slots=True)
class Opened:
    """A ledger file that is fit to use. Close the connections before the lock."""

    path: Path
    writing: sqlite3.Connection
    reading: tuple[sqlite3.Connection, ...]
    lock: int
    identity: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Held:
    """A ledger file that one process has opened for those it starts. The numbers are descriptors they inherit."""

    path: Path
    identity: tuple[int, int]
    lock: int
    block: int  # shared.new_block
    queue: int


def open_file(path: Path, *, readers: int, timeout: float) -> Opened:
    """Open `path`, made if absent or empty; `timeout` (seconds) bounds each wait for a lock on it.

    Raises LedgerUnavailable with a message for whoever runs the sidecar.
    """
    with _explaining(path):
        path = Path(os.path.realpath(path))  # so that two names of one file share one lock
        _require_directory(path)
        lock = _lock(path)
        connections: list[sqlite3.Connection] = []
        try:
            _require_ledger_or_nothing(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            connections.extend(_connect(path, timeout) for _ in range(1 + readers))
            _prepare(connections[0], path)
            for connection in connections[1:]:
                _set_up_to_read(connection)
        except BaseException:
            for connection in connections:
                connection.close()
            os.close(lock)
            raise
        return Opened(path, connections[0], tuple(connections[1:]), lock, _identity(path))


def hold_file(path: Path, *, timeout: float) -> Held:
    """Do what `open_file` does, once for all workers, and keep no connection. Raises what `open_file` raises."""
    opened = open_file(path, readers=0, timeout=timeout)
    opened.writing.close()
    queue = os.memfd_create("ledger-queue")
    return Held(opened.path, opened.identity, opened.lock, new_block(), queue)


def join_file(held: Held, *, readers: int, timeout: float) -> Opened:
    """Open what another process holds, the file that it has found fit and no other.

    Raises LedgerUnavailable with a message for whoever runs the sidecar.
    """
    with _explaining(held.path):
        connections: list[sqlite3.Connection] = []
        try:
            require_in_place(held)
            connections.extend(_connect(held.path, timeout) for _ in range(1 + readers))
            _set_up(connections[0])
            for connection in connections[1:]:
                _set_up_to_read(connection)
        except BaseException:
            for connection in connections:
                connection.close()
            raise
        return Opened(held.path, connections[0], tuple(connections[1:]), held.lock, held.identity)


def require_in_place(file: Opened | Held) -> None:
    """Refuse to write on into a file that was moved away or replaced. Raises OSError, LedgerUnavailable."""
    if _identity(file.path) != file.identity:
        raise LedgerUnavailable("the file was replaced while in use; restart the sidecar")


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise LedgerUnavailable(f"ledger `{path}`: {error}") from error
    except OSError as error:
        raise LedgerUnavailable(
            f"ledger `{path}`: {error.strerror} (the file and its directory must be writable for uid {os.geteuid()})"
        ) from error


def _require_directory(path: Path) -> None:
    if not path.parent.is_dir():
        raise LedgerUnavailable(
            f"ledger `{path}`: there is no directory `{path.parent}`; mount a volume there that is writable"
            f" for uid {os.geteuid()}, or change `ledger.url`"
        )


def _lock(path: Path) -> int:
    """Take the lock file beside `path`; held until the descriptor is closed, also by a crash."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise LedgerUnavailable(
            f"ledger `{path}` is in use by another process; a SQLite ledger serves one sidecar"
        ) from None
    except OSError:
        os.close(lock)
        raise
    return lock


def _require_ledger_or_nothing(path: Path) -> None:
    """Refuse what cannot be a ledger before SQLite touches it."""
    start = b""
    if path.exists():
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    if start and start != _MAGIC:
        raise LedgerUnavailable(f"ledger `{path}` is not a SQLite file; move it away or change `ledger.url`")
    wal = path.with_name(path.name + "-wal")
    if not start and wal.exists() and wal.stat().st_size:
        raise LedgerUnavailable(
            f"ledger `{path}` is missing or empty, but `{wal}` holds rows of it; restore the file, or remove"
            f" `{wal.name}` to begin without them"
        )


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: SQLite itself must never make a file where one went missing.
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw", timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check what is there, bring it to this schema, and prove that it can be written."""
    version = _require_sound(db, path)
    if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise LedgerUnavailable(f"ledger `{path}`: its file system does not support write-ahead logging")
    _set_up(db)
    db.execute("BEGIN IMMEDIATE")
    with db:
        for number, script in _schema()[version:]:
            for statement in _statements(script):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        probe(db)
    # So that the schema is in the file itself, whatever becomes of the log beside it.
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _set_up(db: sqlite3.Connection) -> None:
    """What a connection that writes keeps for itself, and the file does not."""
    db.execute("PRAGMA synchronous = FULL")  # Invariant: what `record` returned survives a power cut
    db.execute("PRAGMA journal_size_limit = 67108864")
    db.execute(f"PRAGMA cache_size = -{PAGES_KIB}")


def _set_up_to_read(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA query_only = ON")
    db.execute(f"PRAGMA cache_size = -{PAGES_KIB}")


def _require_sound(db: sqlite3.Connection, path: Path) -> int:
    """The version of a sound ledger, 0 for an empty file. Raises LedgerUnavailable for anything else."""
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        ours = db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        problems = [str(row[0]) for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError:  # locked or unreadable: not damaged
        raise
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    if problems != ["ok"]:
        raise LedgerUnavailable(
            f"ledger `{path}` is damaged; restore it from a backup, since starting empty would leave every task"
            f" without its owner ({'; '.join(problems)})"
        )
    if tables and not ours:
        raise LedgerUnavailable(f"ledger `{path}` is a SQLite file of something else; change `ledger.url`")
    newest = len(_schema())
    if version > newest:
        raise LedgerUnavailable(
            f"ledger `{path}` has schema {version}, this version knows up to {newest}; run a newer a2a-sidecar"
        )
    if bool(version) != bool(tables):
        raise LedgerUnavailable(f"ledger `{path}` is damaged: schema {version} with {tables} tables")
    return version


def _schema() -> Sequence[tuple[int, str]]:
    """(version, script) of each `schema/NNNN_*.sql`, in order and without gaps."""
    scripts = sorted(
        (file for file in files("sidecar.ledger").joinpath("schema").iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [(int(file.name[:4]), file.read_text("utf-8")) for file in scripts]


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would commit the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():  # not ended: SQLite says what is wrong with it
        yield statement
