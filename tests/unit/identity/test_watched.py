"""Files that change while they are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.identity import watched
from sidecar.identity.watched import Unreadable, WatchedFile
from tests.certificates import Volume


def number(raw: bytes) -> tuple[int]:
    try:
        return (int(raw),)
    except ValueError:
        raise ValueError("is no number") from None


def test_what_it_says_is_the_same_until_it_says_something_else(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    file = WatchedFile(str(path), number)
    first = file.current()
    assert first == (1,)
    os.utime(path, (0, 0))
    assert file.current() is first
    stamp = path.stat()
    path.write_text("2")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert file.current() == (2,)


def test_a_volume_that_is_turned(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "v", n=b"1")
    file = WatchedFile(volume.path("n"), number)
    assert file.current() == (1,)
    volume.turn(n=b"2")
    assert file.current() == (2,)


@pytest.mark.parametrize("how", ["absent", "garbage", "a folder", "a pipe", "too large"])
def test_a_file_that_cannot_be_used(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    used, fresh = (WatchedFile(str(path), number) for _ in range(2))
    assert used.current() == (1,)
    path.unlink()
    open_files = len(os.listdir("/proc/self/fd"))
    match how:
        case "garbage":
            path.write_text("canary")
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "too large":
            monkeypatch.setattr(watched, "FILE_LIMIT", 3)
            path.write_text("9999")
    for read in (used.current, fresh.current, fresh.standing):
        with pytest.raises(Unreadable) as refused:
            read()
        assert str(path) in str(refused.value)
        assert "canary" not in str(refused.value)
    assert used.standing() == (1,)
    assert len(os.listdir("/proc/self/fd")) == open_files
