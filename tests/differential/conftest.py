"""The readers, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.reading import Readers, all_readers


@pytest.fixture(scope="session")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    with all_readers(tmp_path_factory.mktemp("readers")) as started:
        yield started
