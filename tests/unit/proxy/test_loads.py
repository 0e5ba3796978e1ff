"""Who leaves a connection to another."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sidecar.proxy.loads import ABSENT, Loads, new_loads


@pytest.fixture
def block() -> Iterator[int]:
    block = new_loads(3)
    yield block
    os.close(block)


@pytest.mark.parametrize(
    ("connections", "more"),
    [
        pytest.param((0, 0, 0), False, id="all have none"),
        pytest.param((1, 0, 5), True, id="another has fewer"),
        pytest.param((1, 1, 1), False, id="all have as many"),
        pytest.param((1, 2, 3), False, id="nobody has fewer"),
        pytest.param((5, ABSENT, ABSENT), False, id="nobody else is there"),
        pytest.param((5, ABSENT, 4), True, id="whoever is there counts"),
        pytest.param((90, 80, 80), False, id="an eighth more is as many"),
        pytest.param((91, 80, 100), True, id="more than an eighth is more"),
    ],
)
def test_who_has_more(block: int, connections: tuple[int, ...], more: bool) -> None:
    ours, theirs = Loads(block), Loads(block)
    for n, count in enumerate(connections):
        (ours if n == 0 else theirs).tell(n, count)
    assert ours.has_more(0) is more
    assert ours.of(2) == connections[2]


def test_at_first_nobody_is_there(block: int) -> None:
    assert [Loads(block).of(n) for n in range(3)] == [ABSENT] * 3
