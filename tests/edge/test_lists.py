"""Lists of tasks: the caller's own, from the ledger, whatever the agent's own list would say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Entry, Fact, Kind, Owner, Resource
from tests.edge.agent import Agent, a_task, error, result
from tests.edge.conftest import Answer, Sidecar, Start

WORKING, COMPLETED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"


class Tasks:
    """What the agent holds, answered to GetTask in both bindings; its own list shows everybody's."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, Any]] = {}
        self.broken: dict[str, web.Response] = {}
        self.new: list[dict[str, Any]] = []

    def add(self, id_: str, minute: int, state: str = COMPLETED, context: str = "c-1", **more: Any) -> None:
        self.new.append(
            {
                "id": id_,
                "contextId": context,
                "status": {"state": state, "timestamp": f"2026-11-30T10:{minute:02}:00Z"},
                **more,
            }
        )

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.method == "GET":
            return self._rest(request.path.rpartition("/")[2])
        said = json.loads(body)
        if said["method"] in ("SendMessage", "message/send"):
            task = self.new.pop(0)
            self.tasks[task["id"]] = task
            return result(
                body, {"task": task} if said["method"] == "SendMessage" else {"kind": "task", **task}
            )
        assert said["method"] in ("GetTask", "tasks/get"), said["method"]
        id_ = said["params"]["id"]
        if id_ in self.broken:
            return self.broken[id_]
        return result(body, self.tasks[id_]) if id_ in self.tasks else error(body, -32001, "Task not found")

    def _rest(self, id_: str) -> web.Response:
        if id_ in self.tasks:
            return web.json_response(self.tasks[id_])
        return web.json_response(
            {
                "error": {
                    "code": 404,
                    "status": "NOT_FOUND",
                    "details": [{"reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}],
                }
            },
            status=404,
        )


@pytest.fixture
def tasks(agent: Agent) -> Tasks:
    script = Tasks()
    agent.script = script
    return script


async def given(sidecar: Sidecar, tasks: Tasks, who: str = "alice") -> None:
    """Each new task is made by `who` through the sidecar."""
    while tasks.new:
        context = tasks.new[0]["contextId"]
        reply = await sidecar.submit(who, contextId=context)
        assert reply.status == 200, reply.body


async def listed(sidecar: Sidecar, who: str = "alice", **params: Any) -> dict[str, Any]:
    reply = await sidecar.call("ListTasks", params, who=who)
    assert reply.status == 200
    assert "result" in reply.json, reply.json
    found: dict[str, Any] = reply.json["result"]
    return found


def ids(page: dict[str, Any]) -> list[str]:
    return [task["id"] for task in page["tasks"]]


async def test_a_list_holds_the_callers_tasks_newest_first(running: Sidecar, tasks: Tasks) -> None:
    for minute in (3, 1, 2):
        tasks.add(f"t-{minute}", minute, context="c-alice")
    await given(running, tasks)
    tasks.add("t-bob", 9, context="c-bob")
    await given(running, tasks, "bob")

    assert await listed(running) == {
        "tasks": [tasks.tasks[id_] for id_ in ("t-3", "t-2", "t-1")],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 3,
    }
    assert ids(await listed(running, "bob")) == ["t-bob"]
    assert await listed(running, "carol") == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        pytest.param("/rest/tasks", {"A2A-Version": "1.0"}, id="HTTP+JSON 1.0"),
        pytest.param("/rest/v1/tasks", {}, id="HTTP+JSON 0.3"),
        pytest.param(
            "/rest/tasks?pageSize=50&context_id=c-1", {"A2A-Version": "1.0"}, id="snake_case filter"
        ),
    ],
)
async def test_the_same_by_http(running: Sidecar, tasks: Tasks, target: str, headers: dict[str, str]) -> None:
    tasks.add("t-1", 1)
    await given(running, tasks)

    reply = await running.send("GET", target, headers=headers)

    assert reply.status == 200
    assert reply.json == {
        "tasks": [tasks.tasks["t-1"]],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 1,
    }
    assert [k for k, _ in reply.headers] == [
        k for k, _ in (await running.send("GET", target, headers=headers)).headers
    ]


async def test_a_list_of_0_3(running: Sidecar, tasks: Tasks) -> None:
    tasks.add("t-1", 1, "completed")
    await given(running, tasks)
    reply = await running.call("tasks/list", {"status": "completed"})
    assert ids(reply.json["result"]) == ["t-1"]


