"""What an agent's reply is about, once it is a JSON value.

Owns: telling Task, Message, events, push configs and errors apart, and where their own ids sit.
Never: parses bytes, or judges whether an id may be seen.

Lenient about versions, because agents mix them (fasta2a writes snake_case and wraps 0.3 results, a2a-js
0.3 sends failed tasks without `kind`); strict about ambiguity: whatever two readers could take for two
different tasks is Unclear. Ids inside history, artifacts, metadata or a Message's `taskId` own nothing
and are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from sidecar.model import STREAMS, Binding, Call, Operation, Version

Json: TypeAlias = object  # a parsed JSON value of any kind
Members: TypeAlias = dict[str, object]


class Unclear(ValueError):
    """A reply that cannot be read, or that two readers could read differently."""


class Shape(Enum):
    """What a reply, or one event of a stream, is."""

    TASK = "task"
    MESSAGE = "message"
    STATUS = "status"
    ARTIFACT = "artifact"
    PUSH = "push"
    CARD = "card"
    ERROR = "error"
    NOTHING = "nothing"


class Seen(NamedTuple):
    """What was found. Ids are exactly as written; an empty id counts as none.

    `state` is canonical (`input-required`), `status_at` the status timestamp as the agent wrote it.
    `not_found`: an ERROR that says the task does not exist. `config_id`: that of the one push config shown.
    """

    shape: Shape
    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    status_at: str | None = None
    not_found: bool = False
    config_id: str | None = None


# A2A 1.0 §4.1.3; 0.1 to 0.3 have the same ones, as far as they have them.
TERMINAL: Final = frozenset({"completed", "failed", "canceled", "rejected"})

# Numbers of both protos (0.3 and 1.0 agree). 0, UNSPECIFIED, is no state.
_STATES: Final = (
    "",
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "input-required",
    "rejected",
    "auth-required",
)

STATES: Final = tuple(
    f"TASK_STATE_{name.upper().replace('-', '_')}" for name in _STATES if name
)  # 1.0's names
_KNOWN_STATES: Final = frozenset({*_STATES, "unknown"})  # 0.1 to 0.3 have `unknown`
_LONGEST_STATE: Final = 64  # characters; what agents write is half as long

# Members of SendMessageResponse and StreamResponse (0.3 and 1.0 proto), in both ProtoJSON spellings.
_WRAPPERS: Final[Mapping[str, Shape]] = {
    "task": Shape.TASK,
    "message": Shape.MESSAGE,
    "statusUpdate": Shape.STATUS,
    "status_update": Shape.STATUS,
    "artifactUpdate": Shape.ARTIFACT,
    "artifact_update": Shape.ARTIFACT,
}

_WRAPPER_NAMES: Final = frozenset(_WRAPPERS)

# 0.2 and 0.3 JSON-RPC.
_KINDS: Final[Mapping[str, Shape]] = {
    "task": Shape.TASK,
    "message": Shape.MESSAGE,
    "status-update": Shape.STATUS,
    "artifact-update": Shape.ARTIFACT,
}

_PUSH: Final = frozenset(
    {
        Operation.CREATE_PUSH_CONFIG,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.DELETE_PUSH_CONFIG,
    }
)
_BARE_TASKS: Final = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK})  # answered by a Task, unwrapped
_NAMES_A_TASK: Final = frozenset({Shape.TASK, Shape.STATUS, Shape.ARTIFACT})

_CONTEXT_NAMES: Final = ("contextId", "context_id")
_SESSION_NAMES: Final = ("sessionId", "session_id")  # 0.1

# Members by one of which an object with an `id`, or with parts, is known.
_OF_A_TASK: Final = frozenset({"history", "artifacts", *_CONTEXT_NAMES, *_SESSION_NAMES})
_OF_A_MESSAGE: Final = frozenset({"role", "messageId", "message_id"})

_ERROR: Final = Seen(Shape.ERROR)
_NOTHING: Final = Seen(Shape.NOTHING)


def see(value: Json, call: Call, http_status: int | None) -> Seen:
    """What the parsed reply to `call` is. `http_status` is None for an event of a stream. Raises Unclear."""
    if http_status is None or 200 <= http_status < 300:
        return _see_success(value, call)
    return _see_failure(value, call, http_status)


def _see_success(value: Json, call: Call) -> Seen:
    if call.dialect.binding is not Binding.JSONRPC:
        if (error := _rest_error(value)) is not None:
            return Seen(Shape.ERROR, not_found=_names_missing_task(error))
        return _see_result(value, call)
    envelope = _members(value, "a JSON-RPC response")
    result, error = envelope.get("result"), envelope.get("error")
    if error is not None:
        if result is not None or _carried(envelope) & _NAMES_A_TASK:
            raise Unclear("both an error and a result")
        return Seen(Shape.ERROR, not_found=_names_missing_task(error))
    if result is None and envelope and "jsonrpc" not in envelope:
        raise Unclear("no JSON-RPC response")
    if result is None and _carried(envelope):
        raise Unclear("a JSON-RPC response with a task beside the result")
    return _see_result(result, call)


def _see_failure(value: Json, call: Call, http_status: int) -> Seen:
    """An HTTP status that tells of failure. JSON-RPC clients read the body all the same."""
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict) and (part.get("result") is not None or _carried(part) & _NAMES_A_TASK):
            raise Unclear("a task under an HTTP status of failure")
    if not isinstance(value, dict):
        return _ERROR
    error = value.get("error")
    if call.dialect.binding is Binding.JSONRPC:
        return Seen(Shape.ERROR, not_found=_names_missing_task(error))
    missing = _names_missing_task(error) or _names_missing_task(value) or _is_old_not_found(value, call)
    return Seen(Shape.ERROR, not_found=http_status == 404 and missing)


# --- errors ----------------------------------------------------------------------------------

# a2a-sdk 0.3 over HTTP+JSON has nothing but its text: on get and the like, and on send.
_OLD_NOT_FOUND: Final = re.compile(r"Task not found|Task .+ was specified but does not exist", re.DOTALL)


def _names_missing_task(error: Json) -> bool:
    """-32001, or an ErrorInfo that says the same (1.0 §9.5 `data`, §11.6 `details`)."""
    if not isinstance(error, dict):
        return False
    code = error.get("code")
    if type(code) is int and code == -32001:
        return True
    return any(
        isinstance(info, dict)
        and info.get("reason") == "TASK_NOT_FOUND"
        and info.get("domain") == "a2a-protocol.org"
        for name in ("data", "details")
        for info in _list(error.get(name))
    )


def _is_old_not_found(body: Members, call: Call) -> bool:
    text = body.get("message")
    old = call.dialect.version is not Version.V1_0
    return old and len(body) == 1 and isinstance(text, str) and bool(_OLD_NOT_FOUND.fullmatch(text))


def _rest_error(value: Json) -> Json:
    """The error an HTTP+JSON event carries (`{"error": …}`, or a2a-js 0.3's bare one), None for no error."""
    if not isinstance(value, dict) or _carried(value):
        return None
    if value.get("error") is not None:
        return value["error"]
    return value if type(value.get("code")) is int and isinstance(value.get("message"), str) else None


# --- results ---------------------------------------------------------------------------------


def _see_result(result: Json, call: Call) -> Seen:
    if result is None or result == {}:
        return _NOTHING
    if call.operation is Operation.GET_EXTENDED_CARD:
        _members(result, "a card")
        return Seen(Shape.CARD)
    if call.operation in _PUSH:
        return _see_push(result)
    return _see_object(_members(result, "a result"), call)


def _see_object(body: Members, call: Call) -> Seen:
    wrapped = _wrapped(body)
    bare = _bare(body)
    # A 0.1 task may have a `message` of its own (python-a2a); there is no wrapper in 0.1, nor in these replies.
    unwrapped = call.dialect.version is Version.V0_1 or call.operation in _BARE_TASKS
    if bare is not None and unwrapped and set(wrapped) == {"message"}:
        wrapped = {}
    if len(wrapped) + (bare is not None) > 1:
        raise Unclear("two results in one")
    for name, inner in wrapped.items():
        kind = _kind(inner)
        if kind is not None and kind is not _WRAPPERS[name]:
            raise Unclear(f"`{name}` holds something else")
        return _read(_WRAPPERS[name], inner, call)
    if bare is None:
        raise Unclear("neither task, message nor event")
    return _read(bare, body, call)


def _read(shape: Shape, body: Members, call: Call) -> Seen:
    names: tuple[str, ...] = _CONTEXT_NAMES
    if call.dialect.version is Version.V0_1:
        names += _SESSION_NAMES
        if shape is Shape.TASK and call.operation in STREAMS and not {"history", "artifacts"} & body.keys():
            shape = Shape.STATUS  # 0.1 §7.2: an event is `{id, status, final}`
    context_id = _agreed(body, *names)
    if shape is Shape.MESSAGE:
        return Seen(shape, context_id=context_id)
    task_id = _agreed(body, "id", "taskId", "task_id")
    if task_id is None:
        raise Unclear(f"a {shape.value} without a task id")
    state, status_at = _status(body.get("status"))
    return Seen(shape, task_id, context_id, state, status_at)


def _carried(body: Members) -> set[Shape]:
    """Every shape an object could be taken for by someone; unlike `_bare`, at ease with foreign kinds."""
    kind = body.get("kind")
    by_kind = _KINDS.get(kind) if isinstance(kind, str) else None
    found = {by_kind, _by_members(body), *(_WRAPPERS[name] for name in _wrapped(body))}
    return {shape for shape in found if shape is not None}


def _wrapped(body: Members) -> dict[str, Members]:
    if _WRAPPER_NAMES.isdisjoint(body):
        return {}
    return {name: inner for name in _WRAPPERS if isinstance(inner := body.get(name), dict)}


def _bare(body: Members) -> Shape | None:
    """The shape of an object that is no wrapper: by `kind`, else by its members. Raises Unclear."""
    by_kind, by_members = _kind(body), _by_members(body)
    if by_kind is None or by_members is None:
        return by_kind or by_members
    # By members alone, a Task and a status event of 0.1 are one; only a Message is another thing.
    if (by_kind is Shape.MESSAGE) is not (by_members is Shape.MESSAGE):
        raise Unclear("`kind` and members disagree")
    return by_kind


def _kind(body: Members) -> Shape | None:
    kind = body.get("kind")
    if kind is None:
        return None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Unclear("an unknown `kind`")
    return _KINDS[kind]


def _by_members(body: Members) -> Shape | None:
    has_id = body.get("id") is not None
    has_task_id = body.get("taskId") is not None or body.get("task_id") is not None
    status, artifact = isinstance(body.get("status"), dict), isinstance(body.get("artifact"), dict)
    found: Shape | None = None
    if artifact and (has_task_id or has_id):
        found = Shape.ARTIFACT
    elif status and has_task_id:
        found = Shape.STATUS
    elif has_id and (status or not _OF_A_TASK.isdisjoint(body)):
        found = Shape.TASK
    if artifact and status:
        raise Unclear("both status and artifact")
    parts = isinstance(body.get("parts"), list) or isinstance(body.get("content"), list)
    if parts and not _OF_A_MESSAGE.isdisjoint(body):
        if found is not None:
            raise Unclear("both a message and a task")
        return Shape.MESSAGE
    return found


# --- push configs ----------------------------------------------------------------------------

_CONFIG_NAME: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/[^/]*")  # 0.3 proto


_CONFIG_WRAPPERS: Final = ("pushNotificationConfig", "push_notification_config")  # 0.x


def _see_push(result: Json) -> Seen:
    """One config or a list; all of them must be of one task."""
    if isinstance(result, dict) and isinstance(result.get("configs"), list):
        result = result["configs"]
    configs = result if isinstance(result, list) else [result]
    tasks = {_task_of_config(_members(config, "a push config")) for config in configs} - {None}
    if len(tasks) > 1:
        raise Unclear("push configs of several tasks")
    config_id = _config_id(configs[0]) if len(configs) == 1 and isinstance(configs[0], dict) else None
    return Seen(Shape.PUSH, next(iter(tasks), None), config_id=config_id)


def _task_of_config(config: Members) -> str | None:
    named = set(_ids(config, "taskId", "task_id"))
    if not config.keys().isdisjoint(_CONFIG_WRAPPERS):
        # 0.1 names the task `id` here. In a flat 1.0 config, `id` is the config's own.
        named |= set(_ids(config, "id"))
    for name in _ids(config, "name"):
        match = _CONFIG_NAME.fullmatch(name)
        if match is None:
            raise Unclear("a push config with a malformed name")
        named.add(match[1])
    if len(named) > 1:
        raise Unclear("a push config of two tasks")
    return next(iter(named), None) or None


def _config_id(config: Members) -> str | None:
    """The id of a push config: inside its 0.x wrapper, in its name, or its own (1.0). Only for counting: never unclear."""
    wrapper = next((name for name in _CONFIG_WRAPPERS if name in config), None)
    if wrapper is None:
        found = config.get("id")
    else:
        inner, name = config[wrapper], config.get("name")
        found = inner.get("id") if isinstance(inner, dict) else None
        found = found or (name.split("/")[-1] if isinstance(name, str) else None)
    return found if isinstance(found, str) and found else None


# --- members ---------------------------------------------------------------------------------


def _members(value: Json, what: str) -> Members:
    if not isinstance(value, dict):
        raise Unclear(f"{what} that is no object")
    return value


def _list(value: Json) -> list[object]:
    return value if isinstance(value, list) else []


def _ids(body: Members, *names: str) -> Iterator[str]:
    """The values under `names`; null counts as absent (ProtoJSON). Raises Unclear for what is no string."""
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Unclear(f"`{name}` is no string")
        yield value


def _agreed(body: Members, *names: str) -> str | None:
    """The one value under all of `names` that are there."""
    found: str | None = None
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Unclear(f"`{name}` is no string")
        if found is not None and value != found:
            raise Unclear(f"`{names[0]}` has two values")
        found = value
    return found or None


def _status(status: Json) -> tuple[str | None, str | None]:
    if not isinstance(status, dict):
        return None, None
    timestamp = status.get("timestamp")
    return canonical_state(status.get("state")), timestamp if isinstance(timestamp, str) else None


def canonical_state(state: Json) -> str | None:
    """Canonical spelling: 0.x text, `TASK_STATE_…` of both protos, numbers. None for none or unknown."""
    if type(state) is int:
        return (_STATES[state] or None) if 0 <= state < len(_STATES) else None
    return _state_named(state) if isinstance(state, str) and len(state) <= _LONGEST_STATE else None


@lru_cache(maxsize=256)
def _state_named(state: str) -> str | None:
    name = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    name = "canceled" if name == "cancelled" else name
    return name if name and name in _KNOWN_STATES else None
