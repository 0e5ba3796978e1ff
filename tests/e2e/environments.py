"""One environment for each SDK and server the end-to-end tests run unmodified.

Owns: the pinned packages, building them under `.environments/`, and what a test does without one.
Never: installs into the environment the tests run in, or names a place to install from.

`python -m tests.e2e.environments` builds all of them, two at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

CHECKOUT: Final = Path(__file__).resolve().parents[2]
ENVIRONMENTS: Final = CHECKOUT / ".environments"
MARKER: Final = "built.txt"  # written last; without it, or with other pins in it, the folder is rebuilt


class EnvironmentMissing(Exception):
    """An environment that cannot be had here. The message names what is missing."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder with pinned packages, and how a script is run with them."""

    name: str
    kind: Literal["python", "node"]
    pins: tuple[str, ...]

    @property
    def path(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def fingerprint(self) -> str:
        """What the marker must hold: another pin, interpreter or place means another build."""
        version = ".".join(map(str, sys.version_info[:2])) if self.kind == "python" else node_version()
        return hashlib.sha256("\n".join((str(self.path), version, *self.pins)).encode()).hexdigest()

    def command(self, script: Path) -> list[str]:
        """The command that runs `script`, a file below `tests/e2e`, with the pinned packages."""
        if self.kind == "python":
            return [str(self.path / "bin" / "python"), str(script)]
        # Node looks for packages beside the script it was given, so the script is given by its
        # path through a link inside the environment, and links are not resolved.
        through = self.path / "e2e" / script.relative_to(CHECKOUT / "tests" / "e2e")
        return ["node", "--preserve-symlinks", "--preserve-symlinks-main", str(through)]


SERVER: Final = ("uvicorn==0.54.0", "httpx==0.28.1")

ALL: Final[Mapping[str, Environment]] = {
    environment.name: environment
    for environment in (
        Environment(
            "a2a-sdk-0.2.16",
            "python",
            ("a2a-sdk==0.2.16", *SERVER, "starlette==0.52.1", "fastapi==0.128.8", "sse-starlette==3.2.0"),
        ),
        Environment("a2a-sdk-0.3", "python", ("a2a-sdk[http-server]==0.3.26", *SERVER)),
        Environment("a2a-sdk-1", "python", ("a2a-sdk[http-server,fastapi]==1.3.0", *SERVER)),
        Environment("google-adk", "python", ("google-adk[a2a]==2.13.0",)),
        Environment("a2a-js-0.3", "node", ("@a2a-js/sdk@0.3.14", "express@5.2.1")),
        Environment("a2a-js-1", "node", ("@a2a-js/sdk@1.3.0", "express@5.2.1", "@bufbuild/protobuf@2.10.2")),
        Environment("oidc-provider", "node", ("oidc-provider@9.13.3", "oauth4webapi@3.8.8")),
    )
}


@cache
def node_version() -> str:
    """Raises EnvironmentMissing where node or npm is absent."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise EnvironmentMissing(f"`{program}` is not installed")
    asked = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def built(name: str) -> Environment:
    """The environment `name`, built first if need be. Safe from several processes at once.

    Raises EnvironmentMissing, every time anew from memory once a build has failed in this process.
    """
    environment, why = _outcome(name)
    if why:
        raise EnvironmentMissing(why)
    return environment


@cache
def _outcome(name: str) -> tuple[Environment, str]:
    environment = ALL[name]
    try:
        with locked(ENVIRONMENTS / f"{name}.lock"):
            if not is_current(environment):
                build(environment)
    except EnvironmentMissing as missing:
        return environment, f"environment `{name}`: {missing}"
    return environment, ""


def is_current(environment: Environment) -> bool:
    marker = environment.path / MARKER
    return marker.exists() and marker.read_text() == environment.fingerprint


def build(environment: Environment) -> None:
    """Build from nothing. Whatever stops it, no half environment is left to be used."""
    fingerprint = environment.fingerprint
    shutil.rmtree(environment.path, ignore_errors=True)
    environment.path.mkdir(parents=True)
    try:
        for command in STEPS[environment.kind](environment):
            run(command, environment.path)
        (environment.path / MARKER).write_text(fingerprint)
    except BaseException:
        shutil.rmtree(environment.path, ignore_errors=True)
        raise


def python_steps(environment: Environment) -> Iterator[list[str]]:
    # Without pip of its own: ours installs into it, which saves copying pip each time.
    yield [sys.executable, "-m", "venv", "--without-pip", "."]
    yield [sys.executable, "-m", "pip", "--python", "bin/python", "install", "--quiet", *environment.pins]


def node_steps(environment: Environment) -> Iterator[list[str]]:
    (environment.path / "package.json").write_text('{"private": true}\n')
    (environment.path / "e2e").symlink_to(CHECKOUT / "tests" / "e2e")
    quiet = ["--no-audit", "--no-fund", "--loglevel", "error"]
    # No script of a package runs: none of ours needs one.
    yield ["npm", "install", "--save-exact", "--ignore-scripts", *quiet, *environment.pins]


STEPS: Final = {"python": python_steps, "node": node_steps}


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentMissing(f"`{' '.join(command)}` failed: {' / '.join(said[-3:])}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` alone among processes. The kernel lets go of it when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build all, tell how long each took, and name those that failed."""

    def timed(name: str) -> tuple[str, float, str]:
        began = time.monotonic()
        _, why = _outcome(name)
        return name, time.monotonic() - began, why

    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 2)) as pool:
        results = list(pool.map(timed, ALL))
    for name, seconds, why in results:
        print(f"{name:16} {seconds:6.1f} s  {why or 'ready'}")
    return 1 if any(why for *_, why in results) else 0


if __name__ == "__main__":
    sys.exit(main())
