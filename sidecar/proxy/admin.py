"""Health, readiness and metrics, on a port of their own.

Owns: `/livez`, `/readyz`, `/metrics`; of a worker what its supervisor asks for, since it has that port.
Never: shares the traffic port, tells a caller anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from aiohttp import web

from sidecar.ledger import LedgerUnavailable
from sidecar.observe.metrics import Metrics
from sidecar.proxy.deps import Deps
from sidecar.proxy.from_files import FromFiles


class Admin:
    """Liveness depends on nothing; readiness on the ledger, the issuers' keys and the agents' cards."""

    def __init__(self, deps: Deps, files: Sequence[FromFiles[Any]]) -> None:
        """`files` are watched for changes."""
        self._deps = deps
        self._files = files
        self.stopping = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405)
        match request.path:
            case "/livez" | "/healthz":
                return web.Response(text="ok\n")
            case "/readyz":
                return await self._ready()
            case "/metrics":
                return web.Response(
                    body=self.measured().render(), headers={"Content-Type": "text/plain; version=0.0.4"}
                )
        return web.Response(status=404)

    def measured(self) -> Metrics:
        """The metrics, with what is looked at when somebody asks, and not counted as it happens."""
        metrics = self._deps.metrics
        metrics.settling.set(self._deps.settling.count)
        metrics.draining.set(self._deps.draining.count)
        for issuer in self._deps.identity.key_status():  # as many as the policy lists
            metrics.issuer_failures.labels(issuer.issuer).set(issuer.failures)
            metrics.keys_usable.labels(issuer.issuer).set(issuer.usable)
        for files in self._files:  # not a part of readiness: what was read before serves on
            metrics.files_stale.labels(files.key).set(bool(files.problem))
        return metrics

    async def problems(self) -> dict[str, str]:
        """What is wrong, by the part that is not ready for it."""
        problems = {part: problem for part, problem in (await self.parts()).items() if problem}
        for part in ("ledger", "identity", "card", "stopping"):
            self._deps.metrics.up.labels(part).set(not any(p.startswith(part) for p in problems))
        return problems

    async def _ready(self) -> web.Response:
        problems = await self.problems()
        body = orjson.dumps({"ready": not problems, "problems": problems}, option=orjson.OPT_APPEND_NEWLINE)
        return web.Response(
            status=503 if problems else 200, body=body, headers={"Content-Type": "application/json"}
        )

    async def parts(self) -> dict[str, str]:
        """Each part and what is wrong with it; empty where nothing is."""
        parts = {"stopping": "stopping" if self.stopping else ""}
        try:
            await self._deps.ledger.check()
            parts["ledger"] = ""
        except LedgerUnavailable as problem:
            parts["ledger"] = str(problem) or "unavailable"
        parts["identity"] = "; ".join(
            f"no keys of {issuer.issuer}: {issuer.problem}"
            for issuer in self._deps.identity.key_status()
            if not issuer.usable
        )
        for agent in self._deps.agents:
            found = await agent.cards.current()
            parts[f"card of {agent.name}"] = "" if found is not None else agent.cards.problem
        return parts
