"""How many connections each of several processes has, in memory that all of them see.

Owns: that memory, and who has more than another.
Never: counts; shared_port.py does.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

ABSENT: Final = -1
_WORD: Final = 8  # bytes


def new_loads(processes: int) -> int:
    """The shared memory, as a descriptor to be handed down; nobody is there yet."""
    block = os.memfd_create("loads")
    os.ftruncate(block, processes * _WORD)
    loads = Loads(block)
    for process in range(processes):
        loads.tell(process, ABSENT)
    return block


class Loads:
    """How many connections each process has."""

    def __init__(self, block: int) -> None:
        self._words = memoryview(mmap.mmap(block, 0)).cast("q")

    def tell(self, process: int, connections: int) -> None:
        self._words[process] = connections

    def of(self, process: int) -> int:
        return int(self._words[process])

    def has_more(self, process: int) -> bool:
        """Whether `process` has more than another, by an eighth where they have many."""
        others = [n for i, n in enumerate(self._words) if i != process and n != ABSENT]
        if not others:
            return False
        least = min(others)
        return self._words[process] > least + least // 8
