"""The one thread that writes, with group commit.

Owns: the writing connection, the queue before it, and transactions: whatever waits when a
transaction begins is committed, and fsynced, together.
Never: knows what it writes, or runs on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from sidecar.ledger.lane import Job, Lane, Outcome

T = TypeVar("T")

BATCH: Final = 256  # jobs a transaction: bounds how long the first of them waits for the others

# What a transaction is wrapped in where other processes write too; what it gives is told before the outcomes.
Turn: TypeAlias = AbstractContextManager[Sequence[Outcome]]
ALONE: Final[Turn] = contextlib.nullcontext(())


class Writer:
    """Runs jobs in the order given. `name` is what error messages call the ledger."""

    def __init__(self, db: sqlite3.Connection, name: str, turn: Turn = ALONE) -> None:
        self._db = db
        self._turn = turn
        self._lane = Lane(name)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._serve, name="ledger-writer", daemon=True).start()

    def post(self, job: Job[Any]) -> None:
        """Queue `job`; its outcome is told after the commit. Raises LedgerUnavailable."""
        self._lane.post(job)

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        done: Callable[[T], None] | None = None,
        *,
        synced: bool = True,
    ) -> asyncio.Future[T]:
        """Queue `work`; the future has its result once that is durable, and `done` had it before.

        `done` runs even when nobody waits any longer. Unless `synced`, durable means that the end of this process
        does not undo it; a power cut may. Raises, or the future has, LedgerUnavailable.
        """
        return self._lane.submit(work, done, synced=synced)

    async def stop(self) -> None:
        """Finish what waits, close the connection, end the thread."""
        self._lane.close(1)
        await asyncio.shield(self._ended)

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._lane.take(BATCH)
            self._lane.tell(self._in_turn(batch))
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._lane.tell([lambda: self._ended.set_result(None)])

    def _in_turn(self, batch: Sequence[Job[Any]]) -> list[Outcome]:
        if not batch:
            return []
        try:
            with self._turn as before:
                return [*before, *self._commit(batch)]
        except OSError as error:
            return [self._lane.failure(job, "written", error) for job in batch]

    def _commit(self, batch: Sequence[Job[Any]]) -> list[Outcome]:
        """Run `batch` in one transaction; where that fails, each of its jobs in one of its own.

        Failures are rare, so the jobs of a good batch are not made to pay for savepoints.
        """
        try:
            # Outside the transaction, where alone it has an effect (sqlite.org/pragma.html#pragma_synchronous). What a
            # later synced commit writes is in the same log behind this, so that no synced one can be lost by it.
            self._db.execute(
                f"PRAGMA synchronous = {'FULL' if any(job.synced for job in batch) else 'NORMAL'}"
            )
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:  # locked, or the disk is gone: true for each of them
            return [self._lane.failure(job, "written", error) for job in batch]
        try:
            results = [job.work(self._db) for job in batch]
            self._db.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - one job must neither spoil the others nor end the only writer
            self._roll_back()
            if len(batch) == 1:
                return [self._lane.failure(batch[0], "written", error)]
            return [outcome for job in batch for outcome in self._commit([job])]
        return [partial(job.done, result) for job, result in zip(batch, results, strict=True)]

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
