"""Those who call in the demo: an app on the official SDK client, and the raw bytes beside it.

Owns: a caller's token and connection, and what came back.
Never: decides whether an answer was right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
import orjson
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb

TIMEOUT: Final = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer. `headers` is without `Date`, which tells the time and nothing else."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def told(self, *path: str) -> Any:
        """The member at `path` of the JSON body; None where there is no such member."""
        value = orjson.loads(self.body)
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


class Caller:
    """Whoever holds a token and calls the agent that is at an address, or what stands before it."""

    def __init__(self, http: httpx.AsyncClient, sdk: Client, url: str) -> None:
        self._http = http
        self._sdk = sdk
        self._url = url

    async def send(self, text: str, task: str = "", context: str = "") -> pb.Task:
        """Send a message with the SDK. Raises a2a.utils.errors.A2AError for a refusal."""
        message = pb.Message(
            message_id=f"m-{text}",
            role=pb.ROLE_USER,
            parts=[pb.Part(text=text)],
            task_id=task,
            context_id=context,
        )
        last = pb.StreamResponse()
        async for event in self._sdk.send_message(pb.SendMessageRequest(message=message)):
            last = event
        return last.task

    async def call(self, method: str, **params: Any) -> Answer:
        """One JSON-RPC call (A2A 1.0 §9), its id always `1`, and the bytes of the answer."""
        envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        answer = await self._http.post(self._url, content=orjson.dumps(envelope), headers=headers)
        kept = tuple(pair for pair in answer.headers.raw if pair[0].lower() != b"date")
        return Answer(answer.status_code, kept, answer.content)


@asynccontextmanager
async def calling(url: str, token: str) -> AsyncIterator[Caller]:
    """A caller with `token` on a connection of its own; the agent card at `url` tells it where to call."""
    authorization = {"Authorization": f"Bearer {token}"}
    # No proxy of the environment stands between two ports of one machine.
    async with httpx.AsyncClient(headers=authorization, timeout=TIMEOUT, trust_env=False) as http:
        factory = ClientFactory(ClientConfig(streaming=False, httpx_client=http))
        sdk = await factory.create_from_url(url)
        yield Caller(http, sdk, f"{url}/")


def message(text: str, task: str) -> dict[str, Any]:
    """A user's message that continues `task`."""
    return {"messageId": f"m-{text}", "role": "ROLE_USER", "taskId": task, "parts": [{"text": text}]}
