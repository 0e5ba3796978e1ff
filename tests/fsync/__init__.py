"""Counting fsync: a shim that a test preloads into a process to see when its files were synced.

Owns: building shim.c, the environment that preloads it, and reading what it wrote.
Never: changes what fsync does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

LOG_VARIABLE = "FSYNC_LOG"
SOURCE = Path(__file__).with_name("shim.c")


@dataclass(frozen=True, slots=True)
class Sync:
    """One fsync or fdatasync that has returned, at `at` nanoseconds of CLOCK_MONOTONIC (`time.monotonic_ns`)."""

    call: str
    at: int
    path: str


def built_shim(directory: Path) -> Path:
    """Compile the shim into `directory`; the path of the library.

    Without a C compiler the test is skipped, or fails where CI=true.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no C compiler to build the fsync shim with")
        pytest.skip("no C compiler to build the fsync shim with")
    library = directory / "fsync_shim.so"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(library),
        str(SOURCE),
        "-ldl",
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


def preloaded(library: Path, log: Path) -> dict[str, str]:
    """The environment of a process whose syncs are written to `log`."""
    return {**os.environ, "LD_PRELOAD": str(library), LOG_VARIABLE: str(log)}


def read_syncs(log: Path) -> list[Sync]:
    """The syncs so far, in order; none where nothing was synced."""
    lines = log.read_text().splitlines() if log.exists() else []
    parts = (line.split(" ", 2) for line in lines)
    return [Sync(call, int(at), path) for call, at, path in parts]
