"""Random interleavings of several callers before a real agent: nobody is ever told of anybody else's things.

`MODEL_STEPS` (10,000) is how long, `MODEL_SEED` (1) which run; the same seed makes the same choices. A run that goes
wrong is made as short as it can be, and told as a script with the seed it came from.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Callers
from tests.model.oracle import Wrong
from tests.model.planted import FAULTS
from tests.model.world import World, running_world

STEPS = int(os.environ.get("MODEL_STEPS", "10000"))
SEED = int(os.environ.get("MODEL_SEED", "1"))
IN_A_ROUND = 50  # steps; then five new people start anew
ROUNDS = 20  # in one run of hypothesis


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("model")) as running:
        yield running


def play(world: World, seed: int, *, rounds: int = ROUNDS, shrink: bool = True) -> None:
    """One run of hypothesis: `rounds` rounds, chosen by `seed`. Raises what went wrong, in its shortest form."""
    machine: Any = type("Callers", (Callers,), {"world": world})
    before = world.steps
    try:
        run_state_machine_as_test(
            hypothesis.seed(seed)(machine),
            settings=settings(
                max_examples=rounds,
                stateful_step_count=IN_A_ROUND,
                deadline=None,
                database=None,
                phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
                verbosity=Verbosity.quiet,
                report_multiple_bugs=False,
                suppress_health_check=[*HealthCheck],
            ),
        )
    except BaseException as problem:
        problem.add_note(
            f"MODEL_SEED={seed}, {world.steps - before} steps and as many as it took to shorten them"
        )
        raise


@pytest.mark.timeout(0)
def test_nobody_is_told_of_anybody_elses_things(world: World) -> None:
    began, seed = time.monotonic(), SEED
    while world.steps < STEPS:
        play(world, seed)
        seed += 1_000_000
    took = time.monotonic() - began
    print(
        f"seed {SEED}: {world.steps} steps, {world.calls} calls in {took:.0f} s, {world.steps / took:.0f} a second"
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    with pytest.raises((Wrong, FlakyFailure)) as found:
        play(world, SEED, shrink=False)
    assert "the script:" in "".join(notes(found.value))


def notes(problem: BaseException) -> Iterator[str]:
    """The notes of a failure, and of those inside it where hypothesis could not make it happen again."""
    yield from getattr(problem, "__notes__", ())
    for inner in getattr(problem, "exceptions", ()):
        yield from notes(inner)
