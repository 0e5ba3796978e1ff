"""What one owned resource's record holds, and how it changes.

Owns: Row, its transitions (opened, completed, sighted, released), when it has expired, and the
hashes a pruned row leaves behind. Both ledgers change rows through these functions only.
Never: does IO, reads a clock, or knows how rows are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from sidecar.model import Entry, Fact, Kind, Owner, Resource

# A2A 1.0 §4.1.3, in the canonical spelling: a task in one of these states does not change again.
TERMINAL: Final = frozenset({"completed", "canceled", "failed", "rejected"})

# Seconds. A sighting waits to be written, and another process, or `record`, may have written what was seen after it. One
# that seems to be older still was made after the clock had been set back.
LATE: Final = 10.0

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """One record. Times are seconds since the epoch.

    `reservations` counts the calls that hold a provisional row; 0 means that it is final.
    `gone_at` is when the agent itself no longer knew the resource.
    """

    fact: Fact
    chosen: bool
    first_seen: float
    last_seen: float
    gone_at: float | None = None
    reservations: int = 0


class Sighting(NamedTuple):
    """What was seen of a resource at `at`. `seen` and `gone` are independent: one may follow the other."""

    fact: Fact
    at: float
    seen: bool
    gone: bool


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept after their last sighting, in seconds."""

    terminal: float
    open: float

    @property
    def grain(self) -> float:
        """A sighting that changes nothing else renews `last_seen` only past this age (seconds)."""
        return min(60.0, self.terminal / 10, self.open / 10)

    def expired(self, row: Row, now: float) -> bool:
        age = now - row.last_seen
        return age > self.open or (age > self.terminal and is_terminal(row.fact))


def is_terminal(fact: Fact) -> bool:
    return fact.state in TERMINAL


def opened(entry: Entry, now: float) -> Row:
    """The row of a resource nobody owned."""
    return Row(entry.fact, entry.chosen, now, now, reservations=int(entry.fact.provisional))


def completed(row: Row, entry: Entry) -> Row:
    """`row` after its owner recorded it once more; equal to `row` where nothing changes.

    State and its timestamp follow the newest. Tenant, context, skill and held scopes tell how the
    resource was made: they are filled in where missing, and replaced when a provisional row
    becomes final, since until then the agent had not spoken.
    """
    fact = entry.fact
    provisional = bool(row.reservations) and fact.provisional
    becomes_final = bool(row.reservations) and not fact.provisional
    first, second = (fact, row.fact) if becomes_final else (row.fact, fact)
    merged = Fact(
        tenant=first.tenant or second.tenant,
        context_id=_either(first.context_id, second.context_id),
        state=_either(fact.state, row.fact.state),
        status_at=_either(fact.status_at, row.fact.status_at),
        skill=_either(first.skill, second.skill),
        held=first.held or second.held,
        provisional=provisional,
    )
    return Row(
        merged,
        row.chosen or entry.chosen,
        row.first_seen,
        row.last_seen,
        row.gone_at if fact.provisional else None,
        # A second call that reserves the id holds it too: one of them failing must not free it.
        row.reservations + 1 if provisional else 0,
    )


def released(row: Row) -> Row | None:
    """`row` after one of its reservations was dropped: None if that was the last, itself if it is final."""
    if row.reservations == 1:
        return None
    return row._replace(reservations=max(0, row.reservations - 1))


def sighted(row: Row, sighting: Sighting, grain: float) -> Row:
    """`row` after a sighting; `row` itself where that changes nothing worth a write."""
    if 0 < max(row.last_seen, row.gone_at or 0.0) - sighting.at <= LATE:
        known = row.fact.context_id is not None or sighting.fact.context_id is None
        return row if known else row._replace(fact=_with_news(sighting.fact, row.fact))
    new = row
    if sighting.seen and _tells(row, sighting.fact):
        new = row._replace(fact=_with_news(row.fact, sighting.fact), gone_at=None)
    if sighting.gone and new.gone_at is None:
        new = new._replace(gone_at=sighting.at)
    # Not-found is no sighting of the resource: it does not renew the row.
    if sighting.seen and (new is not row or sighting.at - row.last_seen >= grain):
        new = new._replace(last_seen=sighting.at)
    return new


def together(earlier: Sighting, later: Sighting) -> Sighting:
    """Two sightings of one resource as one."""
    if later.gone:
        return earlier._replace(gone=True, at=later.at)
    return later._replace(fact=_with_news(earlier.fact, later.fact))


def leaves_tombstone(resource: Resource, row: Row) -> bool:
    """Whether a caller could name this id once it is pruned: any context id, and what a caller chose."""
    return row.chosen or resource.kind is Kind.CONTEXT


def status_order(status_at: str | None) -> int | None:
    """An RFC 3339 timestamp as microseconds since the epoch, to sort by; None where it is none.

    Agents write different offsets and precisions, so the text itself does not sort.
    """
    try:
        moment = datetime.fromisoformat(status_at or "")
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def list_order(row: Row) -> int:
    """What lists sort by, in microseconds since the epoch: the status timestamp, else the first sighting."""
    order = status_order(row.fact.status_at)
    return int(row.first_seen * 1_000_000) if order is None else order


def newly_held(there: Set[str], names: Collection[str], limit: int) -> frozenset[str] | None:
    """Those of `names` that are not there yet; None where all together would be more than `limit`.

    A task that has too many already, since the limit was lowered, may still replace those it has.
    """
    new = frozenset(names) - there
    return None if new and len(there) + len(new) > limit else new


def raw(text: str) -> bytes:
    """Text as bytes that differ whenever the text does, lone surrogates and NUL included."""
    return text.encode("utf-8", "surrogatepass")


def text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


def packed(parts: Iterable[str]) -> bytes:
    """A list of strings as bytes that differ whenever the list does: each with its length before it."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in map(raw, parts))


def unpacked(stored: bytes) -> tuple[str, ...]:
    parts, at = [], 0
    while at < len(stored):
        start = at + 8
        at = start + int.from_bytes(stored[at:start], "big")
        parts.append(text(stored[start:at]))
    return tuple(parts)


def resource_hash(resource: Resource) -> bytes:
    """SHA-256 of a resource, for its tombstone."""
    return hashlib.sha256(packed(("resource", resource.agent, resource.kind, resource.id))).digest()


def owner_hash(owner: Owner) -> bytes:
    """SHA-256 of an owner, for the tombstones of what was theirs."""
    return hashlib.sha256(
        packed(("owner", owner.tenant, owner.issuer, owner.subject, *owner.further))
    ).digest()


def _either(preferred: str | None, other: str | None) -> str | None:
    return preferred if preferred is not None else other


def _tells(row: Row, seen: Fact) -> bool:
    """Whether a sighting brings news of `row`."""
    known = row.fact
    return (
        row.gone_at is not None
        or seen.state not in (None, known.state)
        or seen.status_at not in (None, known.status_at)
        or (known.context_id is None and seen.context_id is not None)
    )


def _with_news(known: Fact, seen: Fact) -> Fact:
    """State and timestamp follow the newest; a context, once known, never changes."""
    return known._replace(
        context_id=_either(known.context_id, seen.context_id),
        state=_either(seen.state, known.state),
        status_at=_either(seen.status_at, known.status_at),
    )
