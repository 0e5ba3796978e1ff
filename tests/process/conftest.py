"""Sidecar processes before a scripted agent and a real issuer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.edge.agent import Agent
from tests.edge.conftest import agent, issuer
from tests.issuer import Issuer
from tests.process.running import Running, command

__all__ = ["agent", "issuer"]

Policy = Callable[..., Path]
Launch = Callable[..., Awaitable[Running]]


@pytest.fixture
def policy(agent: Agent, issuer: Issuer, tmp_path: Path) -> Policy:
    """Write a policy file, with sections of it changed. JSON is YAML."""

    def written(**sections: Any) -> Path:
        document = {
            "version": 1,
            "listen": "127.0.0.1:0",
            "admin": "127.0.0.1:0",
            "upstream": agent.url,
            "public_url": "https://agents.test/review",
            "issuer": issuer.url,
            "audience": "agent",
            "ledger": {"url": f"sqlite:///{tmp_path}/ledger.db"},
        }
        number = len(list(tmp_path.glob("policy-*.yaml")))
        path = tmp_path / f"policy-{number}.yaml"
        path.write_text(json.dumps(document | sections, indent=1))
        return path

    return written


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=120),  # the sidecar must close first
        timeout=aiohttp.ClientTimeout(total=40),
    ) as running:
        yield running


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What a test started ends with it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture
def launch(
    policy: Policy,
    issuer: Issuer,
    session: aiohttp.ClientSession,
    processes: list[subprocess.Popen[bytes]],
) -> Launch:
    """Start the command and wait until it listens. Every start of one test has the same ledger."""

    async def started(env: dict[str, str] | None = None, workers: int = 1, **sections: Any) -> Running:
        path = policy(**sections)
        out, err = path.with_suffix(".out"), path.with_suffix(".err")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                command(path, workers),
                cwd=path.parent,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        processes.append(process)
        running = Running(process, out, err, issuer, session)
        await running.until_listening()
        return running

    return started


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def launch_either(request: pytest.FixtureRequest, launch: Launch) -> Launch:
    """The command with and without workers: to whoever calls it, and to whoever stops it, that is one thing."""
    return partial(launch, workers=request.param)
