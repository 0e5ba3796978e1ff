"""An upgraded connection to the agent, where the policy opens a path for it.

Owns: asking the agent for the upgrade, and the bytes both ways once it agreed.
Never: looks at those bytes; whoever opens a path trusts what flows there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDict
from yarl import URL

from sidecar.config import Limits
from sidecar.model import Permit, Reason, Refused
from sidecar.proxy.tls import why

# Nothing else: after a switch to h2c a caller could reach every route of the agent, judged by nobody.
PROTOCOL = "websocket"

_LONGEST_HEAD = 64 * 1024


@dataclass(slots=True)
class Tunnel:
    """Both directions of an upgraded connection; satisfies `model.Duplex`."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> bytes:
        """What has arrived, at least a byte; `b""` at the end."""
        try:
            return await self.reader.read(65536)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()


async def open_tunnel(
    base: str,
    permit: Permit,
    headers: CIMultiDict[str],
    limits: Limits,
    tls: dict[str, Any],
    accepted: Callable[[int, Mapping[str, str]], None],
) -> tuple[Tunnel, CIMultiDict[str]]:
    """Ask the agent at `base` to switch to WebSocket (RFC 6455). Returns the tunnel and the agent's reply headers.

    `tls` is what `Upstream.tls_options` says; `accepted` raises Refused where status and headers of the agent's reply
    are not about the caller.

    Raises Refused: AGENT_UNAVAILABLE, AGENT_FAILED, or UPGRADE_REFUSED where the agent declines (RFC 9110 §7.8).
    """
    url = URL(base.rstrip("/") + permit.call.target, encoded=True)
    try:
        async with asyncio.timeout(limits.connect_timeout):
            reader, writer = await asyncio.open_connection(url.host, url.port, limit=_LONGEST_HEAD, **tls)
    except (OSError, TimeoutError) as problem:
        raise Refused(Reason.AGENT_UNAVAILABLE, internal=why(problem)) from None
    lines = [
        f"GET {url.raw_path_qs} HTTP/1.1",
        f"Host: {url.authority}",
        "Connection: Upgrade",
        f"Upgrade: {PROTOCOL}",
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape"))
    try:
        async with asyncio.timeout(limits.body_timeout):
            head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
        writer.close()
        raise Refused(Reason.AGENT_FAILED, internal=why(problem)) from None
    except BaseException:
        writer.close()
        raise
    status, *fields = head.decode("latin-1").split("\r\n")[:-2]
    got = CIMultiDict(
        (name.strip(), value.strip()) for name, _, value in (field.partition(":") for field in fields)
    )
    code = status.split(" ")[1:2]
    if code != ["101"] or got.get("Upgrade", "").lower() != PROTOCOL:
        writer.close()
        accepted(int(code[0]) if code and code[0].isdecimal() else 0, got)
        raise Refused(Reason.UPGRADE_REFUSED, "the agent does not switch protocols here")
    return Tunnel(reader, writer), got
