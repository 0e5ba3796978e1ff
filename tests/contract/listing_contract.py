"""What every ledger promises of lists and of the keys their page tokens are sealed with.

Owns: the tests of `tasks` and `sealing_keys` that hold for all backends.
Never: looks inside a backend.
"""

from __future__ import annotations

import asyncio

import pytest

from sidecar.ledger import KEY_LIFE, Ledger, LedgerUnavailable
from sidecar.model import Fact, Page, Position, TaskFilter
from tests.contract.ledger_contract import (
    ALICE,
    BOB,
    GLUED,
    WORKING,
    Clock,
    context,
    final,
    reserved,
    task,
)

OWN = TaskFilter("code-review", "")
EMPTY = Page((), 0)
START = 1_800_000_000_000_000  # what the clock shows, in microseconds


def at(minute: int, state: str = "working", **more: str) -> Fact:
    return WORKING._replace(state=state, status_at=f"2026-01-02T03:{minute:02}:00Z", **more)


def ids(page: Page) -> list[str]:
    return [id_ for (_, id_), _ in page.tasks]


class ListingContract:
    async def test_own_tasks_newest_first_then_by_id(self, ledger: Ledger) -> None:
        for name, minute in (("b", 1), ("c", 2), ("a", 1), ("é", 1), ("Z", 1)):
            await ledger.record(ALICE, [final(task(name), at(minute))])
        await ledger.record(BOB, [final(task("bob"), at(3))])
        page = await ledger.tasks(ALICE, OWN, None, 10)
        assert (ids(page), page.total) == (["c", "Z", "a", "b", "é"], 5)
        assert page.tasks[0][1] == at(2)
        assert ids(await ledger.tasks(BOB, OWN, None, 10)) == ["bob"]

    async def test_nobody_and_everybody_who_owns_nothing_gets_nothing(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        for owner in (BOB, *GLUED):
            assert await ledger.tasks(owner, OWN, None, 10) == EMPTY

    async def test_every_cut_goes_on_where_the_page_before_ended(self, ledger: Ledger) -> None:
        for number in range(7):
            await ledger.record(ALICE, [final(task(f"t-{number}"), at(number // 3))])
        whole = ids(await ledger.tasks(ALICE, OWN, None, 10))
        for size in range(1, 8):
            walked: list[str] = []
            after: Position | None = None
            while (page := await ledger.tasks(ALICE, OWN, after, size)).tasks:
                assert page.total == 7
                walked += ids(page)
                after = page.tasks[-1][0]
            assert walked == whole

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            pytest.param(OWN._replace(context_id="c-2"), ["t-2"], id="one context"),
            pytest.param(OWN._replace(context_id="c"), [], id="a context is compared whole"),
            pytest.param(OWN._replace(state="completed"), ["t-3"], id="one state"),
            pytest.param(OWN._replace(unfinished=True), ["t-2", "t-1"], id="unfinished ones"),
            pytest.param(OWN._replace(unfinished=True, state="completed"), [], id="nothing is both"),
            pytest.param(OWN._replace(tenant="t9"), [], id="another A2A tenant"),
            pytest.param(OWN._replace(agent="other"), [], id="another agent"),
            pytest.param(
                OWN._replace(changed_since=1_767_323_040_000_000), ["t-3"], id="at or after 03:04 of that day"
            ),
            pytest.param(OWN._replace(changed_since=1_767_323_040_000_001), [], id="a microsecond later"),
        ],
    )
    async def test_filters(self, ledger: Ledger, wanted: TaskFilter, found: list[str]) -> None:
        await ledger.record(ALICE, [final(task("t-1"), at(2))])
        await ledger.record(ALICE, [final(task("t-2"), at(3, context_id="c-2"))])
        await ledger.record(ALICE, [final(task("t-3"), at(4, "completed"))])
        page = await ledger.tasks(ALICE, wanted, None, 10)
        assert (ids(page), page.total) == (found, len(found))

    async def test_only_what_was_made_and_is_still_there(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [reserved(task("reserved")), final(context("c-1"))])
        await ledger.record(ALICE, [final(task("gone")), final(task("there"))])
        ledger.sight(ALICE, task("gone"), Fact(), gone=True)
        assert ids(await ledger.tasks(ALICE, OWN, None, 10)) == ["there"]
        ledger.sight(ALICE, task("gone"), WORKING)
        assert ids(await ledger.tasks(ALICE, OWN, None, 10)) == ["gone", "there"]

    async def test_a_sighting_counts_at_once(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"), at(1)), final(task("t-2"), at(2))])
        for minute in range(3, 9):
            ledger.sight(ALICE, task(f"t-{minute % 2 + 1}"), at(minute))
            page = await ledger.tasks(ALICE, OWN, None, 1)
            assert page.tasks[0][1].status_at == f"2026-01-02T03:{minute:02}:00Z"
        ledger.sight(ALICE, task("t-1"), at(9, "completed"))
        assert ids(await ledger.tasks(ALICE, OWN._replace(unfinished=True), None, 9)) == ["t-2"]

    async def test_without_a_timestamp_the_first_sighting_stands_for_it(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        for number in range(3):
            await ledger.record(ALICE, [final(task(f"t-{number}"), WORKING._replace(status_at=None))])
            clock.seconds += 1
        page = await ledger.tasks(ALICE, OWN, None, 10)
        assert [position for position, _ in page.tasks] == [
            (START + n * 1_000_000, f"t-{n}") for n in (2, 1, 0)
        ]

    async def test_all_get_the_same_keys(self, ledger: Ledger) -> None:
        keys = await asyncio.gather(*(ledger.sealing_keys() for _ in range(8)))
        assert len(set(keys)) == 1
        assert [len(key) for key in keys[0]] == [32]

    async def test_a_new_key_seals_and_the_one_before_opens_on(self, ledger: Ledger, clock: Clock) -> None:
        first = (await ledger.sealing_keys())[0]
        clock.seconds += KEY_LIFE - 1
        assert await ledger.sealing_keys() == (first,)
        clock.seconds += 1
        second, before = await ledger.sealing_keys()
        assert before == first != second
        clock.seconds += KEY_LIFE
        third = await ledger.sealing_keys()
        assert len(third) == 2
        assert third[1] == second

    async def test_a_closed_ledger_lists_nothing(self, ledger: Ledger) -> None:
        await ledger.close()
        for question in (ledger.tasks(ALICE, OWN, None, 1), ledger.sealing_keys()):
            with pytest.raises(LedgerUnavailable, match="closed"):
                await question
