"""The contract on MemoryLedger, and its bound."""

from __future__ import annotations

import pytest

from sidecar.ledger import LedgerUnavailable
from sidecar.ledger.memory import MemoryLedger
from tests.contract.ledger_contract import (
    ALICE,
    BOB,
    DAY,
    WORKING,
    Clock,
    LedgerContract,
    context,
    final,
    task,
)
from tests.contract.listing_contract import ListingContract


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestMemoryLedger(LedgerContract, ListingContract):
    @pytest.fixture
    def ledger(self, clock: Clock) -> MemoryLedger:
        return MemoryLedger(now=clock)


async def test_a_full_ledger_records_nothing_more_and_forgets_nothing(clock: Clock) -> None:
    ledger = MemoryLedger(now=clock, capacity=2)
    await ledger.record(ALICE, [final(task("t-1")), final(task("t-2"))])
    for refused in (ledger.record(BOB, [final(task("t-3"))]), ledger.check()):
        with pytest.raises(LedgerUnavailable, match="limit of 2 rows"):
            await refused
    assert await ledger.record(ALICE, [final(task("t-1"))]) == frozenset()
    assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}


async def test_it_prunes_by_itself(clock: Clock) -> None:
    ledger = MemoryLedger(now=clock)
    await ledger.record(ALICE, [final(context("c-1"))])
    clock.seconds += 181 * DAY
    await ledger.check()
    assert await ledger.facts(ALICE, [context("c-1")]) == {}
    assert await ledger.record(BOB, [final(context("c-1"))]) == {context("c-1")}


async def test_first_uses_are_bounded_and_forgotten(clock: Clock) -> None:
    ledger = MemoryLedger(now=clock, capacity=40)
    for n in range(40):
        assert await ledger.first_use(b"%d" % n, clock() + 60)
    with pytest.raises(LedgerUnavailable, match="limit of 40 first uses"):
        await ledger.first_use(b"one more", clock() + 60)
    assert not await ledger.first_use(b"0", clock() + 60)
    clock.seconds += 60
    for n in range(40):
        assert await ledger.first_use(b"again %d" % n, clock() + 60)
    with pytest.raises(LedgerUnavailable):
        await ledger.first_use(b"one more", clock() + 60)
