"""What is known of rows that others change: only what nobody has changed since."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sidecar.ledger.rows import Row
from sidecar.ledger.shared import SharedKnown, Turns, new_block
from sidecar.model import Fact, Kind, Owner, Resource

ALICE = Owner("", "https://idp.example.com", "alice")
TASK = Resource("agent", Kind.TASK, "t-1")
OTHER = Resource("agent", Kind.TASK, "t-2")
OLD = Row(Fact(state="working"), False, 1.0, 1.0)
NEW = Row(Fact(state="completed"), False, 1.0, 2.0)


@pytest.fixture
def pair() -> Iterator[tuple[Turns, Turns]]:
    block, queue = new_block(), os.memfd_create("queue")
    both = Turns(block, queue), Turns(block, queue)
    yield both
    for turns in both:
        turns.close()
    os.close(block)
    os.close(queue)


def change(turns: Turns, resource: Resource) -> None:
    """A turn that changes the row of `resource`, and is told at once."""
    with turns as before:
        turns._changed(resource.id.encode())
    for outcome in before:
        outcome()


def test_what_was_read_holds_until_it_is_changed(pair: tuple[Turns, Turns]) -> None:
    ours, theirs = pair
    known = SharedKnown(10, ours)
    known.learn_read(ALICE, TASK, OLD, epoch=known.epoch)
    change(theirs, OTHER)
    assert known.row(ALICE, TASK) is OLD
    change(theirs, TASK)
    assert known.row(ALICE, TASK) is None


def test_what_was_asked_before_a_change_is_not_known_after_it(pair: tuple[Turns, Turns]) -> None:
    ours, theirs = pair
    known = SharedKnown(10, ours)
    asked = known.epoch
    change(theirs, TASK)
    known.learn_read(ALICE, TASK, OLD, epoch=asked)
    assert known.row(ALICE, TASK) is None
    known.learn_read(ALICE, TASK, NEW, epoch=known.epoch)
    known.learn_read(ALICE, TASK, OLD, epoch=asked)  # the answer that took longer
    assert known.row(ALICE, TASK) is NEW


def test_what_was_asked_while_a_change_was_under_way_is_not_known(pair: tuple[Turns, Turns]) -> None:
    ours, theirs = pair
    known = SharedKnown(10, ours)
    with theirs:
        theirs._changed(b"t-1")
        asked = known.epoch
    known.learn_read(ALICE, TASK, OLD, epoch=asked)
    assert known.row(ALICE, TASK) is None


def test_what_we_wrote_is_known_unless_somebody_wrote_since(pair: tuple[Turns, Turns]) -> None:
    ours, theirs = pair
    known = SharedKnown(10, ours)
    change(ours, TASK)
    known.learn(ALICE, TASK, OLD)
    assert known.row(ALICE, TASK) is OLD
    with ours as before:
        ours._changed(b"t-1")
    change(theirs, TASK)  # before the loop hears what came of our turn
    for outcome in before:
        outcome()
    known.learn(ALICE, TASK, OLD)
    assert known.row(ALICE, TASK) is None


def test_a_turn_that_did_not_end_leaves_nothing_known_of_what_it_changed(pair: tuple[Turns, Turns]) -> None:
    ours, theirs = pair
    known = SharedKnown(10, ours)
    known.learn_read(ALICE, TASK, OLD, epoch=known.epoch)
    theirs.__enter__()
    theirs._changed(b"t-1")
    os.close(theirs._current)  # as the end of a process does: the lock is free, the turn has not ended
    theirs._current = os.open("/dev/null", os.O_RDONLY)
    assert known.row(ALICE, TASK) is None
    change(ours, OTHER)
    known.learn_read(ALICE, TASK, NEW, epoch=known.epoch)
    assert known.row(ALICE, TASK) is NEW


def test_nobody_can_tell_which_ids_share_a_bucket() -> None:
    """Whoever picked an id that shares one with Alice's could feel when her task changes."""
    names = [f"t-{n}".encode() for n in range(50)]
    found = []
    for _ in range(2):
        block, queue = new_block(), os.memfd_create("queue")
        turns = Turns(block, queue)
        found.append([turns.bucket(name) for name in names])
        turns.close()
        os.close(block)
        os.close(queue)
    assert found[0] != found[1]
