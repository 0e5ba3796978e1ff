"""What /proc says: which machine this is, and who used its cores while something was measured.

Owns: processor time of a process and of a core, and the facts a result is worthless without.
Never: names the machine or a path on it.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")  # seconds
CHECKOUT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("aiohttp", "uvloop", "jiter", "orjson", "multidict", "yarl", "prometheus-client")


def process_seconds(pid: int) -> float:
    """User and system time of a process and all its threads, those that have ended included (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def children(pid: int) -> list[int]:
    """The processes `pid` has started and that run (proc(5))."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def whole_seconds(pid: int) -> float:
    """As `process_seconds`, with its children: a sidecar's workers."""
    return sum(map(process_seconds, (pid, *children(pid))))


def resident(pid: int) -> int:
    """Bytes of memory a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Seconds a core was busy for this machine, and was taken away by the one beneath it."""

    busy: float
    stolen: float

    def since(self, earlier: CoreTime) -> CoreTime:
        return CoreTime(self.busy - earlier.busy, self.stolen - earlier.stolen)


def core_time(core: int) -> CoreTime:
    """What /proc/stat has of one core: user, nice, system, idle, iowait, irq, softirq, steal."""
    line = next(x for x in Path("/proc/stat").read_text().splitlines() if x.startswith(f"cpu{core} "))
    user, nice, system, _, _, irq, softirq, steal = (int(ticks) * TICK for ticks in line.split()[1:9])
    return CoreTime(user + nice + system + irq + softirq, steal)


def facts(folder: Path, tools: Mapping[str, str]) -> dict[str, object]:
    """`folder` is where the ledger lies, `tools` what else was run, by name, with its version."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release().split("-")[0],
        "ledger_file_system": _output("stat", "-f", "-c", "%T", str(folder)),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: version(name) for name in PACKAGES},
        "tools": dict(tools),
        "load_average": os.getloadavg(),
        "commit": _output("git", "-C", str(CHECKOUT), "describe", "--always", "--dirty"),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    named = (x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    return next(named, platform.machine())


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
