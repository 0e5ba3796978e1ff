"""The sidecar of the demo: the real command with a policy file, as a process of its own.

Owns: the policy, the process from start to readiness to end.
Never: calls anything of the sidecar's insides.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import httpx

PATIENCE: Final = 15.0  # seconds until it is ready
TRIES: Final = 2  # somebody else may take a free port before the sidecar binds it

POLICY: Final = """\
version: 1
listen: 127.0.0.1:{traffic}
admin: 127.0.0.1:{admin}
upstream: {upstream}
public_url: http://127.0.0.1:{traffic}
issuer: {issuer}
audience: {audience}
ledger: {{url: "sqlite:///{folder}/ledger.db"}}
audit: {{output: "{folder}/audit.jsonl"}}
"""


class DidNotStart(Exception):
    """The sidecar ended or never became ready; the message carries what it said."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar: where callers connect, and the policy and audit file it runs with."""

    url: str
    policy: str
    audit: Path


@contextmanager
def running(folder: Path, *, upstream: str, issuer: str, audience: str) -> Iterator[Sidecar]:
    """A sidecar before `upstream`, ready when entered, gone when left. Raises DidNotStart."""
    with ExitStack() as stack:
        for left in reversed(range(TRIES)):
            traffic, admin = _free_ports()
            policy = POLICY.format(
                traffic=traffic,
                admin=admin,
                upstream=upstream,
                issuer=issuer,
                audience=audience,
                folder=folder,
            )
            try:
                stack.enter_context(_process(folder, policy, f"http://127.0.0.1:{admin}"))
                break
            except DidNotStart:
                if not left:
                    raise
        yield Sidecar(f"http://127.0.0.1:{traffic}", policy, folder / "audit.jsonl")


@contextmanager
def _process(folder: Path, policy: str, admin: str) -> Iterator[None]:
    file, log = folder / "policy.yaml", folder / "sidecar.log"
    file.write_text(policy)
    command = [sys.executable, "-m", "sidecar", "run", "--policy", str(file)]
    with log.open("w") as said:
        # In the folder: a directory called `sidecar` where the user stands must not be run instead.
        started = subprocess.Popen(  # noqa: S603 (our own command)
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        _until_ready(started, admin, log)
        yield
    finally:
        started.terminate()
        try:
            started.wait(timeout=5)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def _until_ready(started: subprocess.Popen[bytes], admin: str, log: Path) -> None:
    deadline, why = monotonic() + PATIENCE, "it ended"
    with httpx.Client(trust_env=False, timeout=2) as client:
        while monotonic() < deadline:
            try:
                answer = client.get(f"{admin}/readyz")
                if answer.status_code == 200:
                    return
                why = answer.text.strip()
            except httpx.HTTPError as error:
                why = str(error)
            with suppress(subprocess.TimeoutExpired):  # a moment, or its end
                started.wait(timeout=0.05)
                break
    raise DidNotStart(f"{why}\n{log.read_text()[-2000:]}".strip())


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return int(one.getsockname()[1]), int(two.getsockname()[1])
