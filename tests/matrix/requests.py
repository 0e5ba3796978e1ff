"""One request for every row of the protocol's tables.

Owns: what a client of each dialect sends, and where it writes a task id.
Never: sends anything; decides what the answer should be.

A row of `sidecar.bindings.methods` without a case here fails `test_rows.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.bindings.dialect import HTTP, JSONRPC
from sidecar.bindings.methods import HTTP_ROUTES, JSONRPC_METHODS
from sidecar.model import SENDS, STREAMS, Binding, Dialect, Operation, Version

V0_1, V0_2, V0_3, V1_0 = Version.V0_1, Version.V0_2, Version.V0_3, Version.V1_0
DIALECTS = (*JSONRPC, *HTTP)
HOOK = "https://hooks.example.com/a2a"

Json = dict[str, Any]
Params = Callable[[str], Json | None]


@dataclass(frozen=True)
class Request:
    """What goes onto the wire, but for the credential."""

    method: str
    target: str
    body: bytes | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Names:
    """Task ids a send carries, by place. A task named nowhere is made by the agent."""

    task: str | None = None
    references: tuple[str, ...] = ()
    inline: str | None = None  # in an inline push config


# --- operations on a task: what `params` (or the body) says beside what the path says ------------


def by_id(task: str) -> Json:
    return {"id": task, "metadata": {"note": "ä"}}


def push_0(task: str) -> Json:
    return {"taskId": task, "pushNotificationConfig": {"id": "cfg-1", "url": HOOK, "token": "opaque"}}


def push_1(task: str) -> Json:
    return {"taskId": task, "id": "cfg-1", "url": HOOK, "authentication": {"scheme": "Bearer"}}


def push_rest_0(task: str) -> Json:
    config = {"name": f"tasks/{task}/pushNotificationConfigs/cfg-1", "pushNotificationConfig": {"url": HOOK}}
    return {"parent": f"tasks/{task}", "configId": "cfg-1", "config": config}


def one_config_0(task: str) -> Json:
    return {"id": task, "pushNotificationConfigId": "cfg-1"}


def one_config_1(task: str) -> Json:
    return {"taskId": task, "id": "cfg-1"}


def nothing(task: str) -> None:
    return None


def empty(task: str) -> Json:
    return {}


JSONRPC_ON_A_TASK: Mapping[tuple[Version, str], Params] = {
    (V0_1, "tasks/get"): lambda t: {"id": t, "historyLength": 2},
    (V0_1, "tasks/cancel"): by_id,
    (V0_1, "tasks/resubscribe"): by_id,
    (V0_1, "tasks/pushNotification/set"): lambda t: {"id": t, "pushNotificationConfig": {"url": HOOK}},
    (V0_1, "tasks/pushNotification/get"): by_id,
    **{
        (version, name): params
        for version in (V0_2, V0_3)
        for name, params in {
            "tasks/get": lambda t: {"id": t, "historyLength": 2},
            "tasks/cancel": by_id,
            "tasks/resubscribe": by_id,
            "tasks/pushNotificationConfig/set": push_0,
            "tasks/pushNotificationConfig/get": one_config_0,
            "tasks/pushNotificationConfig/list": by_id,
            "tasks/pushNotificationConfig/delete": one_config_0,
        }.items()
    },
    (V1_0, "GetTask"): lambda t: {"id": t, "historyLength": 2},
    (V1_0, "CancelTask"): by_id,
    (V1_0, "SubscribeToTask"): lambda t: {"id": t},
    (V1_0, "CreateTaskPushNotificationConfig"): push_1,
    (V1_0, "GetTaskPushNotificationConfig"): one_config_1,
    (V1_0, "ListTaskPushNotificationConfigs"): lambda t: {"taskId": t, "pageSize": 10},
    (V1_0, "DeleteTaskPushNotificationConfig"): one_config_1,
}

HTTP_ON_A_TASK: Mapping[tuple[Version, str, str], Params] = {
    (V0_3, "GET", "/v1/tasks/{id}"): nothing,
    (V0_3, "POST", "/v1/tasks/{id}:cancel"): lambda t: {"name": f"tasks/{t}"},
    (V0_3, "GET", "/v1/tasks/{id}:subscribe"): nothing,
    (V0_3, "POST", "/v1/tasks/{id}:subscribe"): lambda t: {"name": f"tasks/{t}"},
    (V0_3, "POST", "/v1/tasks/{id}/pushNotificationConfigs"): push_rest_0,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotificationConfigs"): nothing,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotificationConfigs/{cid}"): nothing,
    (V0_3, "DELETE", "/v1/tasks/{id}/pushNotificationConfigs/{cid}"): nothing,
    (V0_3, "POST", "/v1/task/{id}/pushNotificationConfigs"): push_rest_0,
    (V0_3, "POST", "/v1/task/{id}/pushNotifications"): push_rest_0,
    (V0_3, "POST", "/v1/tasks/{id}/pushNotifications"): push_rest_0,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotifications"): nothing,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotifications/{cid}"): nothing,
    (V1_0, "GET", "/tasks/{id}"): nothing,
    (V1_0, "POST", "/tasks/{id}:cancel"): lambda t: {"metadata": {"note": "ä"}},
    (V1_0, "GET", "/tasks/{id}:subscribe"): nothing,
    (V1_0, "POST", "/tasks/{id}:subscribe"): empty,
    (V1_0, "POST", "/tasks/{id}/pushNotificationConfigs"): push_1,
    (V1_0, "GET", "/tasks/{id}/pushNotificationConfigs"): nothing,
    (V1_0, "GET", "/tasks/{id}/pushNotificationConfigs/{cid}"): nothing,
    (V1_0, "DELETE", "/tasks/{id}/pushNotificationConfigs/{cid}"): nothing,
}

# --- sends -----------------------------------------------------------------------------------------


def send_0_1(names: Names) -> Json:
    message: Json = {"role": "user", "parts": [{"type": "text", "text": "grüß Gott"}]}
    if names.references:
        message["referenceTaskIds"] = [*names.references]
    return {"id": names.task, "message": message}  # the caller picks the id (0.1 §7.1)


def send_0(names: Names) -> Json:
    message = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "grüß Gott"}]}
    return _send(names, message, "pushNotificationConfig", {"blocking": True})


def send_rest_0(names: Names) -> Json:
    """ProtoJSON of `a2a.v1`: `content`, and a push config that names its task by resource name."""
    sent = _send(names, {"role": "ROLE_USER", "content": [{"text": "grüß Gott"}]}, "", {"blocking": True})
    if names.inline:
        name = f"tasks/{names.inline}/pushNotificationConfigs/cfg-1"
        sent["configuration"]["pushNotification"] = {"name": name, "pushNotificationConfig": {"url": HOOK}}
    return sent


def send_1(names: Names) -> Json:
    message = {"role": "ROLE_USER", "parts": [{"text": "grüß Gott"}]}
    return _send(names, message, "taskPushNotificationConfig", {"returnImmediately": False})


def _send(names: Names, message: Json, config: str, configuration: Json) -> Json:
    message = {"messageId": "m-1", **message}
    if names.task:
        message["taskId"] = names.task
    if names.references:
        message["referenceTaskIds"] = [*names.references]
    if names.inline and config:
        configuration = {**configuration, config: {"taskId": names.inline, "url": HOOK}}
    return {"message": message, "configuration": configuration}


Send = Callable[[Names], Json]
JSONRPC_SENDS: Mapping[tuple[Version, str], Send] = {
    (V0_1, "tasks/send"): send_0_1,
    (V0_1, "tasks/sendSubscribe"): send_0_1,
    (V0_2, "message/send"): send_0,
    (V0_2, "message/stream"): send_0,
    (V0_3, "message/send"): send_0,
    (V0_3, "message/stream"): send_0,
    (V1_0, "SendMessage"): send_1,
    (V1_0, "SendStreamingMessage"): send_1,
}
HTTP_SENDS: Mapping[tuple[Version, str, str], Send] = {
    (V0_3, "POST", "/v1/message:send"): send_rest_0,
    (V0_3, "POST", "/v1/message:stream"): send_rest_0,
    (V1_0, "POST", "/message:send"): send_1,
    (V1_0, "POST", "/message:stream"): send_1,
}

# --- what names no task ------------------------------------------------------------------------------

LISTS = frozenset(
    {(V0_3, "tasks/list"), (V1_0, "ListTasks"), (V0_3, "GET", "/v1/tasks"), (V1_0, "GET", "/tasks")}
)
CARDS = frozenset(
    {
        (V0_2, "agent/authenticatedExtendedCard"),
        (V0_3, "agent/getAuthenticatedExtendedCard"),
        (V0_3, "agent/authenticatedExtendedCard"),
        (V1_0, "GetExtendedAgentCard"),
        (V0_3, "GET", "/v1/card"),
        (V0_3, "GET", "/agent/authenticatedExtendedCard"),
        (V1_0, "GET", "/extendedAgentCard"),
    }
)

# --- cells -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One row of the tables: what a client calls in one dialect."""

    dialect: Dialect
    operation: Operation
    key: tuple[Any, ...]

    @property
    def name(self) -> str:
        return " ".join(self.key[1:])

    @property
    def streams(self) -> bool:
        return self.operation in STREAMS

    @property
    def sse(self) -> bool:
        """Whether a refusal is told as an event (0.x JSON-RPC streams)."""
        return self.streams and self.jsonrpc and self.dialect.version is not V1_0

    @property
    def jsonrpc(self) -> bool:
        return self.dialect.binding is Binding.JSONRPC

    def on_a_task(self, task: str, rpc_id: Any = 1, *, snake: bool = False) -> Request:
        if self.jsonrpc:
            return self._call(JSONRPC_ON_A_TASK[self.key](task), rpc_id, snake)
        _, verb, pattern = self.key
        target = pattern.replace("{id}", task).replace("{cid}", "cfg-1")
        if (verb, self.operation) == ("GET", Operation.GET_TASK):
            target += "?history_length=2" if snake else "?historyLength=2"
        return self._request(verb, target, HTTP_ON_A_TASK[self.key](task), snake)

    def sending(self, names: Names, rpc_id: Any = 1, *, snake: bool = False) -> Request:
        if self.jsonrpc:
            return self._call(JSONRPC_SENDS[self.key](names), rpc_id, snake)
        _, verb, pattern = self.key
        return self._request(verb, pattern, HTTP_SENDS[self.key](names), snake)

    def plain(self, rpc_id: Any = 1) -> Request:
        """A call that names nothing: a list, or the extended card."""
        return self._call({}, rpc_id, False) if self.jsonrpc else self._request(*self.key[1:], None, False)

    def anyhow(self, task: str) -> Request:
        """The row's call about `task`, whatever the operation."""
        if self.operation in SENDS:
            return self.sending(Names(task))
        return self.plain() if self.key in LISTS | CARDS else self.on_a_task(task)

    def _call(self, params: Json | None, rpc_id: Any, snake: bool) -> Request:
        envelope = {"jsonrpc": "2.0", "id": rpc_id, "method": self.key[1], "params": params}
        return self._request("POST", "/", envelope, snake)

    def _request(self, verb: str, target: str, body: Json | None, snake: bool) -> Request:
        headers = {"A2A-Version": "1.0"} if self.dialect.version is V1_0 else {}
        if body is None:
            return Request(verb, target, None, headers)
        # Spaced out, so that a body written anew would show.
        text = json.dumps(in_snake_case(body) if snake else body, indent=1, ensure_ascii=False)
        return Request(verb, target, text.encode(), headers | {"Content-Type": "application/json"})


def in_snake_case(value: Any) -> Any:
    """The same JSON with the other spelling of every member (ProtoJSON accepts both)."""
    if isinstance(value, list):
        return [in_snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", k).lower(): in_snake_case(v) for k, v in value.items()}


def rows() -> Iterator[Row]:
    """Every row of the tables, in the dialect it belongs to."""
    for binding, table in ((JSONRPC, JSONRPC_METHODS), (HTTP, HTTP_ROUTES)):
        for key, operation in table.items():
            yield Row(next(d for d in binding if d.version is key[0]), operation, key)


ROWS = tuple(rows())
