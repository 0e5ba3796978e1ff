"""One listening port of several processes: each accepts for itself, and leaves a connection to whoever has fewer.

Owns: accepting, plain and under TLS.
Never: opens the port. It was listening before this process began, and goes on when it ends.

Left to themselves, one process would accept all that comes while it is awake. So one that has more connections than
another does not look for a moment, and looks again after a tick, in case the other one is busy, stuck or dead.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import structlog
from aiohttp import web

from sidecar.config import Limits, Tls
from sidecar.proxy.from_files import FromFiles
from sidecar.proxy.lean_edge import LeanServer
from sidecar.proxy.loads import ABSENT, Loads
from sidecar.proxy.tls import tls_files

log = structlog.get_logger()
T = TypeVar("T")

TICK: Final = 0.001  # seconds until it is looked at again who has fewer
PATIENCE: Final = 0.01  # seconds a connection waits at most for one that has fewer
RETRY: Final = 1.0  # seconds until there may be descriptors again


class SharedPort(web.BaseSite):
    """Serves what it accepts from `bound`, sockets that are listening already."""

    __slots__ = (
        "_accepting",
        "_bound",
        "_joining",
        "_limits",
        "_loads",
        "_polls",
        "_process",
        "_timers",
        "files",
    )

    def __init__(
        self,
        runner: web.BaseRunner,
        bound: Sequence[socket.socket],
        loads: Loads,
        process: int,
        limits: Limits,
        tls: Tls | None,
    ) -> None:
        """Raises ValueError, which names the key and the file."""
        super().__init__(runner)
        self._accepting = False
        self._bound = bound
        self._loads = loads
        self._process = process
        self._limits = limits
        self.files: FromFiles[ssl.SSLContext] | None = None if tls is None else tls_files(tls)
        self._joining: set[asyncio.Task[None]] = set()  # accepted, and not served yet
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}
        self._polls = {one: _polling(one) for one in bound}

    @property
    def name(self) -> str:
        host, port = self._bound[0].getsockname()[:2]
        return f"{'http' if self.files is None else 'https'}://{host}:{port}"

    @property
    def _server_of_all(self) -> LeanServer:
        return cast(LeanServer, self._runner.server)

    async def start(self) -> None:
        await super().start()
        self._server_of_all.connections = Counted(self._tell)
        self._accepting = True
        self._tell()
        if self.files is not None:
            self.files.start()
        for bound in self._bound:
            bound.setblocking(False)
            self._look(bound)

    async def stop(self) -> None:
        """Accept no more. Connections are left to the runner."""
        if self.files is not None:
            await self.files.close()
        self._accepting = False
        self._loads.tell(self._process, ABSENT)
        for bound in self._bound:
            if bound in self._timers:
                self._timers.pop(bound).cancel()
            asyncio.get_running_loop().remove_reader(bound.fileno())
            bound.close()
        await super().stop()

    def _tell(self) -> None:
        if self._accepting:
            self._loads.tell(self._process, len(self._server_of_all.connections) + len(self._joining))

    def _look(self, bound: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(bound.fileno(), self._somebody_waits, bound)

    def _somebody_waits(self, bound: socket.socket) -> None:
        if self._loads.has_more(self._process):
            self._leave_it(bound, asyncio.get_running_loop().time() + PATIENCE)
        else:
            self._accept(bound)

    def _leave_it(self, bound: socket.socket, until: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(bound.fileno())
        self._timers[bound] = loop.call_later(TICK, self._look_again, bound, until)

    def _look_again(self, bound: socket.socket, until: float) -> None:
        del self._timers[bound]
        waits = bool(self._polls[bound].poll(0))
        late = asyncio.get_running_loop().time() >= until
        if waits and not late and self._loads.has_more(self._process):
            self._leave_it(bound, until)
            return
        self._look(bound)
        if waits and late:
            self._accept(bound)

    def _accept(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = bound.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return  # another one was quicker, or the caller has left
        except OSError as problem:
            log.error("cannot accept connections", error=problem.strerror)
            loop.remove_reader(bound.fileno())
            self._timers[bound] = loop.call_later(RETRY, self._look_again, bound, 0.0)
            return
        accepted.setblocking(False)
        task = loop.create_task(self._serve(accepted))
        self._joining.add(task)
        task.add_done_callback(self._joined)
        self._tell()

    async def _serve(self, accepted: socket.socket) -> None:
        under_tls: dict[str, Any] = {}
        if self.files is not None:
            under_tls = {
                "ssl": self.files.value,
                "ssl_handshake_timeout": self._limits.header_timeout,
                "ssl_shutdown_timeout": self._limits.body_timeout,
            }
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server_of_all, accepted, **under_tls
            )
        except OSError:  # the handshake failed, or the caller has left
            accepted.close()

    def _joined(self, task: asyncio.Task[None]) -> None:
        self._joining.discard(task)
        self._tell()


class Counted(set[T]):
    """A set that tells when it has changed."""

    def __init__(self, tell: Callable[[], None], items: Iterable[T] = ()) -> None:
        super().__init__(items)
        self._tell = tell

    def add(self, item: T) -> None:
        super().add(item)
        self._tell()

    def discard(self, item: object) -> None:
        super().discard(cast(T, item))
        self._tell()


def _polling(bound: socket.socket) -> select.poll:
    polling = select.poll()  # not `select`, which ends at 1024 descriptors
    polling.register(bound, select.POLLIN)
    return polling
