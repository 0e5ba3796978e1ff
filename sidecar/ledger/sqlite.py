"""The embedded ledger: one SQLite file, durable when `record` returns.

Owns: SqliteLedger, its cache of owned rows, and what is written behind.
Never: blocks the event loop, remembers that something was not found, or lets a driver's error out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final, TypeVar

from sidecar.ledger import LedgerUnavailable, first_uses, listing, tables, webhooks
from sidecar.ledger.behind import Behind
from sidecar.ledger.known import Known
from sidecar.ledger.lane import Job
from sidecar.ledger.opening import Held, Opened, join_file, open_file, require_in_place
from sidecar.ledger.readers import Readers
from sidecar.ledger.rows import Retention, Sighting, completed
from sidecar.ledger.shared import SharedKnown, Turns
from sidecar.ledger.tables import Recorded
from sidecar.ledger.writer import ALONE, Writer
from sidecar.model import (
    Entry,
    Fact,
    Facts,
    Miss,
    Owner,
    Page,
    Position,
    Resource,
    TaskFilter,
)

T = TypeVar("T")

READERS: Final = 2  # threads; a question takes SQLite some 20 µs, the rest is waiting for a disk
PROVED_FOR: Final = 1.0  # seconds for which one proof of `check` stands
PRUNE_EVERY: Final = 600.0  # seconds; the first time so long after the start, when the clock has been set


class SqliteLedger:
    """Made by `open`. Rows it knows are answered on the loop, all others by a reader thread."""

    @classmethod
    async def open(
        cls,
        path: Path | Held,
        *,
        now: Callable[[], float],
        retention: float = 30 * 86400.0,
        retention_open: float = 180 * 86400.0,
        timeout: float = 5.0,
        cache_size: int = 4096,
    ) -> SqliteLedger:
        """Open the file at `path`, made if absent; its directory must exist. Or the one another process holds.

        `now` gives seconds since the epoch; `retention` and `retention_open` are seconds; `timeout`
        (seconds) bounds every wait; `cache_size` counts rows. Raises LedgerUnavailable, with a
        message for whoever runs the sidecar.
        """
        kept = Retention(retention, retention_open)
        if isinstance(path, Path):
            opened = await asyncio.to_thread(open_file, path, readers=READERS, timeout=timeout)
            return cls(opened, now, kept, timeout, Known(cache_size))
        opened = await asyncio.to_thread(join_file, path, readers=READERS, timeout=timeout)
        turns = Turns(path.block, path.queue)
        turns.watch(opened.writing)
        return cls(opened, now, kept, timeout, SharedKnown(cache_size, turns), turns)

    def __init__(
        self,
        opened: Opened,
        now: Callable[[], float],
        retention: Retention,
        timeout: float,
        known: Known,
        turns: Turns | None = None,
    ) -> None:
        self._opened = opened
        self._name = f"ledger `{opened.path}`"
        self._now = now
        self._retention = retention
        self._timeout = timeout
        self._known = known
        self._turns = turns
        self._writer = Writer(opened.writing, self._name, ALONE if turns is None else turns)
        self._readers = Readers(opened.reading, self._name)
        self._behind = Behind(self._writer, known, retention)
        self._proof: asyncio.Future[None] | None = None
        self._proved_at = float("-inf")  # on the loop's clock
        self._loop = asyncio.get_running_loop()
        self._pruning = self._loop.call_later(PRUNE_EVERY, self._prune_now)
        self._closed = False

    async def facts(self, owner: Owner, resources: Collection[Resource]) -> Facts:
        self._require_open()
        facts: dict[Resource, Fact] = {}
        unknown: list[Resource] = []
        for resource in resources:
            if (row := self._known.row(owner, resource)) is not None:
                facts[resource] = row.fact
            else:
                unknown.append(resource)
        if unknown:
            facts |= await self._read(owner, unknown)
        return facts

    async def record(self, owner: Owner, entries: Sequence[Entry]) -> frozenset[Resource]:
        self._require_open()
        if self._is_recorded(owner, entries):
            return frozenset()
        owner_id, now = self._known.owner_id(owner), self._now()

        def learn(recorded: Recorded) -> None:
            self._known.learn_owner(owner, recorded.owner_id)
            for resource, row in recorded.rows.items():
                self._known.learn(owner, resource, self._behind.applied(owner, resource, row))

        recorded = self._writer.submit(lambda db: tables.record(db, owner, owner_id, entries, now), learn)
        # Invariant: returns only what has been committed and fsynced.
        return (await self._within(recorded)).taken

    async def drop(self, owner: Owner, resources: Collection[Resource]) -> None:
        self._require_open()
        owner_id = self._known.owner_id(owner)

        def forget(_: None = None) -> None:
            self._known.forget(owner, resources)

        # Twice: what is read until the deletion is committed must not be remembered after it.
        forget()
        await self._within(
            self._writer.submit(lambda db: tables.drop(db, owner, owner_id, resources), forget)
        )

    def sight(self, owner: Owner, resource: Resource, fact: Fact, *, gone: bool = False) -> None:
        self._require_open()
        self._behind.add(owner, resource, Sighting(fact, self._now(), seen=not gone, gone=gone))

    async def tasks(self, owner: Owner, wanted: TaskFilter, after: Position | None, limit: int) -> Page:
        self._require_open()
        if self._behind.flush():
            await self._within(self._writer.submit(lambda _: None))  # behind what was flushed
        return await self._within(
            self._readers.submit(lambda db: listing.tasks(db, owner, wanted, after, limit))
        )

    async def hold_webhooks(
        self, owner: Owner, task: Resource, names: Collection[str], limit: int
    ) -> frozenset[str] | None:
        self._require_open()
        return await self._within(
            self._writer.submit(lambda db: webhooks.hold(db, owner, task, names, limit))
        )

    async def replace_webhooks(
        self, owner: Owner, task: Resource, old: Collection[str], new: Collection[str]
    ) -> None:
        self._require_open()
        await self._within(self._writer.submit(lambda db: webhooks.replace(db, owner, task, old, new)))

    async def sealing_keys(self) -> tuple[bytes, ...]:
        self._require_open()
        now = self._now()
        found = await self._within(self._readers.submit(lambda db: listing.sealing_keys(db, now)))
        if found is not None:
            return found
        return await self._within(self._writer.submit(lambda db: listing.make_sealing_key(db, now)))

    async def first_use(self, name: bytes, until: float) -> bool:
        self._require_open()
        now = self._now()
        # Not synced: whoever could use a proof again after a power cut would have to do it while it is fresh.
        return await self._within(
            self._writer.submit(lambda db: first_uses.take(db, name, until, now), synced=False)
        )

    async def causes(self, misses: Sequence[tuple[Owner, Resource]]) -> Sequence[Miss]:
        self._require_open()
        return await self._within(
            self._readers.submit(lambda db: [tables.cause(db, *miss) for miss in misses])
        )

    async def check(self) -> None:
        self._require_open()
        if self._loop.time() - self._proved_at < PROVED_FOR:
            return
        if self._proof is None or self._proof.done():
            self._proof = self._writer.submit(self._prove, self._proved)
        await self._within(asyncio.shield(self._proof))

    async def prune(self, now: float) -> int:
        """Delete what has expired at `now` (seconds since the epoch); returns how many rows.

        The ledger does it by itself every ten minutes. Raises LedgerUnavailable.
        """
        self._require_open()
        pruned = 0
        self._behind.flush()  # a row that was just seen has not expired
        while deleted := await self._within(
            self._writer.submit(lambda db: tables.prune(db, self._retention, now), self._pruned)
        ):
            pruned += deleted
        return pruned

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._pruning.cancel()
        self._behind.close()
        try:
            # The readers first: the last connection to close empties the log into the file.
            await self._end(self._readers.stop())
        finally:
            await self._end(self._writer.stop())
            os.close(self._opened.lock)  # while the writer lives, so does the lock
            if self._turns is not None:
                self._turns.close()

    async def _read(self, owner: Owner, resources: Sequence[Resource]) -> Facts:
        epoch, owner_id = self._known.epoch, self._known.owner_id(owner)
        found = await self._within(
            self._readers.submit(lambda db: tables.find(db, owner, owner_id, resources))
        )
        self._known.learn_owner(owner, found.owner_id)
        rows = {r: self._behind.applied(owner, r, row) for r, row in found.rows.items()}
        for resource, row in rows.items():
            self._known.learn_read(owner, resource, row, epoch=epoch)
        return {resource: row.fact for resource, row in rows.items()}

    def _is_recorded(self, owner: Owner, entries: Sequence[Entry]) -> bool:
        """Whether recording `entries` would change nothing, by what is known; then they were sighted."""
        now = self._now()
        for entry in entries:
            row = self._known.row(owner, entry.resource)
            # An expired row may be being pruned at this moment.
            if row is None or self._retention.expired(row, now) or completed(row, entry) != row:
                return False
        for entry in entries:
            if not entry.fact.provisional:
                self._behind.add(owner, entry.resource, Sighting(entry.fact, now, seen=True, gone=False))
        return True

    def _prove(self, db: sqlite3.Connection) -> None:
        require_in_place(self._opened)
        tables.probe(db)

    def _proved(self, _: None) -> None:
        self._proved_at = self._loop.time()

    def _prune_now(self) -> None:
        self._pruning = self._loop.call_later(PRUNE_EVERY, self._prune_now)
        self._behind.flush()
        self._prune_on(self._now())

    def _prune_on(self, now: float) -> None:
        def pruned(deleted: int) -> None:
            self._pruned(deleted)
            if deleted:
                self._prune_on(now)

        # What cannot be pruned now is pruned next time.
        with contextlib.suppress(LedgerUnavailable):
            self._writer.post(Job(lambda db: tables.prune(db, self._retention, now), pruned, lambda _: None))

    def _pruned(self, deleted: int) -> None:
        if deleted:
            self._known.forget_rows()

    async def _within(self, answer: asyncio.Future[T]) -> T:
        # Not `asyncio.timeout`, which costs as much as a question.
        timer = self._loop.call_later(self._timeout, self._too_late, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _too_late(self, answer: asyncio.Future[T]) -> None:
        if not answer.done():
            answer.set_exception(self._silent())

    async def _end(self, threads: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await threads
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> LedgerUnavailable:
        return LedgerUnavailable(f"{self._name} did not answer within {self._timeout:g} s")

    def _require_open(self) -> None:
        if self._closed:
            raise LedgerUnavailable(f"{self._name} is closed")
