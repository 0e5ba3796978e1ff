"""The SQL of the SQLite ledger: rows to columns, and the ledger's verbs on one connection.

Owns: every statement that touches owners, resources, tombstones and probe.
Never: begins or ends a transaction, awaits, or catches an error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sidecar.ledger.rows import (
    Retention,
    Row,
    Sighting,
    completed,
    is_terminal,
    leaves_tombstone,
    list_order,
    opened,
    owner_hash,
    packed,
    raw,
    released,
    resource_hash,
    sighted,
    text,
    unpacked,
)
from sidecar.model import Entry, Fact, Kind, Miss, Owner, Resource

Rows: TypeAlias = Mapping[Resource, Row]

PRUNED_AT_ONCE: Final = 500  # rows a transaction, so that no caller waits long behind pruning
PROBE_BYTES: Final = 16_384  # more than a send's rows need: at least four pages

READ: Final = (
    "tenant, context_id, state, status_at, skill, held, chosen, reservations, first_seen, last_seen, gone_at"
)
_WRITTEN: Final = f"{READ}, terminal, status_order"
_MARKS: Final = ", ".join("?" * len(_WRITTEN.split(",")))

# Named, because the primary key would serve as well and would find a foreign row before its owner is compared.
OWN_ROW: Final = (
    f"SELECT {READ} FROM resources INDEXED BY owned WHERE owner = ? AND agent = ? AND kind = ? AND id = ?"  # noqa: S608
)
_HOLDER: Final = f"SELECT {READ}, owner FROM resources WHERE agent = ? AND kind = ? AND id = ?"  # noqa: S608
_INSERT: Final = f"INSERT INTO resources (agent, kind, id, owner, {_WRITTEN}) VALUES (?, ?, ?, ?, {_MARKS})"  # noqa: S608
_UPDATE: Final = f"UPDATE resources SET ({_WRITTEN}) = ({_MARKS}) WHERE agent = ? AND kind = ? AND id = ?"  # noqa: S608
_DELETE: Final = "DELETE FROM resources WHERE agent = ? AND kind = ? AND id = ?"
_FORGET_WEBHOOKS: Final = "DELETE FROM webhooks WHERE owner = ? AND agent = ? AND task = ?"
_FIND_OWNER: Final = "SELECT id FROM owners WHERE tenant = ? AND issuer = ? AND subject = ? AND further = ?"
_ADD_OWNER: Final = "INSERT INTO owners (tenant, issuer, subject, further) VALUES (?, ?, ?, ?)"
_CAUSE: Final = (
    "SELECT (SELECT owner FROM resources WHERE agent = ? AND kind = ? AND id = ?),"
    " (SELECT id FROM owners WHERE tenant = ? AND issuer = ? AND subject = ? AND further = ?),"
    " EXISTS (SELECT 1 FROM tombstones WHERE resource = ?)"
)
_TOMBSTONE: Final = "SELECT owner FROM tombstones WHERE resource = ?"
_BURY: Final = "INSERT OR REPLACE INTO tombstones (resource, owner) VALUES (?, ?)"
_EXHUME: Final = "DELETE FROM tombstones WHERE resource = ?"
_EXPIRED: Final = (
    f"SELECT {READ}, agent, kind, id, owner FROM resources WHERE terminal = ? AND last_seen < ? LIMIT ?"  # noqa: S608
)


class Found(NamedTuple):
    """What is an owner's, with the owner's row id (None: has never owned anything)."""

    owner_id: int | None
    rows: Rows


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome of `record`: either `taken` is empty, or nothing was written."""

    taken: frozenset[Resource]
    owner_id: int | None
    rows: Rows


@dataclass(frozen=True, slots=True)
class Standing:
    """A resource one may record: its row if one is there. `buried`: it has, or may have, a tombstone."""

    row: Row | None
    buried: bool


def find(db: sqlite3.Connection, owner: Owner, owner_id: int | None, wanted: Sequence[Resource]) -> Found:
    """Those of `wanted` that are `owner`'s."""
    if owner_id is None:
        owner_id = find_owner(db, owner)
    # An owner who never owned anything makes the same look-ups: -1 is nobody's.
    rows = ((resource, _own_row(db, -1 if owner_id is None else owner_id, resource)) for resource in wanted)
    return Found(owner_id, {resource: row for resource, row in rows if row is not None})


