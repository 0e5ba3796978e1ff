"""Many event streams at once: how much later an event comes through a proxy, and what memory a stream takes.

Owns: agent and listener, slices that alternate, and the percentiles of all events of a contender.
Never: compares two runs; what is added is told against the agent asked alone, in the same run.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from rich.table import Table

from tests.bench.contenders import Running, start_envoy, start_sidecar
from tests.bench.load import Cores
from tests.bench.machine import CHECKOUT, process_seconds, resident
from tests.bench.processes import CannotMeasure, pinned, process, until_answering
from tests.bench.scene import TASK_ID, Scene, card, compact, rpc, written

STREAMS: Final = 200
DIRECT: Final = "agent alone"


@dataclass(slots=True)
class Heard:
    """What came by one contender: ages of events in ns, and the contender's processor time an event in µs."""

    name: str
    ages: list[int] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    stream_kib: float | None = None

    def at(self, share: float) -> float:
        """A percentile in ms."""
        ages = sorted(self.ages)
        return ages[min(len(ages) - 1, math.ceil(len(ages) * share) - 1)] / 1e6

    def as_json(self) -> dict[str, object]:
        told = {"events": len(self.ages), "p50_ms": self.at(0.5), "p99_ms": self.at(0.99)}
        return told | {"cpu_us_an_event": self.cpu_us, "stream_kib": self.stream_kib}


def sse(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int
) -> tuple[Sequence[Heard], Mapping[str, float]]:
    """`scene.agent` must be free: the agent here is another one."""
    written(scene.folder / "card.json", compact(card(scene)))
    written(scene.folder / "keys.json", scene.keys)
    command = [sys.executable, "-m", "tests.bench.events", str(scene.agent), str(scene.folder)]
    started = stack.enter_context(
        process("events", pinned(cores.load, command), scene.folder, directory=CHECKOUT)
    )
    until_answering("events", started, scene.folder, scene.agent)
    sidecar = start_sidecar(scene, cores.proxy, stack, "streams")
    envoy = start_envoy(scene, cores.proxy, stack)
    heard = [
        (running, Heard(running.name)) for running in (sidecar, envoy, Running(DIRECT, scene.agent, None))
    ]
    for number in range(slices + 1):
        for running, of in heard:
            _slice(running, of if number else Heard(""), scene, cores, seconds)
    by_sidecar, by_envoy, direct = (of for _, of in heard)
    added = [of.at(0.99) - direct.at(0.99) for of in (by_sidecar, by_envoy)]
    figures = {"event_p99": added[0] / added[1]} if added[1] > 0 else {}
    assert by_sidecar.stream_kib is not None
    return [of for _, of in heard], figures | {"stream_kib": by_sidecar.stream_kib}


def _slice(running: Running, heard: Heard, scene: Scene, cores: Cores, seconds: int) -> None:
    request = _request(scene, running.port)
    before = resident(running.pid) if running.pid else 0
    spent = process_seconds(running.pid) if running.pid else 0.0
    options = [str(running.port), str(STREAMS), str(seconds), str(request)]
    command = pinned(cores.load, [sys.executable, "-m", "tests.bench.listener", *options])
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as listener:
        assert listener.stdout is not None
        line = listener.stdout.readline()
        if not line:
            raise CannotMeasure(f"not every stream through {running.name} has begun")
        held = (resident(running.pid) - before) / STREAMS / 1024 if running.pid else None
        ages = json.loads(line)
        if running.pid:
            heard.cpu_us.append((process_seconds(running.pid) - spent) / max(1, len(ages)) * 1e6)
        assert listener.stdin is not None
        listener.stdin.close()
    heard.ages += ages
    # Memory that was used before is used again, so the first slice tells the most.
    if held is not None:
        heard.stream_kib = max(held, heard.stream_kib or 0.0)


def _request(scene: Scene, port: int) -> object:
    body = rpc("SubscribeToTask", {"id": TASK_ID})
    lines = [f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in scene.headers.items()]
    return written(scene.folder / "subscribe", "".join(lines) + "\r\n" + body.decode())


def table(heard: Sequence[Heard]) -> Table:
    shown = Table(title=f"{STREAMS} streams, ten events a second each: how old an event is when it comes")
    for name in ("by", "events", "p50 ms", "p99 ms", "KiB a stream"):
        shown.add_column(name, justify="left" if name == "by" else "right")
    for of in heard:
        held = "" if of.stream_kib is None else f"{of.stream_kib:.0f}"
        shown.add_row(of.name, str(len(of.ages)), f"{of.at(0.5):.2f}", f"{of.at(0.99):.2f}", held)
    return shown