async def test_pages_hold_each_task_once_and_end(running: Sidecar, tasks: Tasks) -> None:
    for minute in range(7):
        tasks.add(f"t-{minute}", minute // 2)
    await given(running, tasks)

    seen, token, sizes = [], "", []
    while True:
        page = await listed(running, pageSize=3, pageToken=token)
        seen += ids(page)
        sizes.append(len(page["tasks"]))
        assert (page["totalSize"], page["pageSize"]) == (7, 3)
        token = page["nextPageToken"]
        if not token:
            break
    assert sizes == [3, 3, 1]
    assert seen == ["t-6", "t-4", "t-5", "t-2", "t-3", "t-0", "t-1"]


async def test_a_state_is_the_agents_and_not_the_one_last_seen(running: Sidecar, tasks: Tasks) -> None:
    tasks.add("t-1", 1, WORKING)
    tasks.add("t-2", 2, WORKING)
    await given(running, tasks)
    tasks.tasks["t-1"]["status"] = {"state": COMPLETED, "timestamp": "2026-11-30T11:00:00Z"}

    assert ids(await listed(running)) == ["t-1", "t-2"]
    assert ids(await listed(running, status=COMPLETED)) == ["t-1"]
    assert ids(await listed(running, status=WORKING)) == ["t-2"]
    assert (await listed(running, status=WORKING))["totalSize"] == 1


async def test_what_the_agent_has_forgotten_is_not_listed(
    running: Sidecar, tasks: Tasks, agent: Agent
) -> None:
    for minute in range(6):
        tasks.add(f"t-{minute}", minute)
    await given(running, tasks)
    del tasks.tasks["t-5"], tasks.tasks["t-4"], tasks.tasks["t-2"]

    page = await listed(running, pageSize=2)
    assert (ids(page), page["totalSize"]) == (["t-3", "t-1"], 3)
    rest = await listed(running, pageSize=2, pageToken=page["nextPageToken"])
    assert (ids(rest), rest["nextPageToken"]) == (["t-0"], "")
    agent.received.clear()
    assert ids(await listed(running)) == ["t-3", "t-1", "t-0"]
    assert len(agent.received) == 3, "a purged task is asked for once"


async def test_a_forgotten_task_that_is_there_again_is_listed_again(running: Sidecar, tasks: Tasks) -> None:
    tasks.add("t-1", 1)
    await given(running, tasks)
    there = tasks.tasks.pop("t-1")
    assert ids(await listed(running)) == []
    tasks.tasks["t-1"] = there
    assert (await running.call("GetTask", {"id": "t-1"})).json["result"]["id"] == "t-1"
    assert ids(await listed(running)) == ["t-1"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: web.Response(status=500, text="boom"), id="an HTTP error"),
        pytest.param(lambda: web.Response(status=503, headers={"Retry-After": "9"}), id="an overload"),
        pytest.param(lambda: web.Response(text="<html>"), id="something else than JSON"),
        pytest.param(lambda: web.Response(status=302, headers={"Location": "/x"}), id="a redirect"),
        pytest.param(lambda: web.json_response({"jsonrpc": "2.0", "id": 1, "result": None}), id="no task"),
    ],
)
async def test_an_agent_that_fails_makes_no_short_list(running: Sidecar, tasks: Tasks, answer: Any) -> None:
    for minute in range(3):
        tasks.add(f"t-{minute}", minute)
    await given(running, tasks)
    tasks.broken["t-1"] = answer()
    reply = await running.call("ListTasks", {})
    assert (reply.status, reply.header("Retry-After")) == (503, "1")
    assert reply.json["error"]["code"] == -32603
    assert reply.json["id"] == 1


async def test_an_agent_that_is_down_makes_no_short_list(
    running: Sidecar, tasks: Tasks, agent: Agent
) -> None:
    tasks.add("t-1", 1)
    await given(running, tasks)
    await agent.down()
    assert (await running.call("ListTasks", {})).status == 503
    assert (await running.call("ListTasks", {}, who="bob")).json["result"]["totalSize"] == 0


