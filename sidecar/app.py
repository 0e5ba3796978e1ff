"""The one place where parts are constructed and wired, started in order, stopped in reverse.

Owns: the diagram of the running process.
Never: per-request code.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import structlog
from aiohttp import web

from sidecar.config import Config, Limits, Tls
from sidecar.identity import Identity
from sidecar.ledger import LedgerUnavailable, open_ledger
from sidecar.observe.audit import Audit
from sidecar.observe.metrics import Metrics
from sidecar.observe.shared_output import SharedOutput
from sidecar.proxy.admin import Admin
from sidecar.proxy.agents import Agents, GuardedAgent
from sidecar.proxy.deps import Deps
from sidecar.proxy.enforce import answer
from sidecar.proxy.from_files import FromFiles
from sidecar.proxy.lean_edge import Answer, LeanServer
from sidecar.proxy.loads import Loads
from sidecar.proxy.misses import Misses
from sidecar.proxy.names import LookUp, Names, system_look_up
from sidecar.proxy.page_tokens import PageTokens
from sidecar.proxy.shared_port import SharedPort
from sidecar.proxy.tasks import Background, Settling
from sidecar.proxy.tls import BACKLOG, TlsSite
from sidecar.starting import CannotStart, Handed, cannot_listen, host_and_port, shown, warn_of

log = structlog.get_logger()

Edge: TypeAlias = Callable[[Answer, Limits, Callable[[], str]], web.Server | LeanServer]


class App:
    """A running sidecar. `traffic` and `admin` are the addresses it listens on, once started."""

    def __init__(
        self,
        config: Config,
        look_up: LookUp = system_look_up,
        edge: Edge = LeanServer,
        handed: Handed | None = None,
    ) -> None:
        """`look_up` resolves the names of webhooks; `edge` is what speaks HTTP with callers; a worker is `handed` ports
        and a ledger, and its supervisor asks `health`."""
        self._config = config
        self._handed = handed
        self.health: Admin | None = None
        self._look_up = look_up
        self._edge = edge
        self._stack = AsyncExitStack()
        self.traffic = ("", 0)
        self.admin = ("", 0)
        self.stopping = False
        self._deadline = 0.0

    async def start(self) -> None:
        """Build every part, then open the ports. Raises CannotStart."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stop accepting, finish what is under way up to `drain_timeout`, flush, let go."""
        self.stopping = True
        self._deadline = asyncio.get_running_loop().time() + self._config.limits.drain_timeout
        await self._stack.aclose()

    async def _until_deadline(self, finish: Callable[[float], Awaitable[None]]) -> None:
        """One deadline for all that drains; a last second for what the traffic port left over."""
        await finish(max(1.0, self._deadline - asyncio.get_running_loop().time()))

    async def _start(self) -> None:
        config, limits = self._config, self._config.limits
        audit = Audit(self._audit_output(config.audit.output), config.audit.buffer, time.time)
        self._stack.callback(audit.close)
        try:
            held = None if self._handed is None else self._handed.ledger
            ledger = await open_ledger(config.ledger, now=time.time, held=held)
        except (LedgerUnavailable, ValueError) as problem:
            raise CannotStart(f"ledger.url: {problem}") from None
        self._stack.push_async_callback(ledger.close)
        try:
            identity = Identity(
                config.identity,
                config.ownership.owner_claims,
                limits.token,
                config.asked_claims,
                memory=ledger,
                now=time.time,
            )
        except ValueError as problem:
            raise CannotStart(f"identity: {problem}") from None
        await identity.start()
        self._stack.push_async_callback(identity.close)
        agents = Agents([GuardedAgent(agent, config, time.monotonic) for agent in config.agents])
        try:
            await self._stack.enter_async_context(agents)
        except ValueError as problem:  # of the files of `tls` and `authorization_file`
            raise CannotStart(str(problem)) from None
        background = Background()
        settling = Settling(limits.settling, limits.settle_timeout)
        draining = Settling(limits.settling, limits.settle_timeout)
        self._stack.push_async_callback(self._until_deadline, background.finish)
        self._stack.push_async_callback(self._until_deadline, settling.finish)
        self._stack.push_async_callback(draining.finish, 0.0)
        misses = Misses(ledger, audit, background)
        self._stack.callback(misses.flush)
        lists = config.list
        page_tokens = PageTokens(ledger, self._sealing_keys(lists.key_files), lists.cursor_ttl, time.time)
        metrics = Metrics()
        deps = Deps(
            agents,
            identity,
            ledger,
            audit,
            metrics,
            settling,
            draining,
            background,
            misses,
            lists,
            page_tokens,
            limits,
            Names(self._look_up),
            now=time.time,
        )
        files = [file for agent in agents for file in (*agent.upstream.files, *agent.onward.files)]
        self.health = admin = Admin(deps, files)

        server = self._edge(partial(answer, deps=deps), limits, decision_ids())
        if self._handed is None:
            self.admin = await self._listen(web.Server(admin.handle, access_log=None), config.admin, 1.0)
            self.traffic = await self._listen(server, config.listen, limits.drain_timeout, config.tls, files)
        else:
            await self._serve_handed(server, self._handed, files)
        self._stack.callback(setattr, admin, "stopping", True)
        for agent in agents:
            background.start(agent.view())

    def _sealing_keys(self, paths: Sequence[str]) -> list[bytes]:
        """The keys of page tokens: whatever the files hold, as long as it is long enough to be a key."""
        keys = []
        for path in paths:
            try:
                content = Path(path).read_bytes().strip()
            except OSError as problem:
                raise CannotStart(f"list.key_files: cannot read `{path}`: {problem.strerror}") from None
            if len(content) < 32:
                raise CannotStart(
                    f"list.key_files: `{path}` is too short; write at least 32 random bytes,"
                    f" `head -c 32 /dev/urandom | base64 > {path}`"
                )
            keys.append(hashlib.sha256(content).digest())
        return keys

    def _audit_output(self, output: str) -> BinaryIO | None:
        if output == "disabled":
            return None
        out = sys.stdout.buffer if output == "stdout" else self._appended(output)
        # All that is asked of it is to write and to flush.
        return out if self._handed is None else cast(BinaryIO, SharedOutput(out, self._handed.output))

    def _appended(self, path: str) -> BinaryIO:
        try:
            return self._stack.enter_context(Path(path).open("ab"))
        except OSError as problem:
            raise CannotStart(f"audit.output: cannot write to `{path}`: {problem.strerror}") from None

    async def _listen(
        self,
        server: web.Server | LeanServer,
        address: str,
        drain: float,
        tls: Tls | None = None,
        files: list[FromFiles[Any]] | None = None,
    ) -> tuple[str, int]:
        """Begin to serve. What `tls` is made of is added to `files`. Raises CannotStart."""
        at = host_and_port(address)
        runner = await self._runner(server, drain)
        try:
            limits = self._config.limits
            site = (
                TlsSite(runner, *at, tls, limits)
                if tls is not None
                else web.TCPSite(runner, *at, backlog=BACKLOG)
            )
        except ValueError as problem:
            raise CannotStart(str(problem)) from None
        try:
            await site.start()
        except OSError as problem:
            raise cannot_listen(address, problem) from None
        if isinstance(site, TlsSite) and files is not None:
            files.append(site.files)
        bound = runner.addresses[0]
        return str(bound[0]), int(bound[1])

    async def _serve_handed(
        self, server: web.Server | LeanServer, handed: Handed, files: list[FromFiles[Any]]
    ) -> None:
        """Begin to serve at ports that are listening. Raises CannotStart."""
        config = self._config
        runner = await self._runner(server, config.limits.drain_timeout)
        bound = [socket.socket(fileno=descriptor) for descriptor in handed.traffic]
        try:
            site = SharedPort(runner, bound, Loads(handed.loads), handed.worker, config.limits, config.tls)
        except ValueError as problem:
            for one in bound:
                one.close()
            raise CannotStart(str(problem)) from None
        await site.start()
        if site.files is not None:
            files.append(site.files)
        self.traffic = bound[0].getsockname()[:2]

    async def _runner(self, server: web.Server | LeanServer, drain: float) -> web.ServerRunner:
        # The runner asks no more of a server than LeanServer has.
        runner = web.ServerRunner(cast(web.Server, server), handle_signals=False, shutdown_timeout=drain)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        return runner


async def serve(config: Config) -> None:
    """Run until SIGTERM or SIGINT. Raises CannotStart."""
    # A busy loop would keep the ledger's writer thread from the interpreter for hundreds of milliseconds.
    sys.setswitchinterval(1e-4)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = App(config)
    await app.start()
    keep_what_is_built()
    log.info("listening", traffic=shown(app.traffic), admin=shown(app.admin), policy=config.hash)
    warn_of(config)
    await stop.wait()
    log.info("stopping", drain_timeout_seconds=config.limits.drain_timeout)
    await app.stop()
    log.info("stopped")


def keep_what_is_built() -> None:
    """Once started: all there is lives as long as the process, and the collector need not look through it again."""
    gc.collect()
    gc.freeze()


def decision_ids() -> Callable[[], str]:
    """Ids no two processes share; names, not secrets."""
    prefix, numbers = os.urandom(8).hex(), itertools.count(1)
    return lambda: f"{prefix}-{next(numbers):x}"
