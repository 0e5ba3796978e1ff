"""What a worker answers its supervisor."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from sidecar.proxy.admin import Admin
from sidecar.workers.channel import Channel
from sidecar.workers.worker import _answer


class Asked:
    """A channel with questions, that keeps what is said."""

    def __init__(self, *questions: str) -> None:
        self._questions = asyncio.Queue[dict[str, Any] | None]()
        for number, question in enumerate(questions):
            self._questions.put_nowait({"id": number, "ask": question})
        self.said: list[dict[str, Any]] = []

    async def hear(self) -> dict[str, Any] | None:
        return await self._questions.get()

    def say(self, **message: Any) -> None:
        self.said.append(message)

    def end(self) -> None:
        self._questions.put_nowait(None)


class Health:
    """Takes its time to say what is wrong."""

    def __init__(self) -> None:
        self.known = asyncio.Event()

    async def problems(self) -> dict[str, str]:
        await self.known.wait()
        return {"ledger": "full"}


async def test_being_alive_does_not_wait_for_what_is_wrong() -> None:
    channel, health, stop = Asked("problems", "alive"), Health(), asyncio.Event()
    answering = asyncio.create_task(_answer(cast(Channel, channel), cast(Admin, health), stop))
    async with asyncio.timeout(20):
        while not channel.said:
            await asyncio.sleep(0)
    assert channel.said == [{"id": 1, "answer": True}]
    health.known.set()
    channel.end()
    await answering
    assert channel.said[1:] == [{"id": 0, "answer": {"ledger": "full"}}]
    assert stop.is_set()
