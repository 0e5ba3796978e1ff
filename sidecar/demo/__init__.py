"""`a2a-sidecar demo`: the incident, before and after, with real parts on loopback.

Owns: whether the demo can run here, starting and ending its parts, the exit code.
Never: leaves the machine, or a process, port or file behind.

The line: issuer + agent → *before* (`story`) → the sidecar as a process of its own → *after* (`story`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import FrameType
from typing import Final, NoReturn

AS_TOLD, DIFFERED, CANNOT_RUN, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

NEEDED: Final = ("a2a", "httpx", "sse_starlette", "starlette", "uvicorn")


def main() -> int:
    """Tell the story. 0: every step went as told; 1: one differed; 2: it cannot run here."""
    if missing := _missing():
        print_error(f"the demo needs {missing}: pip install 'a2a-sidecar[demo]'")
        return CANNOT_RUN
    from sidecar.demo.run import run
    from sidecar.demo.screen import Differed
    from sidecar.demo.sidecar_process import DidNotStart

    try:
        with _ending_on_sigterm():
            run()
    except Differed as difference:
        print_error(f"not as told: {difference}")
        return DIFFERED
    except DidNotStart as problem:
        print_error(f"the sidecar did not start: {problem}")
        return DIFFERED
    except KeyboardInterrupt:
        return INTERRUPTED
    return AS_TOLD


def print_error(message: str) -> None:
    """One line to standard error."""
    sys.stderr.write(f"{message}\n")


def _missing() -> str:
    """What the `demo` extra would bring and is not there; empty if nothing is missing."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        return ", ".join(f"`{name}`" for name in absent)
    try:
        installed = version("a2a-sdk")
    except PackageNotFoundError:
        return "`a2a-sdk`"
    return "" if int(installed.partition(".")[0]) >= 1 else f"`a2a-sdk` 1.x, not {installed}"


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C does, so that what was started is ended."""

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
