"""Several processes, one output: whole lines, also after one that died in the middle of a line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sidecar.observe.shared_output import SharedOutput, new_lock

BATCHES = 30
LINE = 900  # bytes, of which a batch has two hundred: far more than a pipe takes in one piece
WRITER = f"""
import os, sys
from sidecar.observe.shared_output import SharedOutput
name, out, lock = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
shared = SharedOutput(os.fdopen(out, "wb"), lock)
print("ready", flush=True)
sys.stdin.readline()
for _ in range({BATCHES}):
    assert shared.write((name * {LINE} + "\\n").encode() * 200) == 200 * ({LINE} + 1)
"""


@pytest.fixture
def lock() -> Iterator[int]:
    lock = new_lock()
    yield lock
    os.close(lock)


def writer(name: str, out: int, lock: int) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        [sys.executable, "-c", WRITER, name, str(out), str(lock)],
        pass_fds=(out, lock),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    return started


def go(started: subprocess.Popen[bytes]) -> None:
    assert started.stdin is not None
    started.stdin.write(b"\n")
    started.stdin.flush()


def test_lines_of_several_processes_are_whole(lock: int) -> None:
    read, write = os.pipe()
    with writer("a", write, lock) as one, writer("b", write, lock) as other:
        os.close(write)
        go(one)
        go(other)
        with os.fdopen(read, "rb") as pipe:
            lines = pipe.read().splitlines()
    assert (one.returncode, other.returncode) == (0, 0)
    whole = {b"a" * LINE, b"b" * LINE}
    assert set(lines) == whole
    assert all(lines.count(line) == 200 * BATCHES for line in whole)


def test_a_line_begins_anew_after_a_writer_that_died_in_the_middle_of_one(lock: int) -> None:
    read, write = os.pipe()
    with writer("a", write, lock) as killed:
        go(killed)
        begun = os.read(read, 1)  # it cannot write all before we read on
        killed.kill()
    with os.fdopen(write, "wb") as out, os.fdopen(read, "rb") as pipe:
        begun += os.read(read, 2**20)  # there must be room for what we write
        SharedOutput(out, lock).write(b"whole\n")
        SharedOutput(out, lock).write(b"whole too\n")
        out.close()
        *_, first, second = (begun + pipe.read()).splitlines()
    assert len(begun.splitlines()[-1]) < LINE, "it did not die in the middle of a line"
    assert (first, second) == (b"whole", b"whole too")
