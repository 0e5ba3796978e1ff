"""A scripted upstream agent on a real socket. It remembers every request and answers as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

CARD: dict[str, Any] = {
    "name": "scripted",
    "description": "answers as told",
    "version": "1",
    "supportedInterfaces": [
        {"url": "http://agent.internal:9000/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "http://agent.internal:9000/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        {"url": "http://agent.internal:9000/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": "http://agent.internal:9000/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
        {"url": "agent.internal:9001", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
    ],
    "capabilities": {"streaming": True, "pushNotifications": True},
    "securitySchemes": {"o": {"oauth2SecurityScheme": {"flows": {}}}},
    "securityRequirements": [{"schemes": {"o": {"list": ["w", "r"]}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "review", "name": "review", "description": "", "tags": []}],
}

Script = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


@dataclass
class Received:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Agent:
    """`script` answers everything but the card; `received` holds everything but requests for the card."""

    script: Script | None = None
    card: dict[str, Any] = field(default_factory=lambda: CARD)
    received: list[Received] = field(default_factory=list)
    card_requests: int = 0
    ended: list[str] = field(default_factory=list)
    port: int = 0
    _runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        server = web.Server(self._handle, handler_cancellation=True, auto_decompress=False)
        self._runner = web.ServerRunner(server, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/.well-known/agent-card.json"):
            self.card_requests += 1
            return web.json_response(self.card)
        body = await request.content.read()
        headers = [(k.decode(), v.decode()) for k, v in request.raw_headers]
        self.received.append(Received(request.method, request.raw_path, headers, body))
        if self.script is None:
            return web.json_response({"unexpected": request.path}, status=500)
        try:
            return await self.script(request, body)  # type: ignore[arg-type]
        except asyncio.CancelledError:
            self.ended.append(request.raw_path)
            raise


def result(body: bytes, value: Any, status: int = 200) -> web.Response:
    """A JSON-RPC response to the request in `body`."""
    return web.json_response(
        {"jsonrpc": "2.0", "id": json.loads(body).get("id"), "result": value}, status=status
    )


def error(body: bytes, code: int, message: str) -> web.Response:
    said = {"jsonrpc": "2.0", "id": json.loads(body).get("id"), "error": {"code": code, "message": message}}
    return web.json_response(said)


def a_task(id_: str, context: str = "c-1", state: str = "TASK_STATE_WORKING", **more: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "contextId": context,
        "status": {"state": state, "timestamp": "2026-11-30T10:00:00Z"},
        **more,
    }


def answers(*values: Any) -> Script:
    """Each JSON-RPC request in turn gets the next value; the last one repeats."""
    left = list(values)

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return result(body, left.pop(0) if len(left) > 1 else left[0])

    return script


async def event_stream(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    return response
