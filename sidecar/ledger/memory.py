"""A ledger in memory: for development, tests, and agents that forget everything when they restart.

Owns: MemoryLedger.
Never: outlives its process, or is what a failed SQLite ledger falls back to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sidecar.ledger import LedgerUnavailable
from sidecar.ledger.rows import (
    Retention,
    Row,
    Sighting,
    completed,
    leaves_tombstone,
    opened,
    owner_hash,
    released,
    resource_hash,
    sighted,
)
from sidecar.model import Entry, Fact, Facts, Miss, Owner, Resource

PRUNE_EVERY = 60.0  # seconds


class MemoryLedger:
    """Everything is in two dicts: by owner and resource for questions, by resource for first-writer.

    `now` gives seconds since the epoch; `retention` and `retention_open` are seconds. Past
    `capacity` rows and tombstones nothing more is recorded (LedgerUnavailable).
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        retention: float = 30 * 86400.0,
        retention_open: float = 180 * 86400.0,
        capacity: int = 1_000_000,
    ) -> None:
        self._now = now
        self._retention = Retention(retention, retention_open)
        self._capacity = capacity
        self._owners: dict[Resource, Owner] = {}
        self._rows: dict[tuple[Owner, Resource], Row] = {}
        self._tombstones: dict[bytes, bytes] = {}
        self._pruned_at = now()
        self._closed = False

    async def facts(self, owner: Owner, resources: Collection[Resource]) -> Facts:
        self._require_open()
        # Invariant: asked by owner and id, so a foreign row is a miss like any other.
        rows = ((resource, self._rows.get((owner, resource))) for resource in resources)
        return {resource: row.fact for resource, row in rows if row is not None}

    async def record(self, owner: Owner, entries: Sequence[Entry]) -> frozenset[Resource]:
        now = self._now()
        self._prune_if_due(now)
        self._require_room(sum((owner, e.resource) not in self._rows for e in entries))
        taken = frozenset(e.resource for e in entries if self._is_taken(owner, e.resource))
        if taken:
            return taken
        for entry in entries:
            if not entry.fact.provisional:  # a reservation that is dropped must not free a pruned id
                self._tombstones.pop(resource_hash(entry.resource), None)
            key = (owner, entry.resource)
            row = self._rows.get(key)
            self._owners[entry.resource] = owner
            self._rows[key] = replace(completed(row, entry), last_seen=now) if row else opened(entry, now)
        return frozenset()

    async def drop(self, owner: Owner, resources: Collection[Resource]) -> None:
        self._require_open()
        for resource in resources:
            row = self._rows.get((owner, resource))
            if row is None:
                continue
            if (left := released(row)) is not None:
                self._rows[owner, resource] = left
            else:
                del self._rows[owner, resource], self._owners[resource]

    def sight(self, owner: Owner, resource: Resource, fact: Fact, *, gone: bool = False) -> None:
        self._require_open()
        if row := self._rows.get((owner, resource)):
            sighting = Sighting(fact, self._now(), seen=not gone, gone=gone)
            self._rows[owner, resource] = sighted(row, sighting, self._retention.grain)

    async def cause(self, owner: Owner, resource: Resource) -> Miss:
        self._require_open()
        if self._owners.get(resource, owner) != owner:
            return Miss.FOREIGN
        return Miss.PRUNED if resource_hash(resource) in self._tombstones else Miss.ABSENT

    async def check(self) -> None:
        self._prune_if_due(self._now())
        self._require_room(1)

    async def prune(self, now: float) -> int:
        """Delete what has expired at `now`; returns how many rows. `record` and `check` do it by themselves."""
        self._require_open()
        return self._prune(now)

    async def close(self) -> None:
        self._closed = True

    def _is_taken(self, owner: Owner, resource: Resource) -> bool:
        if resource in self._owners:
            return self._owners[resource] != owner
        return self._tombstones.get(resource_hash(resource), owner_hash(owner)) != owner_hash(owner)

    def _prune(self, now: float) -> int:
        self._pruned_at = now
        expired = [key for key, row in self._rows.items() if self._retention.expired(row, now)]
        for owner, resource in expired:
            row = self._rows.pop((owner, resource))
            del self._owners[resource]
            if leaves_tombstone(resource, row):
                self._tombstones[resource_hash(resource)] = owner_hash(owner)
        return len(expired)

    def _prune_if_due(self, now: float) -> None:
        if abs(now - self._pruned_at) >= PRUNE_EVERY:
            self._prune(now)

    def _require_room(self, wanted: int) -> None:
        self._require_open()
        if wanted and len(self._rows) + len(self._tombstones) + wanted > self._capacity:
            raise LedgerUnavailable(f"the ledger in memory holds its limit of {self._capacity} rows")

    def _require_open(self) -> None:
        if self._closed:
            raise LedgerUnavailable("the ledger is closed")
