"""Health, readiness and metrics of all workers, on one port.

Owns: `/livez`, `/readyz` and `/metrics` where there are workers, as `proxy/admin.py` does where there is one process.
Never: knows what makes a worker ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from aiohttp import web
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sidecar.proxy.loads import Loads
from sidecar.workers.child import Child, NoAnswer
from sidecar.workers.merging import Merged, rendered


class WorkersAdmin:
    """Alive and ready is who all of the workers are."""

    def __init__(self, children: Mapping[int, Child], workers: int, loads: Loads) -> None:
        """`children` are the workers there are now, by number, of `workers`."""
        self._children = children
        self._workers = workers
        self._loads = loads
        self.merged = Merged()
        self.restarts = 0
        self.stopping = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405)
        match request.path:
            case "/livez" | "/healthz":
                return await self._live()
            case "/readyz":
                return await self._ready()
            case "/metrics":
                return await self._metrics()
        return web.Response(status=404)

    async def _live(self) -> web.Response:
        """A worker that has ended, or is being started, is the supervisor's business; one that hangs is not."""
        _, silent = await self._ask_all("alive")
        stuck = [f"worker {n} {why}\n" for n, why in silent.items() if self._serves(n)]
        return web.Response(status=503 if stuck else 200, text="".join(stuck) or "ok\n")

    async def _ready(self) -> web.Response:
        answers, silent = await self._ask_all("problems")
        problems = {f"worker {n}": why for n, why in silent.items()}
        for n, of_worker in answers.items():
            problems |= {f"worker {n}: {part}": problem for part, problem in of_worker.items()}
        if self.stopping:
            problems["stopping"] = "stopping"
        body = orjson.dumps({"ready": not problems, "problems": problems}, option=orjson.OPT_APPEND_NEWLINE)
        return web.Response(
            status=503 if problems else 200, body=body, headers={"Content-Type": "application/json"}
        )

    async def _metrics(self) -> web.Response:
        answers, silent = await self._ask_all("metrics")
        for n, families in answers.items():
            self.merged.heard(n, families)
        of_workers = _OfWorkers(self._workers, set(silent), self._loads, self.restarts)
        return web.Response(
            body=rendered(self.merged, of_workers), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    async def _ask_all(self, what: str) -> tuple[dict[int, Any], dict[int, str]]:
        """What each worker says, and why one says nothing."""
        answers: dict[int, Any] = {}
        silent: dict[int, str] = {}

        async def ask(n: int) -> None:
            try:
                child = self._children.get(n)
                if child is None:
                    raise NoAnswer("is not running")
                answers[n] = await child.ask(what)
            except NoAnswer as problem:
                silent[n] = str(problem)

        await asyncio.gather(*(ask(n) for n in range(self._workers)))
        return answers, silent

    def _serves(self, n: int) -> bool:
        child = self._children.get(n)
        return child is not None and child.serving


class _OfWorkers(Collector):
    """What only a supervisor knows."""

    def __init__(self, workers: int, silent: set[int], loads: Loads, restarts: int) -> None:
        self._workers, self._silent, self._loads, self._restarts = workers, silent, loads, restarts

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("a2a_sidecar_worker_up", "Whether a worker answers", labels=["worker"])
        connections = GaugeMetricFamily(
            "a2a_sidecar_worker_connections", "Connections of callers a worker has", labels=["worker"]
        )
        for n in range(self._workers):
            up.add_metric([str(n)], n not in self._silent)
            connections.add_metric([str(n)], max(0, self._loads.of(n)))
        yield up
        yield connections
        yield CounterMetricFamily(
            "a2a_sidecar_worker_restarts", "Workers that ended and were started again", value=self._restarts
        )
