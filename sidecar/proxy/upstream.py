"""The way to the agent.

Owns: sending a permitted request on, and telling what failed before from what failed after its bytes may have arrived.
Never: accepts anything but a Permit, follows a redirect, sends anything twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from sidecar.config import Limits, UpstreamTls
from sidecar.model import Permit, Reason, Refused
from sidecar.proxy.from_files import FromFiles
from sidecar.proxy.hop import HopReply
from sidecar.proxy.hop_pool import Hops
from sidecar.proxy.tls import UpstreamContext

UpstreamReply = HopReply


class Upstream:
    """One agent's address. There is no way in without a permit."""

    def __init__(self, base: str, limits: Limits, tls: UpstreamTls, key: str) -> None:
        """`tls` is how an `https` address is verified; `key` is where it stands in the policy."""
        self._base = base.rstrip("/")
        self._limits = limits
        self._tls = (key, tls)
        self._context: UpstreamContext | None = None
        self._hops: Hops | None = None

    def tls_options(self) -> dict[str, Any]:
        """What a connection to the agent needs for TLS, as the files are now; nothing for an `http` address."""
        return self._context.options() if self._context is not None else {}

    @property
    def files(self) -> Sequence[FromFiles[Any]]:
        return () if self._context is None else (self._context.files,)

    async def __aenter__(self) -> Upstream:
        """Raises ValueError: what is wrong with the files of `tls`."""
        if URL(self._base).scheme == "https":
            self._context = UpstreamContext(*self._tls)
            self._context.start()
        self._hops = Hops(self._base, self._limits, self.tls_options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is not None:
            await self._context.close()
        if self._hops is not None:
            await self._hops.close()

    async def forward(
        self,
        permit: Permit,
        method: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
        *,
        last: bool = False,
    ) -> UpstreamReply:
        """Send the call on, as the `last` on its connection or not. Raises Refused: AGENT_UNAVAILABLE if nothing was sent,
        else AGENT_FAILED."""
        return await self._to_agent.request(method, permit.call.target, headers, body, last=last)

    async def ask(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes, *, limit: int, timeout: float
    ) -> tuple[int, CIMultiDictProxy[str], bytes]:
        """A request of the sidecar's own (card, cancel), read whole. Raises Refused."""
        try:
            async with (
                asyncio.timeout(timeout),
                aclosing(await self._to_agent.request(method, target, headers, body or None)) as reply,
            ):
                parts, size = [], 0
                async for chunk in reply:
                    size += len(chunk)
                    if size > limit:
                        raise Refused(
                            Reason.AGENT_FAILED, internal="reply to the sidecar's own request too large"
                        )
                    parts.append(chunk)
        except TimeoutError:
            raise Refused(Reason.AGENT_UNAVAILABLE, internal="timeout") from None
        return reply.status, reply.headers, b"".join(parts)

    @property
    def _to_agent(self) -> Hops:
        assert self._hops is not None, "used before it was entered"
        return self._hops
