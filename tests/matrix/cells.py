"""The cells of the matrix: a row, the place in it that names a task, and the spelling.

Owns: enumerating them, and the request of each.
Never: knows what the answer should be.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sidecar.model import SENDS, Version
from tests.matrix.requests import CARDS, LISTS, ROWS, Names, Request, Row

V0_1 = Version.V0_1
RPC_IDS = (1, "x", None, 2**70)

PLACES: dict[str, Callable[[str], Names]] = {
    "continues": lambda task: Names(task),
    "refers to": lambda task: Names(references=(task,)),
    "continues, with a webhook for it": lambda task: Names(task, inline=task),
}


@dataclass(frozen=True)
class Asked:
    """A row, and where it names the task; `place` is empty where the row itself does."""

    row: Row
    place: str = ""
    snake: bool = False

    def request(self, task: str, rpc_id: Any = 1) -> Request:
        if not self.place:
            return self.row.on_a_task(task, rpc_id, snake=self.snake)
        names = PLACES[self.place](task)
        if self.row.dialect.version is V0_1 and names.task is None:
            names = Names(a_random_id(), names.references)  # the caller picks the id of the new task
        return self.row.sending(names, rpc_id, snake=self.snake)

    @property
    def id(self) -> str:
        return " ".join([str(self.row.dialect), self.row.name, self.place, "(snake)" * self.snake]).strip()


def a_random_id() -> str:
    return f"t-{uuid.uuid4()}"


def every_cell() -> Iterator[Asked]:
    for row in ROWS:
        if row.key in LISTS | CARDS:
            continue
        for place in PLACES if row.operation in SENDS else ("",):
            if row.dialect.version is V0_1 and "webhook" in place:
                continue  # a push config of 0.1 names no task
            yield Asked(row, place)
            if Asked(row, place).request("t") != Asked(row, place, snake=True).request("t"):
                yield Asked(row, place, snake=True)


def cases(asked: Iterable[Asked]) -> list[Any]:
    return [pytest.param(one, id=one.id) for one in asked]


def picks(asked: Asked) -> bool:
    """Whether an id nobody knows would create: the one cell where absent and foreign must differ."""
    return asked.row.dialect.version is V0_1 and asked.place == "continues"
