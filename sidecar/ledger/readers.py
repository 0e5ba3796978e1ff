"""A few threads that read, each with a connection of its own.

Owns: the reading connections.
Never: writes, or runs on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sidecar.ledger.lane import Job, Lane, Outcome

T = TypeVar("T")


class Readers:
    """As many threads as `connections`. `name` is what error messages call the ledger."""

    def __init__(self, connections: Sequence[sqlite3.Connection], name: str) -> None:
        self._lane = Lane(name)
        self._ended = [asyncio.get_running_loop().create_future() for _ in connections]
        for connection, ended in zip(connections, self._ended, strict=True):
            thread = threading.Thread(
                target=self._serve, args=(connection, ended), name="ledger-reader", daemon=True
            )
            thread.start()

    def submit(self, question: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Ask on a reader thread. Raises, or the future has, LedgerUnavailable."""
        return self._lane.submit(question)

    async def stop(self) -> None:
        """Answer what waits, close the connections, end the threads."""
        self._lane.close(len(self._ended))
        await asyncio.gather(*map(asyncio.shield, self._ended))

    def _serve(self, db: sqlite3.Connection, ended: asyncio.Future[None]) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._lane.take(1)
            self._lane.tell([self._answer(db, job) for job in batch])
        with contextlib.suppress(sqlite3.Error):
            db.close()
        self._lane.tell([lambda: ended.set_result(None)])

    def _answer(self, db: sqlite3.Connection, job: Job[Any]) -> Outcome:
        try:
            answer = job.work(db)
        except Exception as error:  # noqa: BLE001 - one question must not end the thread that answers the others
            return self._lane.failure(job, "read", error)
        return lambda: job.done(answer)
