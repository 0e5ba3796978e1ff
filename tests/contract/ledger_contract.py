"""What every ledger promises; each backend inherits it.

Owns: the tests of the Ledger protocol that hold for all backends, and the names they use.
Never: looks inside a backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from sidecar.ledger import Ledger, LedgerUnavailable
from sidecar.model import Entry, Fact, Kind, Miss, Owner, Resource

DAY = 86400.0
ALICE = Owner("t1", "https://idp.example.com", "alice")
BOB = Owner("t1", "https://idp.example.com", "bob")
WORKING = Fact(
    context_id="c-1", state="working", status_at="2026-01-02T03:04:05Z", held=frozenset({"r", "w"})
)
RESERVED = Fact(provisional=True)


class PrunedLedger(Ledger, Protocol):
    async def prune(self, now: float) -> int: ...


@dataclass
class Clock:
    """A clock that moves when told to."""

    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


def task(name: str, agent: str = "code-review") -> Resource:
    return Resource(agent, Kind.TASK, name)


def context(name: str, agent: str = "code-review") -> Resource:
    return Resource(agent, Kind.CONTEXT, name)


def final(resource: Resource, fact: Fact = WORKING, *, chosen: bool = False) -> Entry:
    return Entry(resource, fact, chosen)


def reserved(resource: Resource) -> Entry:
    return Entry(resource, RESERVED, chosen=True)


async def until(condition: Callable[[], bool], within: float = 10.0) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)


# Owners whose components read the same once they are glued together.
GLUED = [
    Owner("a", "b", "c"),
    Owner("ab", "", "c"),
    Owner("", "ab", "c"),
    Owner("a", "bc", ""),
    Owner("", "", "abc"),
    Owner("a", "b", "", ("c",)),
    Owner("a", "b", "c", ("",)),
    Owner("a", "b", "c", ("", "")),
    Owner("a", "b", "c", ("d", "e")),
    Owner("a", "b", "c", ("de",)),
    Owner("a", "b", "c", ("e", "d")),
    Owner("a|b", "", "c"),
    Owner("a", "|b", "c"),
    Owner("a\x00b", "", "c"),
    Owner("a", "\x00b", "c"),
]

# Ids that are different ids, though some software takes them for the same.
ODD_IDS = [
    "",
    " ",
    "Task",
    "task",
    "TASK",
    "task ",
    "task\x00",
    "task\x00a",
    "task\x00b",
    "%",
    "t_sk",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "\ud800",
    "\udfff",
    "\ufffd",
    "𝕥𝕒𝕤𝕜",
    "1",
    "01",
    "1.0",
    "x" * 10_000,
]


class LedgerContract:
    """Needs two fixtures: `ledger`, with a retention of 30 and 180 days, and `clock`, its clock."""

    async def test_what_was_recorded_is_known(self, ledger: Ledger) -> None:
        fact = WORKING._replace(tenant="t", skill="merge")
        assert (
            await ledger.record(ALICE, [final(task("t-1"), fact), final(context("c-1"), Fact())])
            == frozenset()
        )
        assert await ledger.facts(ALICE, [task("t-1"), context("c-1"), task("t-2")]) == {
            task("t-1"): fact,
            context("c-1"): Fact(),
        }

    async def test_nothing_is_asked_and_nothing_recorded(self, ledger: Ledger) -> None:
        assert await ledger.facts(ALICE, []) == {}
        assert await ledger.record(ALICE, []) == frozenset()

    async def test_the_first_writer_keeps_under_a_race_of_many_owners(self, ledger: Ledger) -> None:
        owners = [Owner("t1", "https://idp.example.com", f"user-{n}") for n in range(40)]
        refused = await asyncio.gather(*(ledger.record(owner, [final(task("t-1"))]) for owner in owners))
        assert sorted(map(len, refused)) == [0] + [1] * 39
        facts = [await ledger.facts(owner, [task("t-1")]) for owner in owners]
        assert [bool(fact) for fact in facts] == [not taken for taken in refused]

    async def test_one_entry_of_somebody_elses_stops_all(self, ledger: Ledger) -> None:
        await ledger.record(BOB, [final(context("c-1"))])
        entries = [final(task("t-1")), final(context("c-1")), final(task("t-2"))]
        assert await ledger.record(ALICE, entries) == {context("c-1")}
        assert await ledger.facts(ALICE, [entry.resource for entry in entries]) == {}
        assert await ledger.record(BOB, [final(task("t-1"))]) == frozenset()

    async def test_an_all_or_nothing_that_fails_completes_nothing_either(self, ledger: Ledger) -> None:
        await ledger.record(BOB, [final(context("c-1"))])
        await ledger.record(ALICE, [reserved(task("t-1"))])
        assert await ledger.record(ALICE, [final(task("t-1")), final(context("c-1"))]) == {context("c-1")}
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): RESERVED}

    async def test_a_foreign_resource_is_as_absent_as_an_unknown_one(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        for owner in (BOB, Owner("t2", ALICE.issuer, ALICE.subject), Owner("t1", "https://other", "alice")):
            assert await ledger.facts(owner, [task("t-1"), task("never")]) == {}

    async def test_agent_and_kind_are_part_of_what_is_owned(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("x"))])
        assert await ledger.record(BOB, [final(context("x")), final(task("x", "other"))]) == frozenset()
        assert set(await ledger.facts(ALICE, [task("x"), context("x"), task("x", "other")])) == {task("x")}

    async def test_ids_are_compared_exactly(self, ledger: Ledger) -> None:
        """The empty id is an id like any other here; whether a request may carry it is not the ledger's business."""
        owners = {name: Owner("t1", "i", f"user-{n}") for n, name in enumerate(ODD_IDS)}
        for name, owner in owners.items():
            assert (
                await ledger.record(owner, [final(task(name), WORKING._replace(context_id=name))])
                == frozenset()
            )
        for name, owner in owners.items():
            facts = await ledger.facts(owner, [task(other) for other in ODD_IDS])
            assert facts == {task(name): WORKING._replace(context_id=name)}

    async def test_owners_that_could_be_glued_alike_stay_apart(self, ledger: Ledger) -> None:
        for n, owner in enumerate(GLUED):
            assert await ledger.record(owner, [final(task(f"t-{n}"))]) == frozenset()
        everything = [task(f"t-{n}") for n in range(len(GLUED))]
        for n, owner in enumerate(GLUED):
            assert set(await ledger.facts(owner, everything)) == {task(f"t-{n}")}
            assert await ledger.record(owner, [final(task(f"t-{(n + 1) % len(GLUED)}"))]) != frozenset()

    @pytest.mark.parametrize(
        ("recorded", "again", "known"),
        [
            pytest.param(WORKING, Fact(), WORKING, id="what is not told stays as recorded"),
            pytest.param(Fact(), WORKING, WORKING, id="what was missing is filled in"),
            pytest.param(
                WORKING,
                Fact(state="completed", status_at="2026-01-02T03:04:06Z"),
                WORKING._replace(state="completed", status_at="2026-01-02T03:04:06Z"),
                id="state and timestamp follow the newest",
            ),
            pytest.param(
                Fact(tenant="t", context_id="c", skill="s", held=frozenset({"r"})),
                Fact(tenant="u", context_id="d", skill="x", held=frozenset({"w"})),
                Fact(tenant="t", context_id="c", skill="s", held=frozenset({"r"})),
                id="how it was made does not change",
            ),
            pytest.param(RESERVED, WORKING, WORKING, id="a provisional row becomes final"),
            pytest.param(
                RESERVED._replace(tenant="t", skill="s"),
                Fact(tenant="u", context_id="c"),
                Fact(tenant="u", context_id="c", skill="s"),
                id="a provisional row takes what the agent said, and keeps the rest",
            ),
            pytest.param(WORKING, RESERVED, WORKING, id="a final row does not become provisional again"),
        ],
    )
    async def test_recording_again_completes(
        self, ledger: Ledger, recorded: Fact, again: Fact, known: Fact
    ) -> None:
        for fact in (recorded, again):
            assert await ledger.record(ALICE, [Entry(task("t-1"), fact)]) == frozenset()
            assert await ledger.record(BOB, [Entry(task("t-1"), fact)]) == {task("t-1")}
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): known}

    async def test_a_dropped_reservation_is_anybodys_again(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [reserved(context("c-1"))])
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == {context("c-1")}
        await ledger.drop(ALICE, [context("c-1")])
        assert await ledger.facts(ALICE, [context("c-1")]) == {}
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == frozenset()

    async def test_drop_leaves_alone_what_is_final_foreign_or_unknown(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [reserved(task("t-1"))])
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.record(BOB, [reserved(task("t-2"))])
        await ledger.drop(ALICE, [task("t-1"), task("t-2"), task("never")])
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}
        assert await ledger.facts(BOB, [task("t-2")]) == {task("t-2"): RESERVED}

    async def test_an_id_two_calls_reserved_is_free_when_both_let_go(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [reserved(context("c-1"))])
        await ledger.record(ALICE, [reserved(context("c-1"))])
        await ledger.drop(ALICE, [context("c-1")])
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == {context("c-1")}
        await ledger.drop(ALICE, [context("c-1")])
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == frozenset()

    async def test_reserving_while_a_drop_is_under_way_holds_the_id(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [reserved(context("c-1"))])
        _, taken, _ = await asyncio.gather(
            ledger.drop(ALICE, [context("c-1")]),
            ledger.record(ALICE, [reserved(context("c-1"))]),
            ledger.facts(ALICE, [context("c-1")]),
        )
        assert taken == frozenset()
        assert await ledger.facts(ALICE, [context("c-1")]) == {context("c-1"): RESERVED}
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == {context("c-1")}

    async def test_a_sighting_is_remembered(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"), Fact(tenant="t", skill="s"))])
        ledger.sight(ALICE, task("t-1"), Fact(context_id="c-1", state="working", skill="other"))
        ledger.sight(
            ALICE, task("t-1"), Fact(context_id="c-2", state="completed", status_at="2026-01-02T03:04:06Z")
        )
        assert await ledger.facts(ALICE, [task("t-1")]) == {
            task("t-1"): Fact(
                tenant="t",
                context_id="c-1",
                state="completed",
                status_at="2026-01-02T03:04:06Z",
                skill="s",
            )
        }

    async def test_a_sighting_by_another_owner_changes_nothing(
        self, ledger: PrunedLedger, clock: Clock
    ) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        ledger.sight(BOB, task("t-1"), Fact(state="completed"))
        ledger.sight(BOB, task("never"), Fact(state="completed"))
        await ledger.prune(clock())  # after the sightings
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}
        assert await ledger.facts(BOB, [task("t-1"), task("never")]) == {}

    async def test_what_the_agent_no_longer_knows_stays_its_owners(
        self, ledger: PrunedLedger, clock: Clock
    ) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        ledger.sight(ALICE, task("t-1"), Fact(), gone=True)
        await ledger.prune(clock())
        assert await ledger.facts(ALICE, [task("t-1")]) == {task("t-1"): WORKING}
        assert await ledger.record(BOB, [final(task("t-1"))]) == {task("t-1")}

    @pytest.mark.parametrize(
        ("fact", "days", "kept"),
        [
            pytest.param(Fact(state="completed"), 29, True, id="a finished task within its retention"),
            pytest.param(Fact(state="completed"), 31, False, id="a finished task past its retention"),
            pytest.param(Fact(state="canceled"), 31, False, id="a cancelled task past its retention"),
            pytest.param(
                Fact(state="input-required"), 31, True, id="an open task past the retention of finished ones"
            ),
            pytest.param(Fact(), 179, True, id="a task of unknown state within the longer retention"),
            pytest.param(Fact(state="working"), 181, False, id="an open task past the longer retention"),
            pytest.param(RESERVED, 181, False, id="a forgotten reservation past the longer retention"),
        ],
    )
    async def test_pruning(
        self, ledger: PrunedLedger, clock: Clock, fact: Fact, days: float, kept: bool
    ) -> None:
        await ledger.record(ALICE, [Entry(task("t-1"), fact)])
        clock.seconds += days * DAY
        assert await ledger.prune(clock()) == (not kept)
        assert bool(await ledger.facts(ALICE, [task("t-1")])) == kept

    async def test_more_than_one_round_of_pruning(self, ledger: PrunedLedger, clock: Clock) -> None:
        entries = [
            final(task(f"t-{n}"), Fact(state=state)) for n in range(700) for state in ("failed", "working")
        ]
        await ledger.record(ALICE, entries)
        clock.seconds += 181 * DAY
        assert await ledger.prune(clock()) == 700
        assert await ledger.facts(ALICE, [entry.resource for entry in entries]) == {}

    @pytest.mark.parametrize("seen", ["sight", "record"])
    async def test_a_sighting_renews(self, ledger: PrunedLedger, clock: Clock, seen: str) -> None:
        done = WORKING._replace(state="completed")
        await ledger.record(ALICE, [final(task("t-1"), done)])
        for _ in range(3):
            clock.seconds += 20 * DAY
            if seen == "sight":
                ledger.sight(ALICE, task("t-1"), done)
            else:
                await ledger.record(ALICE, [final(task("t-1"), done)])
            assert await ledger.prune(clock()) == 0
        clock.seconds += 31 * DAY
        assert await ledger.prune(clock()) == 1

    async def test_not_found_does_not_renew(self, ledger: PrunedLedger, clock: Clock) -> None:
        await ledger.record(ALICE, [final(task("t-1"), Fact(state="completed"))])
        clock.seconds += 20 * DAY
        ledger.sight(ALICE, task("t-1"), Fact(), gone=True)
        clock.seconds += 11 * DAY
        assert await ledger.prune(clock()) == 1

    @pytest.mark.parametrize(
        ("entry", "taken"),
        [
            pytest.param(final(task("x"), chosen=True), True, id="a task id its caller chose"),
            pytest.param(final(context("x"), chosen=True), True, id="a context id its caller chose"),
            pytest.param(
                final(context("x")), True, id="a context id of the agent's, since a caller could choose it"
            ),
            pytest.param(final(task("x")), False, id="a task id of the agent's needs no tombstone"),
        ],
    )
    async def test_pruned_ids(self, ledger: PrunedLedger, clock: Clock, entry: Entry, taken: bool) -> None:
        await ledger.record(ALICE, [entry])
        clock.seconds += 181 * DAY
        assert await ledger.prune(clock()) == 1
        assert await ledger.facts(ALICE, [entry.resource]) == {}
        assert await ledger.causes([(ALICE, entry.resource)]) == [(Miss.PRUNED if taken else Miss.ABSENT)]
        assert bool(await ledger.record(BOB, [entry])) == taken

    async def test_only_its_owner_passes_a_tombstone(self, ledger: PrunedLedger, clock: Clock) -> None:
        await ledger.record(ALICE, [final(context("c-1"), chosen=True)])
        clock.seconds += 181 * DAY
        await ledger.prune(clock())
        for owner in (BOB, *GLUED):
            assert await ledger.record(owner, [reserved(context("c-1")), final(task("t-1"))]) == {
                context("c-1")
            }
        assert await ledger.record(ALICE, [reserved(context("c-1"))]) == frozenset()
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == {context("c-1")}
        await ledger.drop(ALICE, [context("c-1")])
        assert await ledger.record(BOB, [reserved(context("c-1"))]) == {context("c-1")}, (
            "a drop must not free it"
        )
        assert await ledger.record(ALICE, [final(context("c-1"))]) == frozenset()
        assert await ledger.causes([(BOB, context("c-1"))]) == [Miss.FOREIGN]

    async def test_a_row_pruned_a_second_time_leaves_its_tombstone_again(
        self, ledger: PrunedLedger, clock: Clock
    ) -> None:
        for _ in range(2):
            assert await ledger.record(ALICE, [final(context("c-1"))]) == frozenset()
            clock.seconds += 181 * DAY
            assert await ledger.prune(clock()) == 1
        assert await ledger.record(BOB, [final(context("c-1"))]) == {context("c-1")}

    async def test_a_task_has_room_for_so_many_webhooks(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1")), final(task("t-2"))])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["a", "b"], 2) == {"a", "b"}
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["c"], 2) is None
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["a", "c"], 2) is None
        assert await ledger.hold_webhooks(ALICE, task("t-2"), ["c"], 2) == {"c"}, (
            "another task has room of its own"
        )
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["c"], 3) == {"c"}

    async def test_a_webhook_that_is_there_already_takes_no_room(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.hold_webhooks(ALICE, task("t-1"), ["a", "b"], 2)
        for limit in (2, 1):  # a limit that was lowered takes nothing away
            assert await ledger.hold_webhooks(ALICE, task("t-1"), ["b"], limit) == frozenset()
            assert await ledger.hold_webhooks(ALICE, task("t-1"), ["c"], limit) is None

    async def test_of_many_at_once_only_as_many_are_held_as_have_room(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        asked = (ledger.hold_webhooks(ALICE, task("t-1"), [f"w-{n}"], 10) for n in range(100))
        held = await asyncio.gather(*asked)
        assert sum(new is not None for new in held) == 10
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["another"], 10) is None

    async def test_a_webhook_given_back_makes_room(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.hold_webhooks(ALICE, task("t-1"), ["a", "b"], 2)
        await ledger.replace_webhooks(ALICE, task("t-1"), ["a", "never"], [])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["c"], 2) == {"c"}
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["b"], 2) == frozenset()

    async def test_a_webhook_may_change_its_name(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.hold_webhooks(ALICE, task("t-1"), ["new"], 2)
        await ledger.replace_webhooks(ALICE, task("t-1"), ["new"], ["a"])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["a", "b"], 2) == {"b"}
        await ledger.replace_webhooks(ALICE, task("t-1"), ["b"], ["a"])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["c"], 2) == {"c"}, "two names became one"

    async def test_webhooks_are_counted_by_exact_names(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ODD_IDS, 100) == frozenset(ODD_IDS)
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ODD_IDS, 1) == frozenset()

    @pytest.mark.parametrize("owner", [ALICE, BOB])
    async def test_nobody_counts_on_a_task_that_is_not_theirs(self, ledger: Ledger, owner: Owner) -> None:
        asked = task("t-1") if owner is BOB else task("never")
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.record(BOB, [final(task("t-2"))])
        await ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1)
        assert await ledger.hold_webhooks(owner, asked, ["x"], 1) is None
        await ledger.replace_webhooks(owner, asked, ["a"], ["x"])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1) == frozenset()

    async def test_webhooks_go_with_their_task(self, ledger: PrunedLedger, clock: Clock) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1)
        clock.seconds += 181 * DAY
        assert await ledger.prune(clock()) == 1
        await ledger.record(ALICE, [final(task("t-1"))])
        assert await ledger.hold_webhooks(ALICE, task("t-1"), ["b"], 1) == {"b"}

    async def test_and_with_a_reservation_that_is_dropped(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [reserved(task("t-1"))])
        await ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1)
        await ledger.drop(ALICE, [task("t-1")])
        await ledger.record(BOB, [final(task("t-1"))])
        assert await ledger.hold_webhooks(BOB, task("t-1"), ["b"], 1) == {"b"}

    async def test_a_name_is_used_first_once(self, ledger: Ledger, clock: Clock) -> None:
        assert await ledger.first_use(b"n" * 32, clock() + 60)
        assert not await ledger.first_use(b"n" * 32, clock() + 60)
        assert not await ledger.first_use(b"n" * 32, clock() + 3600), "nor by asking for longer"
        assert await ledger.first_use(b"m" * 32, clock() + 60)

    async def test_of_many_callers_at_once_one_is_the_first(self, ledger: Ledger, clock: Clock) -> None:
        asked = (ledger.first_use(b"n" * 32, clock() + 60) for _ in range(100))
        assert sum(await asyncio.gather(*asked)) == 1

    async def test_names_are_compared_exactly(self, ledger: Ledger, clock: Clock) -> None:
        names = (b"", b"\x00", b"\x00\x00", b"a", b"A", b"\xff" * 32, b"\xff" * 31 + b"\xfe")
        assert all([await ledger.first_use(name, clock() + 60) for name in names])
        assert not any([await ledger.first_use(name, clock() + 60) for name in names])

    async def test_a_name_is_free_again_when_its_time_has_passed(self, ledger: Ledger, clock: Clock) -> None:
        assert await ledger.first_use(b"n", clock() + 60)
        clock.seconds += 59.9
        assert not await ledger.first_use(b"n", clock() + 60), "a refused use does not prolong it"
        clock.seconds += 0.1
        assert await ledger.first_use(b"n", clock() + 60)
        assert not await ledger.first_use(b"n", clock() + 60)

    async def test_a_time_that_passes_frees_its_own_name_only(self, ledger: Ledger, clock: Clock) -> None:
        names = [bytes([n]) for n in range(100)]
        for n, name in enumerate(names):
            assert await ledger.first_use(name, clock() + 1 + n)
        clock.seconds += 50
        # The last to expire first, so that some are used again before they have been cleared away.
        for n in (*reversed(range(50)), *range(50, 100)):
            assert await ledger.first_use(names[n], clock() + 100) == (n < 50)
        assert not any(await asyncio.gather(*(ledger.first_use(name, clock() + 100) for name in names)))

    async def test_causes(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        misses = [(BOB, task("t-1")), (BOB, task("never")), (ALICE, task("t-1"))]
        assert await ledger.causes(misses) == [Miss.FOREIGN, Miss.ABSENT, Miss.ABSENT]
        assert await ledger.causes([]) == []

    async def test_a_closed_ledger_answers_nothing(self, ledger: Ledger) -> None:
        await ledger.record(ALICE, [final(task("t-1"))])
        await ledger.check()
        await ledger.close()
        await ledger.close()
        for question in (
            ledger.facts(ALICE, [task("t-1")]),
            ledger.record(ALICE, [final(task("t-1"))]),
            ledger.drop(ALICE, [task("t-1")]),
            ledger.causes([(ALICE, task("t-1"))]),
            ledger.hold_webhooks(ALICE, task("t-1"), ["a"], 1),
            ledger.replace_webhooks(ALICE, task("t-1"), ["a"], []),
            ledger.first_use(b"n", 0.0),
            ledger.check(),
        ):
            with pytest.raises(LedgerUnavailable, match="closed"):
                await question
        with pytest.raises(LedgerUnavailable, match="closed"):
            ledger.sight(ALICE, task("t-1"), WORKING)
