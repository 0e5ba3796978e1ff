"""A process that joins a ledger another one holds: `racer.py PATH DEVICE INODE LOCK BLOCK QUEUE record|hang OWNER COUNT`.

Owns: recording `COUNT` tasks for OWNER when told to, printing the numbers of those it got; or hanging in its turn to write.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from sidecar.ledger import tables
from sidecar.ledger.opening import Held
from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Owner
from tests.contract.ledger_contract import final, task

AT_A_TIME = 10


async def record(ledger: SqliteLedger, owner: Owner, count: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = iter(range(count))

    async def some() -> None:
        for n in numbers:
            if not await ledger.record(owner, [final(task(f"t-{n}"))]):
                print(n)

    await asyncio.gather(*(some() for _ in range(AT_A_TIME)))
    await ledger.close()


async def hang(ledger: SqliteLedger, owner: Owner, count: int) -> None:
    def recorded(db: Any) -> None:
        tables.record(db, owner, None, [final(task(f"t-{count}"))], time.time())
        print("in its turn", flush=True)
        time.sleep(3600)

    await ledger._writer.submit(recorded)


async def main(path: str, device: str, inode: str, *rest: str) -> None:
    lock, block, queue, what, owner, count = rest
    held = Held(Path(path), (int(device), int(inode)), int(lock), int(block), int(queue))
    ledger = await SqliteLedger.open(held, now=time.time)
    doing = {"record": record, "hang": hang}[what]
    await doing(ledger, Owner("t1", "https://idp.example.com", owner), int(count))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
