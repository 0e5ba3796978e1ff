"""The metrics of several workers as those of one sidecar.

Owns: which way each metric is merged, and what remains of a worker that has ended.
Never: counts anything itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Labels: TypeAlias = tuple[tuple[str, str], ...]
Family: TypeAlias = tuple[str, str, str, list[tuple[str, dict[str, str], float]]]  # name, kind, help, samples
Merge: TypeAlias = Callable[[Iterable[float]], float]

COUNTER: Final = "counter"

# What all workers count together; how bad it is where it is worst.
MERGED: Final[Mapping[str, Merge]] = {
    "a2a_sidecar_decisions": sum,
    "a2a_sidecar_outcomes": sum,
    "a2a_sidecar_settling": sum,
    "a2a_sidecar_draining": sum,
    "a2a_sidecar_issuer_failures": sum,
    "a2a_sidecar_keys_usable": min,
    "a2a_sidecar_files_stale": max,
    "a2a_sidecar_part_up": min,
}


def told(registry: Collector) -> list[Family]:
    """What a worker says of its metrics."""
    return [
        (f.name, f.type, f.documentation, [(s.name, dict(s.labels), s.value) for s in f.samples])
        for f in registry.collect()
    ]


class Merged(Collector):
    """What each worker said last, together. A worker that does not answer counts with what it said before."""

    def __init__(self) -> None:
        self._last: dict[int, list[Family]] = {}
        self._ended: defaultdict[tuple[str, str, Labels], float] = defaultdict(
            float
        )  # by metric, sample and labels

    def heard(self, worker: int, families: Iterable[Any]) -> None:
        self._last[worker] = [tuple(family) for family in families]

    def ended(self, worker: int) -> None:
        """Keep what it counted: a sum that fell would look like a restart, and all of it be counted again."""
        for name, kind, _, samples in self._last.pop(worker, ()):
            if kind == COUNTER:
                for sample, labels, value in samples:
                    self._ended[name, sample, _key(labels)] += value

    def collect(self) -> Iterator[Metric]:
        metrics: dict[str, Metric] = {}
        values: defaultdict[tuple[str, str, Labels], list[float]] = defaultdict(list)
        for name, kind, documentation, samples in chain.from_iterable(self._last.values()):
            metrics.setdefault(name, Metric(name, documentation, kind))
            for sample, labels, value in samples:
                values[name, sample, _key(labels)].append(value)
        for key, value in self._ended.items():
            values[key].append(value)
        for (name, sample, pairs), of_workers in values.items():
            if name in metrics:
                metrics[name].add_sample(sample, dict(pairs), MERGED[name](of_workers))
        yield from metrics.values()


def rendered(*collectors: Collector) -> bytes:
    """The text of all metrics of `collectors`."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
