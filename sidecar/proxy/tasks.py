"""Work that outlives the request that began it.

Owns: every asyncio task the sidecar starts, so that none is lost and stopping can wait for them.
Never: decides what the work is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import structlog

from sidecar.model import Owner, Refused

log = structlog.get_logger()
T = TypeVar("T")


class Background:
    """Small work nobody waits for: audit look-ups, refreshes, cancels of lost tasks."""

    def __init__(self, limit: int = 10_000) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._limit = limit

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` on its own; past the limit it is dropped, since nobody waits for it."""
        if len(self._tasks) >= self._limit:
            work.close()
            return
        self._keep(asyncio.get_running_loop().create_task(work))

    @property
    def count(self) -> int:
        return len(self._tasks)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.warning("background work failed", error=type(problem).__name__)

    async def finish(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for what runs, then cancel it."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Settling(Background):
    """Calls that go on although their caller has left: sends until the task has its owner (design §2.4), streams
    that must not be broken off until they end (§2.11). One owner may hold a quarter of the places."""

    def __init__(self, limit: int, timeout: float) -> None:
        """`limit` places, `timeout` seconds each."""
        super().__init__(limit)
        self._timeout = timeout
        self._share = max(1, limit // 4)
        self._of: Counter[Owner] = Counter()

    def full(self, owner: Owner) -> bool:
        """Whether there is no place for a call of `owner`, should its caller leave."""
        # A burst in flight may overshoot its owner's share; it must not take the places of others.
        taken = sum(min(count, self._share) for count in self._of.values())
        return taken >= self._limit or self._of[owner] >= self._share

    async def see_through(self, work: Coroutine[Any, Any, T], owner: Owner) -> T:
        """Await `work`; if the caller leaves meanwhile, `work` goes on without one."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.adopt(task, owner)
            raise

    def adopt(self, work: Awaitable[Any], owner: Owner) -> None:
        """Go on with `work` although its caller has left."""
        self._of[owner] += 1
        task = asyncio.get_running_loop().create_task(self._bounded(work))
        task.add_done_callback(lambda _: self._vacate(owner))
        self._keep(task)

    def _vacate(self, owner: Owner) -> None:
        self._of[owner] -= 1
        if not self._of[owner]:
            del self._of[owner]

    async def _bounded(self, work: Awaitable[Any]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                reply = await work
        except TimeoutError:
            log.warning("a call whose caller left did not end in time", timeout_seconds=self._timeout)
        except Refused as refused:
            log.info("a call whose caller left was refused", reason=refused.refusal.reason.value)
        else:
            await let_go(reply)


async def let_go(reply: object) -> None:
    """Release what an unread reply still holds."""
    body = getattr(reply, "body", None)
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()
