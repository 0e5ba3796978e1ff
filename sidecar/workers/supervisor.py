"""The supervisor: opens what workers share, and keeps as many of them as there should be.

Owns: the start of everything in its order, restarts, and the end.
Never: touches a call, or opens the ledger for itself. Imports neither the proxy nor an event loop in C.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

import structlog
from aiohttp import web

from sidecar.config import Config
from sidecar.ledger import LedgerUnavailable, hold_ledger
from sidecar.ledger.opening import Held
from sidecar.observe.shared_output import new_lock
from sidecar.proxy.loads import ABSENT, Loads, new_loads
from sidecar.starting import CannotStart, Handed, cannot_listen, host_and_port, shown, warn_of
from sidecar.workers.admin import WorkersAdmin
from sidecar.workers.child import Child
from sidecar.workers.ports import open_port

log = structlog.get_logger()

QUICKLY: Final = 10.0  # seconds; a worker that lives longer is started again at once
LONGEST_PAUSE: Final = 30.0  # seconds before one that ends quickly again and again
GRACE: Final = 15.0  # seconds past `drain_timeout` in which a worker writes down what it has


async def supervise(config: Config, workers: int, command: Sequence[str]) -> None:
    """Run `workers` workers, each of them `command`, until SIGTERM or SIGINT. Raises CannotStart."""
    async with AsyncExitStack() as stack:
        supervisor = await Supervisor.open(config, workers, command, stack)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.stop.set)
        await supervisor.run()


class Supervisor:
    """Made by `open`, which opens everything there is only one of."""

    @classmethod
    async def open(
        cls, config: Config, workers: int, command: Sequence[str], stack: AsyncExitStack
    ) -> Supervisor:
        """Raises CannotStart. `stack` closes what is opened, when there are no workers any more."""
        ports = open_port(config.listen)
        for port in ports:
            stack.callback(port.close)
        try:
            ledger = await asyncio.to_thread(hold_ledger, config.ledger)
        except (LedgerUnavailable, ValueError) as problem:
            raise CannotStart(f"ledger.url: {problem}") from None
        stack.callback(os.close, ledger.lock)
        supervisor = cls(config, workers, command, ports, ledger)
        await supervisor._listen(stack)
        return supervisor

    def __init__(
        self,
        config: Config,
        workers: int,
        command: Sequence[str],
        ports: Sequence[socket.socket],
        ledger: Held,
    ) -> None:
        self._config = config
        self._workers = workers
        self._command = command
        self._ports = ports
        self._ledger = ledger
        self._output, self._block = new_lock(), new_loads(workers)
        self._loads = Loads(self._block)
        self._children: dict[int, Child] = {}
        self._admin = WorkersAdmin(self._children, workers, self._loads)
        self._address = ("", 0)
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Until `stop`. Raises CannotStart where a worker does not start the first time."""
        keeping: list[asyncio.Future[None]] = []
        try:
            children = [await self._start(n) for n in range(self._workers)]
            starting = asyncio.gather(*(child.until_started() for child in children))
            if await self._unless_stopped(starting):
                self._say_that_it_listens()
            # Not before: what does not start the first time is not to be started again.
            keeping = [asyncio.ensure_future(self._keep(n)) for n in self._children]
            await self._unless_stopped(asyncio.gather(*keeping))
            log.info("stopping", drain_timeout_seconds=self._config.limits.drain_timeout)
        finally:
            self._admin.stopping = True
            self.stop.set()
            for opened in self._ports:
                opened.close()
            await asyncio.gather(*(keeping or map(self._keep, self._children)))
        log.info("stopped")

    def _say_that_it_listens(self) -> None:
        host, port = self._ports[0].getsockname()[:2]
        traffic, admin = shown((host, port)), shown(self._address)
        log.info("listening", traffic=traffic, admin=admin, policy=self._config.hash, workers=self._workers)
        warn_of(self._config)

    async def _unless_stopped(self, work: asyncio.Future[Any]) -> bool:
        """Wait for `work` or for `stop`; whether `work` was done first. Raises what `work` raises."""
        stopped = asyncio.ensure_future(self.stop.wait())
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if work.done():
            work.result()
            return True
        work.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody asks any more
        return False

    async def _listen(self, stack: AsyncExitStack) -> None:
        address = self._config.admin
        server = web.Server(self._admin.handle, access_log=None)
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, *host_and_port(address)).start()
        except OSError as problem:
            raise cannot_listen(address, problem) from None
        self._address = runner.addresses[0][:2]

    async def _start(self, n: int) -> Child:
        def handed(channel: int) -> Handed:
            traffic = tuple(port.fileno() for port in self._ports)
            return Handed(self._config, n, channel, traffic, self._ledger, self._block, self._output)

        child = self._children[n] = await Child.start(self._command, handed)
        log.info("a worker begins", worker=n, pid=child.pid)
        return child

    async def _keep(self, n: int) -> None:
        """See worker `n` to its end, and start it again: at once, or after a while where it ends quickly each time."""
        loop = asyncio.get_running_loop()
        quickly = 0
        while True:
            began, child = loop.time(), self._children[n]
            how = await self._end_of(child)
            self._loads.tell(n, ABSENT)
            self._admin.merged.ended(n)
            if self.stop.is_set():
                return
            quickly = 0 if loop.time() - began > QUICKLY else quickly + 1
            pause = 0.0 if quickly < 2 else min(0.5 * 2 ** (quickly - 2), LONGEST_PAUSE)
            log.error("a worker ended", worker=n, pid=child.pid, how=how, another_in_seconds=pause)
            if not await self._again(n, pause):
                return

    async def _again(self, n: int, pause: float) -> bool:
        """Start worker `n` once more, after `pause` seconds; False where everything stops instead."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), pause)
        if self.stop.is_set():
            return False
        self._admin.restarts += 1
        try:
            child = await self._start(n)
            await self._unless_stopped(asyncio.ensure_future(child.until_started()))
        except (CannotStart, OSError) as problem:  # no memory for a process, perhaps
            log.error("a worker cannot start", worker=n, problem=str(problem))
        return True

    async def _end_of(self, child: Child) -> str:
        """How it ended. When everything stops, it is told to, and does not get longer than there is."""
        ending = asyncio.ensure_future(child.ended())
        if not await self._unless_stopped(ending):
            child.stop()
            await asyncio.wait({ending}, timeout=self._config.limits.drain_timeout + GRACE)
            if not ending.done():
                log.error("a worker does not end; it is killed", pid=child.pid)
                child.kill()
        return await ending
