"""Why something was not found, for the audit.

Owns: the misses whose cause is still to be looked up, many at once.
Never: delays a reply, or does more for one cause than for another (invariant 6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from sidecar.ledger import Ledger
from sidecar.model import Owner, Resource
from sidecar.observe.audit import Audit
from sidecar.proxy.tasks import Background

DELAY: Final = 0.02  # seconds a miss waits for others: a question to the ledger costs more than many in one
MOST: Final = 10_000  # misses that wait; past it causes are not told


class Misses:
    """Used on the event loop only. Each miss is added once its reply has left."""

    def __init__(self, ledger: Ledger, audit: Audit, background: Background) -> None:
        self._ledger = ledger
        self._audit = audit
        self._background = background
        self._waiting: list[tuple[str, Owner, Resource]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, decision_id: str, owner: Owner, resources: Iterable[Resource]) -> None:
        if len(self._waiting) < MOST:
            self._waiting += [(decision_id, owner, resource) for resource in resources]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self.flush)

    def flush(self) -> None:
        """Ask now about what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._background.start(self._tell(self._waiting))
            self._waiting = []

    async def _tell(self, misses: list[tuple[str, Owner, Resource]]) -> None:
        causes = await self._ledger.causes([(owner, resource) for _, owner, resource in misses])
        for (decision_id, _, _), cause in zip(misses, causes, strict=True):
            self._audit.miss(decision_id, cause)
