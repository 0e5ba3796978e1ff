"""Durable facts: who owns which task and which context.

Owns: the Ledger interface, its one error, and opening a ledger by URL.
Never: policy. A ledger does not know what an operation is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sidecar import config
from sidecar.model import Entry, Fact, Facts, Miss, Owner, Page, Position, Resource, TaskFilter

if TYPE_CHECKING:
    from sidecar.ledger.opening import Held

TIMEOUT = 5.0  # seconds that bound every wait for the file
KEY_LIFE = 30 * 86400.0  # seconds a key seals; the one before it goes on opening


class LedgerUnavailable(Exception):
    """The ledger cannot answer or cannot store. Whoever asked must fail closed."""


class Ledger(Protocol):
    """Every method may raise LedgerUnavailable, within a bounded time; nothing else of a driver's."""

    async def facts(self, owner: Owner, resources: Collection[Resource]) -> Facts:
        """What is known of those of `resources` that `owner` owns; a foreign one is as absent as an unknown one."""
        ...

    async def record(self, owner: Owner, entries: Sequence[Entry]) -> frozenset[Resource]:
        """Record `owner` for all of `entries` durably, or for none.

        Returns those that somebody else owns, or once owned (a tombstone); empty means that all
        are `owner`'s now. An entry that is `owner`'s already is completed: members that are None
        stay as recorded, and a provisional row becomes final where the new fact is not provisional.
        """
        ...

    async def drop(self, owner: Owner, resources: Collection[Resource]) -> None:
        """Forget those of `resources` that are `owner`'s and still provisional."""
        ...

    def sight(self, owner: Owner, resource: Resource, fact: Fact, *, gone: bool = False) -> None:
        """Note what was seen of an owned resource. Written behind, and only where it changes something.

        `gone`: the agent itself no longer knows it; the row is marked, never deleted.
        """
        ...

    async def tasks(self, owner: Owner, wanted: TaskFilter, after: Position | None, limit: int) -> Page:
        """Up to `limit` of `owner`'s tasks behind `after`, by status timestamp, newest first, then by id.

        Every sighting noted before is taken into account. Where the agent gave no timestamp, when
        the task was first seen stands for it.
        """
        ...

    async def hold_webhooks(
        self, owner: Owner, task: Resource, names: Collection[str], limit: int
    ) -> frozenset[str] | None:
        """Count `names` among the webhooks of `owner`'s task, all or none, durably and in one step.

        Returns those that were not counted yet; None where that would be more than `limit`, or the task is not
        `owner`'s. What is counted goes when the task's row is pruned.
        """
        ...

    async def replace_webhooks(
        self, owner: Owner, task: Resource, old: Collection[str], new: Collection[str]
    ) -> None:
        """Count `new` instead of `old`, whatever the limit: they are there."""
        ...

    async def sealing_keys(self) -> tuple[bytes, ...]:
        """The keys of page tokens, 32 bytes each, the one that seals first; one is made on first use and every `KEY_LIFE`.

        All sidecars on one ledger get the same ones.
        """
        ...

    async def first_use(self, name: bytes, until: float) -> bool:
        """Whether `name` was not used before, for all sidecars on one ledger; it counts as used before `until`.

        `until` is in seconds since the epoch. When this returns, the use outlives this process, if the ledger does;
        it need not outlive a power cut. Of any number of callers at once one gets True.
        """
        ...

    async def causes(self, misses: Sequence[tuple[Owner, Resource]]) -> Sequence[Miss]:
        """Why `facts` found nothing, for each of `misses`. For the audit, after the replies have left."""
        ...

    async def check(self) -> None:
        """Prove that a row could be stored now. Raises LedgerUnavailable."""
        ...

    async def close(self) -> None:
        """Flush what is written behind, and let go of the storage."""
        ...


def hold_ledger(config: config.Ledger) -> Held:
    """Open the ledger `config.url` names for several processes, each of which gives the result to `open_ledger`.

    Raises as `open_ledger` does, and ValueError for a ledger that only one process can have.
    """
    from sidecar.ledger.opening import hold_file

    if config.url == "memory:":
        raise ValueError(
            "`memory:` is the memory of one process; write `sqlite:////data/ledger.db`, or leave out `--workers`"
        )
    return hold_file(_path_in(config.url), timeout=TIMEOUT)


async def open_ledger(config: config.Ledger, *, now: Callable[[], float], held: Held | None = None) -> Ledger:
    """Open the ledger `config.url` names; `now` gives seconds since the epoch.

    `held` is what the process that started this one holds for it. Raises ValueError where the URL is none of ours,
    and LedgerUnavailable where the ledger cannot be opened; both messages say what to do.
    """
    # Here, since both modules need this one.
    from sidecar.ledger.memory import MemoryLedger
    from sidecar.ledger.sqlite import SqliteLedger

    retention, retention_open = config.retention, config.retention_open
    if config.url == "memory:":
        return MemoryLedger(now=now, retention=retention, retention_open=retention_open)
    path = _path_in(config.url) if held is None else held
    return await SqliteLedger.open(path, now=now, retention=retention, retention_open=retention_open)


def _path_in(url: str) -> Path:
    """The path in a `sqlite:///` URL. Raises ValueError."""
    path = url.removeprefix("sqlite:///")
    if path == url or path in {"", "/", ":memory:"} or path.endswith("/") or not path.isprintable():
        raise ValueError(
            f"ledger.url `{url}`: write `sqlite:////data/ledger.db` (four slashes: an absolute path),"
            " `sqlite:///ledger.db` (three: relative), or `memory:`"
        )
    if "?" in path or "#" in path:
        raise ValueError(
            f"ledger.url `{url}`: takes no options; write the path alone, `sqlite:////data/ledger.db`"
        )
    return Path(path)
