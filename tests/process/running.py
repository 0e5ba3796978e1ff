"""`python -m sidecar run --policy FILE`, started, listened to and ended.

Owns: the process and what it said.
Never: looks inside it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.edge.conftest import Answer
from tests.issuer import Issuer

PATIENCE = 30.0  # seconds; the machine may be busy with other tests


def command(policy: Path, workers: int = 1) -> list[str]:
    several = ["--workers", str(workers)] if workers > 1 else []
    return [sys.executable, "-m", "sidecar", "run", "--policy", str(policy), *several]


async def run_to_its_end(
    policy: Path, workers: int = 1, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    return await asyncio.to_thread(
        subprocess.run,
        command(policy, workers),
        cwd=policy.parent,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@dataclass
class Running:
    """One sidecar process. `stdout` and `stderr` are files, so that nothing it says is lost or blocks it."""

    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    issuer: Issuer
    session: aiohttp.ClientSession
    url: str = ""
    admin_url: str = ""

    async def until_listening(self) -> None:
        await self.until(lambda: bool(self.logged("listening")) or self.process.poll() is not None)
        assert self.process.poll() is None, self.stderr.read_text()
        said = self.logged("listening")[0]
        self.url, self.admin_url = f"http://{said['traffic']}", f"http://{said['admin']}"

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Records of the log with this event; a line still being written does not count yet."""
        lines = self.stderr.read_text().splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]
        return [record for record in records if record["event"] == event]

    def audited(self) -> list[dict[str, Any]]:
        """What the audit said on stdout so far."""
        lines = self.stdout.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.01)

    async def until_answers(self, url: str, status: int) -> Answer:
        """Ask until the answer has this status."""
        async with asyncio.timeout(PATIENCE):
            while (answer := await self.get(url)).status != status:
                await asyncio.sleep(0.02)
        return answer

    async def until_closed(self) -> None:
        """Until nobody listens on the traffic port any more."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except ConnectionRefusedError:
                    return
                except ConnectionResetError:  # it had been queued when the listener closed
                    continue
                writer.close()
                await asyncio.sleep(0.01)

    async def get(self, url: str) -> Answer:
        async with self.session.get(url) as reply:
            return await read(reply)

    def token(self, who: str = "alice", scope: str = "w r", **claims: Any) -> str:
        return self.issuer.mint(sub=who, scope=scope, azp="planner", **claims)

    def bearer(self, who: str = "alice", scope: str = "w r") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(who, scope)}"}

    def calling(self, method: str, params: dict[str, Any], *, who: str = "alice", scope: str = "w r") -> Any:
        """A 1.0 JSON-RPC call, to be entered: the reply may be a stream."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = self.bearer(who, scope) | {"A2A-Version": "1.0"}
        return self.session.post(self.url + "/", json=body, headers=headers)

    async def call(self, method: str, params: dict[str, Any], **who: str) -> Answer:
        async with self.calling(method, params, **who) as reply:
            return await read(reply)

    async def submit(self, **who: str) -> Answer:
        return await self.call("SendMessage", {"message": MESSAGE}, **who)

    def workers(self) -> dict[int, int]:
        """The process id of each worker, as far as the log tells."""
        return {said["worker"]: said["pid"] for said in self.logged("a worker begins")}

    async def metrics(self) -> dict[str, float]:
        """Each sample, by its name and labels as they are written."""
        lines = (await self.get(f"{self.admin_url}/metrics")).body.decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def ended(self) -> int:
        """Its exit code, once it has one."""
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    async def stop(self) -> None:
        """Stop it as an orchestrator does."""
        self.terminate()
        assert await self.ended() == 0


MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


async def read(reply: aiohttp.ClientResponse) -> Answer:
    headers = [(k.decode(), v.decode()) for k, v in reply.raw_headers]
    return Answer(reply.status, headers, await reply.read())
