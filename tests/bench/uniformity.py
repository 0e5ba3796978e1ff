"""Whether a caller can tell another's id from one that never was: the same bytes, in the same time.

Owns: the cells (what is asked, in which dialect), the order of questions, and the conditions.
Never: trusts a measurement that could not have caught it: the same run must find a planted difference.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table

from sidecar.model import SENDS, STREAMS, Dialect, Operation
from tests.bench import machine, report, witness
from tests.bench.callers import (
    COMMAND,
    DIALECTS,
    Line,
    Sidecar,
    Stage,
    Told,
    fill,
    request_bytes,
    set_stage,
    start_sidecar,
    task_ids,
)
from tests.bench.load import Cores
from tests.bench.processes import CannotMeasure, require
from tests.bench.samples import SAME, Compared, compare, levelled
from tests.matrix.requests import CARDS, LISTS, ROWS, Names, Request, Row

PLANTED: Final = 10  # µs
OWN_TASKS: Final = 20  # of the caller who asks: an attacker has some
ID: Final = "00000000-0000-4000-8000-000000000000"  # stands for the id in a request until it is asked
SEED: Final = 1
CONTEXT: Final = "context"
NOTHING: Final = (b"not found", b'"totalsize":0')  # one of them is in an answer, whatever was asked

COLD, HOT, PLANT = CONDITIONS = ("cold", "hot", "planted")

say = Console(stderr=True).print


@dataclass(frozen=True, slots=True)
class Cell:
    """One question in one dialect. `template` is the caller's request about `ID`, `hot` the owner's about the same.

    An id is as long as `ID`.
    """

    dialect: str
    operation: str
    template: bytes
    hot: bytes

    def question(self, task: str) -> bytes:
        return self.template.replace(ID.encode(), task.encode())

    def warmth(self, task: str) -> bytes:
        return self.hot.replace(ID.encode(), task.encode())


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell under one condition. `own` compares foreign with absent, `after` what was asked next."""

    dialect: str
    operation: str
    condition: str
    pairs: int
    median: float  # of all latencies, µs
    own: Compared
    after: Compared | None
    t_as_it_came: float  # Welch's t of `own`, cut but not levelled
    unlike: str  # the first pair of replies that differed
    reached: int  # requests of the caller's that got to the agent
    others: float  # the share of the sidecar's core that other processes took

    @property
    def passed(self) -> bool:
        if self.condition == PLANT:
            return not self.own.same
        same = all(compared.same for compared in (self.own, self.after) if compared is not None)
        return same and not self.unlike and not self.reached


