"""The figures of several workers as those of one sidecar."""

from __future__ import annotations

import re

import pytest

from sidecar.model import Call, Reason, Refusal
from sidecar.observe.metrics import Metrics
from sidecar.workers.merging import MERGED, Merged, rendered, told
from tests.builders import a_call


def samples(merged: Merged) -> dict[str, float]:
    lines = rendered(merged).decode().splitlines()
    return {m[1]: float(m[2]) for line in lines if (m := re.fullmatch(r"([^# ]\S*) (\S+)", line))}


def a_worker(refused: int = 0, settling: int = 0) -> Metrics:
    metrics = Metrics()
    for _ in range(refused):
        metrics.decision("review", a_call(), Refusal(Reason.NOT_FOUND))
    metrics.settling.set(settling)
    return metrics


def decided() -> str:
    call: Call = a_call()
    return (
        f'a2a_sidecar_decisions_total{{agent="review",dialect="{call.dialect}",operation="{call.operation.value}"'
        f',outcome="refused",reason="not_found"}}'
    )


def test_every_metric_says_how_it_is_merged_and_no_other_does() -> None:
    assert {family.name for family in Metrics().registry.collect()} == set(MERGED)


def test_what_is_counted_adds_up() -> None:
    merged = Merged()
    merged.heard(0, told(a_worker(refused=3, settling=2).registry))
    merged.heard(1, told(a_worker(refused=4, settling=5).registry))
    found = samples(merged)
    assert found[decided()] == 7
    assert found["a2a_sidecar_settling"] == 7


@pytest.mark.parametrize(
    ("metric", "label", "of_workers", "together"),
    [
        pytest.param("keys_usable", "issuer", (1, 0), 0, id="keys are usable where they are in all"),
        pytest.param("files_stale", "key", (0, 1), 1, id="files are stale where they are in one"),
        pytest.param("up", "part", (0, 1), 0, id="a part is up where it is in all"),
        pytest.param("issuer_failures", "issuer", (2, 3), 5, id="failures add up"),
    ],
)
def test_what_is_looked_at(metric: str, label: str, of_workers: tuple[int, int], together: int) -> None:
    merged = Merged()
    for n, value in enumerate(of_workers):
        worker = a_worker()
        getattr(worker, metric).labels("x").set(value)
        merged.heard(n, told(worker.registry))
    name = {"up": "part_up"}.get(metric, metric)
    assert samples(merged)[f'a2a_sidecar_{name}{{{label}="x"}}'] == together


def test_one_that_says_nothing_counts_with_what_it_said_last() -> None:
    merged = Merged()
    merged.heard(0, told(a_worker(refused=3).registry))
    merged.heard(1, told(a_worker(refused=4).registry))
    merged.heard(0, told(a_worker(refused=5).registry))
    assert samples(merged)[decided()] == 9


def test_a_count_does_not_fall_when_a_worker_ends_and_what_it_had_is_gone() -> None:
    merged = Merged()
    for n in range(2):
        merged.heard(n, told(a_worker(refused=3, settling=2).registry))
    for _ in range(2):  # and again
        merged.ended(1)
        found = samples(merged)
        assert found[decided()] == 6
        assert found["a2a_sidecar_settling"] == 2
    merged.heard(1, told(a_worker(refused=1).registry))
    assert samples(merged)[decided()] == 7
