"""What the numbers ought to be.

Owns: one row for each bar, and the table that holds what was measured against it.
Never: fails a run; a bar that is missed is said to be missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Bar:
    """`most` or `least` is the bar; without either the figure is only told."""

    what: str
    most: float | None = None
    least: float | None = None
    unit: str = "×"

    def met(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def shown(self) -> str:
        if self.most is not None:
            return f"≤ {self.most:g} {self.unit}"
        return f"≥ {self.least:g} {self.unit}" if self.least is not None else ""


BARS: Final[Mapping[str, Bar]] = {
    "get_of_guarding_envoy": Bar("guarded get, CPU a request: of Envoy with JWT and Lua", most=0.85),
    "get_of_envoy": Bar("guarded get, CPU a request: of bare Envoy", most=1.3),
    "added_p50": Bar("added latency, one connection, p50: of Envoy with JWT and Lua", most=1.0),
    "added_p99_ms": Bar("added latency, one connection, p99", unit="ms"),
    "send_of_get": Bar("send that creates a task, requests a second: of the guarded get", least=0.5),
    "syncs_a_second": Bar("send that creates a task: fsyncs a second", unit="/s"),
    "sends_a_sync": Bar("send that creates a task: sends an fsync", unit=""),
    "scope_of_get": Bar("refused for scope, CPU a request: of the guarded get", most=0.9),
    "scope_p99_ms": Bar("refused for scope, p99", most=5.0, unit="ms"),
    "miss_of_get": Bar("not found, CPU a request: of the guarded get", most=0.9),
    "miss_p99_ms": Bar("not found, p99", most=5.0, unit="ms"),
    "down_of_envoy": Bar("10 MB down, bytes a second: of bare Envoy", least=0.7),
    "up_of_envoy": Bar("10 MB up, bytes a second: of bare Envoy", least=0.7),
    "passing_growth_mib": Bar("memory while 10 MB bodies pass: growth", most=16.0, unit="MiB"),
    "event_p99": Bar("SSE, added latency an event, p99: of bare Envoy", most=2.0),
    "stream_kib": Bar("SSE, memory a stream", most=60.0, unit="KiB"),
    "workers_cpu": Bar("two workers, CPU a request: of one", most=1.15),
    "workers_share": Bar("two workers: the smaller share of the requests", least=0.4, unit=""),
    "idle_mb": Bar("resident memory, idle", most=70.0, unit="MB"),
    "grown_mb": Bar("resident memory, growth by load", most=10.0, unit="MB"),
    "ready_s": Bar("start to ready, warm disk", most=1.0, unit="s"),
}


def table(measured: Mapping[str, float]) -> Table:
    """Every figure of `measured` in the order of BARS."""
    shown = Table(title="bars")
    for name in ("what", "measured", "bar", ""):
        shown.add_column(name, justify="left" if name in ("what", "") else "right")
    for key, bar in BARS.items():
        if key in measured:
            value = measured[key]
            verdict = "" if not bar.shown else "met" if bar.met(value) else "missed"
            shown.add_row(bar.what, f"{value:.2f} {bar.unit}".strip(), bar.shown.strip(), verdict)
    return shown