def uniformity(
    pairs: Annotated[int, typer.Option(min=100, help="Pairs per cell: one foreign id, one absent.")] = 20_000,
    dialects: Annotated[str, typer.Option(help=f"Comma-separated, of: {', '.join(DIALECTS)}.")] = ",".join(
        DIALECTS[:2]
    ),
    only: Annotated[
        str, typer.Option(help="Comma-separated: cells whose operation holds one of these.")
    ] = "",
    conditions: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(CONDITIONS),
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes.")] = None,
) -> None:
    """Try to tell another caller's ids from absent ones, by what comes back and when. Exit code 1 if one can."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for named, known in ((dialects, DIALECTS), (conditions, CONDITIONS)):
        if unknown := set(named.split(",")).difference(known):
            raise CannotMeasure(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
    require(["taskset", "setpriv"])
    began = datetime.now(UTC)
    cores = Cores.of(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores.load})
    with tempfile.TemporaryDirectory(prefix="a2a-sidecar-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        document: dict[str, object] = {
            "began": began.isoformat(timespec="seconds"),
            "machine": machine.facts(folder, {}),
            "settings": {"pairs": pairs, "dialects": dialects, "planted_us": PLANTED},
        }
        doors = Doors(set_stage(folder, cores.load, stack), cores, pairs, stack)
        cells = [
            c for c in doors.cells(dialects.split(",")) if any(o in c.operation for o in only.split(","))
        ]
        if not cells:
            raise CannotMeasure("no cell has these dialects and operations")
        outcomes = _all(doors, cells, conditions.split(","))
    report.show(table(outcomes))
    document["cells"] = [asdict(outcome) | {"passed": outcome.passed} for outcome in outcomes]
    say(f"written to {report.write(document, began, out, 'uniformity-')}")
    if failed := [o for o in outcomes if not o.passed]:
        say(f"{len(failed)} of {len(outcomes)} failed:" + "".join(map(_told, failed)))
        raise typer.Exit(1)


def _all(doors: Doors, cells: Sequence[Cell], conditions: Sequence[str]) -> list[Outcome]:
    order, outcomes = random.Random(SEED), []
    with Console(stderr=True).status("") as status, _undisturbed():
        for number, cell in enumerate(cells, 1):
            for condition in conditions:
                status.update(f"{number} of {len(cells)}: {cell.dialect} {cell.operation}, {condition}")
                outcomes.append(doors.measure(cell, condition, order))
    return outcomes


class Doors:
    """A sidecar, and one with a planted fault; alice owns what bob asks about."""

    def __init__(self, stage: Stage, cores: Cores, pairs: int, stack: ExitStack) -> None:
        self._stage, self._core = stage, cores.proxy
        self._foreign = task_ids(pairs)
        owned = {"alice": self._foreign, "bob": task_ids(OWN_TASKS)}
        # A context id the caller picks is theirs if nobody has it: one answer needs an agent that picks them itself.
        policy = {"client_context_ids": "refuse"}
        self._sidecars: dict[str, Sidecar] = {}
        for name, condition in (("sidecar", COLD), ("planted", PLANT)):
            ledger = fill(stage, name, owned)
            faulty = ("-m", "tests.bench.planted", str(PLANTED), str(ledger))
            program = faulty if condition == PLANT else COMMAND
            self._sidecars[condition] = start_sidecar(
                stage, name, ledger, cores.proxy, stack, program=program, ownership=policy
            )
        self._sidecars[HOT] = self._sidecars[COLD]

    def cells(self, dialects: Sequence[str]) -> Iterator[Cell]:
        """Each operation that can name a task or context, in each of `dialects`, once however many routes it has."""
        alice, bob = self._stage.token("alice"), self._stage.token("bob")
        seen: set[tuple[Dialect, Operation]] = set()
        for row in ROWS:
            what = (row.dialect, row.operation)
            if str(row.dialect) not in dialects or row.key in CARDS or what in seen:
                continue
            seen.add(what)
            for name, request in _questions(row):
                hot = _owners_send() if name.endswith(CONTEXT) else _owners_get(row)
                yield Cell(str(row.dialect), name, _wire(request, bob), _wire(hot, alice))

    def measure(self, cell: Cell, condition: str, order: random.Random) -> Outcome:
        """Ask all pairs, in random order within each. Raises CannotMeasure where the owner is not served."""
        sidecar, hot = self._sidecars[condition], condition == HOT
        bob, alice = Line(sidecar.port), Line(sidecar.port)
        try:
            self._require_set(cell, alice, bob)
            pairs = _shuffled(cell, self._foreign, order)
            gc.collect()
            before, busy = self._stage.operations(), Busy.of(sidecar, self._core)
            asked = [_ask(pair, alice, bob, hot) for pair in pairs]
            others = Busy.of(sidecar, self._core).others_since(busy)
            reached = self._stage.operations() - before - (len(asked) if hot else 0)
        finally:
            bob.close()
            alice.close()
        latencies = [(a.first.ns, a.second.ns) for a in asked]
        foreign_first = [a.foreign_first for a in asked]
        quiet = levelled(latencies)
        return Outcome(
            *(cell.dialect, cell.operation, condition, len(asked)),
            round(median(ns for pair in latencies for ns in pair) / 1e3, 1),
            compare(*_by_kind(quiet, foreign_first)),
            None if hot else compare(*_by_what_came_before(quiet, foreign_first)),
            compare(*_by_kind(latencies, foreign_first)).t,
            next((a.difference for a in asked if a.difference), ""),
            *(reached, round(others, 3)),
        )

    def _require_set(self, cell: Cell, alice: Line, bob: Line) -> None:
        task = self._foreign[0]
        got, refused = alice.ask(cell.warmth(task)), bob.ask(cell.question(task))
        if task.encode() not in got.body or b"error" in got.body:
            raise CannotMeasure(f"the owner is not served: {got.shown}")
        if not any(nothing in refused.body.lower() for nothing in NOTHING):
            raise CannotMeasure(f"{cell.dialect} {cell.operation}: no answer to compare: {refused.shown}")


@dataclass(frozen=True, slots=True)
class Busy:
    """Who had the sidecar's core so far. Times in seconds."""

    at: float
    core: float
    own: float

    @classmethod
    def of(cls, sidecar: Sidecar, core: int) -> Busy:
        return cls(time.monotonic(), machine.core_time(core).busy, machine.process_seconds(sidecar.pid))

    def others_since(self, earlier: Busy) -> float:
        """The share of the core that was not the sidecar's."""
        others = (self.core - earlier.core) - (self.own - earlier.own)
        return max(0.0, others) / (self.at - earlier.at)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions in the order of asking; `foreign_first` tells which is which."""

    warmth: bytes
    questions: tuple[bytes, bytes]
    foreign_first: bool


@dataclass(frozen=True, slots=True)
class Asked:
    first: Told
    second: Told
    foreign_first: bool

    @property
    def difference(self) -> str:
        if self.first.shown == self.second.shown:
            return ""
        names = ("foreign", "absent") if self.foreign_first else ("absent", "foreign")
        return f"{names[0]} {self.first.shown}, {names[1]} {self.second.shown}"


def _shuffled(cell: Cell, foreign: Sequence[str], order: random.Random) -> list[Pair]:
    """Each foreign id once, as each absent one, so that no memory of requests can favour one kind."""
    pairs = []
    for task, absent in zip(order.sample(foreign, len(foreign)), task_ids(len(foreign)), strict=True):
        foreign_first = order.random() < 0.5
        both = (task, absent) if foreign_first else (absent, task)
        questions = (cell.question(both[0]), cell.question(both[1]))
        pairs.append(Pair(cell.warmth(task), questions, foreign_first))
    return pairs


def _ask(pair: Pair, alice: Line, bob: Line, hot: bool) -> Asked:
    if hot:
        alice.ask(pair.warmth)
    first, second = pair.questions
    return Asked(bob.ask(first), bob.ask(second), pair.foreign_first)


def _by_kind(
    latencies: Sequence[tuple[int, int]], foreign_first: Sequence[bool]
) -> tuple[list[int], list[int]]:
    """Of foreign ids, and of absent ones."""
    pairs = [(a, b) if first else (b, a) for (a, b), first in zip(latencies, foreign_first, strict=True)]
    return [foreign for foreign, _ in pairs], [absent for _, absent in pairs]


def _by_what_came_before(
    latencies: Sequence[tuple[int, int]], foreign_first: Sequence[bool]
) -> tuple[list[int], list[int]]:
    """Of what was asked after a foreign id, and after an absent one: work done once a reply has left must not tell.

    Only the first of a pair counts: its own kind does not depend on what was asked before.
    """
    nexts: dict[bool, list[int]] = {True: [], False: []}
    for (_, pair), (before, _) in zip(pairwise(latencies), pairwise(foreign_first), strict=True):
        nexts[not before].append(pair[0])
    return nexts[True], nexts[False]


def table(outcomes: Iterable[Outcome]) -> Table:
    """Differences are of the medians, foreign less absent, and of what came next after either."""
    shown = Table(title=f"foreign against absent ids: |t| < {SAME} is the same, planted must not be")
    left = ("dialect", "operation", "")
    for name in (*left, "median µs", "± µs", "Δ µs", "t", "next: Δ µs", "t", "others %", "passed"):
        shown.add_column(name, justify="left" if name in left else "right")
    for o in outcomes:
        after = (f"{o.after.medians:+.2f}", f"{o.after.t:+.1f}") if o.after else ("", "")
        why = "yes" if o.passed else "unlike" if o.unlike else "reached" if o.reached else "NO"
        shown.add_row(
            *(o.dialect, o.operation, o.condition, f"{o.median:.0f}", f"{o.own.deviation:.0f}"),
            *(f"{o.own.medians:+.2f}", f"{o.own.t:+.1f}", *after, f"{o.others:.0%}".rstrip("%"), why),
        )
    return shown


def _told(o: Outcome) -> str:
    what = f"\n{o.dialect} {o.operation}, {o.condition}"
    if o.unlike:
        return f"{what}: replies differ: {o.unlike}"
    return what + (f": {o.reached} requests reached the agent" if o.reached else "")


def _questions(row: Row) -> Iterator[tuple[str, Request]]:
    if row.key in LISTS:
        yield f"{row.operation.value} {CONTEXT}", _list_in_context(row.plain())
        return
    if row.operation not in SENDS:
        yield row.operation.value, row.on_a_task(ID)
        return
    yield f"{row.operation.value} continue", row.sending(Names(ID))
    if row.operation in STREAMS:
        return  # what a send carries is judged alike, whatever the reply would have been
    yield f"{row.operation.value} reference", row.sending(Names(references=(ID,)))
    yield f"{row.operation.value} {CONTEXT}", _in_context(row.sending(Names()))


def _in_context(request: Request) -> Request:
    body = orjson.loads(request.body or b"")
    body.get("params", body)["message"]["contextId"] = witness.context_of(ID)
    return replace(request, body=orjson.dumps(body))


def _list_in_context(request: Request) -> Request:
    context = witness.context_of(ID)
    if request.body is None:
        return replace(request, target=f"{request.target}?contextId={context}")
    body = orjson.loads(request.body)
    body["params"]["contextId"] = context
    return replace(request, body=orjson.dumps(body))


def _owners_get(row: Row) -> Request:
    """The owner's own GetTask in the binding of `row`, 1.0: what is remembered is the same for all dialects."""
    if row.jsonrpc:
        return _rpc("GetTask", {"id": ID})
    return Request("GET", f"/tasks/{ID}", None, {"A2A-Version": "1.0"})


def _owners_send() -> Request:
    """The owner goes on in the context, so that this is remembered too."""
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Go on."}]}
    return _rpc("SendMessage", {"message": message | {"taskId": ID, "contextId": witness.context_of(ID)}})


def _rpc(method: str, params: dict[str, object]) -> Request:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return Request("POST", "/", body, {"A2A-Version": "1.0", "Content-Type": "application/json"})


def _wire(request: Request, token: str) -> bytes:
    return request_bytes(request.method, request.target, request.headers, request.body, token)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No collection of garbage while something is timed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
