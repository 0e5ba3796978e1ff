"""Counters for operators. Labels come from closed lists, never from callers.

Owns: the metrics and their names.
Never: influences a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from sidecar.model import Call, Decoded, Dialect, Permit, Reason, Refusal

# Agent, operation, dialect, reason to refuse: all from closed lists, so there are never many.
_Decided = tuple[str, str, Dialect | None, Reason | None]


class _Counters(Collector):
    """Counted on every call, so in plain dicts; made into metrics when somebody asks."""

    def __init__(self) -> None:
        self.decisions: Counter[_Decided] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterator[CounterMetricFamily]:
        decisions = CounterMetricFamily(
            "a2a_sidecar_decisions",
            "Decisions by agent, operation, dialect, outcome and reason",
            labels=["agent", "operation", "dialect", "outcome", "reason"],
        )
        for (agent, operation, dialect, reason), count in self.decisions.items():
            outcome = ("refused", reason.value) if reason else ("permitted", "")
            decisions.add_metric([agent, operation, str(dialect) if dialect else "none", *outcome], count)
        yield decisions
        outcomes = CounterMetricFamily(
            "a2a_sidecar_outcomes", "What came of permitted calls", labels=["agent", "outcome"]
        )
        for labels, count in self.outcomes.items():
            outcomes.add_metric(labels, count)
        yield outcomes


class Metrics:
    """One registry for one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = _Counters()
        self.registry.register(self._counters)
        self.settling = Gauge(
            "a2a_sidecar_settling", "Sends whose caller has gone and that are read on", registry=self.registry
        )
        self.draining = Gauge(
            "a2a_sidecar_draining",
            "Streams whose subscriber has gone and that are read on",
            registry=self.registry,
        )
        self.issuer_failures = Gauge(
            "a2a_sidecar_issuer_failures",
            "Requests for an issuer's keys or about an opaque token that failed, since the start",
            ["issuer"],
            registry=self.registry,
        )
        self.keys_usable = Gauge(
            "a2a_sidecar_keys_usable",
            "Whether tokens of an issuer can be verified now",
            ["issuer"],
            registry=self.registry,
        )
        self.files_stale = Gauge(
            "a2a_sidecar_files_stale",
            "1 where changed files cannot be used and what was read before is still in use",
            ["key"],
            registry=self.registry,
        )
        self.up = Gauge("a2a_sidecar_part_up", "Whether a part is usable", ["part"], registry=self.registry)

    def decision(self, agent: str, call: Decoded | None, made: Permit | Refusal) -> None:
        operation = call.operation if isinstance(call, Call) else "other"
        dialect = call.form.dialect if call is not None else None
        reason = made.reason if isinstance(made, Refusal) else None
        self._counters.decisions[agent, operation, dialect, reason] += 1

    def outcome(self, agent: str, what: str) -> None:
        self._counters.outcomes[agent, what] += 1

    def render(self) -> bytes:
        return generate_latest(self.registry)