async def test_an_agent_that_refuses_the_caller_says_so_itself(running: Sidecar, tasks: Tasks) -> None:
    tasks.add("t-1", 1)
    await given(running, tasks)
    tasks.broken["t-1"] = web.Response(status=401, headers={"WWW-Authenticate": "Bearer"}, text="who?")
    reply = await running.call("ListTasks", {})
    assert (reply.status, reply.header("WWW-Authenticate"), reply.body) == (401, "Bearer", b"who?")


async def test_an_agent_that_answers_with_another_task_is_caught(running: Sidecar, tasks: Tasks) -> None:
    tasks.add("t-1", 1, context="c-alice")
    await given(running, tasks)
    tasks.add("t-bob", 1, context="c-bob")
    await given(running, tasks, "bob")
    tasks.tasks["t-1"] = tasks.tasks["t-bob"]
    reply = await running.call("ListTasks", {})
    assert reply.status == 500
    assert b"t-bob" not in reply.body
    assert b"c-bob" not in reply.body


FULL = {
    "artifacts": [{"artifactId": "a", "parts": [{"text": "done"}]}],
    "history": [{"messageId": f"m-{n}", "role": "ROLE_USER", "parts": []} for n in range(4)],
    "metadata": {"artifacts": "not these", "history": [1, 2.50, 12345678901234567890123]},
}


@pytest.mark.parametrize(
    ("params", "artifacts", "history"),
    [
        pytest.param({}, False, 4, id="no artifacts unless asked for"),
        pytest.param({"includeArtifacts": True}, True, 4, id="artifacts where asked for"),
        pytest.param({"includeArtifacts": False, "historyLength": 0}, False, None, id="no history"),
        pytest.param({"historyLength": 2}, False, 2, id="the newest messages"),
        pytest.param({"history_length": 9, "include_artifacts": True}, True, 4, id="more than there are"),
    ],
)
async def test_of_each_task_as_much_as_asked_for(
    running: Sidecar,
    tasks: Tasks,
    agent: Agent,
    params: dict[str, Any],
    artifacts: bool,
    history: int | None,
) -> None:
    tasks.add("t-1", 1, **FULL)
    await given(running, tasks)
    agent.received.clear()

    (task,) = (await listed(running, **params))["tasks"]

    assert ("artifacts" in task) is artifacts
    assert task.get("history") == (FULL["history"][-history:] if history else None)
    assert task["metadata"] == FULL["metadata"]
    asked = params.get("historyLength", params.get("history_length"))
    assert agent.received[0].json["params"].get("historyLength") == asked


async def test_what_is_kept_of_a_task_are_the_agents_bytes(running: Sidecar, tasks: Tasks) -> None:
    tasks.add("t-1", 1)
    await given(running, tasks)
    raw = '{ "contextId":"c-1",\n "id" : "t-1","x":[1.10, 1E3,123456789012345678901234567890, "\\u00e9\\/\\ud83d\\ude00" ] ,"status":{"state":"TASK_STATE_COMPLETED"}}'
    tasks.broken["t-1"] = web.Response(
        text=f'{{"result": {raw}, "jsonrpc":"2.0","id":1}}', content_type="application/json"
    )
    reply = await running.call("ListTasks", {"includeArtifacts": True})
    inner = raw[1:-1].replace(' "contextId"', '"contextId"').replace(',\n "id"', ',"id"').replace(" ,", ",")
    assert (
        reply.body
        == (
            '{"jsonrpc":"2.0","id":1,"result":{"tasks":[{'
            + inner
            + '}],"nextPageToken":"","pageSize":50,"totalSize":1}}'
        ).encode()
    )


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"pageSize": 0}, id="no page"),
        pytest.param({"pageSize": 101}, id="a page too large"),
        pytest.param({"pageSize": -1}, id="a negative page"),
        pytest.param({"pageSize": 1.5}, id="half a task"),
        pytest.param({"pageSize": "many"}, id="a word for a number"),
        pytest.param({"pageSize": True}, id="true for a number"),
        pytest.param({"pageSize": 2**70}, id="beyond int32"),
        pytest.param({"historyLength": -1}, id="a negative history"),
        pytest.param({"status": "TASK_STATE_DONE"}, id="a state there is not"),
        pytest.param({"status": 99}, id="a number of no state"),
        pytest.param({"status": True}, id="true for a state"),
        pytest.param({"status": ["TASK_STATE_WORKING"]}, id="a list of states"),
        pytest.param({"statusTimestampAfter": "yesterday"}, id="no timestamp"),
        pytest.param({"statusTimestampAfter": "2026-11-30"}, id="a date"),
        pytest.param({"statusTimestampAfter": "2026-02-30T00:00:00Z"}, id="a day there is not"),
        pytest.param({"statusTimestampAfter": 5}, id="a number for a timestamp"),
        pytest.param({"includeArtifacts": "yes"}, id="a word for true"),
        pytest.param({"includeArtifacts": 1}, id="one for true"),
        pytest.param({"contextId": 5}, id="a number for a context"),
        pytest.param({"contextId": "c", "context_id": "d"}, id="two spellings"),
        pytest.param({"pageToken": "AAAA"}, id="a token that is too short"),
        pytest.param({"pageToken": "not base64 !"}, id="a token that is none"),
        pytest.param({"pageToken": "é"}, id="a token that is no ASCII"),
        pytest.param({"pageToken": "A" * 9000}, id="a token that is too long"),
        pytest.param({"pageToken": 7}, id="a number for a token"),
    ],
)
async def test_invalid_values_are_errors(
    running: Sidecar, tasks: Tasks, agent: Agent, params: dict[str, Any]
) -> None:
    tasks.add("t-1", 1)
    await given(running, tasks)
    agent.received.clear()
    reply = await running.call("ListTasks", params)
    assert (reply.status, reply.json["error"]["code"]) == (200, -32602), reply.body
    assert agent.received == []


