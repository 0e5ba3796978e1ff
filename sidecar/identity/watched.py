"""Files that change while we run: keys, authorities, secrets.

Owns: reading one, and noticing that it says something new.
Never: keeps a file open, waits for a pipe, or quotes what a file says.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

FILE_LIMIT: Final = 2**22  # bytes; a bundle of every public authority has a tenth of that


class Unreadable(ValueError):
    """A file cannot be used; says which and why, for operators."""


class WatchedFile(Generic[T]):
    """What a file says. `read` makes sense of its bytes, or raises ValueError without quoting them.

    The bytes are compared and not the time stamps: a Kubernetes volume is swapped by a symlink,
    and a file written twice within one tick of the clock keeps its time.
    """

    def __init__(self, path: str, read: Callable[[bytes], T]) -> None:
        self._path = path
        self._read = read
        self._good: tuple[bytes, T] | None = None

    def current(self) -> T:
        """What it says now; the same instance as long as it says the same. Raises Unreadable."""
        try:
            raw = _content(self._path)
            if self._good is None or self._good[0] != raw:
                self._good = (raw, self._read(raw))
        except OSError as error:
            raise Unreadable(f"file `{self._path}`: {error.strerror or 'cannot be read'}") from None
        except ValueError as error:
            raise Unreadable(f"file `{self._path}` {error}") from None
        return self._good[1]

    def standing(self) -> T:
        """What it says now, or said last while it cannot be used. Raises Unreadable if it never could."""
        try:
            return self.current()
        except Unreadable:
            if self._good is None:
                raise
            return self._good[1]


def _content(path: str) -> bytes:
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is no regular file")
        raw = file.read(FILE_LIMIT + 1)
    if len(raw) > FILE_LIMIT:
        raise ValueError(f"has more than {FILE_LIMIT} bytes")
    return raw


def _open_at_once(path: str, flags: int) -> int:
    """Opening a pipe nobody writes to would stop everything."""
    return os.open(path, flags | os.O_NONBLOCK)
