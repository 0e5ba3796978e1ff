"""Field cases of kind 7: webhooks, at every door that registers one.

A door is a request that can carry a push config: create, send and stream, in each dialect. "Refused" is the dialect's own
error and an agent that saw nothing.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import uuid
from collections.abc import Awaitable, Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.edge.agent import CARD, Agent, Script, a_task, answers, error, event_stream, result
from tests.edge.conftest import Answer, Sidecar, Start, eventually
from tests.field_cases.conftest import require_equal_to_nf, require_not_found

T_A, N = "aaaaaaaa-1111-4111-8111-111111111111", "eeeeeeee-9999-4999-8999-999999999999"
HOOK = "https://hooks.example.com/a2a"
ALLOWED = {"allow": ["https://hooks.example.com"]}
Json = dict[str, Any]


# --- doors ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Door:
    """One way to register a webhook: a dialect and an operation (`create`, `send`, `stream`)."""

    dialect: str
    operation: str

    @property
    def version(self) -> str:
        return self.dialect.rpartition("/")[2]

    @property
    def jsonrpc(self) -> bool:
        return self.dialect.startswith("JSONRPC")

    @property
    def sse(self) -> bool:
        """Whether a refusal is told as an event."""
        return self.jsonrpc and self.operation == "stream" and self.version != "1.0"

    def request(self, task: str, config: Json) -> tuple[str, Json]:
        """Path and body of a request that registers `config` for `task`."""
        if self.operation == "create":
            path, method, body = self._create(task, config)
        else:
            path, method, body = self._send(task, config)
        if self.jsonrpc:
            return "/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": body}
        return path, body

    async def ask(self, sidecar: Sidecar, task: str, config: Json, who: str = "alice") -> Answer:
        path, body = self.request(task, config)
        headers = {"A2A-Version": "1.0"} if self.version == "1.0" else {}
        return await sidecar.send("POST", path, json=body, headers=headers, who=who)

    def error(self, answer: Answer) -> Json:
        """The error of a refusal in this dialect's form."""
        body = answer.body
        if self.sse:
            assert answer.header("Content-Type") == "text/event-stream"
            assert body.startswith(b"data: ")
            body = body.removeprefix(b"data: ")
        told = json.loads(body)
        assert "result" not in told, told
        found: Json = told if self.dialect == "HTTP+JSON/0.3" else told["error"]
        return found

    def _create(self, task: str, config: Json) -> tuple[str, str, Json]:
        old = self._old(config)
        if self.version == "1.0":
            path, method = f"/tasks/{task}/pushNotificationConfigs", "CreateTaskPushNotificationConfig"
            return path, method, {"taskId": task} | config
        if not self.jsonrpc:
            name = f"tasks/{task}/pushNotificationConfigs/{config.get('id', 'c')}"
            named = {"name": name, "pushNotificationConfig": old}
            return (
                f"/v1/tasks/{task}/pushNotificationConfigs",
                "",
                {"parent": f"tasks/{task}", "config": named},
            )
        if self.version == "0.1":
            return "/", "tasks/pushNotification/set", {"id": task, "pushNotificationConfig": old}
        return "/", "tasks/pushNotificationConfig/set", {"taskId": task, "pushNotificationConfig": old}

    def _send(self, task: str, config: Json) -> tuple[str, str, Json]:
        old, streams = self._old(config), self.operation == "stream"
        parts = [{"kind": "text", "text": "x"}]
        message: Json = {"messageId": "m-1", "role": "ROLE_USER", "taskId": task, "parts": [{"text": "x"}]}
        if self.version == "1.0":
            method = "SendStreamingMessage" if streams else "SendMessage"
            body = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
            return f"/message:{'stream' if streams else 'send'}", method, body
        if self.version == "0.1":
            old_parts = {"role": "user", "parts": [{"type": "text", "text": "x"}]}
            method = "tasks/sendSubscribe" if streams else "tasks/send"
            return "/", method, {"id": task, "message": old_parts, "pushNotification": old}
        if self.jsonrpc:
            message |= {"kind": "message", "role": "user", "parts": parts}
            body = {"message": message, "configuration": {"pushNotificationConfig": old}}
            return "/", "message/stream" if streams else "message/send", body
        message = {k: v for k, v in message.items() if k != "parts"} | {"content": [{"text": "x"}]}
        body = {"message": message, "configuration": {"pushNotification": old}}
        return f"/v1/message:{'stream' if streams else 'send'}", "", body

    def _old(self, config: Json) -> Json:
        """0.x: several schemes; 0.1: no id."""
        found = dict(config)
        if isinstance(found.get("authentication"), dict) and "scheme" in found["authentication"]:
            rest = {k: v for k, v in found["authentication"].items() if k != "scheme"}
            found["authentication"] = rest | {"schemes": [found["authentication"]["scheme"]]}
        if self.version == "0.1":
            found.pop("id", None)
        return found


