"""Every operation in every dialect as raw bytes, and what comes back.

Owns: the one table of requests the raw tests send, sending one, and making two runs comparable.
Never: decides what an answer should be.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, groupby, zip_longest
from string import Template
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

TIMEOUT: Final = 20.0  # seconds without a byte

# Templates know $task, $context, $message (a new id), $text, $config and $hook.
HOOK: Final = "https://hooks.example.com/a2a"  # on a finished task, so nobody ever calls it

JSONRPC_0: Final = "JSONRPC/0.3"
JSONRPC_1: Final = "JSONRPC/1.0"
REST_0: Final = "HTTP+JSON/0.3"
REST_1: Final = "HTTP+JSON/1.0"

SAID_0: Final = (
    '"kind":"message","messageId":"$message","role":"user","parts":[{"kind":"text","text":"$text"}]'
)
SAID_REST_0: Final = '"messageId":"$message","role":"ROLE_USER","content":[{"text":"$text"}]'
SAID_1: Final = '"messageId":"$message","role":"ROLE_USER","parts":[{"text":"$text"}]'


def sends(said: str, plain: str, streamed: str, more: str = "") -> dict[str, tuple[str, str]]:
    """The ways to send: `plain` and `streamed` are a method name or a path, `more` goes beside the message."""
    return {
        "send": (plain, f'{{"message":{{{said}}}{more}}}'),
        "stream": (streamed, f'{{"message":{{{said}}}{more}}}'),
        "continue": (plain, f'{{"message":{{{said},"taskId":"$task"}}{more}}}'),
        "continue-stream": (streamed, f'{{"message":{{{said},"taskId":"$task"}}{more}}}'),
        "refer": (plain, f'{{"message":{{{said},"referenceTaskIds":["$task"]}}{more}}}'),
        "join": (plain, f'{{"message":{{{said},"contextId":"$context"}}{more}}}'),
    }


# A2A 0.3 §7, 1.0 §9.4: operation → method, params.
JSONRPC: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    JSONRPC_0: {
        **sends(SAID_0, "message/send", "message/stream"),
        "get": ("tasks/get", '{"id":"$task"}'),
        "list": ("tasks/list", '{"contextId":"$context"}'),
        "cancel": ("tasks/cancel", '{"id":"$task"}'),
        "subscribe": ("tasks/resubscribe", '{"id":"$task"}'),
        "push-create": (
            "tasks/pushNotificationConfig/set",
            '{"taskId":"$task","pushNotificationConfig":{"id":"$config","url":"$hook"}}',
        ),
        "push-get": (
            "tasks/pushNotificationConfig/get",
            '{"id":"$task","pushNotificationConfigId":"$config"}',
        ),
        "push-list": ("tasks/pushNotificationConfig/list", '{"id":"$task"}'),
        "push-delete": (
            "tasks/pushNotificationConfig/delete",
            '{"id":"$task","pushNotificationConfigId":"$config"}',
        ),
    },
    JSONRPC_1: {
        **sends(SAID_1, "SendMessage", "SendStreamingMessage"),
        "get": ("GetTask", '{"id":"$task"}'),
        "list": ("ListTasks", '{"contextId":"$context"}'),
        "cancel": ("CancelTask", '{"id":"$task"}'),
        "subscribe": ("SubscribeToTask", '{"id":"$task"}'),
        "push-create": (
            "CreateTaskPushNotificationConfig",
            '{"taskId":"$task","id":"$config","url":"$hook"}',
        ),
        "push-get": ("GetTaskPushNotificationConfig", '{"taskId":"$task","id":"$config"}'),
        "push-list": ("ListTaskPushNotificationConfigs", '{"taskId":"$task"}'),
        "push-delete": ("DeleteTaskPushNotificationConfig", '{"taskId":"$task","id":"$config"}'),
    },
}

# The one dialect in which a send does not wait for the outcome unless told to (proto default).
BLOCKING: Final = ',"configuration":{"blocking":true}'
PUSH_0: Final = "/rest/v1/tasks/$task/pushNotificationConfigs"
PUSH_1: Final = "/rest/tasks/$task/pushNotificationConfigs"
NAMED: Final = "tasks/$task/pushNotificationConfigs/$config"

# A2A 0.3 §3.5.6, 1.0 §11.3: operation → verb, path, body. The agents serve it below `/rest`.
REST: Final[Mapping[str, Mapping[str, tuple[str, str, str]]]] = {
    REST_0: {
        **{
            name: ("POST", path, body)
            for name, (path, body) in sends(
                SAID_REST_0, "/rest/v1/message:send", "/rest/v1/message:stream", BLOCKING
            ).items()
        },
        "get": ("GET", "/rest/v1/tasks/$task", ""),
        "list": ("GET", "/rest/v1/tasks?contextId=$context", ""),
        "cancel": ("POST", "/rest/v1/tasks/$task:cancel", "{}"),
        "subscribe": ("GET", "/rest/v1/tasks/$task:subscribe", ""),
        "push-create": (
            "POST",
            PUSH_0,
            '{"parent":"tasks/$task","configId":"$config","config":{"name":"'
            + NAMED
            + '","pushNotificationConfig":{"id":"$config","url":"$hook"}}}',
        ),
        "push-get": ("GET", f"{PUSH_0}/$config", ""),
        "push-list": ("GET", PUSH_0, ""),
        "push-delete": ("DELETE", f"{PUSH_0}/$config", ""),
    },
    REST_1: {
        **{
            name: ("POST", path, body)
            for name, (path, body) in sends(SAID_1, "/rest/message:send", "/rest/message:stream").items()
        },
        "get": ("GET", "/rest/tasks/$task", ""),
        "list": ("GET", "/rest/tasks?contextId=$context", ""),
        "cancel": ("POST", "/rest/tasks/$task:cancel", "{}"),
        "subscribe": ("POST", "/rest/tasks/$task:subscribe", ""),
        "push-create": ("POST", PUSH_1, '{"id":"$config","url":"$hook"}'),
        "push-get": ("GET", f"{PUSH_1}/$config", ""),
        "push-list": ("GET", PUSH_1, ""),
        "push-delete": ("DELETE", f"{PUSH_1}/$config", ""),
    },
}

OPERATIONS: Final = tuple(JSONRPC[JSONRPC_1])
ON_A_TASK: Final = tuple(name for name in OPERATIONS if name not in ("send", "stream", "join", "list"))


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def request(
    dialect: str, operation: str, *, task: str = "", context: str = "", text: str = "quick", message: str = ""
) -> Request:
    """The request of `operation` in `dialect`, byte for byte as an honest client could send it."""
    headers = {"A2A-Version": "1.0"} if dialect.endswith("/1.0") else {}
    if dialect in JSONRPC:
        name, params = JSONRPC[dialect][operation]
        verb, path = "POST", "/"
        body = f'{{"jsonrpc":"2.0","id":"1","method":"{name}","params":{params}}}'
    else:
        verb, path, body = REST[dialect][operation]
    if body:
        headers["Content-Type"] = "application/json"
    if operation in ("stream", "continue-stream", "subscribe"):
        headers["Accept"] = "text/event-stream"
    said = {"message": message or str(uuid4()), "text": text}
    values = {"task": task, "context": context, "config": "hook-1", "hook": HOOK, **said}
    filled = (Template(part).substitute(values) for part in (path, body))
    return Request(verb, next(filled), headers, next(filled).encode())


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply. Header pairs are as they came, in order. `cut`: it ended before its end."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    cut: bool = False

    @property
    def is_stream(self) -> bool:
        return any(
            name.lower() == "content-type" and value.startswith("text/event-stream")
            for name, value in self.headers
        )

    @property
    def documents(self) -> list[Any]:
        """The JSON of a unary reply, or of each event of a stream."""
        if not self.is_stream:
            return [json.loads(self.body)] if self.body else []
        lines = (
            [line for line in block.splitlines() if line.startswith(b"data:")] for block in events(self.body)
        )
        return [json.loads(b"\n".join(line[5:] for line in data)) for data in lines if data]

    @property
    def resource(self) -> dict[str, Any]:
        """The Task or Message of a unary reply or of a stream's first event, in any dialect."""
        first = self.documents[0]
        result = first.get("result", first)
        return result.get("task") or result.get("message") or result  # type: ignore[no-any-return]

    @property
    def state(self) -> str:
        """The state of the task in the reply in 0.3's spelling, `input-required`."""
        state: str = self.resource["status"]["state"]
        return state.removeprefix("TASK_STATE_").lower().replace("_", "-")

    @property
    def but_date(self) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """All of it that an observer could compare: status, headers in order, body."""
        return self.status, tuple(pair for pair in self.headers if pair[0].lower() != "date"), self.body


