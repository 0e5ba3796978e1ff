"""Values made of files: always of what the files hold now, whatever they held while one was being made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.proxy.from_files import FromFiles


class Made:
    """Makes a value of a file that somebody changes at that very moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before: Callable[[], object] = lambda: None

    def __call__(self) -> str:
        self.before()
        return self.path.read_text()


@pytest.fixture
def made(tmp_path: Path) -> Made:
    path = tmp_path / "file"
    path.write_text("first")
    return Made(path)


async def test_a_change_makes_a_new_value(made: Made) -> None:
    files = FromFiles("key", [str(made.path)], made)
    made.path.write_text("second")
    await files._look()
    assert files.value == "second"


async def test_a_change_that_was_taken_back_while_it_was_read_is_not_kept(made: Made) -> None:
    files = FromFiles("key", [str(made.path)], made)
    made.path.write_text("second")
    made.before = lambda: made.path.write_text("third")
    await files._look()
    made.before = lambda: None
    made.path.write_text("second")
    await files._look()
    assert files.value == "second"


async def test_nor_one_while_the_first_value_was_made(made: Made) -> None:
    made.before = lambda: made.path.write_text("second")
    files = FromFiles("key", [str(made.path)], made)
    made.before = lambda: None
    made.path.write_text("first")
    await files._look()
    assert files.value == "first"