DIALECTS = ("JSONRPC/1.0", "JSONRPC/0.3", "JSONRPC/0.2", "JSONRPC/0.1", "HTTP+JSON/1.0", "HTTP+JSON/0.3")
DOORS = [Door(dialect, operation) for dialect in DIALECTS for operation in ("create", "send", "stream")]
every_door = pytest.mark.parametrize(
    "door", [pytest.param(d, id=f"{d.dialect} {d.operation}") for d in DOORS]
)
# In 0.1 the caller picks the id of a new task: a send is not about somebody else's, but may not take their id.
PICKING = [door for door in DOORS if door.version == "0.1" and door.operation != "create"]
every_door_to_a_task = pytest.mark.parametrize(
    "door", [pytest.param(d, id=f"{d.dialect} {d.operation}") for d in DOORS if d not in PICKING]
)


Guarded = Callable[..., Awaitable[Sidecar]]


@pytest.fixture
async def guarded(start: Start, agent: Agent) -> Guarded:
    """A sidecar that serves one dialect (and 1.0), with a task of alice's."""

    async def started(dialect: str = "JSONRPC/1.0", *, card: Json = CARD, **more: Any) -> Sidecar:
        agent.card = card
        of_agent = {"name": "review", "upstream": agent.url, "public_url": "https://agents.test/review"}
        dialects = sorted({dialect, "JSONRPC/1.0"})
        running = await start(agents=[of_agent | {"dialects": dialects}], **more)
        agent.script = answers({"task": a_task(T_A)})
        assert (await running.submit()).json["result"]["task"]["id"] == T_A
        agent.received.clear()
        agent.script = None
        return running

    return started


def require_refused(door: Door, answer: Answer, agent: Agent) -> str:
    """An invalid-params error in the dialect's form, agent-untouched. Returns its text."""
    told = door.error(answer)
    if door.jsonrpc:
        assert (answer.status, told["code"]) == (200, -32602)
    elif door.version == "1.0":
        assert (answer.status, told["code"], told["status"]) == (400, 400, "INVALID_ARGUMENT")
    else:
        assert (answer.status, told["code"]) == (400, -32602)
    assert agent.received == []
    return str(told["message"])


def webhooks_counted(tmp_path: Path) -> int:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as db:
        return int(db.execute("SELECT count(*) FROM webhooks").fetchone()[0])


class Resolver:
    """Names as the test says; it remembers which it was asked for."""

    def __init__(self, **names: Collection[str]) -> None:
        self.names = {name.replace("_", ".") + ".example.com": found for name, found in names.items()}
        self.asked: list[str] = []

    def __call__(self, host: str) -> Collection[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]


# --- FC-087, FC-088 ------------------------------------------------------------------------------