@pytest.mark.parametrize(
    "query",
    [
        "pageSize=0",
        "pageSize=101",
        "pageSize=",
        "pageSize=1e1",
        "historyLength=-1",
        "status=nope",
        "includeArtifacts=True",
        "statusTimestampAfter=now",
        "pageToken=x",
        "pageSize=1&pageSize=2",
        "pageSize=1&page_size=1",
    ],
)
async def test_invalid_values_in_a_query_are_errors(running: Sidecar, agent: Agent, query: str) -> None:
    reply = await running.send("GET", f"/rest/tasks?{query}", headers={"A2A-Version": "1.0"})
    assert (reply.status, reply.json["error"]["status"]) == (400, "INVALID_ARGUMENT"), reply.body
    assert agent.received == []


@pytest.mark.parametrize(
    ("params", "found"),
    [
        pytest.param({"statusTimestampAfter": "2026-11-30T10:02:00Z"}, ["t-3", "t-2"], id="at or after"),
        pytest.param({"statusTimestampAfter": "2026-11-30T12:02:00+02:00"}, ["t-3", "t-2"], id="an offset"),
        pytest.param({"statusTimestampAfter": "2026-11-30T10:02:00.000001Z"}, ["t-3"], id="a fraction later"),
        pytest.param({"contextId": "c-2"}, ["t-3", "t-2"], id="one context"),
        pytest.param({"contextId": "c-2", "status": "TASK_STATE_FAILED"}, ["t-2"], id="context and state"),
        pytest.param({"status": 4}, ["t-2"], id="a state by number"),
        pytest.param({"status": 0, "pageSize": "50", "pageToken": ""}, ["t-3", "t-2", "t-1"], id="any state"),
        pytest.param(
            {"status": None, "contextId": ""}, ["t-3", "t-2", "t-1"], id="null and empty are absent"
        ),
        pytest.param({"contextId": "c-none"}, [], id="a context that is nobody's"),
        pytest.param({"contextId": "c-bob"}, [], id="a context that is somebody else's"),
    ],
)
async def test_filters(running: Sidecar, tasks: Tasks, params: dict[str, Any], found: list[str]) -> None:
    tasks.add("t-1", 1, context="c-1")
    tasks.add("t-2", 2, "TASK_STATE_FAILED", context="c-2")
    tasks.add("t-3", 3, context="c-2")
    await given(running, tasks)
    tasks.add("t-bob", 4, context="c-bob")
    await given(running, tasks, "bob")
    page = await listed(running, **params)
    assert (ids(page), page["totalSize"]) == (found, len(found))


async def test_a_foreign_context_and_one_that_never_was_are_one_answer(
    running: Sidecar, tasks: Tasks, agent: Agent
) -> None:
    tasks.add("t-1", 1, context="c-alice")
    await given(running, tasks)
    agent.received.clear()
    for params in ({}, {"status": COMPLETED}, {"statusTimestampAfter": "2026-01-01T00:00:00Z"}):
        foreign = await running.call("ListTasks", {**params, "contextId": "c-alice"}, who="bob")
        absent = await running.call("ListTasks", {**params, "contextId": "c-never"}, who="bob")
        assert foreign.shown == absent.shown
    assert agent.received == []


