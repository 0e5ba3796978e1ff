"""How many webhooks a task has: the SQL.

Owns: every statement that counts webhooks.
Never: knows what a webhook is, begins or ends a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final

from sidecar.ledger import tables
from sidecar.ledger.rows import newly_held, raw, text
from sidecar.model import Owner, Resource

_OF_TASK: Final = "owner = ? AND agent = ? AND task = ?"
_NAMES: Final = f"SELECT name FROM webhooks WHERE {_OF_TASK}"  # noqa: S608
_ADD: Final = "INSERT OR IGNORE INTO webhooks (owner, agent, task, name) VALUES (?, ?, ?, ?)"
_REMOVE: Final = f"DELETE FROM webhooks WHERE {_OF_TASK} AND name = ?"  # noqa: S608


def hold(
    db: sqlite3.Connection, owner: Owner, task: Resource, names: Collection[str], limit: int
) -> frozenset[str] | None:
    """`Ledger.hold_webhooks` on one connection."""
    owner_id = tables.find_owner(db, owner)
    if owner_id is None or not tables.owns(db, owner_id, task):
        return None
    key = _key(owner_id, task)
    new = newly_held({text(name) for (name,) in db.execute(_NAMES, key)}, names, limit)
    db.executemany(_ADD, [(*key, raw(name)) for name in new or ()])
    return new


def replace(
    db: sqlite3.Connection, owner: Owner, task: Resource, old: Collection[str], new: Collection[str]
) -> None:
    """`Ledger.replace_webhooks` on one connection."""
    owner_id = tables.find_owner(db, owner)
    if owner_id is None:
        return
    key = _key(owner_id, task)
    db.executemany(_REMOVE, [(*key, raw(name)) for name in old])
    if tables.owns(db, owner_id, task):
        db.executemany(_ADD, [(*key, raw(name)) for name in new])


def _key(owner_id: int, task: Resource) -> tuple[int, bytes, bytes]:
    return owner_id, raw(task.agent), raw(task.id)
