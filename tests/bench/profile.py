"""Where the sidecar's processor time goes under load, function by function.

Owns: running py-spy on the sidecar and adding its samples up.
Never: is on while something is measured.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.contenders import Running
from tests.bench.load import CONNECTIONS, Cores, one_slice
from tests.bench.processes import CannotMeasure, found, pinned, process
from tests.bench.scene import Scene, guarded_get

RATE: Final = 400  # samples a second
# Threads that wait for work; py-spy cannot always tell that they sleep.
_WAITING: Final = ("threading.py Condition.wait", "lane.py Lane.take", "thread.py _worker", "selectors.py ")
_LINE: Final = re.compile(r"^(?P<stack>.*) (?P<count>\d+)$")
_FRAME: Final = re.compile(r"^(?P<name>.*) \((?P<file>.*?):\d+\)$")


@dataclass(frozen=True, slots=True)
class Share:
    """A function's part of all samples: in its own lines (and C code it calls), and with what it calls."""

    function: str
    own: float
    whole: float


def profile(running: Running, scene: Scene, cores: Cores, seconds: int) -> list[Share]:
    """Sample the sidecar for `seconds` under load. Shares of the samples in which it held the processor."""
    spy = found("py-spy")
    raw = scene.folder / "samples.txt"
    command = [spy, "record", "--pid", str(running.pid), "--duration", str(seconds)]
    command += ["--rate", str(RATE), "--format", "raw", "--output", str(raw)]
    with process("py-spy", pinned(cores.load, command), scene.folder) as sampling:
        one_slice(running, scene, guarded_get(scene), cores, CONNECTIONS, seconds)
        try:
            sampling.wait(30)
        except subprocess.TimeoutExpired:
            raise CannotMeasure("py-spy does not end") from None
    if not raw.exists():
        said = (scene.folder / "py-spy.log").read_text(errors="replace")
        raise CannotMeasure(f"py-spy wrote nothing:\n{said[-2000:]}")
    return shares(raw.read_text().splitlines())


def shares(lines: Iterable[str]) -> list[Share]:
    """Samples in py-spy's raw form (`frame;frame;… count`), the largest own share first.

    What the event loop and the parser do in C counts for the Python function that called them; the
    loop itself shows as `Runner.run`.
    """
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        frames, count = [_named(f) for f in match["stack"].split(";")], int(match["count"])
        if any(name in frames[-1] for name in _WAITING):
            continue
        own[frames[-1]] += count
        for frame in set(frames):
            whole[frame] += count
    total = own.total() or 1
    return [Share(name, count / total, whole[name] / total) for name, count in own.most_common()]


def _named(frame: str) -> str:
    match = _FRAME.match(frame)
    if match is None:
        return frame
    parts = Path(match["file"]).parts
    return f"{'/'.join(parts[-2:])} {match['name']}"
