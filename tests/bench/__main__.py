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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.bench import bars, contenders, kinds, machine, micro, passing, report, rest, several, sse
from tests.bench.floods import floods
from tests.bench.listing import listing
from tests.bench.load import CONNECTIONS, Cores, Series, rounds
from tests.bench.processes import CannotMeasure, free_port
from tests.bench.profile import profile
from tests.bench.scene import Scene, guarded_get, set_scene
from tests.bench.uniformity import uniformity

MISSING: Final = 2
PROFILE_ROWS: Final = 40
LATENCY_SHARE: Final = 5  # one slice at one connection for so many at many
SSE_SLICES: Final = 4
SSE_SECONDS: Final = 4
FEWER: Final = 3  # one slice of the other benches for so many of the guarded get
PARTS: Final = ("get", "kinds", "passing", "sse", "workers", "rest", "steps")

say = Console(stderr=True).print


app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    slices: Annotated[
        int, typer.Option(min=1, help="Measured slices per contender of the guarded get.")
    ] = 30,
    seconds: Annotated[int, typer.Option(min=1, help="Seconds a slice.")] = 1,
    only: Annotated[str, typer.Option(help=f"Comma-separated, of: {', '.join(contenders.CONTENDERS)}.")] = "",
    parts: Annotated[str, typer.Option(help=f"Comma-separated, of: {', '.join(PARTS)}.")] = "",
    requests: Annotated[int, typer.Option(min=1, help="Gets before memory is looked at again.")] = 50_000,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks made before that.")] = 5_000,
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
    chosen, wanted = _chosen(only), _parts(parts)
    tools = contenders.tool_versions(chosen, profiles=profiled > 0) if set(wanted) != {"steps"} else {}
    measured: dict[str, float] = {}
    fewer = max(1, slices // FEWER)
    with tempfile.TemporaryDirectory(prefix="a2a-sidecar-bench-") as name:
        folder = Path(name)
        document: dict[str, object] = {
            "began": began.isoformat(timespec="seconds"),
            "machine": machine.facts(folder, tools),
            "settings": {"slices": slices, "seconds": seconds, "connections": CONNECTIONS},
        }
        for part in wanted:
            with _alone(folder / part) as (scene, cores, stack):
                match part:
                    case "get":
                        document |= _guarded_get(
                            chosen, scene, cores, stack, slices, seconds, profiled, measured
                        )
                    case "kinds":
                        document["kinds"] = _kinds(scene, cores, stack, fewer, seconds, measured)
                    case "passing":
                        document["passing"] = _passing(scene, cores, stack, fewer, seconds, measured)
                    case "sse":
                        document["sse"] = _sse(scene, cores, stack, fewer, measured)
                    case "workers":
                        document["workers"] = _workers(scene, cores, stack, fewer, seconds, measured)
                    case "rest":
                        document["rest"] = _rest(scene, cores, stack, requests, tasks, measured)
                    case "steps":
                        document["steps"] = _steps(scene.folder)
    if measured:
        document["bars"] = measured
        report.show(bars.table(measured))
    say(f"written to {report.write(document, began, out)}")


@contextmanager
def _alone(folder: Path) -> Iterator[tuple[Scene, Cores, ExitStack]]:
    """A scene and two cores for one part; what it started is gone afterwards."""
    folder.mkdir()
    usable = os.sched_getaffinity(0)
    cores = Cores.of(usable)
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, usable)
        # This process sleeps while others are loaded; it must not wake up on the contender's core.
        os.sched_setaffinity(0, {cores.load})
        yield set_scene(folder, free_port()), cores, stack


def _parts(named: str) -> Sequence[str]:
    names = [name.strip() for name in named.split(",") if name.strip()] or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        raise CannotMeasure(f"unknown parts {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    return names


def _chosen(only: str) -> Mapping[str, contenders.Start]:
    names = [name.strip() for name in only.split(",") if name.strip()] or list(contenders.CONTENDERS)
    if unknown := [name for name in names if name not in contenders.CONTENDERS]:
        known = ", ".join(contenders.CONTENDERS)
        raise CannotMeasure(f"unknown contenders {', '.join(unknown)}; choose from {known}")
    return {name: contenders.CONTENDERS[name] for name in names}


def _guarded_get(
    chosen: Mapping[str, contenders.Start],
    scene: Scene,
    cores: Cores,
    stack: ExitStack,
    slices: int,
    seconds: int,
    profiled: int,
    measured: dict[str, float],
) -> dict[str, object]:
    agent = contenders.start_agent(scene, cores.load, stack)
    running = [start(scene, cores.proxy, stack) for start in chosen.values()]
    ask = guarded_get(scene)
    everyone, base = [(each.name, each, ask) for each in (*running, agent)], running[0].name
    few = max(1, slices // LATENCY_SHARE)
    say(f"guarded get: about {(slices + few + 2) * len(everyone) * (seconds + 0.1) / 60:.1f} minutes of load")
    loaded = _last(rounds(everyone, scene, cores, CONNECTIONS, slices, seconds), slices)
    report.show(report.load_table(loaded, base, f"guarded get, {CONNECTIONS} connections"))
    quiet = _last(rounds(everyone, scene, cores, 1, few, seconds), few)
    report.show(report.latency_table(quiet, agent.name))
    measured |= report.against_envoy(loaded, quiet, agent.name)
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


def _kinds(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int, measured: dict[str, float]
) -> object:
    contenders.start_agent(scene, cores.load, stack)
    series, figures = kinds.kinds(scene, cores, stack, slices, seconds)
    report.show(report.load_table(series, next(iter(series)), f"by kind, {CONNECTIONS} connections"))
    measured |= {**figures, **kinds.syncs_of_sends(scene, cores, stack)}
    return {name: each.as_json() for name, each in series.items()}


def _passing(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int, measured: dict[str, float]
) -> object:
    contenders.start_agent(scene, cores.load, stack)
    series, figures = passing.passing(scene, cores, stack, slices, seconds)
    report.show(report.load_table(series, next(iter(series)), f"10 MB, {passing.CONNECTIONS} connections"))
    measured |= figures
    return {name: each.as_json() for name, each in series.items()}


def _sse(scene: Scene, cores: Cores, stack: ExitStack, slices: int, measured: dict[str, float]) -> object:
    heard, figures = sse.sse(scene, cores, stack, min(slices, SSE_SLICES), SSE_SECONDS)
    report.show(sse.table(heard))
    measured |= figures
    return {of.name: of.as_json() for of in heard}


def _workers(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int, measured: dict[str, float]
) -> object:
    series, figures = several.several(scene, cores, stack, slices, seconds)
    report.show(report.load_table(series, next(iter(series)), f"workers, {CONNECTIONS} connections"))
    measured |= figures
    return {name: each.as_json() for name, each in series.items()}


def _rest(
    scene: Scene, cores: Cores, stack: ExitStack, requests: int, tasks: int, measured: dict[str, float]
) -> object:
    contenders.start_agent(scene, cores.load, stack)
    say(f"at rest: {requests} gets and {tasks} sends")
    figures, told = rest.rest(scene, cores, stack, requests, tasks)
    measured |= figures
    return told


def _last(rounds: Iterator[Mapping[str, Series]], slices: int) -> Mapping[str, Series]:
    """All rounds, with a line that tells how far they are."""
    told: list[Mapping[str, Series]] = []
    with Console(stderr=True).status("warming up") as status:
        for series in rounds:
            told.append(series)
            status.update(f"{len(told)} of {slices} rounds")
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