def record(
    db: sqlite3.Connection, owner: Owner, owner_id: int | None, entries: Sequence[Entry], now: float
) -> Recorded:
    """Record all of `entries`, or none where one is somebody else's."""
    if owner_id is None:
        owner_id = find_owner(db, owner)
    standing = {entry.resource: _standing(db, owner, owner_id, entry.resource) for entry in entries}
    taken = frozenset(resource for resource, found in standing.items() if found is None)
    if taken:
        return Recorded(taken, owner_id, {})
    if owner_id is None:
        owner_id = db.execute(_ADD_OWNER, _owner_key(owner)).lastrowid
        if owner_id is None:  # pragma: no cover - the type allows it, an insert does not
            raise sqlite3.DatabaseError("an inserted owner has no row id")
    rows: dict[Resource, Row] = {}
    for entry in entries:
        found = standing[entry.resource]
        row = rows.get(entry.resource) or (found.row if found else None)
        rows[entry.resource] = _store(db, owner_id, entry, row, now)
        # Not for a reservation: dropping it must not free a pruned id.
        if found and found.buried and not entry.fact.provisional:
            db.execute(_EXHUME, (resource_hash(entry.resource),))
    return Recorded(taken, owner_id, rows)


def drop(db: sqlite3.Connection, owner: Owner, owner_id: int | None, resources: Collection[Resource]) -> None:
    """Take back one reservation of each of `resources` that is `owner`'s and provisional."""
    found = find(db, owner, owner_id, list(resources))
    for resource, row in found.rows.items():
        left = released(row)
        if left is None:
            _delete(db, resource, found.owner_id)
        elif left != row:
            _update(db, resource, left)


def note(
    db: sqlite3.Connection,
    owner: Owner,
    owner_id: int | None,
    seen: Mapping[Resource, Sighting],
    grain: float,
) -> Found:
    """Write sightings down; returns the rows as they are now."""
    found = find(db, owner, owner_id, list(seen))
    rows = {resource: sighted(row, seen[resource], grain) for resource, row in found.rows.items()}
    for resource, row in rows.items():
        if row is not found.rows[resource]:
            _update(db, resource, row)
    return found._replace(rows=rows)


def cause(db: sqlite3.Connection, owner: Owner, resource: Resource) -> Miss:
    """Why `owner` has no such resource; the same work whatever the answer, since the next request may feel it."""
    key = (*_key(resource), *_owner_key(owner), resource_hash(resource))
    holder, own, buried = db.execute(_CAUSE, key).fetchone()
    if holder is not None and holder != own:
        return Miss.FOREIGN
    return Miss.PRUNED if buried else Miss.ABSENT


def probe(db: sqlite3.Connection) -> None:
    """Take and give back the room a send's rows need."""
    db.execute("INSERT INTO probe (filler) VALUES (zeroblob(?))", (PROBE_BYTES,))
    db.execute("DELETE FROM probe")


def prune(db: sqlite3.Connection, retention: Retention, now: float) -> int:
    """Delete up to PRUNED_AT_ONCE expired rows, leaving tombstones; returns how many."""
    expired = list(_expired(db, retention, now))
    for resource, row, owner_id in expired:
        if leaves_tombstone(resource, row):
            db.execute(_BURY, (resource_hash(resource), owner_hash(_owner(db, owner_id))))
        _delete(db, resource, owner_id)
    return len(expired)


def _expired(db: sqlite3.Connection, retention: Retention, now: float) -> Iterator[tuple[Resource, Row, int]]:
    before = {0: now - retention.open, 1: now - min(retention.terminal, retention.open)}
    for terminal, last_seen in before.items():
        for *columns, agent, kind, name, owner in db.execute(_EXPIRED, (terminal, last_seen, PRUNED_AT_ONCE)):
            yield Resource(text(agent), Kind(kind), text(name)), _row(columns), owner


