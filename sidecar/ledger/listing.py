"""The SQL of lists: an owner's own tasks in order, and the keys their page tokens are sealed with.

Owns: every statement that reads `resources` by more than one id, and the table `keys`.
Never: begins or ends a transaction, or reads a row of another owner.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any, Final

from sidecar.ledger import KEY_LIFE
from sidecar.ledger.rows import raw, text
from sidecar.ledger.tables import READ, fact_of, find_owner
from sidecar.model import Owner, Page, Position, TaskFilter

SECRET_BYTES: Final = 32
KEYS_KEPT: Final = 2

# The index is named so that its entries, which start with the owner, are all that is ever walked.
_LISTABLE: Final = (
    "owner = ? AND agent = ? AND tenant = ? AND kind = 'task' AND reservations = 0 AND gone_at IS NULL"
)
_KEYS: Final = f"SELECT secret, made_at FROM keys ORDER BY id DESC LIMIT {KEYS_KEPT}"  # noqa: S608


def tasks(
    db: sqlite3.Connection, owner: Owner, wanted: TaskFilter, after: Position | None, limit: int
) -> Page:
    """Up to `limit` of `owner`'s tasks behind `after`, and how many there are in all."""
    owner_id = find_owner(db, owner)
    index = "unfinished" if wanted.unfinished else "newest"
    where, values = _filter(-1 if owner_id is None else owner_id, wanted)
    total = db.execute(f"SELECT count(*) FROM resources INDEXED BY {index} WHERE {where}", values)  # noqa: S608
    counted = int(total.fetchone()[0])
    if after is not None:
        order, name = after
        where += " AND (status_order < ? OR (status_order = ? AND id > ?))"
        values += [order, order, raw(name)]
    found = db.execute(
        f"SELECT status_order, id, {READ} FROM resources INDEXED BY {index} WHERE {where}"  # noqa: S608
        " ORDER BY status_order DESC, id LIMIT ?",
        (*values, limit),
    )
    rows = tuple(((int(order), text(name)), fact_of(columns)) for order, name, *columns in found)
    return Page(rows, counted)


def sealing_keys(db: sqlite3.Connection, now: float) -> tuple[bytes, ...] | None:
    """The keys there are, the newest first; None where there is none that may still seal at `now`."""
    rows = db.execute(_KEYS).fetchall()
    if not rows or now - rows[0][1] >= KEY_LIFE:
        return None
    return tuple(secret for secret, _ in rows)


def make_sealing_key(db: sqlite3.Connection, now: float) -> tuple[bytes, ...]:
    """The keys, a new one included unless another sidecar has made one by now; the oldest are dropped."""
    if (found := sealing_keys(db, now)) is not None:
        return found
    db.execute("INSERT INTO keys (secret, made_at) VALUES (?, ?)", (os.urandom(SECRET_BYTES), now))
    db.execute("DELETE FROM keys WHERE id <= (SELECT max(id) FROM keys) - ?", (KEYS_KEPT,))
    return tuple(secret for secret, _ in db.execute(_KEYS))


def _filter(owner_id: int, wanted: TaskFilter) -> tuple[str, list[Any]]:
    where, values = _LISTABLE, [owner_id, raw(wanted.agent), raw(wanted.tenant)]
    if wanted.unfinished:
        where += " AND terminal = 0"
    optional = {"context_id": wanted.context_id, "state": wanted.state}
    for column, value in optional.items():
        if value is not None:
            where += f" AND {column} = ?"
            values.append(raw(value))
    if wanted.changed_since is not None:
        where += " AND status_order >= ?"
        values.append(wanted.changed_since)
    return where, values
