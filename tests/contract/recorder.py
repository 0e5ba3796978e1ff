"""A process that records tasks for ALICE: `recorder.py FILE COUNT AT_A_TIME`.

Owns: printing `id begun ended` (nanoseconds of CLOCK_MONOTONIC) once `record` has returned, not before.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from sidecar.ledger.sqlite import SqliteLedger
from tests.contract.ledger_contract import ALICE, context, final, task


async def main(path: Path, count: int, at_a_time: int) -> None:
    ledger = await SqliteLedger.open(path, now=time.time)
    names = iter(range(count))

    async def record() -> None:
        for n in names:
            begun = time.monotonic_ns()
            assert not await ledger.record(ALICE, [final(task(f"t-{n}")), final(context(f"c-{n}"))])
            print(f"t-{n}", begun, time.monotonic_ns(), flush=True)

    await asyncio.gather(*(record() for _ in range(at_a_time)))
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
