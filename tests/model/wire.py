"""Every operation in every dialect, with ids in every place, and what comes back.

Owns: what a client of each dialect writes, in both spellings, and reading any answer.
Never: knows whose an id is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

Json = dict[str, Any]

JSONRPC_0: Final = "JSONRPC/0.3"
JSONRPC_1: Final = "JSONRPC/1.0"
REST_0: Final = "HTTP+JSON/0.3"
REST_1: Final = "HTTP+JSON/1.0"
DIALECTS: Final = (JSONRPC_1, REST_1, JSONRPC_0, REST_0)

# Operation → method of 1.0, method of 0.3 (1.0 §9.4, 0.3 §7; `tasks/list` after the 0.3.0 tag).
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "send": ("SendMessage", "message/send"),
    "send-stream": ("SendStreamingMessage", "message/stream"),
    "get": ("GetTask", "tasks/get"),
    "list": ("ListTasks", "tasks/list"),
    "cancel": ("CancelTask", "tasks/cancel"),
    "subscribe": ("SubscribeToTask", "tasks/resubscribe"),
    "push-create": ("CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
    "push-get": ("GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
    "push-list": ("ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
    "push-delete": ("DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
    "card": ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"),
}
# Operation → verb and path (1.0 §11.3, 0.3 §3.5.6: below `/v1`). Of subscribe's two verbs one is used in each.
ROUTES: Final[Mapping[str, tuple[str, str]]] = {
    "send": ("POST", "/message:send"),
    "send-stream": ("POST", "/message:stream"),
    "get": ("GET", "/tasks/{task}"),
    "list": ("GET", "/tasks"),
    "cancel": ("POST", "/tasks/{task}:cancel"),
    "subscribe": ("POST", "/tasks/{task}:subscribe"),
    "push-create": ("POST", "/tasks/{task}/pushNotificationConfigs"),
    "push-get": ("GET", "/tasks/{task}/pushNotificationConfigs/{config}"),
    "push-list": ("GET", "/tasks/{task}/pushNotificationConfigs"),
    "push-delete": ("DELETE", "/tasks/{task}/pushNotificationConfigs/{config}"),
    "card": ("GET", "/extendedAgentCard"),
}
OPERATIONS: Final = tuple(METHODS)
SENDS: Final = ("send", "send-stream")
STREAMS: Final = ("send-stream", "subscribe")
PUSHES: Final = ("push-create", "push-get", "push-list", "push-delete")

HOOK: Final = "https://hooks.example.com"  # nobody is ever called: the agent has no sender

# Further places for one id, where a lenient reader might take it from.
STRAYS: Final = (
    "query id",
    "query taskId",
    "query task_id",
    "query contextId",
    "body id",
    "body taskId",
    "body task_id",
    "body name",
    "body metadata",
    "message task_id",
    "webhook taskId",
    "header Last-Event-ID",
)


@dataclass(frozen=True, slots=True)
class Request:
    verb: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Ask:
    """One operation with every id in it written out. `stray` is a place of STRAYS and an id."""

    operation: str
    dialect: str
    task: str = ""
    context: str = ""
    references: tuple[str, ...] = ()
    config: str = ""
    secret: str = ""  # the token of a webhook
    webhook: bool = False  # inline, with a send
    tenant: str = ""
    text: str = ""
    waits: bool = True
    filters: Json = field(default_factory=dict)  # of a list, and `historyLength` of a get
    stray: tuple[str, str] = ("", "")
    snake: bool = False

    @property
    def is_jsonrpc(self) -> bool:
        return self.dialect.startswith("JSONRPC")

    @property
    def is_old(self) -> bool:
        return self.dialect.endswith("0.3")


def request(ask: Ask) -> Request:
    """What an honest client of the dialect sends, and a stray id with it. Its JSON-RPC id is always 7."""
    headers = {} if ask.is_old else {"A2A-Version": "1.0"}
    place, stray = ask.stray
    where, _, member = place.partition(" ")
    body, query = _body(ask), dict[str, str]()
    if where == "query":
        query[member] = stray
    elif where == "header":
        headers[member] = stray
    elif where == "body" and body is not None:
        body = {**body, member: {"taskId": stray} if member == "metadata" else _named(member, stray)}
    elif where == "message" and "message" in (body or {}):
        body = {**body, "message": {**body["message"], member: stray}}  # type: ignore[index,dict-item]
    if ask.is_jsonrpc:
        method = METHODS[ask.operation][ask.is_old]
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": body or {}}
        verb, path = "POST", "/"
    else:
        verb, path = ROUTES[ask.operation]
        path = path.format(task=ask.task, config=ask.config)
        path = "/rest" + (f"/v1{path}" if ask.is_old else path)
        if ask.operation == "card" and ask.is_old:
            path = "/rest/v1/card"
        if ask.tenant:
            path = f"/{ask.tenant}{path}"  # where a2a-sdk has it
        if verb != "POST":
            filters = in_snake_case(ask.filters) if ask.snake else ask.filters
            query = {name: str(value).replace("True", "true") for name, value in filters.items()} | query
    if query:
        path += "?" + urlencode(query)
    if body is None or (verb != "POST"):
        return Request(verb, path, headers, None)
    if ask.snake:
        body = in_snake_case(body)
    return Request(
        verb, path, headers | {"Content-Type": "application/json"}, json.dumps(body, indent=1).encode()
    )


def _named(member: str, id_: str) -> str:
    return f"tasks/{id_}" if member == "name" else id_


def _body(ask: Ask) -> Json | None:
    """`params`, or the body of a POST."""
    if ask.operation in SENDS:
        body = _send(ask)
    elif ask.operation == "push-create":
        body = _webhook_request(ask)
    elif not ask.is_jsonrpc:
        body = {}
    else:
        body = _params(ask)
    if ask.is_jsonrpc and ask.tenant:
        body["tenant"] = ask.tenant
    return body


def _params(ask: Ask) -> Json:
    match ask.operation:
        case "list":
            return {**ask.filters}
        case "card":
            return {}
        case "push-get" | "push-delete" if ask.is_old:
            return {"id": ask.task, "pushNotificationConfigId": ask.config}
        case "push-get" | "push-delete":
            return {"taskId": ask.task, "id": ask.config}
        case "push-list" if not ask.is_old:
            return {"taskId": ask.task}
    return {"id": ask.task, **ask.filters}


def _webhook(ask: Ask) -> Json:
    return {"id": ask.config, "url": f"{HOOK}/{ask.secret}", "token": ask.secret}


def _webhook_request(ask: Ask) -> Json:
    """Each dialect wraps a push config in its own way (a2a-wire: 1.0 flat, 0.3 nested, 0.3 REST by resource name)."""
    if not ask.is_old:
        return _webhook(ask) | ({"taskId": ask.task} if ask.is_jsonrpc else {})
    if ask.is_jsonrpc:
        return {"taskId": ask.task, "pushNotificationConfig": _webhook(ask)}
    parent = f"tasks/{ask.task}"
    config = {
        "name": f"{parent}/pushNotificationConfigs/{ask.config}",
        "pushNotificationConfig": _webhook(ask),
    }
    return {"parent": parent, "configId": ask.config, "config": config}


def _send(ask: Ask) -> Json:
    message: Json = {"messageId": ask.text.rpartition(" ")[2]}
    if ask.dialect == JSONRPC_0:
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": ask.text}]}
    else:
        said = "content" if ask.dialect == REST_0 else "parts"
        message |= {"role": "ROLE_USER", said: [{"text": ask.text}]}
    if ask.task:
        message["taskId"] = ask.task
    if ask.context:
        message["contextId"] = ask.context
    if ask.references:
        message["referenceTaskIds"] = [*ask.references]
    configuration: Json = {"blocking": ask.waits} if ask.is_old else {"returnImmediately": not ask.waits}
    if ask.webhook:
        names = {JSONRPC_0: "pushNotificationConfig", REST_0: "pushNotification"}
        webhook = _webhook(ask)
        if ask.stray[0] == "webhook taskId":
            webhook["taskId"] = ask.stray[1]
        configuration[names.get(ask.dialect, "taskPushNotificationConfig")] = webhook
    return {"message": message, "configuration": configuration}


def in_snake_case(value: Any) -> Any:
    """The same JSON with the other spelling of every member (ProtoJSON accepts both)."""
    if isinstance(value, list):
        return [in_snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", k).lower(): in_snake_case(v) for k, v in value.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply, or as much of it as was read. Header pairs are as they came, in order."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    cut: bool = False  # it ended before its end

    @property
    def shown(self) -> tuple[int, list[tuple[str, str]], bytes, bool]:
        """What a caller can compare: everything but the date."""
        return self.status, [(k, v) for k, v in self.headers if k.lower() != "date"], self.body, self.cut

    @property
    def is_stream(self) -> bool:
        return any(k.lower() == "content-type" and v.startswith("text/event-stream") for k, v in self.headers)

    def documents(self) -> Iterator[Any]:
        """The JSON of a unary reply, or of each whole event of a stream."""
        if not self.is_stream:
            if self.body:
                yield json.loads(self.body)
            return
        for block in re.split(rb"\r\n\r\n|\n\n", self.body)[:-1]:
            lines = [line[5:] for line in block.splitlines() if line.startswith(b"data:")]
            if lines:
                yield json.loads(b"\n".join(lines))

    @property
    def first(self) -> Any:
        return next(self.documents(), None)

    @property
    def error(self) -> Any:
        """What the answer refuses with: a JSON-RPC code, an HTTP status, or nothing said; None for a success."""
        if self.status >= 300:
            return self.status
        first = self.first
        if first is None and self.is_stream:
            return "an empty stream"  # so a2a-sdk 1 refuses in 0.3's HTTP+JSON
        return first["error"]["code"] if isinstance(first, dict) and "error" in first else None

    @property
    def is_not_found(self) -> bool:
        return self.error in (-32001, 404)

    @property
    def result(self) -> Any:
        """The result of a unary reply, or of a stream's first event."""
        first = self.first
        return first.get("result") if isinstance(first, dict) and "jsonrpc" in first else first

    @property
    def resource(self) -> Json:
        """The Task, the Message or the event in the result."""
        result = self.result
        for wrapper in ("task", "message", "statusUpdate", "artifactUpdate"):
            if isinstance(result, dict) and isinstance(result.get(wrapper), dict):
                return result[wrapper]  # type: ignore[no-any-return]
        return result if isinstance(result, dict) else {}


def state_of(task: Json) -> str:
    """The state of a Task in one spelling, as far as the model tells states apart."""
    state = str(task.get("status", {}).get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    return {"submitted": "open", "working": "open", "cancelled": "canceled"}.get(state, state)
