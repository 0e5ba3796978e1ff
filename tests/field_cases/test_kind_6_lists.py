"""Field cases of kind 6: lists, counts and cursors are cut to the caller."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Entry, Fact, Kind, Owner, Resource
from tests.edge.agent import Agent
from tests.edge.conftest import Answer, Sidecar, Start

Json = dict[str, Any]
V1 = {"A2A-Version": "1.0"}
EMPTY = {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
COMPLETED = "TASK_STATE_COMPLETED"


class Everybodys:
    """An agent that knows no callers: it holds all tasks, gives each to whoever asks, and lists them all."""

    def __init__(self) -> None:
        self.tasks: dict[str, Json] = {}
        self.fails: set[str] = set()

    async def __call__(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.method == "GET":
            id_ = request.path.rpartition("/")[2]
            found = self._page() if id_ == "tasks" else self.tasks.get(id_)
            if id_ in self.fails:
                return web.Response(status=500, text="no")
            gone = {"code": 404, "details": [{"reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]}
            return web.json_response(found or {"error": gone}, status=200 if found else 404)
        said = json.loads(body)
        id_ = said["params"].get("id", "")
        if id_ in self.fails:
            return web.Response(status=500, text="no")
        answer: Json = {"error": {"code": -32001, "message": "Task not found"}}
        if "list" in said["method"].lower():
            answer = {"result": self._page()}
        elif id_ in self.tasks:
            answer = {"result": self.tasks[id_]}
        return web.json_response({"jsonrpc": "2.0", "id": said["id"], **answer})

    def _page(self) -> Json:
        return {
            "tasks": list(self.tasks.values()),
            "nextPageToken": "YWxpY2U=",
            "totalSize": len(self.tasks),
        }


class World:
    def __init__(self, sidecar: Sidecar, ledger: MemoryLedger, agent: Agent, script: Everybodys) -> None:
        self.sidecar, self.ledger, self.agent, self.script = sidecar, ledger, agent, script

    async def give(self, who: str, count: int, **more: Any) -> None:
        """`count` finished tasks of `who`, at the agent and in the ledger; the last one is the newest."""
        entries = []
        for number in range(count):
            id_, at = f"{who}-{number}", f"2026-11-30T10:{number % 60:02}:00Z"
            status = {"state": COMPLETED, "timestamp": at}
            self.script.tasks[id_] = {"id": id_, "contextId": f"c-{who}", "status": status, **more}
            fact = Fact(context_id=f"c-{who}", state="completed", status_at=at)
            entries.append(Entry(Resource("review", Kind.TASK, id_), fact))
        entries.append(Entry(Resource("review", Kind.CONTEXT, f"c-{who}")))
        assert not await self.ledger.record(Owner("", self.sidecar.issuer.url, who), entries)

    async def rpc(self, who: str = "mallory", method: str = "ListTasks", **params: Any) -> Answer:
        return await self.sidecar.call(method, params, who=who)

    async def http(self, query: str = "", who: str = "mallory", path: str = "/rest/tasks") -> Answer:
        return await self.sidecar.send("GET", path + (f"?{query}" if query else ""), who=who, headers=V1)


@pytest.fixture
async def world(start: Start, agent: Agent) -> World:
    script = Everybodys()
    agent.script = script
    ledger = MemoryLedger(now=lambda: 1_800_000_000.0)
    return World(await start(ledger=ledger), ledger, agent, script)


def page(answer: Answer) -> Json:
    assert answer.status == 200, answer.body
    found: Json = answer.json.get("result", answer.json)
    assert "tasks" in found, answer.body
    return found


def ids(found: Json) -> list[str]:
    return [task["id"] for task in found["tasks"]]


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="without a filter"),
        pytest.param({"status": COMPLETED}, id="by state"),
        pytest.param({"statusTimestampAfter": "2026-01-01T00:00:00Z"}, id="by time"),
        pytest.param({"includeArtifacts": True}, id="with artifacts"),
    ],
)
async def test_fc_079_a_list_without_filters_is_the_callers_own(world: World, params: Json) -> None:
    await world.give("alice", 500)
    await world.give("mallory", 3, artifacts=[{"artifactId": "a", "parts": []}])
    query = "&".join(f"{k}={str(v).lower() if v is True else v}" for k, v in params.items())
    for answer in (await world.rpc(**params), await world.http(query)):
        found = page(answer)
        assert ids(found) == ["mallory-2", "mallory-1", "mallory-0"]
        assert (found["totalSize"], found["nextPageToken"]) == (3, "")
        assert all(("artifacts" in task) is ("includeArtifacts" in params) for task in found["tasks"])
        assert b"alice" not in answer.body


async def test_fc_080_pages_are_cut_after_scoping(world: World) -> None:
    """What others have shows neither in the pages, nor in their number, nor in what the agent is asked."""
    await world.give("mallory", 3)

    async def walk() -> tuple[list[list[str]], int]:
        world.agent.received.clear()
        pages, token = [], ""
        while True:
            found = page(await world.rpc(pageSize=2, pageToken=token))
            pages.append(ids(found))
            token = found["nextPageToken"]
            if not token:
                return pages, len(world.agent.received)

    alone = await walk()
    await world.give("alice", 50_000)
    assert await walk() == alone == ([["mallory-2", "mallory-1"], ["mallory-0"]], 3)


@pytest.mark.parametrize("status", [{}, {"status": COMPLETED}])
async def test_fc_082_a_filter_by_anothers_context_finds_nothing(world: World, status: Json) -> None:
    await world.give("alice", 3)
    await world.give("mallory", 1)
    world.agent.received.clear()
    foreign = await world.rpc(**status, contextId="c-alice")
    assert page(foreign) == EMPTY
    assert foreign.shown == (await world.rpc(**status, contextId="c-random")).shown
    query = "".join(f"&{k}={v}" for k, v in status.items())
    for name in ("contextId", "context_id"):
        by_http = await world.http(f"{name}=c-alice{query}")
        assert page(by_http) == EMPTY
        assert by_http.shown == (await world.http(f"{name}=c-random{query}")).shown
    assert world.agent.received == []


@pytest.mark.parametrize(
    "query", ["owner=alice", "user=alice", "filter=all", "all=true", "contextid=c-alice"]
)
async def test_fc_082_names_that_are_unknown_widen_nothing(world: World, query: str) -> None:
    await world.give("alice", 3)
    await world.give("mallory", 1)
    answer = await world.http(query)
    assert b"alice" not in answer.body
    assert answer.status == 400 or ids(page(answer)) == ["mallory-0"]


async def test_fc_085_what_the_agent_has_forgotten_is_no_ghost(world: World) -> None:
    await world.give("alice", 3)
    del world.script.tasks["alice-1"]
    found = page(await world.rpc("alice"))
    assert (ids(found), found["totalSize"]) == (["alice-2", "alice-0"], 2)


async def fails_at_one(world: World) -> None:
    world.script.fails.add("alice-1")


async def is_down(world: World) -> None:
    await world.agent.down()


@pytest.mark.parametrize("breaks", [fails_at_one, is_down])
async def test_fc_085_an_agent_that_fails_makes_no_short_list(
    world: World, breaks: Callable[..., Any]
) -> None:
    await world.give("alice", 3)
    assert ids(page(await world.http(who="alice"))) == ["alice-2", "alice-1", "alice-0"]  # the card is known
    await breaks(world)
    for answer in (await world.rpc("alice"), await world.http(who="alice")):
        assert (answer.status, answer.header("Retry-After")) == (503, "1")
        assert b"alice-" not in answer.body


async def test_fc_085_a_task_the_ledger_lacks_is_never_listed(world: World) -> None:
    await world.give("alice", 1)
    world.script.tasks["alice-lost"] = world.script.tasks["alice-0"] | {"id": "alice-lost"}
    found = page(await world.rpc("alice"))
    assert (ids(found), found["totalSize"]) == (["alice-0"], 1)


@pytest.mark.parametrize("version", [None, "0.3", "1.0"])
@pytest.mark.parametrize("method", ["tasks/list", "ListTasks"])
async def test_fc_086_the_agents_own_list_never_leaves(
    world: World, method: str, version: str | None
) -> None:
    await world.give("alice", 3)
    await world.give("mallory", 1)
    headers = {"A2A-Version": version} if version else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    answer = await world.sidecar.send("POST", "/", who="mallory", json=body, headers=headers)
    assert b"alice" not in answer.body
    assert "error" in answer.json or ids(page(answer)) == ["mallory-0"]
    assert not any("list" in r.body.decode().lower() for r in world.agent.received)


@pytest.mark.parametrize("version", [None, "0.3", "1.0"])
@pytest.mark.parametrize(
    "path", ["/rest/v1/tasks", "/rest/tasks", "/x/tasks", "/rest/x/tasks", "/v1/tasks", "/tasks"]
)
async def test_fc_086_nor_does_it_at_any_path(world: World, path: str, version: str | None) -> None:
    await world.give("alice", 3)
    await world.give("mallory", 1)
    answer = await world.sidecar.send(
        "GET", path, who="mallory", headers={"A2A-Version": version} if version else {}
    )
    assert b"alice" not in answer.body
    assert answer.status in (400, 404) or ids(page(answer)) == ["mallory-0"]
    assert not any(r.target.partition("?")[0].endswith("/tasks") for r in world.agent.received)
