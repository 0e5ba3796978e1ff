"""A process that uses names for the first time: `first_user.py FILE AT_A_TIME`, until it is killed.

Owns: printing a name once `first_use` has returned, not before.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path

from sidecar.ledger.sqlite import SqliteLedger


async def main(path: Path, at_a_time: int) -> None:
    ledger = await SqliteLedger.open(path, now=time.time)
    names = itertools.count()

    async def use() -> None:
        for n in names:
            assert await ledger.first_use(f"n-{n}".encode(), 4e9)
            print(f"n-{n}", flush=True)

    await asyncio.gather(*(use() for _ in range(at_a_time)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
