"""What was measured, for a person and for a file.

Owns: the tables and the JSON document.
Never: judges; a number here fails nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.contenders import SIDECAR
from tests.bench.load import Quartiles, Series
from tests.bench.micro import Step
from tests.bench.profile import Share

RESULTS: Final = Path(__file__).parent / "results"
WIDTH: Final = 118  # columns, where the output is no terminal


def load_table(measured: Mapping[str, Series], base: str, what: str) -> Table:
    """Requests and processor time. Ratios are of medians: the contender's over `base`'s."""
    table = Table(title=f"{what}: median (quartiles) of slices; ratios to {base}")
    for name in (
        "contender",
        "requests/s",
        "ratio",
        "CPU µs a request",
        "ratio",
        "p50 µs",
        "own core %",
        "others %",
    ):
        table.add_column(name, justify="left" if name == "contender" else "right")
    for name, series in measured.items():
        rate, cpu = series.of("requests_per_second"), series.of("cpu_us")
        table.add_row(
            name,
            _shown(rate, 0),
            _ratio(rate, measured[base].of("requests_per_second")),
            _shown(cpu, 1),
            _ratio(cpu, measured[base].of("cpu_us")),
            _median(series.of("p50_us")),
            _median(series.of("own_share"), 100),
            _median(series.of("others_share"), 100),
        )
    return table


def latency_table(measured: Mapping[str, Series], direct: str) -> Table:
    """Median latency at one connection, and what a proxy adds to asking the agent itself."""
    table = Table(title="latency at one connection: p50 of slices, median (quartiles)")
    for name in ("contender", "p50 µs", "added µs"):
        table.add_column(name, justify="left" if name == "contender" else "right")
    alone = measured[direct].of("p50_us")
    for name, series in measured.items():
        p50 = series.of("p50_us")
        added = f"{p50.median - alone.median:.0f}" if p50 and alone and name != direct else ""
        table.add_row(name, _shown(p50, 0), added)
    return table


def steps_table(steps: Sequence[Step]) -> Table:
    table = Table(title="single steps, in process")
    for name in ("step", "µs: median (quartiles)", "clock", "of"):
        table.add_column(name, justify="right" if name.startswith("µs") else "left")
    for step in steps:
        table.add_row(step.name, _shown(step.us, 2 if step.us.median < 100 else 0), step.clock, step.note)
    return table


def profile_table(shares: Sequence[Share], rows: int = 15) -> Table:
    table = Table(title="where the sidecar's time goes under load (py-spy, shares of samples)")
    for name in ("own %", "with callees %", "function"):
        table.add_column(name, justify="left" if name == "function" else "right")
    for share in shares[:rows]:
        table.add_row(f"{share.own:.1%}".rstrip("%"), f"{share.whole:.1%}".rstrip("%"), share.function)
    return table


def ratios(measured: Mapping[str, Series], base: str) -> dict[str, dict[str, float]]:
    """Of medians, the contender's over `base`'s."""
    out: dict[str, dict[str, float]] = {}
    for name, series in measured.items():
        for member in ("requests_per_second", "cpu_us"):
            own, other = series.of(member), measured[base].of(member)
            if own and other and name != base:
                out.setdefault(name, {})[member] = round(own.median / other.median, 3)
    return out


def against_envoy(loaded: Mapping[str, Series], quiet: Mapping[str, Series], direct: str) -> dict[str, float]:
    """The figures of the guarded get that have bars, as far as those they are held against were measured."""
    figures: dict[str, float] = {}
    own = loaded[SIDECAR].of("cpu_us") if SIDECAR in loaded else None
    for key, rival in (("get_of_guarding_envoy", "envoy jwt+lua"), ("get_of_envoy", "envoy")):
        other = loaded[rival].of("cpu_us") if rival in loaded else None
        if own and other:
            figures[key] = own.median / other.median
    alone = quiet[direct]

    def added(name: str, member: str) -> float | None:
        through, without = quiet[name].of(member) if name in quiet else None, alone.of(member)
        return through.median - without.median if through and without else None

    p50, rival_p50, p99 = added(SIDECAR, "p50_us"), added("envoy jwt+lua", "p50_us"), added(SIDECAR, "p99_us")
    if p50 and rival_p50:
        figures["added_p50"] = p50 / rival_p50
    if p99:
        figures["added_p99_ms"] = p99 / 1e3
    return figures


def as_json(steps: Sequence[Step]) -> list[dict[str, object]]:
    return [asdict(step) for step in steps]


def write(document: dict[str, object], began: datetime, out: Path | None, kind: str = "") -> str:
    """Write a run's `document`; returns where. `kind` names the bench in the file's name."""
    document["load_average_after"] = os.getloadavg()
    file = out or RESULTS / f"{kind}{began:%Y%m%dT%H%M%SZ}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return os.path.relpath(file)


def show(table: Table) -> None:
    console = Console()
    (console if console.is_terminal else Console(width=WIDTH)).print(table)


def _shown(q: Quartiles | None, digits: int) -> str:
    return f"{q.median:.{digits}f} ({q.low:.{digits}f}–{q.high:.{digits}f})" if q else ""


def _ratio(own: Quartiles | None, base: Quartiles | None) -> str:
    return f"{own.median / base.median:.2f}" if own and base else ""


def _median(q: Quartiles | None, factor: int = 1) -> str:
    return f"{q.median * factor:.0f}" if q else ""
