"""Values made of files that may change while the sidecar runs.

Owns: noticing that a file changed, and keeping the last good value while the new files do not make one.
Never: knows what the files hold.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

log = structlog.get_logger()
T = TypeVar("T")

INTERVAL: Final = 2.0  # seconds between two looks


class FromFiles(Generic[T]):
    """`value`, made anew when one of `paths` changes.

    A Kubernetes volume changes by a link being turned to another directory, so what counts is the file at the end of
    all links. `problem` says why the files as they are now cannot be used; empty while they can.
    """

    def __init__(
        self,
        key: str,
        paths: Sequence[str],
        make: Callable[[], T],
        changed: Callable[[T], Awaitable[None]] | None = None,
    ) -> None:
        """`key` of the policy names the files in the log. Raises what `make` raises, ValueError or OSError.

        `make` runs in a thread later on; `changed` is awaited with each new value before it becomes `value`.
        """
        self.key = key
        self._paths = tuple(paths)
        self._make = make
        self._changed = changed
        self._seen: tuple[bytes | None, ...] | None = self._states()
        self.value = make()
        if self._states() != self._seen:  # while it was made; nobody knows of which content
            self._seen = None
        self.problem = ""
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on, until `close`."""
        if self._paths:
            self._looking = asyncio.get_running_loop().create_task(self._look_again_and_again())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await self._look()

    async def _look(self) -> None:
        seen = await asyncio.to_thread(self._states)
        if seen == self._seen and not self.problem:
            return
        try:
            value = await asyncio.to_thread(self._make)
            # Made of the next content, it would stay if that came to be taken back.
            if seen != await asyncio.to_thread(self._states):
                return
            if self._changed is not None:
                await self._changed(value)
        except (ValueError, OSError) as problem:
            # Two files never change in one instant; halfway through, the next look decides.
            if seen == await asyncio.to_thread(self._states):
                self._failed(str(problem))
            return
        self._seen, self.value, self.problem = seen, value, ""
        log.info("changed files were read", key=self.key)

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            log.error(
                "changed files cannot be used; what was read before stays in force",
                key=self.key,
                problem=problem,
            )
        self.problem = problem

    def _states(self) -> tuple[bytes | None, ...]:
        return tuple(_digest(path) for path in self._paths)


def _digest(path: str) -> bytes | None:
    # Not the file's times: two changes within one tick of the clock have the same.
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return None
