"""`python -m tests.bench.planted MICROSECONDS LEDGER run …`: the sidecar with a fault, for the bench to find.

Owns: a delay in the ledger's answer where what was not found exists and is somebody else's.
Never: changes anything but time.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Collection

from sidecar.__main__ import main as run
from sidecar.ledger.rows import text
from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Facts, Owner, Page, Position, Resource, TaskFilter


def main() -> None:
    delay, path = int(sys.argv[1]) * 1000, sys.argv[2]
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        existing = frozenset(text(row[0]) for row in db.execute("SELECT id FROM resources"))
    db.close()
    ask, page = SqliteLedger.facts, SqliteLedger.tasks

    def linger() -> None:
        until = time.perf_counter_ns() + delay
        while time.perf_counter_ns() < until:
            pass

    async def facts(self: SqliteLedger, owner: Owner, resources: Collection[Resource]) -> Facts:
        found = await ask(self, owner, resources)
        if any(r.id in existing and r not in found for r in resources):
            linger()
        return found

    async def tasks(
        self: SqliteLedger, owner: Owner, wanted: TaskFilter, after: Position | None, limit: int
    ) -> Page:
        found = await page(self, owner, wanted, after, limit)
        # A list asks twice; once is enough.
        if wanted.context_id in existing and not found.total and not wanted.unfinished:
            linger()
        return found

    SqliteLedger.facts = facts  # type: ignore[method-assign]
    SqliteLedger.tasks = tasks  # type: ignore[method-assign]
    sys.argv[1:] = sys.argv[3:]
    run()


if __name__ == "__main__":
    main()
