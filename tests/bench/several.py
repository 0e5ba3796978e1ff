"""Two workers beside one: what a request costs, and whether they share the work.

Owns: both sidecars, and the processor time of each worker.
Never: compares different cores: load, agent and both sidecars may use the same two, and what counts is processor time.

On one core, two processes do not cost what workers do: the kernel lets each request preempt the other worker, and each
finds the other's data in the caches. So every worker may have a core, as `--workers` is meant.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from tests.bench.contenders import start_agent, start_sidecar
from tests.bench.load import CONNECTIONS, Cores, Series, rounds
from tests.bench.machine import CHECKOUT, children, process_seconds
from tests.bench.scene import Scene, guarded_get


def offered() -> bool:
    """Whether this version has workers."""
    command = [sys.executable, "-m", "sidecar", "run", "--help"]
    said = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout
    return "--workers" in said


def several(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int
) -> tuple[Mapping[str, Series], Mapping[str, float]]:
    """Slices of one and of two, with the figures for the bars. A worker's share is that of the processor time."""
    both = f"{cores.proxy},{cores.load}"
    start_agent(scene, both, stack)
    one = start_sidecar(scene, both, stack, "one worker")
    two = start_sidecar(scene, both, stack, "two workers", "--workers", "2")
    assert two.pid is not None
    workers = children(two.pid)
    before = [process_seconds(pid) for pid in workers]
    ask = guarded_get(scene)
    asked = [(running.name, running, ask) for running in (one, two)]
    *_, series = rounds(asked, scene, replace(cores, load=both), CONNECTIONS, slices, seconds)
    spent = [process_seconds(pid) - earlier for pid, earlier in zip(workers, before, strict=True)]
    costs = [found.median if (found := s.of("cpu_us")) else 0.0 for s in series.values()]
    return series, {"workers_cpu": costs[1] / costs[0], "workers_share": min(spent) / sum(spent)}
