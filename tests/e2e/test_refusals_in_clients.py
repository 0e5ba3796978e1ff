"""The incident, with each official client in the planner's place: it is told what its token lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e import client_runs
from tests.e2e.client_runs import CLIENTS, Client
from tests.e2e.deployment import READ, WRITE, Deployment

RUNS = [
    pytest.param(client, agent, id=f"{client} to {agent}") for client in CLIENTS for agent in client.agents
]

SPEAKS_1 = frozenset({"a2a-sdk-1", "a2a-js-1", "google-adk"})


def shows_text(client: Client, agent: str) -> bool:
    """Python's clients show of an error of 0.3's HTTP+JSON its status alone, whatever its body says."""
    if client.binding != "HTTP+JSON" or not client.environment.startswith("a2a-sdk"):
        return True
    return client.environment == "a2a-sdk-1" and agent in SPEAKS_1


@pytest.mark.parametrize(("client", "agent"), RUNS)
def test_fc_063_a_client_shows_its_user_the_missing_scope(
    client: Client, agent: str, deployment: Deployment, token: Callable[..., str]
) -> None:
    sidecar = deployment.sidecar(agent)
    heard = len(sidecar.recorder.calls())
    steps = client_runs.run(client, agent, sidecar.url, "refusal", token("alice", scope=WRITE))
    assert sidecar.recorder.calls()[heard:] == []
    assert [step["step"] for step in steps] == ["send", "stream"]
    for step in steps:
        assert "error" in step, step
        if shows_text(client, agent):
            assert "CapabilityScopeDivergence" in step["text"], step
            assert f"missing {READ}" in step["text"], step
        else:
            assert "403" in step["text"], step
