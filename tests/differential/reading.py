"""What real parsers read out of a request.

Owns: Reading, starting every reader once, and asking all of them about one request.
Never: judges a reading; `comparing.py` does.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

import pytest

from tests.e2e.deployment import environment
from tests.e2e.environments import ENVIRONMENTS, locked

SOURCES: Final = Path(__file__).parent / "readers"
PATIENCE: Final = 120.0  # seconds a Go without compiled libraries may need

Door = Literal["rpc", "rest"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as an agent would get it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reading:
    """The operation an agent would carry out, and everything it would carry it out on."""

    operation: str
    task: str | None = None
    context: str | None = None
    references: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    pushes: frozenset[str] = frozenset()
    config: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one reader says: nothing seen is a refusal, and `why` tells what it answered."""

    seen: tuple[Reading, ...]
    why: object = None


class Reader:
    """One process, which may read for several kinds of agent."""

    def __init__(self, started: subprocess.Popen[bytes], log: Path) -> None:
        assert started.stdin is not None
        assert started.stdout is not None
        self._started, self._log = started, log
        self._to: IO[bytes] = started.stdin
        self._from: IO[bytes] = started.stdout

    def wait(self) -> None:
        """Until it is ready. It says so once, on a line of its own."""
        assert self._line() == b"ready"

    def put(self, line: bytes) -> None:
        self._to.write(line)
        self._to.flush()

    def answers(self) -> Iterator[tuple[str, Answer]]:
        for name, said in json.loads(self._line()).items():
            yield name, Answer(tuple(_reading(one) for one in said["seen"]), said.get("why"))

    def _line(self) -> bytes:
        line = self._from.readline()
        if not line:
            what = " ".join(map(str, self._started.args))  # type: ignore[arg-type]
            pytest.fail(f"`{what}` ended: {self._log.read_text()[-2000:]}")
        return line.strip()


class Readers:
    """All of them. A line is given to each before the first is listened to, so that they work at the same time."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def ask(self, door: Door, asked: Asked) -> dict[str, Answer]:
        """What each kind of agent reads behind its JSON-RPC endpoint (whatever the path), or its HTTP+JSON routes."""
        line = json.dumps(
            {
                "door": door,
                "method": asked.method,
                "target": asked.target,
                "headers": dict(asked.headers),
                "body": base64.b64encode(asked.body).decode(),
            }
        )
        for reader in self._readers:
            reader.put(line.encode() + b"\n")
        return {name: answer for reader in self._readers for name, answer in reader.answers()}


@contextmanager
def all_readers(folder: Path) -> Iterator[Readers]:
    """Start them. What is missing here skips the test and is named; with CI=true it fails."""
    commands = [*_python(), *_javascript(), [str(_compiled(folder))]]
    with ExitStack() as stack:
        started = [
            stack.enter_context(_process(c, folder / f"reader-{n}.log")) for n, c in enumerate(commands)
        ]
        for reader in started:
            reader.wait()
        yield Readers(started)


def _python() -> Iterator[list[str]]:
    for name, script in (
        ("a2a-sdk-1", "python_1.py"),
        ("a2a-sdk-0.3", "python_0.py"),
        ("a2a-sdk-0.2.16", "python_0.py"),
    ):
        yield [str(environment(name).path / "bin" / "python"), str(SOURCES / script), name]


def _javascript() -> Iterator[list[str]]:
    for name, version in (("a2a-js-1", "1"), ("a2a-js-0.3", "0")):
        yield ["node", str(SOURCES / "reader.mjs"), str(environment(name).path), version]


def _compiled(folder: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        _missing("`go` is not installed")
    program, cache = folder / "reader", ENVIRONMENTS / "go"
    # Newer Go comes without compiled libraries: the cache outlives the session, which saves half a minute.
    environ = os.environ | {"GOCACHE": str(cache), "GOPROXY": "off", "GOFLAGS": "", "GO111MODULE": "auto"}
    with locked(ENVIRONMENTS / "go.lock"):
        done = subprocess.run(
            [str(go), "build", "-o", str(program), str(SOURCES / "reader.go")],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr
    return program


def _missing(what: str) -> None:
    """The end of the test: a skip here, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[Reader]:
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        ) as started,
    ):
        try:
            yield Reader(started, log)
        finally:
            started.kill()


def _reading(said: dict[str, Any]) -> Reading:
    """An empty text names nothing: proto and Go have it where a member is absent."""
    lists = {name: frozenset(filter(None, said[name])) for name in ("references", "tenants", "pushes")}
    return Reading(said["operation"], said["task"], said["context"], config=said["config"], **lists)
