"""Kind 5, whom a call means that does not say: FC-077 (tenants), FC-172 (ids)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sidecar.model import SENDS
from tests.edge.agent import Agent, a_task, answers
from tests.edge.conftest import Answer, Sidecar, Start
from tests.field_cases.doors import SENDING, V0_1, V1_0, Asking, a_task_in, each, gets
from tests.issuer import Issuer
from tests.matrix.agent import replying
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import At, Cell
from tests.matrix.forms import require_divergence, require_error, require_not_found
from tests.matrix.requests import CARDS, LISTS, ROWS, Names, Request, Row

in_session = pytest.mark.asyncio(loop_scope="session")


# --- FC-077 --------------------------------------------------------------------------------------


async def two_tenants(start: Start, agent: Agent, **more: Any) -> Sidecar:
    """A sidecar before an agent that serves the tenants t1 and t2, both over JSON-RPC and HTTP+JSON."""
    hooks = {"upstream": agent.url, "public_url": "https://agents.test/review"}
    return await start(agents=[{"name": "review", **hooks, "tenants": ["t1", "t2"]}], **more)


def under(path: str = "", body: Any = None, query: str = "") -> Request:
    """`GetTask t-1` of 1.0 by HTTP+JSON, or by JSON-RPC where there is a `body` tenant (`...`: no member)."""
    version = {"A2A-Version": "1.0"}
    if body is None:
        return Request("GET", f"/rest{path}/tasks/t-1{query}", None, version)
    params = {"id": "t-1"} | ({} if body is ... else {"tenant": body})
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": params}
    return Request("POST", f"/{query}", json.dumps(call).encode(), version)


GET_ROWS = {
    True: next(r for r in ROWS if r.key == (V1_0, "GetTask")),
    False: next(r for r in ROWS if r.key == (V1_0, "GET", "/tasks/{id}")),
}


@pytest.mark.parametrize(
    ("request_", "finds"),
    [
        pytest.param(under(body="t1"), True, id="the tenant it was made under"),
        pytest.param(under("/t1"), True, id="the same in the path"),
        pytest.param(under(query="?tenant=t1"), True, id="the same in the query"),
        pytest.param(under("/t1", query="?tenant=t1"), True, id="the same in path and query"),
        pytest.param(under(body="t2"), False, id="another of the agent's tenants"),
        pytest.param(under("/t2"), False, id="another in the path"),
        pytest.param(under(query="?tenant=t2"), False, id="another in the query"),
        pytest.param(under(body=...), False, id="none: no default takes its place"),
        pytest.param(under(), False, id="none in path and query"),
        pytest.param(under(body=""), False, id="an empty one, which is none"),
        pytest.param(under(body=None, query="?tenant="), False, id="an empty one in the query"),
        pytest.param(under(body="T1"), False, id="in upper case"),
        pytest.param(under(body="t1/"), False, id="with a slash"),
        pytest.param(under(body=" t1"), False, id="with a blank"),
        pytest.param(under(body="t3"), False, id="one that is not declared"),
    ],
)
async def test_fc_077_a_task_belongs_to_the_tenant_it_was_made_under(
    start: Start, agent: Agent, request_: Request, finds: bool
) -> None:
    running = await two_tenants(start, agent)
    agent.script = answers({"task": a_task("t-1")})
    sent = await running.call("SendMessage", {"tenant": "t1", "message": message()})
    assert sent.json["result"]["task"]["id"] == "t-1"
    jsonrpc = request_.body is not None
    cell = Cell(GET_ROWS[jsonrpc], running, agent)
    agent.script, said = replying(cell.row, "t-1", context="c-1")
    agent.received.clear()
    answer = await cell.ask(request_)
    if finds:
        assert answer.body == said
        return
    require_not_found(cell.row, answer)
    absent = replace(
        request_,
        target=request_.target.replace("t-1", "t-9"),
        body=request_.body and request_.body.replace(b"t-1", b"t-9"),
    )
    assert answer.shown == (await cell.ask(absent)).shown
    assert agent.received == []


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(under("/t1", query="?tenant=t2"), id="path and query"),
        pytest.param(
            Request("POST", "/rest/t1/tasks/t-1:cancel", b'{"tenant":"t2"}', {"A2A-Version": "1.0"}),
            id="path and body",
        ),
        pytest.param(
            Request(
                "POST",
                "/rest/t1/tasks/t-1/pushNotificationConfigs",
                b'{"tenant":"t2","url":"https://h.example"}',
                {"A2A-Version": "1.0"},
            ),
            id="path and webhook",
        ),
        pytest.param(under(body=["t1"]), id="a list of one"),
        pytest.param(under(body=1), id="a number"),
    ],
)
async def test_fc_077_places_that_disagree_are_refused(start: Start, agent: Agent, request_: Request) -> None:
    running = await two_tenants(start, agent)
    agent.script = answers({"task": a_task("t-1")})
    await running.call("SendMessage", {"tenant": "t1", "message": message()})
    agent.received.clear()
    jsonrpc = request_.body is not None and request_.body.startswith(b'{"jsonrpc')
    answer = await Cell(GET_ROWS[jsonrpc], running, agent).ask(request_)
    require_error(GET_ROWS[jsonrpc], answer, jsonrpc=-32602, http=400)
    assert agent.received == []


async def test_fc_077_a_header_names_no_tenant_and_goes_no_further(start: Start, agent: Agent) -> None:
    running = await two_tenants(start, agent)
    agent.script = answers({"task": a_task("t-1")})
    await running.call("SendMessage", {"tenant": "t1", "message": message()})
    agent.script = answers(a_task("t-1"))
    for name in ("X-Tenant-Id", "X_Tenant_Id", "X-Tenant-ID"):
        request = under(body="t1")
        headers = request.headers | {name: "t2"}
        answer = await running.send("POST", "/", data=request.body, headers=headers)
        assert answer.json["result"]["id"] == "t-1"
        assert agent.received[-1].values(name) == []
    request = under(body=...)
    answer = await running.send(
        "POST", "/", data=request.body, headers=request.headers | {"X-Tenant-Id": "t1"}
    )
    assert answer.json["error"]["code"] == -32001


async def test_fc_077_the_tenant_of_the_token_is_part_of_the_owner(
    start: Start, agent: Agent, issuer: Issuer
) -> None:
    trusted = {"issuer": issuer.url, "audiences": ["agent"], "claims": {"tenant": "tid"}}
    running = await two_tenants(start, agent, identity={"issuers": [trusted]})
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message()}}

    async def ask(method: str, params: Any, **claims: Any) -> Answer:
        headers = {"Authorization": f"Bearer {running.token('alice', **claims)}", "A2A-Version": "1.0"}
        said = call | {"method": method, "params": params}
        return await running.send("POST", "/", who=None, json=said, headers=headers)

    agent.script = answers({"task": a_task("t-1")})
    assert "result" in (await ask("SendMessage", {"message": message()}, tid="t1")).json
    agent.received.clear()
    for tid in ("t2", "T1", "t1/", " t1"):
        foreign, absent = [await ask("GetTask", {"id": named}, tid=tid) for named in ("t-1", "t-9")]
        assert foreign.json["error"]["code"] == -32001
        assert foreign.shown == absent.shown
    for claims in ({}, {"tid": ""}, {"tid": None}, {"tid": ["t1"]}):
        assert (await ask("GetTask", {"id": "t-1"}, **claims)).status == 401, "a default took its place"
    assert agent.received == []
    agent.script = answers(a_task("t-1"))
    assert (await ask("GetTask", {"id": "t-1"}, tid="t1")).json["result"]["id"] == "t-1"


def message() -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


# --- FC-172 --------------------------------------------------------------------------------------

ABSENT = object()
NO_ID: Mapping[str, Any] = {
    "no id": ABSENT,
    "null": None,
    "an empty string": "",
    "zero": 0,
    "an empty list": [],
    "an empty object": {},
    "false": False,
}


def without_id(row: Row, value: Any, **more: Any) -> Request:
    """The call of a JSON-RPC row with `value` where its task id was."""
    request = row.on_a_task("PLACEHOLDER")
    assert request.body is not None
    call = json.loads(request.body)
    named = id_member(row)
    params = {name: each for name, each in call["params"].items() if name != named}
    call["params"] = params | ({} if value is ABSENT else {named: value}) | more
    return replace(request, body=json.dumps(call).encode())


def id_member(row: Row) -> str:
    """The member of `params` that names the task."""
    request = row.on_a_task("PLACEHOLDER")
    assert request.body is not None
    return next(n for n, each in json.loads(request.body)["params"].items() if each == "PLACEHOLDER")


ON_A_TASK = [row for row in ROWS if row.operation not in SENDS and row.key not in LISTS | CARDS]


@in_session
@pytest.mark.parametrize("row", each(row for row in ON_A_TASK if row.jsonrpc))
async def test_fc_172_without_an_id_nothing_is_taken_in_its_place(at: At, row: Row) -> None:
    """For the owner no more than for anybody: the only task alive is not what a call without an id means."""
    cell = await at(row)
    task = await a_task_in(cell, "working")
    untouched = cell.untouched()
    wrong = {"id": "taskId", "taskId": "id"}[id_member(row)]
    elsewhere = ({wrong: task}, {"name": f"tasks/{task}"}, {"task": task}, {"contextId": f"c-{task}"})
    asked = [without_id(row, value) for value in NO_ID.values()]
    for request in (*asked, *(without_id(row, ABSENT, **more) for more in elsewhere)):
        for who in ("alice", "mallory"):
            answer = await cell.ask(request, who)
            require_error(row, answer, jsonrpc=-32602, http=400)
            assert task.encode() not in answer.body
    assert untouched(), "the agent was asked"


@in_session
@pytest.mark.parametrize("row", each(row for row in ON_A_TASK if not row.jsonrpc))
async def test_fc_172_nor_by_a_path_without_one(at: At, row: Row) -> None:
    cell = await at(row)
    task = await a_task_in(cell, "working")
    untouched = cell.untouched()
    request = row.on_a_task("PLACEHOLDER")
    for segment in ("", "%20", "%00", "null?id=" + task, "?id=" + task, "?name=tasks/" + task):
        target = request.target.replace("PLACEHOLDER", segment)
        body = request.body and json.dumps({"id": task, "name": f"tasks/{task}"}).encode()
        for sent in (request.body and request.body.replace(b"PLACEHOLDER", b""), body):
            for who in ("alice", "mallory"):
                answer = await cell.ask(replace(request, target=target, body=sent), who)
                assert answer.status in (400, 404, 405), (segment, answer)
                assert task.encode() not in answer.body
    assert untouched(), "the agent was asked"


@in_session
@pytest.mark.parametrize("row", each(row for row in SENDING if row.dialect.version is not V0_1))
@pytest.mark.parametrize("value", ["", None], ids=["empty", "null"])
async def test_fc_172_an_empty_id_of_a_send_starts_a_new_task(at: At, row: Row, value: Any) -> None:
    cell = await at(row)
    task = await a_task_in(cell, "working")
    request = row.sending(Names())
    assert request.body is not None
    body = json.loads(request.body)
    (body["params"] if row.jsonrpc else body)["message"] |= {"taskId": value, "contextId": value}
    request = replace(request, body=json.dumps(body).encode())
    untouched = cell.untouched()
    narrow = await cell.ask(request, "mallory", scope="w")
    require_divergence(row, narrow)  # so it was judged as one that creates
    assert untouched(), "the agent was asked"
    made = a_random_id()
    cell.agent.script, said = replying(row, made, context=f"c-{made}")
    assert (await cell.ask(request, "mallory")).body == said
    assert await gets(cell, "mallory", made)
    assert not await gets(cell, "alice", made)
    assert await gets(cell, "alice", task)


@in_session
@pytest.mark.parametrize("row", each(row for row in SENDING if row.dialect.version is V0_1))
async def test_fc_172_0_1_a_send_must_name_its_task(at: At, row: Row) -> None:
    cell = await at(row)
    await a_task_in(cell, "working")
    untouched = cell.untouched()
    request = row.sending(Names("PLACEHOLDER"))
    assert request.body is not None
    for value in NO_ID.values():
        call = json.loads(request.body)
        call["params"] = {name: each for name, each in call["params"].items() if name != "id"}
        call["params"] |= {} if value is ABSENT else {"id": value}
        answer = await cell.ask(replace(request, body=json.dumps(call).encode()), "mallory")
        require_error(row, answer, jsonrpc=-32602, http=400)
    assert untouched(), "the agent was asked"


async def test_fc_172_nothing_empty_is_ever_a_key_of_the_ledger(start: Start, agent: Agent) -> None:
    ledger = Asking()
    running = await start(ledger)
    empty = {"taskId": "", "contextId": "", "referenceTaskIds": []}
    for given in ({"id": "", "contextId": "c"}, {"id": "t-1", "contextId": ""}, {"id": "t-2"}):
        task = a_task("x") | given
        agent.script = answers({"task": {k: v for k, v in task.items() if k in given or k == "status"}})
        answer = await running.call("SendMessage", {"message": message() | empty})
        assert (answer.status == 200) is bool(given["id"])
    for method in ("GetTask", "CancelTask", "tasks/get"):
        await running.call(method, {"id": ""})
    await running.send("GET", "/rest/tasks/", headers={"A2A-Version": "1.0"})
    assert {"t-1", "t-2"} <= set(ledger.ids)
    assert "" not in ledger.ids
