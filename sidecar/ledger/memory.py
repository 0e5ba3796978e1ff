"""A ledger in memory: for development, tests, and agents that forget everything when they restart.

Owns: MemoryLedger.
Never: outlives its process, or is what a failed SQLite ledger falls back to.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Collection, Sequence

from sidecar.ledger import KEY_LIFE, LedgerUnavailable
from sidecar.ledger.first_uses import CLEARED_AT_ONCE
from sidecar.ledger.rows import (
    Retention,
    Row,
    Sighting,
    completed,
    is_terminal,
    leaves_tombstone,
    list_order,
    newly_held,
    opened,
    owner_hash,
    raw,
    released,
    resource_hash,
    sighted,
)
from sidecar.model import (
    Entry,
    Fact,
    Facts,
    Kind,
    Miss,
    Owner,
    Page,
    Position,
    Resource,
    TaskFilter,
)

PRUNE_EVERY = 60.0  # seconds


class MemoryLedger:
    """Everything is in two dicts: by owner, then resource, for questions; by resource for first-writer.

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
        self._rows: dict[Owner, dict[Resource, Row]] = {}
        self._keys: tuple[bytes, ...] = ()
        self._key_made_at = 0.0
        self._first_uses: dict[bytes, float] = {}
        self._expiring: list[tuple[float, bytes]] = []  # a heap of the same
        self._tombstones: dict[bytes, bytes] = {}
        self._webhooks: dict[Resource, frozenset[str]] = {}
        self._pruned_at = now()
        self._closed = False

    async def facts(self, owner: Owner, resources: Collection[Resource]) -> Facts:
        self._require_open()
        # Invariant: asked by owner and id, so a foreign row is a miss like any other.
        own = self._rows.get(owner, {})
        rows = ((resource, own.get(resource)) for resource in resources)
        return {resource: row.fact for resource, row in rows if row is not None}

    async def record(self, owner: Owner, entries: Sequence[Entry]) -> frozenset[Resource]:
        now = self._now()
        self._prune_if_due(now)
        own = self._rows.get(owner, {})
        self._require_room(sum(e.resource not in own for e in entries))
        taken = frozenset(e.resource for e in entries if self._is_taken(owner, e.resource))
        if taken:
            return taken
        own = self._rows.setdefault(owner, own)
        for entry in entries:
            if not entry.fact.provisional:  # a reservation that is dropped must not free a pruned id
                self._tombstones.pop(resource_hash(entry.resource), None)
            row = own.get(entry.resource)
            self._owners[entry.resource] = owner
            own[entry.resource] = completed(row, entry)._replace(last_seen=now) if row else opened(entry, now)
        return frozenset()

    async def drop(self, owner: Owner, resources: Collection[Resource]) -> None:
        self._require_open()
        own = self._rows.get(owner, {})
        for resource in resources:
            row = own.get(resource)
            if row is None:
                continue
            if (left := released(row)) is not None:
                own[resource] = left
            else:
                self._forget(owner, resource)

    def sight(self, owner: Owner, resource: Resource, fact: Fact, *, gone: bool = False) -> None:
        self._require_open()
        own = self._rows.get(owner, {})
        if row := own.get(resource):
            sighting = Sighting(fact, self._now(), seen=not gone, gone=gone)
            own[resource] = sighted(row, sighting, self._retention.grain)

    async def tasks(self, owner: Owner, wanted: TaskFilter, after: Position | None, limit: int) -> Page:
        self._require_open()
        found = sorted(
            ((-list_order(row), raw(resource.id)), resource.id, row.fact)
            for resource, row in self._rows.get(owner, {}).items()
            if _is_meant(resource, row, wanted)
        )
        start = None if after is None else (-after[0], raw(after[1]))
        behind = [((-key[0], id_), fact) for key, id_, fact in found if start is None or key > start]
        return Page(tuple(behind[:limit]), len(found))

    async def hold_webhooks(
        self, owner: Owner, task: Resource, names: Collection[str], limit: int
    ) -> frozenset[str] | None:
        self._require_open()
        if self._owners.get(task) != owner:
            return None
        there = self._webhooks.get(task, frozenset())
        new = newly_held(there, names, limit)
        if new:
            self._webhooks[task] = there | new
        return new

    async def replace_webhooks(
        self, owner: Owner, task: Resource, old: Collection[str], new: Collection[str]
    ) -> None:
        self._require_open()
        if self._owners.get(task) == owner:
            self._webhooks[task] = (self._webhooks.get(task, frozenset()) - frozenset(old)) | frozenset(new)

    async def sealing_keys(self) -> tuple[bytes, ...]:
        self._require_open()
        now = self._now()
        if not self._keys or now - self._key_made_at >= KEY_LIFE:
            self._keys, self._key_made_at = (os.urandom(32), *self._keys[:1]), now
        return self._keys

    async def first_use(self, name: bytes, until: float) -> bool:
        self._require_open()
        now = self._now()
        self._clear_first_uses(now)
        if self._first_uses.get(name, now) > now:
            return False
        if len(self._expiring) >= self._capacity:
            raise LedgerUnavailable(f"the ledger in memory holds its limit of {self._capacity} first uses")
        self._first_uses[name] = until
        heapq.heappush(self._expiring, (until, name))
        return True

    async def causes(self, misses: Sequence[tuple[Owner, Resource]]) -> Sequence[Miss]:
        self._require_open()
        return [self._cause(owner, resource) for owner, resource in misses]

    def _cause(self, owner: Owner, resource: Resource) -> Miss:
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
        expired = [
            (owner, resource, row)
            for owner, own in self._rows.items()
            for resource, row in own.items()
            if self._retention.expired(row, now)
        ]
        for owner, resource, row in expired:
            self._forget(owner, resource)
            if leaves_tombstone(resource, row):
                self._tombstones[resource_hash(resource)] = owner_hash(owner)
        return len(expired)

    def _forget(self, owner: Owner, resource: Resource) -> None:
        own = self._rows[owner]
        del own[resource], self._owners[resource]
        self._webhooks.pop(resource, None)
        if not own:
            del self._rows[owner]

    def _prune_if_due(self, now: float) -> None:
        if abs(now - self._pruned_at) >= PRUNE_EVERY:
            self._prune(now)

    def _clear_first_uses(self, now: float) -> None:
        for _ in range(CLEARED_AT_ONCE):
            if not self._expiring or self._expiring[0][0] > now:
                return
            until, name = heapq.heappop(self._expiring)
            if self._first_uses.get(name) == until:  # else it was used again since
                del self._first_uses[name]

    def _require_room(self, wanted: int) -> None:
        self._require_open()
        if wanted and len(self._owners) + len(self._tombstones) + wanted > self._capacity:
            raise LedgerUnavailable(f"the ledger in memory holds its limit of {self._capacity} rows")

    def _require_open(self) -> None:
        if self._closed:
            raise LedgerUnavailable("the ledger is closed")


def _is_meant(resource: Resource, row: Row, wanted: TaskFilter) -> bool:
    fact = row.fact
    return (
        resource.kind is Kind.TASK
        and resource.agent == wanted.agent
        and fact.tenant == wanted.tenant
        and row.gone_at is None
        and not row.reservations
        and wanted.context_id in (None, fact.context_id)
        and wanted.state in (None, fact.state)
        and (wanted.changed_since is None or list_order(row) >= wanted.changed_since)
        and not (wanted.unfinished and is_terminal(fact))
    )