PRIVATE = [
    *(
        "http://127.0.0.1:9901/",
        "http://localhost/",
        "https://localhost/",
        "http://10.0.0.1",
        "http://172.16.0.1",
    ),
    *(
        "http://192.168.0.1",
        "https://169.254.169.254",
        "https://100.64.0.1",
        "https://0.0.0.0",
        "https://[::1]",
    ),
    *(
        "https://[fe80::1]",
        "https://[fc00::1]",
        "https://224.0.0.1",
        "https://198.18.0.1",
        "https://255.255.255.255",
    ),
    *(
        "https://metadata.google.internal",
        "https://metadata.google.internal/computeMetadata/v1/",
        "https://127.1",
    ),
    *(
        "https://2130706433",
        "https://0x7f000001",
        "https://017700000001",
        "https://web.dev.svc.cluster.local",
    ),
]
INSIDE_IPV6 = [
    *(
        "https://[::ffff:127.0.0.1]",
        "https://[::ffff:7f00:1]",
        "https://[::127.0.0.1]",
        "https://[2002:7f00:1::]",
    ),
    *("https://[64:ff9b::a9fe:a9fe]", "https://[64:ff9b:1::7f00:1]"),
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
]


@every_door
@pytest.mark.parametrize(
    "allow", [["https://*"], ["https://*:*", "http://*:*"]], ids=["by default", "http too"]
)
async def test_fc_087_and_088_private_targets(
    guarded: Guarded, agent: Agent, door: Door, allow: list[str], tmp_path: Path
) -> None:
    resolver = Resolver()
    running = await guarded(door.dialect, push={"allow": allow}, look_up=resolver)
    for url in PRIVATE + INSIDE_IPV6:
        text = require_refused(door, await door.ask(running, T_A, {"url": url}), agent)
        assert "push.allow" in text, url
        assert "127.0.0.1" not in text
    assert resolver.asked == [], "no DNS beyond the check"
    assert webhooks_counted(tmp_path) == 0


AAAA = {
    **{
        f"v4{n}": [address]
        for n, address in enumerate(["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1"])
    },
    **{f"v6{n}": [url[9:-1]] for n, url in enumerate(INSIDE_IPV6)},
    **{f"ula{n}": [address] for n, address in enumerate(["fd00::1", "fe80::1%eth0", "::1", "ff02::1", "::"])},
}


@every_door
async def test_fc_088_the_same_by_name(guarded: Guarded, agent: Agent, door: Door) -> None:
    resolver = Resolver(**AAAA)
    running = await guarded(door.dialect, look_up=resolver)
    texts = {
        require_refused(door, await door.ask(running, T_A, {"url": f"https://{host}/"}), agent)
        for host in resolver.names
    }
    assert len(texts) == 1, "nothing of the network shows"
    assert resolver.asked == [*resolver.names]


# --- FC-090 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "passes"),
    [
        pytest.param(["93.184.216.34"], True, id="a public address"),
        pytest.param(["93.184.216.34", "2606:2800:220:1::1"], True, id="public ones of both kinds"),
        pytest.param(["93.184.216.34", "::1"], False, id="A public plus AAAA loopback"),
        pytest.param(["93.184.216.34", "10.0.0.1"], False, id="two A records mixed"),
        pytest.param(["127.0.0.1"], False, id="a CNAME to localhost"),
        pytest.param([], False, id="a name without addresses"),
        pytest.param(None, False, id="a name that does not resolve"),
    ],
)
@pytest.mark.parametrize("door", [Door("JSONRPC/1.0", "create"), Door("HTTP+JSON/1.0", "send")], ids=str)
async def test_fc_090_every_address_must_be_public(
    guarded: Guarded, agent: Agent, door: Door, found: list[str] | None, passes: bool
) -> None:
    resolver = Resolver() if found is None else Resolver(hooks=found)
    running = await guarded(door.dialect, push={"allow": ["https://*.example.com"]}, look_up=resolver)
    agent.script = keeping({})
    answer = await door.ask(running, T_A, {"url": HOOK, "id": "p-1"})
    assert resolver.asked == ["hooks.example.com"]
    if passes:
        assert answer.status == 200
        assert len(agent.received) == 1
    else:
        require_refused(door, answer, agent)


