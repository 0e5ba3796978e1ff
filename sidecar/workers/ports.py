"""The port that is opened once and handed down to every worker.

Owns: listening, and that nobody else can.
Never: accepts.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Any, Final

from sidecar.starting import CannotStart, cannot_listen, host_and_port

BACKLOG: Final = 1024


def open_port(address: str) -> list[socket.socket]:
    """Listen on everything `address` resolves to, as asyncio would. Raises CannotStart."""
    host, port = host_and_port(address)
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in dict.fromkeys(found):
            try:
                opened.append(socket.socket(family, kind, protocol))
            except OSError:  # a family this machine does not speak
                continue
            _listen(opened[-1], where)
        if not opened:
            raise OSError(errno.EAFNOSUPPORT, "")
        require_unshared(opened, address)
    except OSError as problem:
        _close(opened)
        raise cannot_listen(address, problem) from None
    except CannotStart:
        _close(opened)
        raise
    return opened


def _listen(one: socket.socket, where: Any) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind(where)
    one.listen(BACKLOG)


def require_unshared(opened: Sequence[socket.socket], address: str) -> None:
    """Raises CannotStart where another process could listen on the same port and be given a part of the calls.

    Any process of the same user could, the agent for one, if the option were set.
    """
    if any(one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for one in opened):
        raise CannotStart(
            f"cannot listen on {address}: SO_REUSEPORT is set, so that any process of this user could take a part of"
            " the calls; find out what sets it"
        )


def _close(opened: Sequence[socket.socket]) -> None:
    for one in opened:
        one.close()
