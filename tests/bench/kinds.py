"""What a call costs by what becomes of it: a get, a send that creates a task, and two refusals.

Owns: the requests, and how many fsyncs the sends took.
Never: compares with anything but the guarded get of the same run: slices alternate.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench.contenders import SIDECAR, start_sidecar
from tests.bench.load import CONNECTIONS, Cores, Series, one_slice, rounds
from tests.bench.processes import CannotMeasure
from tests.bench.scene import REPLY_HEADER, SEND, Ask, Scene, guarded_get, rpc
from tests.fsync import built_shim, preloaded, read_syncs

SYNCED_SECONDS: Final = 5
_ABSENT: Final = "00000000-0000-4000-8000-000000000000"


def asks(scene: Scene) -> tuple[Ask, ...]:
    """The guarded get first: the others are compared with it."""
    narrow = scene.headers | {"Authorization": f"Bearer {scene.narrow}"}
    return (
        guarded_get(scene),
        Ask("send, a new task", SEND, scene.headers | {REPLY_HEADER: "new"}, '"id":"t-'),
        Ask("refused for scope", SEND, narrow, "CapabilityScopeDivergence"),
        Ask("not found", rpc("GetTask", {"id": _ABSENT}), scene.headers, '"code":-32001'),
    )


def kinds(
    scene: Scene, cores: Cores, stack: ExitStack, slices: int, seconds: int
) -> tuple[Mapping[str, Series], Mapping[str, float]]:
    """All kinds on one sidecar; the figures for the bars with them."""
    running = start_sidecar(scene, cores.proxy, stack, "kinds")
    asked = [(ask.name, running, ask) for ask in asks(scene)]
    *_, series = rounds(asked, scene, cores, CONNECTIONS, slices, seconds)
    get, send, scope, miss = series.values()
    return series, {
        "send_of_get": _median(send, "requests_per_second") / _median(get, "requests_per_second"),
        "scope_of_get": _median(scope, "cpu_us") / _median(get, "cpu_us"),
        "scope_p99_ms": _median(scope, "p99_us") / 1e3,
        "miss_of_get": _median(miss, "cpu_us") / _median(get, "cpu_us"),
        "miss_p99_ms": _median(miss, "p99_us") / 1e3,
    }


def syncs_of_sends(scene: Scene, cores: Cores, stack: ExitStack) -> Mapping[str, float]:
    """How often the ledger is synced while 32 callers create tasks: a shim counts, so this is not the run that is timed."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        return {}  # nothing to build it with
    log = scene.folder / "syncs.log"
    shim = preloaded(built_shim(scene.folder), log)
    running = start_sidecar(scene, cores.proxy, stack, "synced", environment={**os.environ, **shim})
    send = replace(asks(scene)[1], name="send, counted")
    one_slice(running, scene, send, cores, CONNECTIONS, 1)
    before = _count(log)
    measured = one_slice(running, scene, send, cores, CONNECTIONS, SYNCED_SECONDS)
    found = _count(log) - before
    if not found:
        raise CannotMeasure(f"{SIDECAR} made tasks and synced nothing")
    sends = measured.requests_per_second * SYNCED_SECONDS
    return {"syncs_a_second": found / SYNCED_SECONDS, "sends_a_sync": sends / found}


def _count(log: Path) -> int:
    return len(read_syncs(log))


def _median(series: Series, member: str) -> float:
    found = series.of(member)
    assert found is not None
    return found.median