async def test_fc_090_a_name_that_points_elsewhere_later_is_asked_for_anew(
    guarded: Guarded, agent: Agent
) -> None:
    resolver, door = Resolver(hooks=["93.184.216.34"]), Door("JSONRPC/1.0", "create")
    running = await guarded(look_up=resolver)
    agent.script = keeping({})
    assert "result" in (await door.ask(running, T_A, {"url": HOOK, "id": "p-1"})).json
    agent.received.clear()
    resolver.names["hooks.example.com"] = ["169.254.169.254"]
    require_refused(door, await door.ask(running, T_A, {"url": HOOK, "id": "p-1"}), agent)


async def test_fc_090_a_name_that_hangs_blocks_nobody(guarded: Guarded, agent: Agent) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def look_up(host: str) -> Collection[str]:
        asked.set()
        go_on.wait(60)
        return ["93.184.216.34"]

    running = await guarded(look_up=look_up)
    agent.script = keeping({})
    try:
        waiting = asyncio.create_task(
            Door("JSONRPC/1.0", "create").ask(running, T_A, {"url": HOOK, "id": "p-1"})
        )
        await eventually(asked.is_set)
        others = await asyncio.gather(*(running.call("GetTask", {"id": T_A}) for _ in range(20)))
        assert all("result" in answer.json for answer in others)
        assert not waiting.done()
    finally:
        go_on.set()
    assert "result" in (await waiting).json


async def test_fc_090_a_host_written_out_is_trusted(guarded: Guarded, agent: Agent) -> None:
    resolver = Resolver()
    running = await guarded(
        push={"allow": ["http://127.0.0.1:9901", "https://hooks.example.com"]}, look_up=resolver
    )
    agent.script = keeping({})
    for url in ("http://127.0.0.1:9901/x", HOOK):
        answer = await Door("JSONRPC/1.0", "create").ask(running, T_A, {"url": url, "id": "p-1"})
        assert "result" in answer.json
    assert resolver.asked == []


@every_door_to_a_task
async def test_fc_090_nobody_but_the_owner_causes_a_question(
    guarded: Guarded, agent: Agent, door: Door
) -> None:
    resolver = Resolver(hooks=["93.184.216.34"])
    running = await guarded(door.dialect, look_up=resolver)
    foreign, absent = [await door.ask(running, task, {"url": HOOK}, "mallory") for task in (T_A, N)]
    require_equal_to_nf(foreign, absent)
    assert resolver.asked == []
    assert agent.received == []


# --- FC-092 --------------------------------------------------------------------------------------

ODD_URLS: list[Any] = [
    *(
        "http://allowed.example@127.0.0.1/",
        "http://127.0.0.1#@allowed.example/",
        "http://allowed.example\\@127.0.0.1/",
    ),
    *(
        "http:/127.0.0.1",
        "http:\\\\127.0.0.1",
        "HTTP://127.0.0.1",
        "file:///x",
        "gopher://127.0.0.1:70/",
        "ftp:",
    ),
    *(
        "ftp://hooks.example.com/",
        "data:",
        "data:text/plain,x",
        " https://hooks.example.com/",
        "https://hooks.exam\tple.com/",
    ),
    *(
        "https://hooks.example.com/\n",
        "https://hooks.example.com:443:80/",
        "https://hooks.example.com/" + "x" * 10_240,
    ),
    *(
        "",
        None,
        5,
        True,
        ["https://hooks.example.com/"],
        {"url": HOOK},
        "//hooks.example.com",
        "https://hooks.example.com.",
    ),
    *(
        "https://hooks.example.com@evil.net/",
        "https://hooks.example.com%2eevil.net/",
        "https://ｈooks.example.com/",
    ),
]