def _standing(
    db: sqlite3.Connection, owner: Owner, owner_id: int | None, resource: Resource
) -> Standing | None:
    """How `resource` stands to `owner`; None if it is, or was, somebody else's."""
    found = db.execute(_HOLDER, _key(resource)).fetchone()
    if found is not None:
        *columns, holder = found
        row = _row(columns)
        return Standing(row, buried=row.reservations > 0) if holder == owner_id else None
    buried = db.execute(_TOMBSTONE, (resource_hash(resource),)).fetchone()
    if buried is not None and buried[0] != owner_hash(owner):
        return None
    return Standing(None, buried=buried is not None)


def _store(db: sqlite3.Connection, owner_id: int, entry: Entry, row: Row | None, now: float) -> Row:
    if row is None:
        new = opened(entry, now)
        db.execute(_INSERT, (*_key(entry.resource), owner_id, *_columns(new)))
        return new
    new = completed(row, entry)._replace(last_seen=now)
    _update(db, entry.resource, new)
    return new


def _update(db: sqlite3.Connection, resource: Resource, row: Row) -> None:
    db.execute(_UPDATE, (*_columns(row), *_key(resource)))


def _delete(db: sqlite3.Connection, resource: Resource, owner_id: int | None) -> None:
    db.execute(_DELETE, _key(resource))
    if resource.kind is Kind.TASK:
        db.execute(_FORGET_WEBHOOKS, (owner_id, raw(resource.agent), raw(resource.id)))


def owns(db: sqlite3.Connection, owner_id: int, resource: Resource) -> bool:
    return _own_row(db, owner_id, resource) is not None


def _own_row(db: sqlite3.Connection, owner_id: int, resource: Resource) -> Row | None:
    columns = db.execute(OWN_ROW, (owner_id, *_key(resource))).fetchone()
    return None if columns is None else _row(columns)


def find_owner(db: sqlite3.Connection, owner: Owner) -> int | None:
    """The row id of `owner`, None for one who has never owned anything."""
    found = db.execute(_FIND_OWNER, _owner_key(owner)).fetchone()
    return None if found is None else int(found[0])


def _owner(db: sqlite3.Connection, owner_id: int) -> Owner:
    tenant, issuer, subject, further = db.execute(
        "SELECT tenant, issuer, subject, further FROM owners WHERE id = ?", (owner_id,)
    ).fetchone()
    return Owner(text(tenant), text(issuer), text(subject), unpacked(further))


def _owner_key(owner: Owner) -> tuple[bytes, bytes, bytes, bytes]:
    return raw(owner.tenant), raw(owner.issuer), raw(owner.subject), packed(owner.further)


def _key(resource: Resource) -> tuple[bytes, str, bytes]:
    return raw(resource.agent), str(resource.kind), raw(resource.id)


def _columns(row: Row) -> tuple[Any, ...]:
    """In the order of _WRITTEN."""
    fact = row.fact
    optional = (fact.context_id, fact.state, fact.status_at, fact.skill)
    return (
        raw(fact.tenant),
        *(None if value is None else raw(value) for value in optional),
        packed(sorted(fact.held)),
        row.chosen,
        row.reservations,
        row.first_seen,
        row.last_seen,
        row.gone_at,
        is_terminal(fact),
        list_order(row),
    )


def fact_of(columns: Sequence[Any]) -> Fact:
    """What a row in the order of READ says."""
    return _row(columns).fact


def _row(columns: Sequence[Any]) -> Row:
    """In the order of READ."""
    tenant, context_id, state, status_at, skill, held, chosen, reservations, *times = columns
    fact = Fact(
        tenant=text(tenant),
        context_id=_optional(context_id),
        state=_optional(state),
        status_at=_optional(status_at),
        skill=_optional(skill),
        held=frozenset(unpacked(held)),
        provisional=bool(reservations),
    )
    first_seen, last_seen, gone_at = times
    return Row(fact, bool(chosen), first_seen, last_seen, gone_at, reservations)


def _optional(stored: bytes | None) -> str | None:
    return None if stored is None else text(stored)
