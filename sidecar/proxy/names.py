"""Names → addresses, without holding up the loop.

Owns: look-ups on threads of their own, how many there are at once, and how long anybody waits for one.
Never: judges an address, or remembers one: a name may point elsewhere the next time.

The C library resolves a name for as long as it likes, up to half a minute, and cannot be stopped. On the loop's own
threads a few such names would stop everything else that needs one; here a thread that hangs takes one place of many,
its owner's quarter at most, and no thread keeps the process from ending. Calls that ask for one name at the same
time share one look-up, so a client that sends its webhook with every message needs one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from sidecar.model import Owner

LookUp: TypeAlias = Callable[[str], Collection[str]]  # a name's addresses; raises OSError. Runs on a thread
Found: TypeAlias = "asyncio.Future[Collection[str]]"

WAIT: Final = 3.0  # seconds; agents give a webhook more, but somebody waits for this answer
AT_ONCE: Final = 64  # look-ups


def system_look_up(host: str) -> Collection[str]:
    """What the system's resolver says: the one the agent in this pod would ask, search path and hosts file included."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {str(address[0]) for *_, address in found}


class Names:
    """Used on the event loop only."""

    def __init__(
        self, look_up: LookUp = system_look_up, *, wait: float = WAIT, at_once: int = AT_ONCE
    ) -> None:
        """`wait` is seconds for all names of one call, the wait for a place included; `at_once` counts look-ups."""
        self._look_up = look_up
        self._wait = wait
        self._at_once = at_once
        self._share = max(1, at_once // 4)
        self._asked: dict[str, Found] = {}
        self._places: Counter[Owner] = Counter()
        self._freed = asyncio.Event()

    async def resolve(self, hosts: Collection[str], owner: Owner) -> Mapping[str, Collection[str]]:
        """The addresses of each host, for a call of `owner`; none for a name that has none. Nothing if it took too long."""
        found = {}
        try:
            async with asyncio.timeout(self._wait):
                for host in hosts:
                    found[host] = await self._find(host, owner)
        except TimeoutError:
            return {}
        return found

    async def _find(self, host: str, owner: Owner) -> Collection[str]:
        while host not in self._asked and not self._has_place(owner):
            await self._freed.wait()
        asked = self._asked.get(host) or self._ask(host, owner)
        return await asyncio.shield(asked)  # others may wait for it too

    def _has_place(self, owner: Owner) -> bool:
        return self._places.total() < self._at_once and self._places[owner] < self._share

    def _ask(self, host: str, owner: Owner) -> Found:
        loop = asyncio.get_running_loop()
        asked = self._asked[host] = loop.create_future()
        self._places[owner] += 1
        work = threading.Thread(target=self._work, args=(host, owner, loop), name="names", daemon=True)
        try:
            work.start()
        except RuntimeError:  # no more threads
            self._end(host, owner, ())
        return asked

    def _work(self, host: str, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        addresses: Collection[str] = ()
        with contextlib.suppress(OSError, UnicodeError):  # UnicodeError: no name a resolver takes
            addresses = self._look_up(host)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._end, host, owner, addresses)

    def _end(self, host: str, owner: Owner, addresses: Collection[str]) -> None:
        self._places[owner] -= 1
        if not self._places[owner]:
            del self._places[owner]
        self._asked.pop(host).set_result(addresses)
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()