@every_door
async def test_fc_092_urls_that_parsers_read_differently(guarded: Guarded, agent: Agent, door: Door) -> None:
    resolver = Resolver(hooks=["93.184.216.34"])
    allow = ["https://*:*", "http://*:*", "https://hooks.example.com"]
    running = await guarded(door.dialect, push={"allow": allow}, look_up=resolver)
    for url in ODD_URLS:
        require_refused(door, await door.ask(running, T_A, {"url": url}), agent)
    assert resolver.asked == []


# --- FC-093 --------------------------------------------------------------------------------------

BREAKING = ["a\r\nX-Evil: 1", "a\rb", "a\nb", "a\0b", "a\u0085b", "a\u20acb", "\U0001f511", "x" * 1_000_000]
PLACES: list[Callable[[str], Json]] = [
    lambda value: {"token": value},
    lambda value: {"authentication": {"scheme": "Bearer", "credentials": value}},
    lambda value: {"authentication": {"scheme": value, "credentials": "c"}},
]


@every_door
async def test_fc_093_what_would_break_a_header(guarded: Guarded, agent: Agent, door: Door) -> None:
    running = await guarded(door.dialect, push=ALLOWED)
    for value in BREAKING:
        for place in PLACES:
            answer = await door.ask(running, T_A, {"url": HOOK} | place(value))
            text = require_refused(door, answer, agent)
            assert "X-Evil" not in text


# --- FC-096 --------------------------------------------------------------------------------------


@every_door_to_a_task
async def test_fc_096_a_webhook_on_anothers_task(guarded: Guarded, agent: Agent, door: Door) -> None:
    running = await guarded(door.dialect, push=ALLOWED)
    configs: dict[str, Json] = {}
    agent.script = keeping(configs)
    await Door("JSONRPC/1.0", "create").ask(running, T_A, {"url": HOOK, "id": "P_A"})
    agent.received.clear()
    before = json.dumps(configs)
    for config in ({"url": HOOK}, {"url": HOOK, "id": "P_A"}, {"url": HOOK, "id": "other"}):
        foreign, absent = [await door.ask(running, task, config, "mallory") for task in (T_A, N)]
        require_equal_to_nf(foreign, absent)
        if not door.sse:
            require_not_found(foreign)
    assert agent.received == []
    assert json.dumps(configs) == before
    seen = await running.call("ListTaskPushNotificationConfigs", {"taskId": T_A})
    assert [config["id"] for config in seen.json["result"]["configs"]] == ["P_A"]


@pytest.mark.parametrize("door", PICKING, ids=str)
async def test_fc_096_nor_with_a_new_task_that_takes_its_id(
    guarded: Guarded, agent: Agent, door: Door
) -> None:
    running = await guarded(door.dialect, push=ALLOWED)
    answer = await door.ask(running, T_A, {"url": HOOK}, "mallory")
    assert door.error(answer)["code"] == -32001
    assert agent.received == []


@pytest.mark.parametrize("operation", ["Get", "List", "Delete"])
async def test_fc_096_nor_is_one_of_anothers_shown_or_deleted(
    guarded: Guarded, agent: Agent, operation: str
) -> None:
    running = await guarded(push=ALLOWED)
    method = f"{operation}TaskPushNotificationConfig{'s' if operation == 'List' else ''}"
    config = {} if operation == "List" else {"id": "P_A"}
    foreign, absent = [
        await running.call(method, {"taskId": task} | config, who="mallory") for task in (T_A, N)
    ]
    require_equal_to_nf(foreign, absent)
    require_not_found(foreign)
    assert agent.received == []