@contextmanager
def asked(base: str, sent: Request, token: str) -> Iterator[http.client.HTTPResponse]:
    """Send `sent` on a connection of its own; the reply's body is left to be read."""
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=TIMEOUT)
    try:
        headers = {**sent.headers, "Authorization": f"Bearer {token}"}
        connection.request(sent.method, place.path.rstrip("/") + sent.path, sent.body or None, headers)
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


def ask(base: str, sent: Request, token: str) -> Answer:
    """Send `sent` and read the whole reply; a stream until it ends."""
    with asked(base, sent, token) as response:
        return answer(response)


def answer(response: http.client.HTTPResponse, before: bytes = b"") -> Answer:
    """What is left of `response`, after `before` was read of its body."""
    try:
        rest, cut = response.read(), False
    except http.client.IncompleteRead as broken:
        rest, cut = broken.partial, True
    return Answer(response.status, tuple(response.getheaders()), before + rest, cut)


def first_event(response: http.client.HTTPResponse) -> bytes:
    """The first event of a stream as bytes, its blank line included, as soon as it is there."""
    read = b""
    while line := response.readline():
        read += line
        if not line.strip() and b"data:" in read:
            break
    return read


def events(body: bytes) -> list[bytes]:
    """A stream cut into its blocks, comments included (WHATWG HTML §9.2.6)."""
    return [block for block in re.split(rb"\r\n\r\n|\n\n|\r\r", body) if block]