async def token_of(sidecar: Sidecar, tasks: Tasks, who: str = "alice", **params: Any) -> str:
    for minute in range(3):
        tasks.add(f"t-{who}-{minute}", minute, context=f"c-{who}")
    await given(sidecar, tasks, who)
    token: str = (await listed(sidecar, who, pageSize=1, **params))["nextPageToken"]
    return token


def refused(reply: Answer) -> bool:
    return bool(reply.json.get("error", {}).get("code") == -32602)


async def test_a_token_is_good_for_its_caller_and_filters_only(running: Sidecar, tasks: Tasks) -> None:
    token = await token_of(running, tasks, contextId="c-alice")
    bobs = await token_of(running, tasks, "bob", contextId="c-bob")

    assert refused(await running.call("ListTasks", {"pageToken": token, "contextId": "c-alice"}, who="bob"))
    assert refused(await running.call("ListTasks", {"pageToken": bobs, "contextId": "c-bob"}))
    assert refused(await running.call("ListTasks", {"pageToken": token}))
    assert refused(
        await running.call("ListTasks", {"pageToken": token, "contextId": "c-alice", "status": COMPLETED})
    )
    # Another page size, a fresh token of the same caller, another binding: all fine.
    page = await listed(running, pageToken=token, contextId="c-alice", pageSize=2)
    assert ids(page) == ["t-alice-1", "t-alice-0"]
    by_http = await running.send(
        "GET", f"/rest/tasks?pageToken={token}&contextId=c-alice", headers={"A2A-Version": "1.0"}
    )
    assert ids(by_http.json) == ["t-alice-1", "t-alice-0"]


async def test_no_bit_of_a_token_may_change(running: Sidecar, tasks: Tasks) -> None:
    token = await token_of(running, tasks)
    last = len(token) - 1
    for at in (*range(0, last, 7), last - 1):
        other = "A" if token[at] != "A" else "B"
        changed = token[:at] + other + token[at + 1 :]
        assert refused(await running.call("ListTasks", {"pageToken": changed})), at
    for cut in (token[:-4], token[4:], token + "AAAA", token + token):
        assert refused(await running.call("ListTasks", {"pageToken": cut}))


async def test_a_token_tells_nothing(running: Sidecar, tasks: Tasks) -> None:
    import base64

    token = await token_of(running, tasks)
    plain = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert b"t-" not in plain
    assert token != (await listed(running, pageSize=1))["nextPageToken"], "no two tokens are alike"


async def test_lists_may_be_refused(start: Start, agent: Agent, tasks: Tasks) -> None:
    sidecar = await start(
        agents=[
            {
                "name": "review",
                "upstream": agent.url,
                "public_url": "https://agents.test/review",
                "list": "refuse",
            }
        ]
    )
    tasks.add("t-1", 1)
    await given(sidecar, tasks)
    agent.received.clear()
    reply = await sidecar.call("ListTasks", {})
    assert reply.json["error"]["code"] == -32004
    assert agent.received == []


async def test_lists_are_of_one_tenant(start: Start, agent: Agent, tasks: Tasks) -> None:
    sidecar = await start(
        agents=[
            {
                "name": "review",
                "upstream": agent.url,
                "public_url": "https://agents.test/review",
                "tenants": ["t1"],
            }
        ]
    )
    tasks.add("t-1", 1)
    await given(sidecar, tasks)
    tasks.add("t-2", 2, context="c-2")
    made = await sidecar.call("SendMessage", {"tenant": "t1", "message": {"messageId": "m", "parts": []}})
    assert "result" in made.json
    agent.received.clear()
    assert ids(await listed(sidecar)) == ["t-1"]
    assert ids(await listed(sidecar, tenant="t1")) == ["t-2"]
    assert [r.json["params"].get("tenant") for r in agent.received] == [None, "t1"]
    by_path = await sidecar.send("GET", "/rest/t1/tasks", headers={"A2A-Version": "1.0"})
    by_query = await sidecar.send("GET", "/rest/tasks?tenant=t1&pageSize=5", headers={"A2A-Version": "1.0"})
    assert ids(by_path.json) == ids(by_query.json) == ["t-2"]
    assert [r.target for r in agent.received[-2:]] == ["/rest/t1/tasks/t-2", "/rest/tasks/t-2?tenant=t1"]


