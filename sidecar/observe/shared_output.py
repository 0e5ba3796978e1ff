"""One audit output of several processes, without a torn line.

Owns: that a batch of whole lines is written whole, and what follows a writer that died in the middle of one.
Never: looks at a line.

Neither a pipe nor an appended file keeps a write of more than PIPE_BUF (4 KiB) in one piece, and a batch is often longer.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import BinaryIO


def new_lock() -> int:
    """What the processes share, as a descriptor to be handed down."""
    lock = os.memfd_create("output")
    os.ftruncate(lock, 1)
    return lock


class SharedOutput:
    """`out`, for whole batches. Every process makes its own of the same `lock`."""

    def __init__(self, out: BinaryIO, lock: int) -> None:
        self._file, self._out = out, out.fileno()
        self._begun = mmap.mmap(lock, 1)  # 1 while a batch is being written
        # A lock belongs to the description of a file, and inherited ones are one.
        self._lock = os.open(f"/proc/self/fd/{lock}", os.O_RDWR | os.O_CLOEXEC)

    def write(self, lines: bytes) -> int:
        """Write all of `lines`. Raises OSError."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            left = memoryview(b"\n" + lines if self._begun[0] else lines)
            self._begun[0] = 1
            while left:
                left = left[os.write(self._out, left) :]
            self._begun[0] = 0
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return len(lines)

    def flush(self) -> None:
        """Nothing is kept back."""
