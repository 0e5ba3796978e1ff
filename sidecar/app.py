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
from sidecar.proxy.admin import Admin
from sidecar.proxy.agents import Agents, GuardedAgent
from sidecar.proxy.deps import Deps
from sidecar.proxy.enforce import answer
from sidecar.proxy.from_files import FromFiles
from sidecar.proxy.http_edge import HttpServer
from sidecar.proxy.lean_edge import Answer, LeanServer
from sidecar.proxy.misses import Misses
from sidecar.proxy.names import LookUp, Names, system_look_up
from sidecar.proxy.page_tokens import PageTokens
from sidecar.proxy.tasks import Background, Settling
from sidecar.proxy.tls import BACKLOG, TlsSite

log = structlog.get_logger()

Edge: TypeAlias = Callable[[Answer, Limits, Callable[[], str]], LeanServer | HttpServer]


class CannotStart(Exception):
    """The sidecar cannot start; the message says what to change."""


class App:
    """A running sidecar. `traffic` and `admin` are the addresses it listens on, once started."""

    def __init__(self, config: Config, look_up: LookUp = system_look_up, edge: Edge = LeanServer) -> None:
        """`look_up` resolves the names of webhooks; `edge` is what speaks HTTP with callers."""
        self._config = config
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
            ledger = await open_ledger(config.ledger, now=time.time)
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
        admin = Admin(deps, files)

        self.admin = await self._listen(web.Server(admin.handle, access_log=None), config.admin, 1.0)
        server = self._edge(partial(answer, deps=deps), limits, decision_ids())
        self.traffic = await self._listen(server, config.listen, limits.drain_timeout, config.tls, files)
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
        if output == "stdout":
            return sys.stdout.buffer
        try:
            return self._stack.enter_context(Path(output).open("ab"))
        except OSError as problem:
            raise CannotStart(f"audit.output: cannot write to `{output}`: {problem.strerror}") from None

    async def _listen(
        self,
        server: web.Server | LeanServer,
        address: str,
        drain: float,
        tls: Tls | None = None,
        files: list[FromFiles[Any]] | None = None,
    ) -> tuple[str, int]:
        """Begin to serve. What `tls` is made of is added to `files`. Raises CannotStart."""
        host, _, port = address.rpartition(":")
        # The runner asks no more of a server than LeanServer has.
        runner = web.ServerRunner(cast(web.Server, server), handle_signals=False, shutdown_timeout=drain)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        at = (runner, host.strip("[]") or None, int(port))
        try:
            limits = self._config.limits
            site = TlsSite(*at, tls, limits) if tls is not None else web.TCPSite(*at, backlog=BACKLOG)
        except ValueError as problem:
            raise CannotStart(str(problem)) from None
        try:
            await site.start()
        except OSError as problem:
            why = os.strerror(problem.errno) if problem.errno else str(problem)
            raise CannotStart(f"cannot listen on {address}: {why}") from None
        if isinstance(site, TlsSite) and files is not None:
            files.append(site.files)
        bound = runner.addresses[0]
        return str(bound[0]), int(bound[1])


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
    # What was built so far lives as long as the process: the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    log.info("listening", traffic=_shown(app.traffic), admin=_shown(app.admin), policy=config.hash)
    if config.identity.anonymous != "refuse":
        log.warning(
            "callers without a credential are served as one principal",
            subject=config.identity.anonymous.subject,
        )
    if config.mode == "observe":
        log.warning("mode: observe; nothing is refused")
    await stop.wait()
    log.info("stopping", drain_timeout_seconds=config.limits.drain_timeout)
    await app.stop()
    log.info("stopped")


def decision_ids() -> Callable[[], str]:
    """Ids no two processes share; names, not secrets."""
    prefix, numbers = os.urandom(8).hex(), itertools.count(1)
    return lambda: f"{prefix}-{next(numbers):x}"


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
