"""What is no A2A and large: 10 MB through the sidecar and through Envoy, down and up.

Owns: the two requests, bytes a second, and the sidecar's memory meanwhile.
Never: looks at the content; the sidecar does not either.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from tests.bench.contenders import Running, start_envoy, start_sidecar
from tests.bench.load import Cores, Series, rounds
from tests.bench.machine import resident
from tests.bench.scene import BLOB, Ask, Scene

CONNECTIONS: Final = 4


def passing(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int
) -> tuple[Mapping[str, Series], Mapping[str, float]]:
    """Both ways through both; requests are of 10 MB each. Figures for the bars with them."""
    sidecar = start_sidecar(scene, cores.proxy, stack, "passing")
    envoy = start_envoy(scene, cores.proxy, stack)
    headers = {"Authorization": scene.headers["Authorization"], "Content-Type": "application/octet-stream"}
    down = Ask("down", b"", headers, "", method="GET", path="/blob")
    up = Ask("up", b"x" * BLOB, headers, "taken", path="/sink")
    asked: list[tuple[str, Running, Ask]] = [
        (f"{running.name}, {ask.name}", running, ask) for ask in (down, up) for running in (sidecar, envoy)
    ]
    assert sidecar.pid is not None
    running = rounds(asked, scene, cores, CONNECTIONS, slices, seconds)
    series = next(running)
    resting = resident(sidecar.pid)  # after the first round, when there are buffers
    *_, series = series, *running
    rates = [found.median if (found := s.of("requests_per_second")) else 0.0 for s in series.values()]
    return series, {
        "down_of_envoy": rates[0] / rates[1],
        "up_of_envoy": rates[2] / rates[3],
        "passing_growth_mib": (resident(sidecar.pid) - resting) / 2**20,
    }
