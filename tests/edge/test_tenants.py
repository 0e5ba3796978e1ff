"""A2A tenants: which may be named, and by whom (FC-077)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.edge.agent import CARD, Agent, a_task, answers
from tests.edge.conftest import Answer, Sidecar, Start, a_message

BOUND: Mapping[str, Any] = {
    "t1": {"claims": {"tid": "t1"}},
    "t2": {"claims": {"tid": ["t1", "t2"], "role": "ops"}},
}
V1 = {"A2A-Version": "1.0"}


async def fronting(start: Start, agent: Agent, tenants: Any = BOUND) -> Sidecar:
    agent.script = answers({"task": a_task("t-1")})
    review = {"name": "review", "upstream": agent.url, "public_url": "https://agents.test/review"}
    return await start(agents=[review | {"tenants": tenants}])


async def submit(sidecar: Sidecar, tenant: str | None, **claims: Any) -> Answer:
    params = {"message": a_message()} | ({} if tenant is None else {"tenant": tenant})
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    token = {"Authorization": f"Bearer {sidecar.token(**claims)}"}
    return await sidecar.send("POST", "/", who=None, json=body, headers=V1 | token)


def was_made(answer: Answer) -> bool:
    return "result" in answer.json


@pytest.mark.parametrize(
    ("tenant", "claims", "permitted"),
    [
        pytest.param("t1", {"tid": "t1"}, True, id="the value asked for"),
        pytest.param("t1", {"tid": ["t0", "t1"]}, True, id="one of the token's values"),
        pytest.param("t1", {"tid": "t2"}, False, id="another value"),
        pytest.param("t1", {"tid": "T1"}, False, id="values are compared exactly"),
        pytest.param("t1", {"tid": "t1 t2"}, False, id="a value is not split"),
        pytest.param("t1", {"tid": {"t1": True}}, False, id="an object meets nothing"),
        pytest.param("t1", {"tid": 1}, False, id="a number meets nothing"),
        pytest.param("t1", {"tid": [["t1"]]}, False, id="nor does a list in a list"),
        pytest.param("t1", {}, False, id="no such claim"),
        pytest.param("t2", {"tid": "t2", "role": "ops"}, True, id="every condition met"),
        pytest.param("t2", {"tid": "t2"}, False, id="only one of two conditions"),
        pytest.param("t3", {"tid": "t3"}, False, id="a tenant that is not listed"),
        pytest.param("t1/", {"tid": "t1"}, False, id="nearly its name"),
        pytest.param("", {}, True, id="an empty tenant is none"),
        pytest.param(None, {}, True, id="no tenant"),
    ],
)
async def test_who_may_use_which(
    start: Start, agent: Agent, tenant: str | None, claims: dict[str, Any], permitted: bool
) -> None:
    sidecar = await fronting(start, agent)
    answer = await submit(sidecar, tenant, **claims)
    assert was_made(answer) is permitted
    if not permitted:
        assert answer.json["error"]["code"] == -32001
        assert agent.received == []


async def test_a_tenant_that_is_not_yours_is_as_absent_as_one_that_never_was(
    start: Start, agent: Agent
) -> None:
    sidecar = await fronting(start, agent)
    never = await submit(sidecar, "t9", tid="t2")
    assert (await submit(sidecar, "t1", tid="t2")).shown == never.shown
    for method, params in (
        ("GetTask", {"id": "t-1"}),
        ("ListTasks", {}),
        ("CancelTask", {"id": "t-1"}),
    ):
        yours = await sidecar.call(method, params | {"tenant": "t1"})
        nobodys = await sidecar.call(method, params | {"tenant": "t9"})
        assert yours.shown == nobodys.shown
        assert yours.json["error"]["code"] == -32001
    by_path = await sidecar.send("GET", "/rest/t1/tasks/t-1", headers=V1)
    assert by_path.status == 404
    assert agent.received == []


async def test_once_one_tenant_is_bound_the_cards_own_need_to_be_listed_too(
    start: Start, agent: Agent
) -> None:
    rpc = CARD["supportedInterfaces"][0]
    agent.card = {**CARD, "supportedInterfaces": [{**rpc, "tenant": "declared"}]}
    sidecar = await fronting(start, agent, {"t1": {"claims": {"tid": "t1"}}})
    assert not was_made(await submit(sidecar, "declared"))
    assert not was_made(await submit(sidecar, None)), "without a name the declared one applies"
    assert agent.received == []


async def test_a_declared_tenant_is_for_everybody_while_none_is_bound(start: Start, agent: Agent) -> None:
    rpc = CARD["supportedInterfaces"][0]
    agent.card = {**CARD, "supportedInterfaces": [{**rpc, "tenant": "declared"}]}
    sidecar = await fronting(start, agent, ["t1"])
    assert was_made(await submit(sidecar, "declared"))
    assert not was_made(await submit(sidecar, "undeclared"))


async def test_a_task_of_one_tenant_is_not_found_under_another(start: Start, agent: Agent) -> None:
    sidecar = await fronting(start, agent, ["t1", "t2"])
    assert was_made(await submit(sidecar, "t1"))
    agent.script = answers(a_task("t-1"))
    agent.received.clear()
    elsewhere = await sidecar.call("GetTask", {"id": "t-1", "tenant": "t2"})
    assert elsewhere.shown == (await sidecar.call("GetTask", {"id": "never", "tenant": "t2"})).shown
    assert (await sidecar.call("GetTask", {"id": "t-1"})).json["error"]["code"] == -32001
    assert agent.received == []
    assert (await sidecar.call("GetTask", {"id": "t-1", "tenant": "t1"})).json["result"]["id"] == "t-1"


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/rest/t1/message:send", {"tenant": "t2", "message": a_message()}, id="path and body"),
        pytest.param("/rest/t1/message:send?tenant=t2", {"message": a_message()}, id="path and query"),
        pytest.param(
            "/rest/message:send?tenant=t1", {"tenant": "t2", "message": a_message()}, id="query and body"
        ),
    ],
)
async def test_places_that_disagree_are_refused(
    start: Start, agent: Agent, target: str, body: dict[str, Any]
) -> None:
    sidecar = await fronting(start, agent, ["t1", "t2"])
    answer = await sidecar.send("POST", target, json=body, headers=V1 | {"X-Tenant-Id": "t2"})
    assert answer.status == 400
    assert agent.received == []
