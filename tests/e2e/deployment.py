"""Real processes: agents, the sidecar before them, and what stands between.

Owns: which agents there are, starting each once, waiting until it listens, and ending it whole.
Never: a sleep, a fixed port, or a call to a sidecar's insides.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, TypeVar

import pytest

from sidecar.config import Config
from tests.e2e.environments import CHECKOUT, Environment, EnvironmentMissing, built
from tests.e2e.recorder import Recorder
from tests.e2e.wire import HOOK, JSONRPC_0, JSONRPC_1, REST_0, REST_1

T = TypeVar("T")

PATIENCE: Final = 60.0  # seconds until a process listens; google-adk alone imports for ten
TRIES: Final = 3  # a free port may be taken by somebody else before the process binds it
SCRIPTS: Final = CHECKOUT / "tests" / "e2e"
AUDIENCE: Final = "worker"
READ: Final = "a2a.tasks:read"
WRITE: Final = "a2a.tasks:write"


@dataclass(frozen=True, slots=True)
class AgentKind:
    """One SDK family's agent, and the dialects it speaks."""

    name: str
    script: str
    dialects: tuple[str, ...]
    card_path: str = "/.well-known/agent-card.json"


ALL_DIALECTS: Final = (JSONRPC_1, REST_1, JSONRPC_0, REST_0)

AGENTS: Final[Mapping[str, AgentKind]] = {
    kind.name: kind
    for kind in (
        # 0.2 speaks the method names of 0.3.
        AgentKind("a2a-sdk-0.2.16", "python_0.py", (JSONRPC_0,), "/.well-known/agent.json"),
        AgentKind("a2a-sdk-0.3", "python_0.py", (JSONRPC_0, REST_0)),
        AgentKind("a2a-sdk-1", "python_1.py", ALL_DIALECTS),
        AgentKind("google-adk", "google_adk.py", (JSONRPC_1,)),
        AgentKind("a2a-js-0.3", "js_0.mjs", (JSONRPC_0, REST_0)),
        AgentKind("a2a-js-1", "js_1.mjs", ALL_DIALECTS),
    )
}


