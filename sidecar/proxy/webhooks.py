"""How many webhooks a task has, over the life of one call that changes it.

Owns: counting a call's webhooks before it goes on, and correcting the count by what the agent answered.
Never: decides how many there may be, or what a webhook is counted under (`policy/push.py` does).
"""

from __future__ import annotations

import structlog

from sidecar.bindings.replies import Seen
from sidecar.ledger import Ledger, LedgerUnavailable
from sidecar.model import Call, Operation, Owner, Reason, Refused, Resource, Webhooks
from sidecar.policy.push import limit_detail, named

log = structlog.get_logger()

_UNTOLD = "untold"  # the agent has a config without an id: 0.1, where a task has one


class WebhookCount:
    """Counted before forwarding, so that of two calls at once for the last place only one goes on.

    What the agent made nothing of is given back. What came of a call that broke off nobody knows: it stays counted.
    """

    def __init__(
        self, webhooks: Webhooks, call: Call, task: Resource | None, owner: Owner, ledger: Ledger, id_: str
    ) -> None:
        """`task` is the caller's own that `call` names; `id_` stands for a config until the agent has given it an id."""
        self._webhooks = webhooks
        self._operation = call.operation
        self._task = task
        self._owner = owner
        self._ledger = ledger
        self._names = frozenset(name or f"new:{id_}" for name in webhooks.names)
        self._held: frozenset[str] = frozenset()  # by this call, and not yet known to be there
        self._counted = False

    async def hold(self) -> bool:
        """Count the webhooks; False where the task has too many and that is only observed.

        Raises Refused where it is not, LedgerUnavailable.
        """
        if self._task is None or self._operation is Operation.DELETE_PUSH_CONFIG:
            return True
        try:
            held = await self._ledger.hold_webhooks(
                self._owner, self._task, self._names, self._webhooks.limit
            )
        except LedgerUnavailable:
            if self._webhooks.enforcing:
                raise
            return True
        if held is None and self._webhooks.enforcing:
            raise Refused(Reason.PUSH_LIMIT_REACHED, limit_detail(self._webhooks.limit))
        self._counted = held is not None
        self._held = held or frozenset()
        return self._counted

    async def made(self, task: Resource) -> None:
        """The call has made `task`: the webhooks it came with are that task's first."""
        if self._task is None:
            self._task = task
            try:
                await self._ledger.hold_webhooks(self._owner, task, self._names, self._webhooks.limit)
            except LedgerUnavailable:
                log.warning("a webhook could not be counted", agent=task.agent)

    async def settle(self, seen: Seen) -> None:
        """The agent has done what the call asked for."""
        held, self._held = self._held, frozenset()
        if self._operation is Operation.DELETE_PUSH_CONFIG:
            await self._replace(self._names, frozenset())
        elif self._operation is Operation.CREATE_PUSH_CONFIG and self._counted:
            self._counted = False
            told = named(seen.config_id) if seen.config_id else ""
            unnamed = not all(self._webhooks.names)
            there = frozenset({told or _UNTOLD}) if told or unnamed else self._names
            if there - self._names or held - there:
                await self._replace(held - there, there)

    async def release(self) -> None:
        """The agent made nothing of it."""
        held, self._held = self._held, frozenset()
        if held:
            await self._replace(held, frozenset())

    async def _replace(self, old: frozenset[str], new: frozenset[str]) -> None:
        if self._task is None:
            return
        try:
            await self._ledger.replace_webhooks(self._owner, self._task, old, new)
        except LedgerUnavailable:
            log.warning("the number of a task's webhooks could not be corrected", agent=self._task.agent)
