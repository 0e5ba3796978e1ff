"""Faults put into a running sidecar, to see that the model finds them.

Owns: taking the owner check away from one operation, and letting a list read somebody else's rows.
Never: is imported by anything but the test that plants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Call, Operation, Owner, Page
from sidecar.policy import ownership

Plant = Callable[[pytest.MonkeyPatch], None]


def without_owner_check(*operations: Operation) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        check = ownership.check

        def unchecked(call: Call, *rest: Any) -> Any:
            return None if call.operation in operations else check(call, *rest)

        patch.setattr(ownership, "check", unchecked)

    return plant


def list_of_another_owner(patch: pytest.MonkeyPatch) -> None:
    """What a ledger does that asks for the newest owner's rows in place of the caller's."""
    record, tasks = SqliteLedger.record, SqliteLedger.tasks
    newest: list[Owner] = []

    async def noting(self: SqliteLedger, owner: Owner, *rest: Any) -> Any:
        newest[:] = [owner]
        return await record(self, owner, *rest)

    async def of_the_newest(self: SqliteLedger, owner: Owner, *rest: Any) -> Page:
        return await tasks(self, newest[0] if newest else owner, *rest)

    patch.setattr(SqliteLedger, "record", noting)
    patch.setattr(SqliteLedger, "tasks", of_the_newest)


SENDS: Final = (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE)

FAULTS: Final[Mapping[str, Plant]] = {
    "anybody may get any task": without_owner_check(Operation.GET_TASK),
    "anybody may cancel any task": without_owner_check(Operation.CANCEL_TASK),
    "anybody may continue any task": without_owner_check(*SENDS),
    "anybody may follow any task": without_owner_check(Operation.SUBSCRIBE_TO_TASK),
    "anybody may set any task's webhooks": without_owner_check(Operation.CREATE_PUSH_CONFIG),
    "anybody may get any task's webhook": without_owner_check(Operation.GET_PUSH_CONFIG),
    "anybody may see any task's webhooks": without_owner_check(Operation.LIST_PUSH_CONFIGS),
    "anybody may delete any task's webhooks": without_owner_check(Operation.DELETE_PUSH_CONFIG),
    "anybody may list under any tenant": without_owner_check(Operation.LIST_TASKS),
    "a list shows somebody else's tasks": list_of_another_owner,
}
