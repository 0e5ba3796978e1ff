"""Work that outlives the request that began it."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.model import Owner, Reason, Refused
from sidecar.proxy.tasks import Background, Settling
from tests.builders import ALICE, BOB


class Reply:
    """Something with a body that must be let go of."""

    def __init__(self) -> None:
        self.body = self
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


async def settled(settling: Settling) -> None:
    async with asyncio.timeout(5):
        while settling.count:
            await asyncio.sleep(0)


async def test_a_caller_who_stays_gets_what_was_done() -> None:
    settling = Settling(4, 5.0)

    async def work() -> int:
        return 7

    assert await settling.see_through(work(), ALICE) == 7
    assert settling.count == 0


@pytest.mark.parametrize("turns", range(1, 7))
async def test_whenever_the_caller_leaves_the_work_is_done_and_its_reply_let_go(turns: int) -> None:
    """Also in the very turn in which the work ends: a reply nobody reads holds a connection and an owner."""
    settling, reply, done = Settling(4, 5.0), Reply(), []

    async def work() -> Reply:
        for _ in range(3):
            await asyncio.sleep(0)
        done.append(True)
        return reply

    calling = asyncio.ensure_future(settling.see_through(work(), ALICE))
    for _ in range(turns):
        await asyncio.sleep(0)
    left = calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await settled(settling)
    assert done == [True]
    assert reply.closed or not left or not calling.cancelled()


async def test_work_without_a_caller_is_bounded_in_time() -> None:
    settling = Settling(4, 0.01)
    settling.adopt(asyncio.Event().wait(), ALICE)
    await settled(settling)


async def test_a_refusal_nobody_hears_is_no_fault() -> None:
    settling = Settling(4, 5.0)

    async def refused() -> None:
        raise Refused(Reason.COLLISION)

    settling.adopt(refused(), ALICE)
    await settled(settling)


async def test_one_owner_holds_a_quarter_of_the_places_and_a_burst_takes_none_of_others() -> None:
    settling, gate = Settling(8, 5.0), asyncio.Event()
    for _ in range(20):  # all in flight before the first lost its caller
        settling.adopt(gate.wait(), BOB)
    assert settling.full(BOB)
    assert not settling.full(ALICE)
    for n in range(3):
        for _ in range(2):
            settling.adopt(gate.wait(), Owner("", "i", f"user-{n}"))
    assert settling.full(ALICE), "four owners with full shares fill it"
    gate.set()
    await settled(settling)
    assert not settling.full(BOB)


async def test_stopping_waits_and_then_cancels() -> None:
    background, ended = Background(), []

    async def short() -> None:
        await asyncio.sleep(0)
        ended.append("short")

    background.start(short())
    background.start(asyncio.Event().wait())
    await background.finish(0.05)
    assert ended == ["short"]
    assert background.count == 0


async def test_past_the_limit_small_work_is_dropped() -> None:
    background, gate, ran = Background(limit=1), asyncio.Event(), []

    async def more() -> None:
        ran.append(True)

    background.start(gate.wait())
    background.start(more())
    gate.set()
    await background.finish(1.0)
    assert ran == []
