"""Work handed from the event loop to threads, and its outcome handed back.

Owns: the queue between them, its bound, and settling outcomes on the loop.
Never: runs the work; writer.py and readers.py do.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from sidecar.ledger import LedgerUnavailable

T = TypeVar("T")

WAITING: Final = 8192  # jobs, or turns with jobs; past it one is refused at once
AT_ONCE: Final = 16  # jobs handed over together: more would keep the other threads from helping


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """`work` runs on a thread; then, on the loop, one of the other two. Unless `synced`, a power cut may undo it."""

    work: Callable[[sqlite3.Connection], T]
    done: Callable[[T], None]
    failed: Callable[[LedgerUnavailable], None]
    synced: bool = True


Outcome: TypeAlias = Callable[[], None]  # what the loop is to do once a job has run


class Lane:
    """Jobs in the order given, for one thread or several. Made, and added to, on the loop.

    What is posted in one turn of the loop is handed over together: to wake a thread, and then the loop, costs more than
    most jobs. `name` is what error messages call the ledger.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._posted: list[Job[Any]] = []  # in this turn
        self._jobs: queue.SimpleQueue[list[Job[Any]] | None] = queue.SimpleQueue()
        self._closed = False

    def post(self, job: Job[Any]) -> None:
        """Queue `job`. Raises LedgerUnavailable when too many wait, or after `close`."""
        if self._closed:
            raise LedgerUnavailable(f"{self._name} is closed")
        if self._jobs.qsize() >= WAITING or len(self._posted) >= WAITING:
            raise LedgerUnavailable(f"{self._name} is too slow: {WAITING} jobs are waiting")
        if not self._posted:
            self._loop.call_soon(self._hand_over)
        self._posted.append(job)

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        done: Callable[[T], None] | None = None,
        *,
        synced: bool = True,
    ) -> asyncio.Future[T]:
        """Queue `work`; the future gets its result. `done` runs before, and also if nobody waits any longer."""
        future: asyncio.Future[T] = self._loop.create_future()

        def succeed(result: T) -> None:
            if done is not None:
                done(result)
            if not future.done():
                future.set_result(result)

        def fail(error: LedgerUnavailable) -> None:
            if not future.done():
                future.set_exception(error)

        self.post(Job(work, succeed, fail, synced))
        return future

    def close(self, threads: int) -> None:
        """Take no more jobs; each of `threads` takes None after what waits."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            for _ in range(threads):
                self._jobs.put(None)

    def take(self, most: int) -> tuple[list[Job[Any]], bool]:
        """On a thread: wait for jobs, and take what else waits until there are `most`; and whether these are the last.

        There may be more, by what is handed over at once.
        """
        batch: list[Job[Any]] = []
        jobs = self._jobs.get()
        while jobs is not None:
            batch += jobs
            if len(batch) >= most:
                return batch, False
            try:
                jobs = self._jobs.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _hand_over(self) -> None:
        posted, self._posted = self._posted, []
        for start in range(0, len(posted), AT_ONCE):
            self._jobs.put(posted[start : start + AT_ONCE])

    def failure(self, job: Job[Any], what: str, error: Exception) -> Outcome:
        """The outcome of a job that raised `error`, which stays below as the cause."""
        told = LedgerUnavailable(f"{self._name} could not be {what}: {error}")
        told.__cause__ = error
        return lambda: job.failed(told)

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """On a thread: settle `outcomes` in one wake-up. A loop that has ended has nobody to tell."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        outcome()
