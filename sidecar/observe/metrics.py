"""Counters for operators. Labels come from closed lists, never from callers.

Owns: the metrics and their names.
Never: influences a decision.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from sidecar.model import Call, Decoded, Permit, Refusal


class Metrics:
    """One registry for one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._children: dict[tuple[str, ...], Counter] = {}
        self._decisions = Counter(
            "a2a_sidecar_decisions_total",
            "Decisions by agent, operation, dialect, outcome and reason",
            ["agent", "operation", "dialect", "outcome", "reason"],
            registry=self.registry,
        )
        self._outcomes = Counter(
            "a2a_sidecar_outcomes_total",
            "What came of permitted calls",
            ["agent", "outcome"],
            registry=self.registry,
        )
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
        operation = call.operation.value if isinstance(call, Call) else "other"
        dialect = str(call.form.dialect) if call is not None and call.form.dialect else "none"
        outcome, reason = ("refused", made.reason.value) if isinstance(made, Refusal) else ("permitted", "")
        labels = (agent, operation, dialect, outcome, reason)
        child = self._children.get(labels)
        if child is None:  # every label comes from a closed list, so this stays small
            child = self._children[labels] = self._decisions.labels(*labels)
        child.inc()

    def outcome(self, agent: str, what: str) -> None:
        self._outcomes.labels(agent, what).inc()

    def render(self) -> bytes:
        return generate_latest(self.registry)
