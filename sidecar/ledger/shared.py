"""What several processes on one SQLite ledger share, so that none goes on by what another has changed.

Owns: whose turn it is to write, which rows have changed since they were read, and a cache that asks.
Never: knows what a row says; is there at all where one process has the ledger to itself.

In memory that all of them see are the number of the last turn that ended and, for each bucket of ids, the number of
the last turn that changed a row of it. A turn numbers the buckets it changes *before* it commits, and becomes the last
one that ended after that. So what was read once turn N had ended holds for as long as its bucket's number is N or less.
A process that dies in its turn leaves numbers that are too high, which costs others a read, and nothing else.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Final

from cachetools import LRUCache

from sidecar.ledger.known import Key, Known
from sidecar.ledger.lane import Outcome
from sidecar.ledger.rows import Row, raw
from sidecar.model import Owner, Resource

BUCKETS: Final = 1 << 14  # a row shares its bucket with few others, and all of them take 128 KiB
_WORD: Final = 8  # bytes
_ENDED: Final = BUCKETS  # the word behind the buckets
_SECRET: Final = slice((BUCKETS + 1) * _WORD, (BUCKETS + 1) * _WORD + 16)  # bytes of the block
_SIZE: Final = _SECRET.stop

# Temporary: of this connection alone, and not in the file. Whatever statement changes a row passes here.
_WATCH: Final = (
    "CREATE TEMP TRIGGER changed_{verb} AFTER {verb} ON main.resources BEGIN SELECT changed({row}.id); END"
)
_ROW_OF: Final = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}


def new_block() -> int:
    """The shared memory, as a descriptor to be handed down."""
    block = os.memfd_create("ledger")
    os.ftruncate(block, _SIZE)
    os.pwrite(block, os.urandom(_SECRET.stop - _SECRET.start), _SECRET.start)
    return block


class Turns(AbstractContextManager[Sequence[Outcome]]):
    """Writing, one process at a time. To enter waits for the others; used by the writer's thread alone.

    There are two locks, because the kernel wakes whoever waits for one and lets others overtake: a process that has
    just written would take it again and again. Whoever is next holds `queue`, and a second turn has to begin there.
    """

    def __init__(self, block: int, queue: int) -> None:
        shared = memoryview(mmap.mmap(block, _SIZE))
        self._words = shared[: _SECRET.start].cast("Q")
        self._secret = bytes(shared[_SECRET])
        self._current, self._next = _own(block), _own(queue)
        self._number = 0
        self.told = 0  # on the loop: the last turn of ours whose outcomes are told

    def watch(self, db: sqlite3.Connection) -> None:
        """Number what `db` changes from now on."""
        db.create_function("changed", 1, self._changed)
        for verb, row in _ROW_OF.items():
            db.execute(_WATCH.format(verb=verb, row=row))

    @property
    def ended(self) -> int:
        return int(self._words[_ENDED])

    def bucket(self, name: bytes) -> int:
        """Which ids share one is nobody's to know: whoever chose theirs by it could feel when another's task changes."""
        return int.from_bytes(blake2b(name, digest_size=4, key=self._secret).digest()) % BUCKETS

    def changed_in(self, bucket: int) -> int:
        """The last turn that changed a row of `bucket`, perhaps one that has not ended."""
        return int(self._words[bucket])

    def __enter__(self) -> Sequence[Outcome]:
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._current, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)
        self._number = self.ended + 1
        return (partial(setattr, self, "told", self._number),)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._words[_ENDED] = self._number
        fcntl.flock(self._current, fcntl.LOCK_UN)

    def close(self) -> None:
        """Once the writer has ended."""
        os.close(self._current)
        os.close(self._next)

    def _changed(self, name: bytes) -> None:
        self._words[self.bucket(name)] = self._number


class SharedKnown(Known):
    """Known, where other processes change rows: each is kept with the turn after which it was so."""

    def __init__(self, size: int, turns: Turns) -> None:
        super().__init__(size)
        self._turns = turns
        self._kept: LRUCache[Key, tuple[int, int, Row]] = LRUCache(size)  # as of a turn, bucket, row

    @property
    def epoch(self) -> int:
        return self._turns.ended

    def row(self, owner: Owner, resource: Resource) -> Row | None:
        try:
            as_of, bucket, row = self._kept[owner, resource]
        except KeyError:
            return None
        return row if self._turns.changed_in(bucket) <= as_of else None

    def learn(self, owner: Owner, resource: Resource, row: Row) -> None:
        """`row` is what our own last turn made of it, as far as it is told; or one that is known, with sightings."""
        self._keep(owner, resource, row, self._turns.told)

    def learn_read(self, owner: Owner, resource: Resource, row: Row, *, epoch: int) -> None:
        kept = self._kept.get((owner, resource))
        if kept is None or kept[0] < epoch:
            self._keep(owner, resource, row, epoch)

    def forget(self, owner: Owner, resources: Collection[Resource]) -> None:
        for resource in resources:
            self._kept.pop((owner, resource), None)

    def forget_rows(self) -> None:
        """Nothing: whatever was deleted has its bucket numbered."""

    def _keep(self, owner: Owner, resource: Resource, row: Row, as_of: int) -> None:
        self._kept[owner, resource] = as_of, self._turns.bucket(raw(resource.id)), row


def _own(descriptor: int) -> int:
    """A description of our own of the same file: a lock belongs to the description, and inherited ones are one."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
