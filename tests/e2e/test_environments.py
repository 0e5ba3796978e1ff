"""Environments are whole or absent, and rebuilt when their pins change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import environments
from tests.e2e.environments import Environment, EnvironmentMissing


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Environment]:
    """Build an environment of the given pins with the given command in place of a package client."""
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)

    def build(pin: str, *command: str) -> Environment:
        environment = Environment("some", "python", (pin,))
        monkeypatch.setattr(environments, "STEPS", {"python": lambda _: iter([list(command)])})
        environments.build(environment)
        return environment

    return build


def test_a_failed_build_leaves_nothing_and_says_what_failed(
    built: Callable[..., Environment], tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentMissing, match="echo no such package"):
        built("a==1", "sh", "-c", "touch half; echo no such package >&2; exit 1")
    assert not (tmp_path / "some").exists()


def test_an_environment_is_current_until_its_pins_change(built: Callable[..., Environment]) -> None:
    made = built("a==1", "touch", "package")
    assert environments.is_current(made)
    assert not environments.is_current(Environment("some", "python", ("a==2",)))


def test_a_rebuild_starts_from_nothing(built: Callable[..., Environment], tmp_path: Path) -> None:
    built("a==1", "touch", "old")
    built("a==2", "touch", "new")
    assert {path.name for path in (tmp_path / "some").iterdir()} == {"new", environments.MARKER}


def test_an_interrupted_build_does_not_count(built: Callable[..., Environment]) -> None:
    made = built("a==1", "touch", "package")
    (made.path / environments.MARKER).unlink()
    assert not environments.is_current(made)