@pytest.mark.parametrize("operation", ["Create", "Get", "List"])
async def test_fc_096_a_reply_about_another_task_is_withheld(
    guarded: Guarded, agent: Agent, operation: str
) -> None:
    running = await guarded(push=ALLOWED)
    config = {"taskId": N, "id": "P_A", "url": "https://hooks.example.com/another's"}
    agent.script = answers({"configs": [config]} if operation == "List" else config)
    method = f"{operation}TaskPushNotificationConfig{'s' if operation == 'List' else ''}"
    asked = {"taskId": T_A, "id": "P_A"} | ({"url": HOOK} if operation == "Create" else {})
    answer = await running.call(method, {k: v for k, v in asked.items() if operation != "List" or k != "id"})
    assert answer.status == 500
    assert "another" not in answer.body.decode()


# --- FC-097 --------------------------------------------------------------------------------------


def keeping(configs: dict[str, Json], *, new_id: Callable[[str], str] = lambda task: task) -> Script:
    """An agent that keeps push configs. A config without an id gets that of its task, as in a2a-sdk and a2a-js."""

    def keep(task: str, config: Json) -> Json:
        kept = {**config, "taskId": task}
        kept["id"] = config.get("id") or new_id(task)
        configs[kept["id"]] = kept
        return kept

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        asked = json.loads(body)
        if "method" not in asked:  # HTTP+JSON 1.0
            inline = asked.get("configuration", {}).get("taskPushNotificationConfig")
            keep(T_A, inline)
            return web.json_response({"task": a_task(T_A)})
        method, params = asked["method"], asked["params"]
        if method == "CreateTaskPushNotificationConfig":
            return result(body, keep(params["taskId"], params))
        if method == "tasks/pushNotificationConfig/set":
            kept = keep(params["taskId"], params["pushNotificationConfig"])
            return result(body, {"taskId": params["taskId"], "pushNotificationConfig": kept})
        if method.startswith("List"):
            return result(body, {"configs": [*configs.values()]})
        if method.startswith("Delete"):
            configs.pop(params["id"], None)
            return result(body, None)
        if method == "GetTask":
            return result(body, a_task(params["id"]))
        task = params["message"].get("taskId") or str(uuid.uuid4())
        if inline := params.get("configuration", {}).get("taskPushNotificationConfig"):
            keep(task, inline)
        if method != "SendStreamingMessage":
            return result(body, {"task": a_task(task)})
        stream = await event_stream(request)
        event = {"jsonrpc": "2.0", "id": asked["id"], "result": {"task": a_task(task)}}
        await stream.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        return stream

    return script


CREATE, SEND, STREAM = (Door("JSONRPC/1.0", operation) for operation in ("create", "send", "stream"))


def passed(answer: Answer) -> bool:
    return b'"result"' in answer.body


def require_full(answer: Answer) -> None:
    assert answer.status == 200
    told = answer.json["error"]
    assert told["code"] == -32602
    assert "push.per_task" in told["message"]


@pytest.mark.parametrize(
    "door", [CREATE, SEND, STREAM, Door("JSONRPC/0.3", "create"), Door("HTTP+JSON/1.0", "send")], ids=str
)
async def test_fc_097_a_thousand_at_once(guarded: Guarded, agent: Agent, door: Door) -> None:
    running = await guarded(door.dialect, push=ALLOWED)
    configs: dict[str, Json] = {}
    agent.script = keeping(configs)
    asked = (door.ask(running, T_A, {"url": HOOK, "id": f"p-{n}"}) for n in range(1000))
    statuses = [answer.status for answer in await asyncio.gather(*asked)]
    assert len(agent.received) == len(configs) == 10, "the agent saw no more than a task may have"
    assert set(statuses) == ({200} if door.jsonrpc else {200, 400})


async def test_fc_097_the_same_id_replaces(guarded: Guarded, agent: Agent) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 2})
    configs: dict[str, Json] = {}
    agent.script = keeping(configs)
    for door in (CREATE, SEND, STREAM):
        for config in ("p-1", "p-2", "p-1", "p-2"):
            assert passed(await door.ask(running, T_A, {"url": HOOK, "id": config}))
        require_full(await door.ask(running, T_A, {"url": HOOK, "id": "p-3"}))
    assert set(configs) == {"p-1", "p-2"}


