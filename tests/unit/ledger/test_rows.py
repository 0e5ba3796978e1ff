"""Rows: what a sighting changes, what sorts where, and which bytes stand for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.rows import (
    Retention,
    Row,
    Sighting,
    owner_hash,
    packed,
    raw,
    resource_hash,
    sighted,
    status_order,
    text,
    together,
    unpacked,
)
from sidecar.model import Fact, Kind, Owner, Resource

TEXTS = st.text(st.characters(exclude_categories=()))  # lone surrogates too
ROW = Row(Fact(context_id="c", state="working", status_at="then"), False, 100.0, 100.0)
GONE = ROW._replace(gone_at=150.0)
GRAIN = 60.0


def seen(at: float = 200.0, **fact: str) -> Sighting:
    return Sighting(Fact(**fact), at, seen=True, gone=False)


def gone(at: float = 200.0) -> Sighting:
    return Sighting(Fact(), at, seen=False, gone=True)


@pytest.mark.parametrize(
    ("row", "sighting", "expected"),
    [
        pytest.param(ROW, seen(159, state="working"), ROW, id="nothing new and seen lately: no write"),
        pytest.param(ROW, seen(160), ROW._replace(last_seen=160), id="nothing new, but a while ago: renewed"),
        pytest.param(
            ROW,
            seen(101, state="completed"),
            ROW._replace(fact=ROW.fact._replace(state="completed"), last_seen=101),
            id="a new state is written at once",
        ),
        pytest.param(ROW, seen(101, context_id="d"), ROW, id="a context, once known, never changes"),
        pytest.param(ROW, gone(), ROW._replace(gone_at=200), id="gone is marked and does not renew"),
        pytest.param(GONE, gone(), GONE, id="gone is marked once"),
        pytest.param(GONE, seen(), ROW._replace(last_seen=200), id="what is seen again is not gone"),
        pytest.param(ROW, seen(99, state="submitted"), ROW, id="what was seen earlier is no news"),
        pytest.param(ROW, gone(99), ROW, id="not found earlier than seen is not gone"),
        pytest.param(GONE, seen(149), GONE, id="seen earlier than not found stays gone"),
        pytest.param(
            Row(Fact(state="completed"), False, 100.0, 100.0),
            seen(99, state="working", context_id="c"),
            Row(Fact(state="completed", context_id="c"), False, 100.0, 100.0),
            id="a late sighting still tells the context",
        ),
        pytest.param(
            ROW,
            seen(50, state="completed"),
            ROW._replace(fact=ROW.fact._replace(state="completed"), last_seen=50),
            id="what seems far too old was seen after the clock was set back",
        ),
    ],
)
def test_sightings(row: Row, sighting: Sighting, expected: Row) -> None:
    new = sighted(row, sighting, GRAIN)
    assert new == expected
    assert (new is row) == (expected == row)


@pytest.mark.parametrize("row", [ROW, GONE, ROW._replace(fact=Fact())])
@pytest.mark.parametrize(
    "sightings",
    [
        pytest.param([seen(state="completed"), seen(210)], id="seen twice"),
        pytest.param([seen(context_id="x"), seen(210, state="failed")], id="two halves"),
        pytest.param([seen(state="completed"), gone(210)], id="seen, then gone"),
        pytest.param([gone(), seen(210, state="working")], id="gone, then seen"),
        pytest.param([gone(), gone(210)], id="gone twice"),
    ],
)
def test_two_sightings_together_are_the_two_in_order(row: Row, sightings: list[Sighting]) -> None:
    earlier, later = sightings
    in_order = sighted(sighted(row, earlier, GRAIN), later, GRAIN)
    at_once = sighted(row, together(earlier, later), GRAIN)
    assert at_once.fact == in_order.fact
    assert (at_once.gone_at is None) == (in_order.gone_at is None)
    assert abs(at_once.last_seen - in_order.last_seen) < GRAIN


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", id="a fraction is later"),
        pytest.param("2026-01-01T01:00:00+02:00", "2026-01-01T00:00:00Z", id="offsets count"),
        pytest.param(
            "2026-01-01T00:00:00.000001999Z", "2026-01-01T00:00:00.000002Z", id="nanoseconds are cut"
        ),
        pytest.param("2025-12-31T23:59:59", "2026-01-01T00:00:00Z", id="without offset it is UTC"),
        pytest.param("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", id="before the epoch"),
    ],
)
def test_timestamps_sort_by_time(earlier: str, later: str) -> None:
    first, second = status_order(earlier), status_order(later)
    assert first is not None
    assert second is not None
    assert first < second


@pytest.mark.parametrize("status_at", [None, "", "yesterday", "2026-13-01T00:00:00Z", "\x00", "9" * 5000])
def test_what_is_no_timestamp_sorts_nowhere(status_at: str | None) -> None:
    assert status_order(status_at) is None


@given(TEXTS)
def test_text_comes_back(value: str) -> None:
    assert text(raw(value)) == value


@given(st.lists(TEXTS))
def test_lists_come_back(parts: list[str]) -> None:
    assert unpacked(packed(parts)) == tuple(parts)


def test_hashes_differ_where_components_do() -> None:
    owners = [
        Owner("a", "b", "c"),
        Owner("ab", "", "c"),
        Owner("a", "b", "", ("c",)),
        Owner("a", "b", "c", ("",)),
    ]
    resources = [
        Resource("a", Kind.TASK, "b"),
        Resource("a", Kind.CONTEXT, "b"),
        Resource("", Kind.TASK, "ab"),
    ]
    hashes = {*map(owner_hash, owners), *map(resource_hash, resources)}
    assert len(hashes) == len(owners) + len(resources)


@pytest.mark.parametrize(
    ("retention", "grain"),
    [
        pytest.param(Retention(30 * 86400.0, 180 * 86400.0), 60.0, id="a minute at most"),
        pytest.param(Retention(2.0, 180.0), 0.2, id="a tenth of what is kept shortest"),
    ],
)
def test_how_often_a_row_is_renewed(retention: Retention, grain: float) -> None:
    assert retention.grain == grain
