"""Whether a list of one's own tasks takes longer for what others have.

Owns: two ledgers with the same few tasks of one caller, among few and among very many of others, and the
comparison of what a list of them takes.
Never: compares times of different moments: slices alternate.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table

from tests.bench import machine, report
from tests.bench.callers import Line, Stage, fill, request_bytes, set_stage, start_sidecar, task_ids
from tests.bench.load import Cores, Quartiles
from tests.bench.processes import CannotMeasure, require

OWN: Final = 5
FEW: Final = 50
OTHERS_EACH: Final = 500  # tasks of one other caller
RATIO: Final = 1.5  # of the medians, many to few: the same below it
REQUESTS: Final = 5  # to the agent, of one list, at the most

say = Console(stderr=True).print


@dataclass(slots=True)
class Lists:
    """Lists by one form, asked of one sidecar."""

    us: list[float] = field(default_factory=list)
    reached: int = 0  # requests to the agent

    @property
    def quartiles(self) -> Quartiles:
        return Quartiles.of(self.us)

    @property
    def requests(self) -> float:
        """To the agent, a list."""
        return self.reached / len(self.us)


@dataclass(frozen=True, slots=True)
class Side:
    """One sidecar, asked by the owner of `own`, who is one of many or of few."""

    others: int
    line: Line
    own: frozenset[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    form: str
    lists: int
    few: Quartiles  # µs
    many: Quartiles  # µs
    requests: tuple[float, float]  # to the agent a list: among few, among many

    @property
    def ratio(self) -> float:
        return self.many.median / self.few.median

    @property
    def passed(self) -> bool:
        return self.ratio < RATIO and max(self.requests) <= REQUESTS


def listing(
    slices: Annotated[int, typer.Option(min=2, help="Slices per form and sidecar.")] = 40,
    lists: Annotated[int, typer.Option(min=1, help="Lists a slice.")] = 25,
    others: Annotated[int, typer.Option(min=1, help="Tasks of others.")] = 50_000,
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes.")] = None,
) -> None:
    """List five tasks among many of others and among few, side by side. Exit code 1 if that shows in the time."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    require(["taskset", "setpriv"])
    began = datetime.now(UTC)
    cores = Cores.of(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores.load})
    with tempfile.TemporaryDirectory(prefix="a2a-sidecar-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        settings = {"slices": slices, "lists": lists, "own": OWN, "others": [FEW, others]}
        document: dict[str, object] = {
            "began": began.isoformat(timespec="seconds"),
            "machine": machine.facts(folder, {}),
            "settings": settings,
        }
        stage = set_stage(folder, cores.load, stack)
        sides = [_side(stage, count, cores, stack) for count in (FEW, others)]
        outcomes = [_measure(form, sides, stage, slices, lists) for form in _forms(stage).items()]
    report.show(table(outcomes, others))
    document["lists"] = [asdict(o) | {"ratio": round(o.ratio, 3), "passed": o.passed} for o in outcomes]
    say(f"written to {report.write(document, began, out, 'listing-')}")
    if not all(o.passed for o in outcomes):
        say(f"failed: a ratio of {RATIO} or more, or more than {REQUESTS} requests to the agent a list")
        raise typer.Exit(1)


def _side(stage: Stage, others: int, cores: Cores, stack: ExitStack) -> Side:
    say(f"a ledger with {others} tasks of others")
    # Two of alice's are still being worked on: such are asked for anew before the page is put together.
    theirs = [task[:-1] + ("0" if number < 2 else "f") for number, task in enumerate(task_ids(OWN))]
    tasks = {f"other-{n}": task_ids(min(OTHERS_EACH, others - n)) for n in range(0, others, OTHERS_EACH)}
    # In the midst of the others, as she would come in life.
    names = [*tasks][: len(tasks) // 2], [*tasks][len(tasks) // 2 :]
    mixed = {**{n: tasks[n] for n in names[0]}, "alice": theirs, **{n: tasks[n] for n in names[1]}}
    name = f"among-{others}"
    line = Line(start_sidecar(stage, name, fill(stage, name, mixed), cores.proxy, stack).port)
    stack.callback(line.close)
    return Side(others, line, frozenset(theirs))


def _forms(stage: Stage) -> Mapping[str, bytes]:
    token, version = stage.token("alice"), {"A2A-Version": "1.0"}
    call = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
    sent = version | {"Content-Type": "application/json"}
    return {
        "ListTasks": request_bytes("POST", "/", sent, call, token),
        "GET /tasks": request_bytes("GET", "/tasks", version, None, token),
    }


def _measure(form: tuple[str, bytes], sides: list[Side], stage: Stage, slices: int, lists: int) -> Outcome:
    """Alternate slices, the one that begins alternating too, after one that warms up. Raises CannotMeasure."""
    name, request = form
    measured = {side.others: Lists() for side in sides}
    gc.collect()
    gc.disable()
    try:
        for number in range(slices + 1):
            for side in sides if number % 2 else reversed(sides):
                before = stage.operations()
                replies = [side.line.ask(request) for _ in range(lists)]
                if number:
                    measured[side.others].us += [reply.ns / 1e3 for reply in replies]
                    measured[side.others].reached += stage.operations() - before
                for body in {reply.body for reply in replies}:
                    _require_own(name, body, side)
    finally:
        gc.enable()
    few, many = measured.values()
    return Outcome(name, len(few.us), few.quartiles, many.quartiles, (few.requests, many.requests))


def _require_own(form: str, body: bytes, side: Side) -> None:
    """Each page is alice's tasks and no others, else there is nothing to measure."""
    told: Any = orjson.loads(body)
    page = told.get("result", told)
    found = {task["id"] for task in page.get("tasks", ())}
    if found != side.own or page.get("totalSize") != OWN or page.get("nextPageToken") != "":
        raise CannotMeasure(
            f"{form} among {side.others} tasks of others is no list of the caller's own: {told}"
        )


def table(outcomes: Iterable[Outcome], others: int) -> Table:
    shown = Table(
        title=f"a list of {OWN} tasks: median (quartiles), µs; below a ratio of {RATIO} it is the same"
    )
    names = ("form", "lists", f"among {FEW}", f"among {others}", "ratio", "requests to the agent", "passed")
    for name in names:
        shown.add_column(name, justify="left" if name == "form" else "right")
    for o in outcomes:
        quartiles = (f"{q.median:.0f} ({q.low:.0f}–{q.high:.0f})" for q in (o.few, o.many))
        requests = " / ".join(f"{n:g}" for n in o.requests)
        shown.add_row(
            o.form, str(o.lists), *quartiles, f"{o.ratio:.2f}", requests, "yes" if o.passed else "NO"
        )
    return shown
