"""What the SQLite ledger remembers of rows it has read or written.

Owns: the bounded caches of rows by owner and resource, and of owners' row ids.
Never: remembers a miss, or can be asked by id alone: a foreign row stays as slow as an unknown one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from cachetools import LRUCache

from sidecar.ledger.rows import Row
from sidecar.model import Owner, Resource

Key: TypeAlias = tuple[Owner, Resource]


class Known:
    """Used on the event loop only. `epoch` grows whenever rows may have been deleted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: LRUCache[Key, Row] = LRUCache(size)
        self._owner_ids: LRUCache[Owner, int] = LRUCache(size)
        self._epoch = 0

    @property
    def epoch(self) -> int:
        return self._epoch

    def row(self, owner: Owner, resource: Resource) -> Row | None:
        try:
            return self._rows[owner, resource]
        except KeyError:
            return None

    def learn(self, owner: Owner, resource: Resource, row: Row) -> None:
        """`row` is committed, or a committed row with sightings that are on their way."""
        self._rows[owner, resource] = row

    def learn_read(self, owner: Owner, resource: Resource, row: Row, *, epoch: int) -> None:
        """`row` was read by a question asked at `epoch`: what was learnt meanwhile is newer."""
        if epoch == self.epoch and (owner, resource) not in self._rows:
            self._rows[owner, resource] = row

    def forget(self, owner: Owner, resources: Collection[Resource]) -> None:
        self._epoch += 1
        for resource in resources:
            self._rows.pop((owner, resource), None)

    def forget_rows(self) -> None:
        self._epoch += 1
        self._rows = LRUCache(self._size)  # `clear` would take its time, on the loop

    def owner_id(self, owner: Owner) -> int | None:
        try:
            return self._owner_ids[owner]
        except KeyError:
            return None

    def learn_owner(self, owner: Owner, owner_id: int | None) -> None:
        """Owners are never deleted, so an id learnt once stays true."""
        if owner_id is not None:
            self._owner_ids[owner] = owner_id