def environment(name: str) -> Environment:
    """The environment `name`, or the end of the test: a skip here, a failure in CI."""
    try:
        return built(name)
    except EnvironmentMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(command: Sequence[str], log: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own; all of the group is gone afterwards. Errors go to `log`."""
    with log.open("w") as errors:
        started = subprocess.Popen(
            command,
            env={**os.environ, **environ},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        with started:  # waits, and closes the pipe
            pass


def line_of(started: subprocess.Popen[str], log: Path) -> str:
    """The first line the process prints; fails with its errors if it ends or says nothing."""
    assert started.stdout is not None
    alarm = threading.Timer(PATIENCE, started.kill)
    alarm.start()
    try:
        line = started.stdout.readline()
    finally:
        alarm.cancel()
    if not line:
        raise DidNotStart(f"`{' '.join(started.args)}`: {log.read_text()[-2000:]}")  # type: ignore[arg-type]
    return line.strip()


class DidNotStart(Exception):
    """A process that ended, or never listened. Its errors are in the message."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar; `recorder` sees all that reaches its agent."""

    url: str
    admin: str
    recorder: Recorder


class Deployment:
    """Starts what a test names, once, and keeps it until the session ends."""

    def __init__(self, folder: Path, issuer: str) -> None:
        self._folder = folder
        self._issuer = issuer
        self._stack = ExitStack()
        self._made: dict[tuple[str, str], object] = {}

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def agent(self, name: str) -> str:
        """The address of the agent itself."""
        return self._once("agent", name, lambda: f"http://127.0.0.1:{self._start_agent(AGENTS[name])}")

    def sidecar(self, name: str) -> Sidecar:
        """A sidecar before the agent `name`, with a recorder between the two."""
        return self._once("sidecar", name, lambda: self._start_sidecar(name))

    def _once(self, what: str, name: str, make: Callable[[], T]) -> T:
        if (what, name) not in self._made:
            self._made[what, name] = make()
        return self._made[what, name]  # type: ignore[return-value]

    def _start_agent(self, kind: AgentKind) -> int:
        command = environment(kind.name).command(SCRIPTS / "agents" / kind.script)
        log = self._folder / f"{kind.name}.log"

        def start(stack: ExitStack) -> int:
            port = free_port()
            environ = {"PORT": str(port), "SCOPES": "1", "COMPAT": "1"}
            started = stack.enter_context(process(command, log, **environ))
            if (said := line_of(started, log)) != "ready":
                raise DidNotStart(f"`{said}` in place of `ready`: {log.read_text()[-2000:]}")
            return port

        return self._tried(start)

    def _start_sidecar(self, name: str) -> Sidecar:
        port = int(self.agent(name).rpartition(":")[2])
        recorder = self._stack.enter_context(Recorder("127.0.0.1", port))

        def start(stack: ExitStack) -> Sidecar:
            sidecar = Sidecar(f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}", recorder)
            stack.enter_context(running(self._policy(name, sidecar), sidecar, self._folder, name))
            return sidecar

        return self._tried(start)

    def _tried(self, start: Callable[[ExitStack], T]) -> T:
        for left in reversed(range(TRIES)):
            with ExitStack() as stack:
                try:
                    made = start(stack)
                except DidNotStart:
                    if not left:
                        raise
                else:
                    self._stack.push(stack.pop_all())
                    return made
        raise AssertionError("unreachable")

    def _policy(self, name: str, sidecar: Sidecar) -> Path:
        file = self._folder / f"{name}.yaml"
        policy: dict[str, object] = {
            "version": 1,
            "listen": sidecar.url.removeprefix("http://"),
            "admin": sidecar.admin.removeprefix("http://"),
            "agents": [{"name": name, "upstream": sidecar.recorder.url, "public_url": sidecar.url}],
            "identity": {"issuers": [{"issuer": self._issuer, "audiences": [AUDIENCE], "allow_http": True}]},
            "ledger": {"url": f"sqlite:///{self._folder / f'{name}.db'}"},
        }
        if "push" in Config.model_fields:  # a host written out is trusted as it stands
            policy["push"] = {"allow": [HOOK.rpartition("/")[0]]}
        file.write_text(json.dumps(policy, indent=2))  # JSON is YAML
        return file


@contextmanager
def running(policy: Path, sidecar: Sidecar, folder: Path, name: str) -> Iterator[None]:
    """The real command; ready when entered, ended by SIGTERM with status 0 when left."""
    command = [sys.executable, "-m", "sidecar", "run", "--policy", str(policy)]
    log = folder / f"{name}-sidecar.log"
    with process(command, log) as started:
        assert started.stdout is not None
        # The audit goes to standard output; a pipe nobody reads would stop the sidecar.
        audit = folder / f"{name}-audit.jsonl"
        reader = threading.Thread(target=lambda: audit.write_text(started.stdout.read()), daemon=True)  # type: ignore[union-attr]
        reader.start()
        until_ready(sidecar.admin, started, log)
        yield
        started.send_signal(signal.SIGTERM)
        status = started.wait(timeout=PATIENCE)
        reader.join()
        assert status == 0, f"the sidecar ended with {status}: {log.read_text()[-2000:]}"


def until_ready(admin: str, started: subprocess.Popen[str], log: Path) -> None:
    """Wait for `/readyz` to answer 200."""
    deadline = time.monotonic() + PATIENCE
    why = ""
    while started.poll() is None and time.monotonic() < deadline:
        connection = HTTPConnection(admin.removeprefix("http://"), timeout=5)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            why = f"{response.status} {response.read().decode()}"
            if response.status == 200:
                return
        except (OSError, HTTPException) as error:
            why = str(error)
        finally:
            connection.close()
        with suppress(subprocess.TimeoutExpired):  # wait a moment for it to end, or ask again
            started.wait(timeout=0.02)
    raise DidNotStart(f"not ready: {why}; {log.read_text()[-2000:]}")
