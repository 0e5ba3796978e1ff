"""Sightings on their way to the file.

Owns: those not yet written, at most one a resource, and when they are.
Never: delays a caller, or loses a sighting to a failed write while there is room to keep it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, TypeAlias

from sidecar.ledger import LedgerUnavailable, tables
from sidecar.ledger.known import Key, Known
from sidecar.ledger.lane import Job
from sidecar.ledger.rows import Retention, Row, Sighting, sighted, together
from sidecar.ledger.tables import Found
from sidecar.ledger.writer import Writer
from sidecar.model import Owner, Resource

DELAY: Final = 1.0  # seconds a sighting waits for others
EARLY: Final = 512  # sightings that are written without waiting longer
LIMIT: Final = 4096  # sightings kept, being written ones included; past it new ones are lost

Seen: TypeAlias = Mapping[Key, Sighting]


class Behind:
    """Used on the event loop only."""

    def __init__(self, writer: Writer, known: Known, retention: Retention) -> None:
        self._writer = writer
        self._known = known
        self._retention = retention
        self._grain = retention.grain
        self._pending: dict[Key, Sighting] = {}
        self._in_flight = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, owner: Owner, resource: Resource, sighting: Sighting) -> None:
        """Note `sighting`, unless the row is known and it would change nothing."""
        key = (owner, resource)
        row = self._known.row(owner, resource)
        new = row and sighted(row, sighting, self._grain)
        if row is not None and new is row:
            return
        if key not in self._pending and len(self._pending) + self._in_flight >= LIMIT:
            return
        # An expired row is not known again until it is written: another process may be pruning it at this moment.
        if row is not None and new is not None and not self._retention.expired(row, sighting.at):
            self._known.learn(owner, resource, new)
        self._keep(key, sighting)
        if len(self._pending) >= EARLY:
            self.flush()

    def applied(self, owner: Owner, resource: Resource, row: Row) -> Row:
        """`row` as it will be once what waits is written."""
        sighting = self._pending.get((owner, resource))
        return row if sighting is None else sighted(row, sighting, self._grain)

    def flush(self) -> bool:
        """Hand what waits to the writer, behind everything handed to it before.

        Returns whether anything is on its way to the file now.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return self._in_flight > 0
        seen, self._pending = self._pending, {}
        job: Job[Mapping[Owner, Found]] = Job(
            lambda db: _write(db, seen, self._grain),
            lambda found: self._written(seen, found),
            lambda _: self._failed(seen),
        )
        self._in_flight += len(seen)
        try:
            self._writer.post(job)
        except LedgerUnavailable:
            self._failed(seen)
        return True

    def close(self) -> None:
        """Flush for the last time; what cannot be written now is lost."""
        self.flush()
        self._closed = True

    def _keep(self, key: Key, sighting: Sighting) -> None:
        earlier = self._pending.get(key)
        self._pending[key] = sighting if earlier is None else together(earlier, sighting)
        self._flush_later()

    def _flush_later(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self.flush)

    def _written(self, seen: Seen, found: Mapping[Owner, Found]) -> None:
        self._in_flight -= len(seen)
        for owner, resource in seen:
            self._known.learn_owner(owner, found[owner].owner_id)
            if row := found[owner].rows.get(resource):
                self._known.learn(owner, resource, self.applied(owner, resource, row))
            else:
                self._known.forget(owner, [resource])

    def _failed(self, seen: Seen) -> None:
        self._in_flight -= len(seen)
        newer, self._pending = self._pending, dict(seen)
        for key, sighting in newer.items():
            self._keep(key, sighting)
        self._flush_later()


def _write(db: sqlite3.Connection, seen: Seen, grain: float) -> Mapping[Owner, Found]:
    by_owner: defaultdict[Owner, dict[Resource, Sighting]] = defaultdict(dict)
    for (owner, resource), sighting in seen.items():
        by_owner[owner][resource] = sighting
    return {owner: tables.note(db, owner, None, theirs, grain) for owner, theirs in by_owner.items()}
