"""What may be used once, for a time: the SQL.

Owns: every statement that touches `first_uses`.
Never: knows what a name stands for, begins or ends a transaction.
"""

from __future__ import annotations

import sqlite3
from typing import Final

# More than one, so that what a burst left behind goes; few, so that no call pays for it.
CLEARED_AT_ONCE: Final = 16

_CLEAR: Final = "DELETE FROM first_uses WHERE name IN (SELECT name FROM first_uses WHERE expires <= ? ORDER BY expires LIMIT ?)"
# One statement looks and takes, so that of two connections at once only one is the first. A name whose time has
# passed and that has not been cleared yet is taken anew.
_TAKE: Final = (
    "INSERT INTO first_uses (name, expires) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET expires = excluded.expires WHERE expires <= ?"
)


def take(db: sqlite3.Connection, name: bytes, until: float, now: float) -> bool:
    """`Ledger.first_use` on one connection."""
    db.execute(_CLEAR, (now, CLEARED_AT_ONCE))
    return db.execute(_TAKE, (name, until, now)).rowcount == 1
