"""wrk against every contender, slice by slice, round robin.

Owns: one slice of load and what it cost, and the order of slices.
Never: averages; noise on a shared machine shows as spread, so every slice is kept.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Final

from tests.bench.contenders import Running, verify
from tests.bench.machine import core_time, whole_seconds
from tests.bench.processes import CannotMeasure, found, pinned
from tests.bench.scene import Ask, Scene, written

CONNECTIONS: Final = 32
_MARK: Final = "RESULT "

_LUA: Final = """\
wrk.method = "@METHOD@"
wrk.body = [==[@BODY@]==]
@HEADERS@
done = function(summary, latency, requests)
  local e = summary.errors
  local broken = e.connect + e.read + e.write + e.timeout + e.status
  io.write(string.format("\\nRESULT %d %d %d %d %d\\n", summary.requests, summary.duration, broken,
    latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True, slots=True)
class Quartiles:
    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles:
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        return cls(*quantiles(values, n=4, method="inclusive"))


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of load on one contender. Shares are of the contender's core over the slice."""

    requests_per_second: float
    cpu_us: float | None  # user and system time of the proxy a request; None where there is no proxy
    p50_us: float
    p99_us: float
    own_share: float
    others_share: float
    stolen_share: float


@dataclass(slots=True)
class Series:
    """All slices of one contender at one number of connections."""

    name: str
    slices: list[Slice] = field(default_factory=list)

    def of(self, member: str) -> Quartiles | None:
        values = [value for s in self.slices if (value := getattr(s, member)) is not None]
        return Quartiles.of(values) if values else None

    def as_json(self) -> dict[str, object]:
        members = ("requests_per_second", "cpu_us", "p50_us", "p99_us", "others_share", "stolen_share")
        summary = {m: asdict(q) for m in members if (q := self.of(m)) is not None}
        return {"slices": [asdict(s) for s in self.slices], **summary}


@dataclass(frozen=True, slots=True)
class Cores:
    """`proxy` is for the contender alone, `load` for wrk and the agent."""

    proxy: int
    load: int | str  # or a list, as taskset takes it

    @classmethod
    def of(cls, usable: Set[int]) -> Cores:
        """The first two of `usable`. Raises CannotMeasure."""
        if len(usable) < 2:
            raise CannotMeasure("two cores are needed: one for the proxy, one for the load and the agent")
        proxy, load, *_ = sorted(usable)
        return cls(proxy, load)


def rounds(
    contenders: Sequence[tuple[str, Running, Ask]],
    scene: Scene,
    cores: Cores,
    connections: int,
    slices: int,
    seconds: int,
) -> Iterator[Mapping[str, Series]]:
    """Measure, round robin. Yields everything so far after each round; an unmeasured round warms up first."""
    series = {name: Series(name) for name, _, _ in contenders}
    for number in range(slices + 1):
        for name, running, ask in contenders:
            verify(running, ask)
            measured = one_slice(running, scene, ask, cores, connections, seconds)
            if number:
                series[name].slices.append(measured)
        if number:
            yield series


def one_slice(
    running: Running, scene: Scene, ask: Ask, cores: Cores, connections: int, seconds: int
) -> Slice:
    """Load for `seconds`. Raises CannotMeasure if a single request failed."""
    script = _script_for(scene, ask)
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s", "-s", str(script)]
    command = [
        found("wrk"),
        *options,
        f"http://127.0.0.1:{running.port}{ask.path}",
    ]
    core, own = core_time(cores.proxy), whole_seconds(running.pid) if running.pid else 0.0
    done = subprocess.run(
        pinned(cores.load, command), capture_output=True, text=True, timeout=seconds + 30, check=False
    )
    spent = whole_seconds(running.pid) - own if running.pid else 0.0
    taken = core_time(cores.proxy).since(core)
    line = next((x for x in done.stdout.splitlines() if x.startswith(_MARK)), None)
    if line is None:
        raise CannotMeasure(f"wrk failed against {running.name}:\n{done.stdout}{done.stderr}")
    requests, micros, broken, p50, p99 = (int(n) for n in line.removeprefix(_MARK).split())
    if broken or not requests:
        raise CannotMeasure(f"{broken} of {requests} requests to {running.name} failed:\n{done.stdout}")
    lasted = micros / 1e6
    return Slice(
        requests_per_second=requests / lasted,
        cpu_us=spent / requests * 1e6 if running.pid else None,
        p50_us=p50,
        p99_us=p99,
        own_share=spent / lasted,
        others_share=max(0.0, taken.busy - spent) / lasted,
        stolen_share=taken.stolen / lasted,
    )


def _script_for(scene: Scene, ask: Ask) -> Path:
    """The request as wrk wants it."""
    headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in ask.headers.items())
    text = _LUA.replace("@METHOD@", ask.method).replace("@HEADERS@", headers)
    return written(scene.folder / "ask.lua", text.replace("@BODY@", ask.body.decode()))
