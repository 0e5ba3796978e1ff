"""An upload that is answered before it has arrived."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog
from aiohttp import web

from tests.edge.agent import Agent
from tests.edge.conftest import Start


async def test_a_refused_token_during_an_upload_is_told(start: Start, agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ours")
    running = await start(
        agents=[
            {
                "name": "review",
                "upstream": agent.url,
                "public_url": "https://agents.test/review",
                "authorization": "replace",
                "authorization_file": str(tmp_path / "token"),
            }
        ]
    )

    never = asyncio.Event()

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=401)
        await response.prepare(request)
        await response.write(b"no")
        await never.wait()
        return response

    await agent.down()
    agent._handle = refuse  # type: ignore[method-assign]
    await agent.up()
    port = running.app.traffic[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n"
        b"Authorization: Bearer %b\r\n\r\nhello" % running.token("alice").encode()
    )
    with structlog.testing.capture_logs() as logs:
        assert await reader.readuntil(b"\r\n\r\n")
        assert b"error" in await reader.read()
    writer.close()
    assert [said for said in logs if said["event"] == "a fault of ours"] == []