# --- comparing two runs ------------------------------------------------------------------------

ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
PLACE: Final = re.compile(r"http://127\.0\.0\.1:\d+")

# These belong to one connection, one server or one run, not to the answer (RFC 9110 §7.6.1, §10.2.4).
# The length is left out because a time may be written with fewer digits; bodies are compared instead.
OF_THE_CONNECTION: Final = frozenset(
    {"date", "connection", "keep-alive", "transfer-encoding", "content-length", "server", "x-powered-by"}
)


class Names:
    """Gives ids, times and addresses of one run names that another run has as well."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._numbers = count(1)

    def plain(self, text: str) -> str:
        text = TIME.sub("<time>", PLACE.sub("<base>", text))
        return ID.sub(self._name, text)

    def _name(self, found: re.Match[str]) -> str:
        if found[0] not in self._ids:
            self._ids[found[0]] = f"<id {next(self._numbers)}>"
        return self._ids[found[0]]


def comparable(run: Iterable[tuple[str, Answer]], timed: frozenset[str]) -> list[tuple[object, ...]]:
    """A run with what differs from run to run named: (step, status, headers, body, cut).

    A body is compared byte for byte, event by event; but of the steps in `timed`, where a clock
    decides how often a task ticks, it is compared as JSON without the ticks.
    """
    names = Names()
    shown: list[tuple[object, ...]] = []
    for step, each in run:
        headers = sorted(
            (name.lower(), "<tag>" if name.lower() == "etag" else names.plain(value))
            for name, value in each.headers
            if name.lower() not in OF_THE_CONNECTION
        )
        body: object
        if step in timed:
            plain = names.plain(json.dumps(without_ticks(each.documents)))
            body = without_repeats(json.loads(plain))
        else:
            body = [
                names.plain(block.decode())
                for block in (events(each.body) if each.is_stream else [each.body])
            ]
        shown.append((step, each.status, headers, body, each.cut))
    return shown


def differences(through: Sequence[object], direct: Sequence[object]) -> list[str]:
    """Where two comparable runs part, told shortly: with the sidecar, then without."""
    told = []
    for ours, theirs in zip_longest(map(repr, through), map(repr, direct), fillvalue=""):
        if ours != theirs:
            pairs = zip(ours, theirs, strict=False)
            at = max(
                next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs))) - 80, 0
            )
            told.append(
                f"{ours[:40]}\n  with:    …{ours[at : at + 400]}\n  without: …{theirs[at : at + 400]}"
            )
    return told


def without_ticks(thing: Any) -> Any:
    """`thing` without the messages of a working task, `tick N`."""
    if isinstance(thing, dict):
        return {key: without_ticks(value) for key, value in thing.items() if not is_tick(value)}
    if isinstance(thing, list):
        return [without_ticks(each) for each in thing if not is_tick(each)]
    return thing


def is_tick(thing: Any) -> bool:
    """Whether `thing` is such a message, or (google-adk) an artifact of one, bare or as an event.

    An event that tells nothing but a tick is one too: how many fit before a cancel only time decides.
    """
    if not isinstance(thing, dict):
        return False
    parts = thing.get("parts") or thing.get("content")
    if isinstance(parts, list):
        return '"tick ' in json.dumps(parts)
    status = thing.get("status")
    if "taskId" in thing and isinstance(status, dict):
        return is_tick(status.get("message") or status.get("update"))
    wrappers = ("result", "artifactUpdate", "artifact", "statusUpdate", "payload", "value")
    return any(is_tick(thing.get(wrapper)) for wrapper in wrappers)


def without_repeats(things: list[Any]) -> list[Any]:
    """A task that ticks more often shows the same event more often, once its tick is taken out."""
    return [each for each, _ in groupby(things)]
