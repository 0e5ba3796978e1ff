"""The sidecar at rest: how long it takes to be ready, what memory it holds, and how much more after much work.

Owns: starting it again and again, and the load after which memory is looked at once more.
Never: counts the first start, which fills the disk's cache.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from tests.bench.contenders import start_sidecar
from tests.bench.kinds import asks
from tests.bench.load import CONNECTIONS, Cores, one_slice
from tests.bench.machine import resident
from tests.bench.scene import Scene

STARTS: Final = 5
SLICE: Final = 5  # seconds of load at a time
_MB: Final = 1e6


def rest(
    scene: Scene, cores: Cores, stack: ExitStack, requests: int, tasks: int
) -> tuple[Mapping[str, float], Mapping[str, object]]:
    """Figures for the bars, and what they are made of. At least `tasks` sends and `requests` gets are made."""
    took = [_start(scene, cores, number) for number in range(STARTS + 1)][1:]
    running = start_sidecar(scene, cores.proxy, stack, "rest")
    assert running.pid is not None
    idle = resident(running.pid) / _MB
    get, send, *_ = asks(scene)
    made = {}
    for ask, wanted in ((send, tasks), (get, requests)):
        done = 0.0
        while done < wanted:
            done += one_slice(running, scene, ask, cores, CONNECTIONS, SLICE).requests_per_second * SLICE
        made[ask.name] = round(done)
    after = resident(running.pid) / _MB
    figures = {"ready_s": statistics.median(took), "idle_mb": idle, "grown_mb": after - idle}
    return figures, {"starts_s": took, "made": made, "idle_mb": idle, "after_mb": after}


def _start(scene: Scene, cores: Cores, number: int) -> float:
    """Seconds from the start of the command until it has answered its first call."""
    with ExitStack() as stack:
        began = time.perf_counter()
        start_sidecar(scene, cores.proxy, stack, f"start-{number}")
        return time.perf_counter() - began
