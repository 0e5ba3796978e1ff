"""One worker: the whole sidecar, at a port and on a ledger it was handed.

Owns: answering its supervisor, and ending when told to or when there is no supervisor any more.
Never: opens a port.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from sidecar.app import App, keep_what_is_built
from sidecar.proxy.admin import Admin
from sidecar.starting import CannotStart, Handed
from sidecar.workers.channel import Channel
from sidecar.workers.merging import told

log = structlog.get_logger()


async def work(handed: Handed) -> None:
    """Run until told to stop. What keeps it from starting is told to the supervisor."""
    sys.setswitchinterval(1e-4)  # as `app.serve` does
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    channel = await Channel.over(socket.socket(fileno=handed.channel))
    app = App(handed.config, handed=handed)
    try:
        await app.start()
    except CannotStart as problem:
        channel.say(**{"cannot start": str(problem)})
        await channel.end()
        return
    keep_what_is_built()
    assert app.health is not None
    answering = loop.create_task(_answer(channel, app.health, stop))
    answering.add_done_callback(lambda _: stop.set())  # one that answers no more can only end
    channel.say(started=True)
    log.info("started")
    await stop.wait()
    log.info("stopping", drain_timeout_seconds=handed.config.limits.drain_timeout)
    await app.stop()
    answering.cancel()
    log.info("stopped")


async def _answer(channel: Channel, health: Admin, stop: asyncio.Event) -> None:
    """Answer until the supervisor is gone, each question on its own: what is wrong takes longer to tell than being alive."""
    answers: Mapping[str, Callable[[], Awaitable[Any]]] = {
        "alive": _alive,
        "problems": health.problems,
        "metrics": lambda: _metrics(health),
    }

    async def answer(heard: dict[str, Any]) -> None:
        channel.say(id=heard["id"], answer=await answers[heard["ask"]]())

    async with asyncio.TaskGroup() as answering:
        while (heard := await channel.hear()) is not None:
            if "stop" in heard:
                stop.set()
            else:
                answering.create_task(answer(heard))
        if not stop.is_set():
            log.error("the supervisor is gone")
        stop.set()  # before what is still being answered


async def _alive() -> bool:
    return True


async def _metrics(health: Admin) -> list[Any]:
    return told(health.measured().registry)
