"""The log: one JSON object a line, and a line in one piece."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from sidecar.observe import log


class Written(io.StringIO):
    """A stream that remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@pytest.fixture(autouse=True)
def configured_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_a_line_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several workers write to one stream, which may be unbuffered."""
    monkeypatch.setattr(sys, "stderr", written := Written())
    log.configure(pretty=False)
    structlog.get_logger().info("listening", port=1)
    (line,) = written.writes
    assert line.endswith("}\n")
    said = json.loads(line)
    assert (said["event"], said["level"], said["port"]) == ("listening", "info", 1)
    assert "worker" not in said


def test_a_worker_is_named_in_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := Written())
    log.configure(pretty=False, worker=1)
    structlog.get_logger().warning("something")
    assert json.loads(written.writes[0])["worker"] == 1
