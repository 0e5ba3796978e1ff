"""The public card and the caller's extended card, from outside."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from aiohttp import web

from tests.edge.agent import CARD, Agent, Script, a_task, answers, error, result
from tests.edge.conftest import Sidecar, Start, eventually

EXTENDED = copy.deepcopy(CARD)
EXTENDED["capabilities"]["extendedAgentCard"] = True


def with_extended(card: dict[str, Any] | None, *others: Any) -> Script:
    """The agent gives this extended card, or none; other calls get `others` in turn."""
    other = answers(*others) if others else None

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        if json.loads(body)["method"] == "GetExtendedAgentCard":
            return result(body, card) if card is not None else error(body, -32007, "not configured")
        assert other is not None
        return await other(request, body)

    return script


def needing(*scopes: str) -> dict[str, Any]:
    return EXTENDED | {"securityRequirements": [{"schemes": {"o": {"list": list(scopes)}}}]}


@pytest.mark.parametrize(
    ("card", "scope", "methods"),
    [
        pytest.param(
            needing("w", "r", "x"), "w r", ["GetExtendedAgentCard"], id="the caller's own card asks for more"
        ),
        pytest.param(needing("w"), "w r", ["GetExtendedAgentCard", "SendMessage"], id="it asks for less"),
        pytest.param(None, "w r", ["GetExtendedAgentCard", "SendMessage"], id="this caller has none"),
        pytest.param(needing("w"), "w", [], id="the public card already refuses: the agent is untouched"),
    ],
)
async def test_the_callers_own_extended_card_is_judged_too(
    start: Start, agent: Agent, card: dict[str, Any] | None, scope: str, methods: list[str]
) -> None:
    agent.card = EXTENDED
    agent.script = with_extended(card, {"task": a_task("t-1")})
    running = await start()
    call = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}
    reply = await running.call("SendMessage", call, scope=scope)
    assert [r.json["method"] for r in agent.received] == methods
    assert ("result" in reply.json) == ("SendMessage" in methods)


async def test_it_is_asked_for_once_a_caller(start: Start, agent: Agent) -> None:
    agent.card = EXTENDED
    agent.script = with_extended(needing("w"), {"task": a_task("t-1")}, {"task": a_task("t-2")})
    running = await start()
    token = {"Authorization": f"Bearer {running.token()}", "A2A-Version": "1.0"}
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "parts": []}},
    }
    for _ in range(2):
        await running.send("POST", "/", json=body, headers=token)
    assert [r.json["method"] for r in agent.received] == [
        "GetExtendedAgentCard",
        "SendMessage",
        "SendMessage",
    ]


async def test_an_extended_card_that_cannot_be_had_is_no_reason_to_pass(start: Start, agent: Agent) -> None:
    async def broken(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=500)

    agent.card, agent.script = EXTENDED, broken
    running = await start()
    refused = await running.submit()
    assert refused.status == 503
    assert refused.header("Retry-After")


@pytest.mark.parametrize(
    ("card", "refused"),
    [
        pytest.param(needing("w", "r", "x"), "missing x", id="it asks for more than the token holds"),
        pytest.param(..., "the agent failed", id="it cannot be had, so nobody can say"),
        pytest.param(None, None, id="this caller has none"),
    ],
)
async def test_a_task_made_by_a_continuing_send_is_judged_by_it(
    start: Start, agent: Agent, card: Any, refused: str | None
) -> None:
    """The agent opens another task than the one it was told to go on with."""
    agent.card = EXTENDED
    agent.script = with_extended(None, {"task": a_task("t-1")})
    running = await start()
    assert (await running.submit()).json["result"]["task"]["id"] == "t-1"

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        if json.loads(body)["method"] == "GetExtendedAgentCard" and card is ...:
            return web.Response(status=500)
        given = None if card is ... else card
        return await with_extended(given, {"task": a_task("t-2", "c-t-1")})(request, body)

    agent.script = script
    agent.received.clear()
    # A token nobody has seen yet, for which the extended card is asked for anew.
    call = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "taskId": "t-1"}}
    reply = await running.call("SendMessage", call, scope="r w")
    if refused is None:
        assert reply.json["result"]["task"]["id"] == "t-2"
        return
    assert refused in reply.json["error"]["message"]
    assert reply.header("Retry-After") is None
    await eventually(lambda: "CancelTask" in [r.json["method"] for r in agent.received])


async def test_the_extended_card_is_rewritten_and_needs_a_credential(start: Start, agent: Agent) -> None:
    agent.card = EXTENDED
    agent.script = with_extended(EXTENDED | {"name": "extended"})
    running = await start()
    card = await running.call("GetExtendedAgentCard", {})
    assert card.json["result"]["name"] == "extended"
    assert b"internal" not in card.body
    assert card.json["id"] == 1
    assert (await running.call("GetExtendedAgentCard", {}, who=None)).status == 401
    assert len(agent.received) == 1


@pytest.mark.parametrize(
    "target",
    [
        "/.well-known/agent-card.json/",
        "/.well-known/AGENT-CARD.json",
        "/.well-known/agent%2Dcard.json",
        "/x/.well-known/agent-card.json",
        "/agent.json",
        "/a2a/agent.json",
    ],
)
async def test_no_card_leaves_unrewritten(running: Sidecar, agent: Agent, target: str) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.json_response(CARD)

    agent.script = script
    reply = await running.send("GET", target)
    assert b"internal" not in reply.body
    assert agent.received == []


async def test_a_card_with_new_needs_is_in_force_after_the_refresh(start: Start, agent: Agent) -> None:
    running = await start(
        agents=[
            {"name": "r", "upstream": agent.url, "public_url": "https://a.test", "card": {"refresh": 0.001}}
        ]
    )
    agent.script = answers({"task": a_task("t-1")})
    assert "result" in (await running.submit()).json
    agent.card = CARD | {"securityRequirements": [{"schemes": {"o": {"list": ["w", "r", "more"]}}}]}
    for _ in range(200):
        if "error" in (await running.submit()).json:
            break
    else:
        pytest.fail("the new card never came into force")


async def test_a_card_we_cannot_read_creates_nothing(start: Start, agent: Agent) -> None:
    agent.card = CARD | {"skills": [{"id": 5}]}
    running = await start()
    assert (await running.submit()).status == 503
    assert agent.received == []
