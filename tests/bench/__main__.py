"""`python -m tests.bench`: the sidecar and its rivals side by side; `uniformity`, `listing` and
`floods` measure promises.

Owns: the order of a run, its options, and its exit code: 2 where something is missing.
Never: fails because something is slow; only the promises can fail, with exit code 1.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.bench import contenders, machine, micro, report
from tests.bench.floods import floods
from tests.bench.listing import listing
from tests.bench.load import CONNECTIONS, Cores, Series, rounds
from tests.bench.processes import CannotMeasure, free_port
from tests.bench.profile import profile
from tests.bench.scene import Scene, set_scene
from tests.bench.uniformity import uniformity

MISSING: Final = 2
PROFILE_ROWS: Final = 40
LATENCY_SHARE: Final = 5  # one slice at one connection for so many at many

say = Console(stderr=True).print


app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    slices: Annotated[int, typer.Option(min=1, help="Measured slices per contender.")] = 30,
    seconds: Annotated[int, typer.Option(min=1, help="Seconds a slice.")] = 1,
    only: Annotated[str, typer.Option(help=f"Comma-separated, of: {', '.join(contenders.CONTENDERS)}.")] = "",
    load: Annotated[bool, typer.Option(help="Measure under load.")] = True,
    steps: Annotated[bool, typer.Option(help="Measure single steps in process.")] = True,
    profiled: Annotated[
        int, typer.Option("--profile", min=0, help="Sample the sidecar for so many seconds more.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes.")] = None,
) -> None:
    """Measure the sidecar and its rivals side by side on two cores of this machine."""
    if context.invoked_subcommand is not None:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = datetime.now(UTC)
    chosen = _chosen(only)
    tools = contenders.tool_versions(chosen, profiles=profiled > 0) if load else {}
    with tempfile.TemporaryDirectory(prefix="a2a-sidecar-bench-") as name:
        folder = Path(name)
        document: dict[str, object] = {
            "began": began.isoformat(timespec="seconds"),
            "machine": machine.facts(folder, tools),
            "settings": {"slices": slices, "seconds": seconds, "connections": CONNECTIONS},
        }
        if load:
            document |= _under_load(chosen, folder, slices, seconds, profiled)
        if steps:
            document["steps"] = _steps(folder)
    say(f"written to {report.write(document, began, out)}")


def _chosen(only: str) -> Mapping[str, contenders.Start]:
    names = [name.strip() for name in only.split(",") if name.strip()] or list(contenders.CONTENDERS)
    if unknown := [name for name in names if name not in contenders.CONTENDERS]:
        known = ", ".join(contenders.CONTENDERS)
        raise CannotMeasure(f"unknown contenders {', '.join(unknown)}; choose from {known}")
    return {name: contenders.CONTENDERS[name] for name in names}


def _under_load(
    chosen: Mapping[str, contenders.Start], folder: Path, slices: int, seconds: int, profiled: int
) -> dict[str, object]:
    usable = os.sched_getaffinity(0)
    cores = Cores.of(usable)
    # This process sleeps while wrk runs; it must not wake up on the contender's core.
    os.sched_setaffinity(0, {cores.load})
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, usable)
        scene = set_scene(folder, free_port())
        agent = contenders.start_agent(scene, cores.load, stack)
        running = [start(scene, cores.proxy, stack) for start in chosen.values()]
        everyone, base = [*running, agent], running[0].name
        few = max(1, slices // LATENCY_SHARE)
        say(f"about {(slices + few + 2) * len(everyone) * (seconds + 0.1) / 60:.1f} minutes of load")
        loaded = _last(everyone, scene, cores, CONNECTIONS, slices, seconds)
        report.show(report.load_table(loaded, base, CONNECTIONS))
        quiet = _last(everyone, scene, cores, 1, few, seconds)
        report.show(report.latency_table(quiet, agent.name))
        told: dict[str, object] = {
            "load": {name: series.as_json() for name, series in loaded.items()},
            "ratios": {"base": base, **report.ratios(loaded, base)},
            "one_connection": {name: series.as_json() for name, series in quiet.items()},
        }
        if profiled and base == contenders.SIDECAR:
            shares = profile(running[0], scene, cores, profiled)
            report.show(report.profile_table(shares))
            told["profile"] = [asdict(share) for share in shares[:PROFILE_ROWS]]
    return told


def _last(
    everyone: Sequence[contenders.Running],
    scene: Scene,
    cores: Cores,
    connections: int,
    slices: int,
    seconds: int,
) -> Mapping[str, Series]:
    """All rounds, with a line that tells how far they are."""
    told: list[Mapping[str, Series]] = []
    with Console(stderr=True).status(f"{connections} connections: warming up") as status:
        for series in rounds(everyone, scene, cores, connections, slices, seconds):
            told.append(series)
            status.update(f"{connections} connections: {len(told)} of {slices} rounds")
    return told[-1]


def _steps(folder: Path) -> list[dict[str, object]]:
    steps = list(micro.steps(folder))
    report.show(report.steps_table(steps))
    return report.as_json(steps)


app.command()(uniformity)
app.command()(listing)
app.command()(floods)


def main() -> None:
    try:
        app()
    except CannotMeasure as problem:
        print(problem, file=sys.stderr)
        sys.exit(MISSING)


if __name__ == "__main__":
    main()