async def test_fc_097_a_deleted_one_makes_room_once_the_agent_has_deleted_it(
    guarded: Guarded, agent: Agent
) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 1})
    agent.script = keeping({})
    assert passed(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-1"}))

    async def refusing(request: web.Request, body: bytes) -> web.StreamResponse:
        return error(body, -32603, "not now")

    agent.script = refusing
    await running.call("DeleteTaskPushNotificationConfig", {"taskId": T_A, "id": "p-1"})
    require_full(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-2"}))
    agent.script = keeping({})
    await running.call("DeleteTaskPushNotificationConfig", {"taskId": T_A, "id": "p-1"}, who="mallory")
    require_full(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-2"}))
    await running.call("DeleteTaskPushNotificationConfig", {"taskId": T_A, "id": "p-1"})
    assert passed(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-2"}))


async def test_fc_097_what_the_agent_refused_takes_no_room(guarded: Guarded, agent: Agent) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 1})

    async def refusing(request: web.Request, body: bytes) -> web.StreamResponse:
        return error(body, -32603, "not now")

    agent.script = refusing
    for door in (CREATE, SEND, STREAM):
        for config in ({"id": "p-1"}, {"id": "p-2"}, {}):
            assert b"not now" in (await door.ask(running, T_A, {"url": HOOK} | config)).body
    agent.script = keeping({})
    assert passed(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-3"}))
    agent.script = refusing
    await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-3"})
    require_full(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p-4"}))


async def test_fc_097_configs_count_by_the_id_the_agent_gives_them(guarded: Guarded, agent: Agent) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 3})
    agent.script = keeping({})
    for _ in range(5):  # one config, replaced each time
        assert passed(await CREATE.ask(running, T_A, {"url": HOOK}))
    agent.script = keeping({}, new_id=lambda _: str(uuid.uuid4()))
    for _ in range(2):  # a new config each time
        assert passed(await CREATE.ask(running, T_A, {"url": HOOK}))
    require_full(await CREATE.ask(running, T_A, {"url": HOOK}))


async def test_fc_097_a_client_that_sends_its_config_with_every_message_is_not_stopped(
    guarded: Guarded, agent: Agent
) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 2})
    agent.script = keeping({})
    for n in range(6):
        assert passed(await SEND.ask(running, T_A, {"url": HOOK, "token": f"t-{n}"}))
        assert passed(await STREAM.ask(running, T_A, {"url": HOOK}))
    assert passed(await SEND.ask(running, T_A, {"url": f"{HOOK}/2"}))
    require_full(await SEND.ask(running, T_A, {"url": f"{HOOK}/3"}))


@pytest.mark.parametrize("door", [SEND, STREAM], ids=str)
async def test_fc_097_what_a_task_is_made_with_counts(guarded: Guarded, agent: Agent, door: Door) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 1})
    agent.script = keeping({})
    _, body = door.request("", {"url": HOOK, "id": "p-1"})
    made = await running.send("POST", "/", json=body, headers={"A2A-Version": "1.0"})
    task = json.loads(made.body.removeprefix(b"data: "))["result"]["task"]["id"]
    require_full(await CREATE.ask(running, task, {"url": HOOK, "id": "p-2"}))
    assert passed(await CREATE.ask(running, task, {"url": HOOK, "id": "p-1"}))