async def test_a_list_asks_for_no_more_than_it_shows(running: Sidecar, tasks: Tasks, agent: Agent) -> None:
    for minute in range(5):
        tasks.add(f"t-{minute}", minute, WORKING if minute % 2 else COMPLETED)
    await given(running, tasks)
    agent.received.clear()
    assert len(ids(await listed(running))) == 5
    assert len(agent.received) == 5


async def test_of_many_unfinished_tasks_the_newest_are_refreshed(
    start: Start, agent: Agent, tasks: Tasks
) -> None:
    sidecar = await start(list={"refresh_max": 2})
    for minute in range(6):
        tasks.add(f"t-{minute}", minute, WORKING)
    await given(sidecar, tasks)
    for id_ in ("t-0", "t-5"):
        tasks.tasks[id_]["status"]["state"] = COMPLETED
    assert ids(await listed(sidecar, status=COMPLETED)) == ["t-5"], "t-0 stands as it was last seen"
    # Once a page touches it, it is what the agent says it is.
    page = await listed(sidecar, status=WORKING)
    assert (ids(page), page["totalSize"]) == (["t-4", "t-3", "t-2", "t-1"], 4)


async def test_a_long_run_of_forgotten_tasks_ends_in_a_page_that_goes_on(
    start: Start, agent: Agent, tasks: Tasks
) -> None:
    sidecar = await start(list={"refresh_max": 0})
    for minute in range(12):
        tasks.add(f"t-{minute:02}", minute)
    await given(sidecar, tasks)
    tasks.tasks = {"t-00": tasks.tasks["t-00"]}
    first = await listed(sidecar, pageSize=1)
    assert first["tasks"] == []
    assert first["nextPageToken"] != ""
    seen, token = [], first["nextPageToken"]
    while token:
        page = await listed(sidecar, pageSize=1, pageToken=token)
        seen += ids(page)
        token = page["nextPageToken"]
    assert seen == ["t-00"]


async def test_a_ledger_that_fails_is_no_empty_list(start: Start, tasks: Tasks) -> None:
    class Failing(MemoryLedger):
        failing = False

        async def tasks(self, *args: Any) -> Any:
            if self.failing:
                from sidecar.ledger import LedgerUnavailable

                raise LedgerUnavailable("gone")
            return await super().tasks(*args)

    ledger = Failing(now=lambda: 1_800_000_000.0)
    sidecar = await start(ledger=ledger)
    assert (await sidecar.call("ListTasks", {})).status == 200
    ledger.failing = True
    assert (await sidecar.call("ListTasks", {})).status == 503


async def test_while_ownership_is_only_observed_the_agent_lists(start: Start, agent: Agent) -> None:
    async def everybodys(request: web.Request, body: bytes) -> web.StreamResponse:
        return result(body, {"tasks": [a_task("t-1")], "nextPageToken": "x", "pageSize": 1, "totalSize": 2})

    agent.script = everybodys
    sidecar = await start(ownership={"mode": "observe"})
    assert (await listed(sidecar))["totalSize"] == 2


async def test_lists_under_way_do_not_wait_for_each_other(running: Sidecar, tasks: Tasks) -> None:
    for minute in range(20):
        tasks.add(f"t-{minute}", minute, WORKING)
    await given(running, tasks)
    pages = await asyncio.gather(*(listed(running) for _ in range(10)))
    assert all(page == pages[0] for page in pages)


async def test_a_task_nobody_recorded_is_never_listed(start: Start, tasks: Tasks) -> None:
    ledger = MemoryLedger(now=lambda: 1_800_000_000.0)
    sidecar = await start(ledger=ledger)
    owner = Owner("", sidecar.issuer.url, "alice")
    await ledger.record(
        owner, [Entry(Resource("review", Kind.TASK, "r"), Fact(provisional=True), chosen=True)]
    )
    await ledger.record(owner, [Entry(Resource("other", Kind.TASK, "o"), Fact())])
    await ledger.record(owner, [Entry(Resource("review", Kind.CONTEXT, "c"), Fact())])
    assert await listed(sidecar) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
