"""A real issuer, a clock that is moved by hand, and waiting for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.issuer import Issuer


@dataclass
class Clock:
    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def idp() -> AsyncIterator[Issuer]:
    async with Issuer() as issuer:
        yield issuer


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait until a condition holds; fails after ten seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)

    return wait