async def test_fc_097_a_caller_who_leaves_does_not_keep_a_place(guarded: Guarded, agent: Agent) -> None:
    running = await guarded(push=ALLOWED | {"per_task": 1})
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request, body: bytes) -> web.StreamResponse:
        arrived.set()
        await go_on.wait()
        return result(body, {"taskId": T_A, "id": "given", "url": HOOK})

    agent.script = slow
    leaving = asyncio.create_task(CREATE.ask(running, T_A, {"url": HOOK}))
    await arrived.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    agent.script = keeping({})
    require_full(await CREATE.ask(running, T_A, {"url": HOOK, "id": "another"}))
    go_on.set()

    async def replaced() -> bool:
        return passed(await CREATE.ask(running, T_A, {"url": HOOK, "id": "given"}))

    async with asyncio.timeout(10):
        while not await replaced():
            await asyncio.sleep(0.01)


PUSHLESS = CARD | {"capabilities": {"streaming": True, "pushNotifications": False}}


@every_door
@pytest.mark.parametrize(
    ("card", "push"),
    [
        pytest.param(PUSHLESS, ALLOWED, id="the card offers none"),
        pytest.param(CARD, {"allow": []}, id="the policy allows none"),
    ],
)
async def test_fc_097_push_notifications_are_not_supported(
    guarded: Guarded, agent: Agent, door: Door, card: Json, push: Json
) -> None:
    running = await guarded(door.dialect, card=card, push=push)
    for who in ("alice", "mallory"):
        answer = await door.ask(running, T_A, {"url": HOOK}, who)
        told = door.error(answer)
        if door.jsonrpc:
            assert (answer.status, told["code"]) == (200, -32003)
        elif door.version == "1.0":
            assert answer.status == 400
            assert told["details"][0]["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        else:
            assert (answer.status, told["code"]) == (501, -32003)
    assert agent.received == []


async def test_fc_097_a_message_without_a_webhook_passes_there(guarded: Guarded, agent: Agent) -> None:
    running = await guarded(card=PUSHLESS)
    agent.script = keeping({})
    assert passed(await running.submit(taskId=T_A))


# --- observing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({"push": {"mode": "observe", "per_task": 1}}, id="this rule"),
        pytest.param({"mode": "observe", "push": {"per_task": 1}}, id="everything"),
    ],
)
async def test_observing_permits_and_tells_the_host_at_most(
    guarded: Guarded, agent: Agent, sections: Json
) -> None:
    running = await guarded(**sections)
    agent.script = keeping({})
    for n in range(3):
        config = {"url": "https://10.0.0.1/path-s3cret?query-s3cret", "token": "token-s3cret", "id": f"p-{n}"}
        assert passed(await CREATE.ask(running, T_A, config))
    assert len(agent.received) == 3
    records = await running.records(lambda all_: any(r.get("outcome") == "push_limit_reached" for r in all_))
    observed = [record["observed"] for record in records if "observed" in record]
    assert {told["reason"] for told in observed} == {"push_target_refused"}
    assert {told["internal"] for told in observed} == {"host 10.0.0.1"}
    assert "s3cret" not in running.audit_file.read_text()


async def test_a_rule_that_is_off_looks_at_nothing(guarded: Guarded, agent: Agent) -> None:
    resolver = Resolver()
    running = await guarded(push={"mode": "disabled", "allow": [], "per_task": 1}, look_up=resolver)
    agent.script = keeping({})
    for n in range(3):
        assert passed(await CREATE.ask(running, T_A, {"url": "https://10.0.0.1/", "id": f"p-{n}"}))
    assert resolver.asked == []


async def test_an_agents_own_rules_replace_the_list_of_all(start: Start, agent: Agent) -> None:
    of_agent = {"name": "review", "upstream": agent.url, "public_url": "https://agents.test/review"}
    own = {"push": {"allow": ["https://own.example.com"]}}
    running = await start(agents=[of_agent | own], push=ALLOWED)
    agent.script = answers({"task": a_task(T_A)})
    await running.submit()
    agent.script = keeping({})
    assert passed(await CREATE.ask(running, T_A, {"url": "https://own.example.com/", "id": "p"}))
    assert not passed(await CREATE.ask(running, T_A, {"url": HOOK, "id": "p"}))
