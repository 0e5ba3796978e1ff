"""Starting: what stops it, with which words, and what does not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.edge.agent import Agent, a_task, answers
from tests.issuer import Issuer
from tests.process.conftest import Launch, Policy
from tests.process.running import run_to_its_end

WRONG_CONFIGURATION = 2


async def test_a_wrong_policy_is_told_whole_with_file_line_and_key(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "version: 1\n"
        "listen: 127.0.0.1:0\n"
        "upstrem: http://127.0.0.1:9000\n"
        "upstream: http://127.0.0.1:9000\n"
        "public_url: agents.test\n"
        "issuer: http://idp.example.com\n"
        "audience: a\n"
        "limits:\n"
        "  body: plenty\n"
        "  drain_timeout: soon\n"
        "ledger: {url: 'redis://x'}\n"
    )
    ended = await run_to_its_end(path)
    assert ended.returncode == WRONG_CONFIGURATION
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    for place in (
        "3: upstrem: ",
        "5: public_url: ",
        "6: issuer: ",
        "9: limits.body: ",
        "10: limits.drain_timeout: ",
        "11: ledger.url: ",
    ):
        assert [line for line in lines if line.startswith(f"{path}:{place}")], f"{place} in {lines}"
    assert len(lines) == 6
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("version: 1\nversion: 1\n", ":2: version: ", id="a duplicate key"),
        pytest.param("version: [1\n", ":1: is no YAML", id="no YAML at all"),
        pytest.param("", ":1: is empty", id="an empty file"),
    ],
)
async def test_what_is_no_policy_stops_the_start(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    ended = await run_to_its_end(path)
    assert ended.returncode == WRONG_CONFIGURATION
    assert f"{path}{told}" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_policy_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    ended = await run_to_its_end(tmp_path / "none.yaml")
    assert ended.returncode == WRONG_CONFIGURATION
    assert "none.yaml" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("port", ["listen", "admin"])
async def test_a_port_in_use_stops_the_start(policy: Policy, port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = await run_to_its_end(policy(**{port: address}))
    assert ended.returncode == WRONG_CONFIGURATION
    assert f"cannot listen on {address}: " in ended.stderr
    assert "Address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_second_process_on_one_ledger_does_not_start(
    launch: Launch, policy: Policy, agent: Agent, tmp_path: Path
) -> None:
    first = await launch()
    ended = await run_to_its_end(policy())
    assert ended.returncode == WRONG_CONFIGURATION
    assert f"ledger `{tmp_path}/ledger.db` is in use by another process" in ended.stderr
    assert "Traceback" not in ended.stderr
    agent.script = answers({"task": a_task("t-1")})
    assert (await first.submit()).status == 200, "the first one was disturbed"


async def test_a_ledger_with_no_place_to_be_stops_the_start(policy: Policy, tmp_path: Path) -> None:
    ended = await run_to_its_end(policy(ledger={"url": f"sqlite:///{tmp_path}/none/ledger.db"}))
    assert ended.returncode == WRONG_CONFIGURATION
    assert "ledger.url: " in ended.stderr
    assert f"there is no directory `{tmp_path}/none`" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_an_agent_that_comes_later_is_waited_for(launch: Launch, agent: Agent) -> None:
    """In a pod the sidecar starts first (design §2.8)."""
    await agent.down()
    running = await launch()
    assert (await running.get(f"{running.admin_url}/livez")).status == 200
    ready = await running.get(f"{running.admin_url}/readyz")
    assert ready.status == 503
    assert "card of agent" in ready.json["problems"]
    refused = await running.submit()
    assert refused.status == 503
    assert refused.header("Retry-After")
    assert refused.json["error"]["code"] == -32603
    await agent.up()
    agent.script = answers({"task": a_task("t-1")})
    await running.until_answers(f"{running.admin_url}/readyz", 200)
    assert (await running.submit()).json["result"]["task"]["id"] == "t-1"


async def test_an_issuer_that_comes_later_is_waited_for(launch: Launch, agent: Agent, issuer: Issuer) -> None:
    await issuer.down()
    running = await launch(identity={"keys_cooldown": "100ms"})
    assert (await running.get(f"{running.admin_url}/livez")).status == 200
    ready = await running.get(f"{running.admin_url}/readyz")
    assert ready.status == 503
    assert "identity" in ready.json["problems"]
    refused = await running.submit()
    assert refused.status == 503
    assert refused.header("Retry-After")
    assert agent.received == []
    await issuer.up()
    agent.script = answers({"task": a_task("t-1")})
    await running.until_answers(f"{running.admin_url}/readyz", 200)
    assert (await running.submit()).json["result"]["task"]["id"] == "t-1"
