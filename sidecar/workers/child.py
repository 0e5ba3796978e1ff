"""One worker, as its supervisor sees it.

Owns: the process, and what it says.
Never: decides what its end means.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from sidecar.starting import CannotStart, Handed, hand_down
from sidecar.workers.channel import Channel

PATIENCE: Final = 4.0  # seconds for an answer; a probe of the kubelet waits five


class NoAnswer(Exception):
    """The worker does not say what it was asked; the message says why."""


class Child:
    """Made by `start`."""

    @classmethod
    async def start(cls, command: Sequence[str], handed: Callable[[int], Handed]) -> Child:
        """Start `command` as a worker. `handed` is told the worker's end of the channel."""
        ours, theirs = socket.socketpair()
        with theirs:
            given = handed(theirs.fileno())
            descriptor = hand_down(given)
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    "--as-worker",
                    str(descriptor),
                    pass_fds=(descriptor, *given.descriptors),
                    stdin=asyncio.subprocess.DEVNULL,
                )
            except BaseException:
                ours.close()
                raise
            finally:
                os.close(descriptor)
        return cls(process, await Channel.over(ours))

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        self._channel = channel
        self._ids = itertools.count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._started: asyncio.Future[None] = loop.create_future()
        self._listening = loop.create_task(self._listen())
        self.serving = False

    @property
    def pid(self) -> int:
        return self._process.pid

    async def until_started(self) -> None:
        """Raises CannotStart with what the worker says, or with how it ended."""
        await asyncio.shield(self._started)
        self.serving = True

    async def ask(self, what: str) -> Any:
        """Raises NoAnswer."""
        if not self.serving:
            raise NoAnswer("is being started")
        number = next(self._ids)
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._channel.say(id=number, ask=what)
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._asked[number]
        except TimeoutError:
            raise NoAnswer(f"did not answer within {PATIENCE:g} s") from None
        finally:
            del self._asked[number]

    def stop(self) -> None:
        """Tell it to finish what is under way and to end."""
        self._channel.say(stop=True)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> str:
        """How it ended, once it has."""
        code = await self._process.wait()
        await asyncio.wait({self._listening})
        self.serving = False
        self._channel.close()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    async def _listen(self) -> None:
        while (heard := await self._channel.hear()) is not None:
            if "answer" in heard:
                asked = self._asked.get(heard["id"])
                if asked is not None and not asked.done():
                    asked.set_result(heard["answer"])
            elif "started" in heard:
                self._started.set_result(None)
            else:
                self._started.set_exception(CannotStart(heard["cannot start"]))
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(NoAnswer("has ended"))
        if not self._started.done():
            self._started.set_exception(CannotStart("a worker ended before it had started"))
