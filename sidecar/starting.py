"""What a start has to do with, whether the process is alone, a supervisor or one of its workers.

Owns: the one problem that ends a start, addresses to listen on, warnings at the start, what a worker is handed down.
Never: builds a part of the sidecar; a supervisor imports this, and is to stay small.
"""

from __future__ import annotations

import os
import pickle
import socket
from dataclasses import dataclass

import structlog

from sidecar.config import Config
from sidecar.ledger.opening import Held

log = structlog.get_logger()


class CannotStart(Exception):
    """The sidecar cannot start; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Handed:
    """What a worker needs of the process that started it. The numbers are descriptors it inherits."""

    config: Config  # as the supervisor read it: a file that has changed since is not for one worker alone
    worker: int
    channel: int
    traffic: tuple[int, ...]
    ledger: Held
    loads: int  # proxy/loads.py
    output: int  # observe/shared_output.py

    @property
    def descriptors(self) -> tuple[int, ...]:
        ledger = self.ledger
        return (*self.traffic, self.channel, self.loads, self.output, ledger.lock, ledger.block, ledger.queue)


def hand_down(handed: Handed) -> int:
    """`handed` in memory, as a descriptor to be inherited."""
    descriptor = os.memfd_create("handed")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        pickle.dump(handed, file)
    return descriptor


def handed_down(descriptor: int) -> Handed:
    """What the process that started this one has written there."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        handed = pickle.load(file)  # noqa: S301 - written by `hand_down` into memory nobody else was given
    assert isinstance(handed, Handed)
    return handed


def host_and_port(address: str) -> tuple[str | None, int]:
    """An address of the policy as the socket functions want it; None is every address of this machine."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or None, int(port)


def cannot_listen(address: str, problem: OSError) -> CannotStart:
    # The number of a name that does not resolve is none of the system's.
    number = None if isinstance(problem, socket.gaierror) else problem.errno
    return CannotStart(f"cannot listen on {address}: {os.strerror(number) if number else problem}")


def shown(bound: tuple[str, int]) -> str:
    host, port = bound
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def warn_of(config: Config) -> None:
    """Say aloud what is dangerous about `config`."""
    if config.identity.anonymous != "refuse":
        log.warning(
            "callers without a credential are served as one principal",
            subject=config.identity.anonymous.subject,
        )
    if config.mode == "observe":
        log.warning("mode: observe; nothing is refused")
