"""Where task, context and tenant ids sit, per version.

Owns: the members of every request object, and what a payload names: task, context, references,
tenant, push targets, metadata.
Never: knows the transport; compares an id with anything but another place of the same request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from sidecar.bindings.dialect import VERSION_NAME
from sidecar.bindings.strict import members, vocabulary
from sidecar.model import SENDS, Operation, PushTarget, Reason, Refused, Version

MAX_ID: Final = 1024  # characters; longer ids are refused before any look-up
MAX_REFERENCES: Final = 256

# One vocabulary per kind of object, all versions together: a member of one version that turns up in
# another is read too, so that no agent which serves both finds an id there that was not judged.
PARAMS: Final = vocabulary(
    *("id", "taskId", "contextId", "sessionId", "tenant", "name", "parent"),
    *("message", "request", "configuration", "metadata", "historyLength"),
    *("pushNotification", "pushNotificationConfig", "taskPushNotificationConfig", "config"),
    *("configId", "pushNotificationConfigId", "url", "token", "authentication"),
    *("status", "pageSize", "pageToken", "statusTimestampAfter", "lastUpdatedAfter", "includeArtifacts"),
)
MESSAGE: Final = vocabulary(
    *("messageId", "contextId", "taskId", "referenceTaskIds", "role", "kind", "parts", "content"),
    *("metadata", "extensions"),
)
CONFIGURATION: Final = vocabulary(
    *("acceptedOutputModes", "historyLength", "blocking", "returnImmediately"),
    *("pushNotification", "pushNotificationConfig", "taskPushNotificationConfig"),
)
PUSH_CONFIG: Final = vocabulary(
    *("id", "taskId", "tenant", "name", "url", "token", "authentication", "pushNotificationConfig"),
)
AUTHENTICATION: Final = vocabulary("scheme", "schemes", "credentials")
QUERY: Final = vocabulary(
    *("id", "taskId", "contextId", "tenant", "name", "parent", "pushNotificationConfigId", "configId"),
    *("status", "pageSize", "pageToken", "statusTimestampAfter", "lastUpdatedAfter", "includeArtifacts"),
    "historyLength",
    also={VERSION_NAME: VERSION_NAME, VERSION_NAME.lower(): VERSION_NAME},
)

_PUSH_OPERATIONS: Final = frozenset(
    {
        Operation.CREATE_PUSH_CONFIG,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.DELETE_PUSH_CONFIG,
    }
)
_ON_A_TASK: Final = _PUSH_OPERATIONS | {
    Operation.GET_TASK,
    Operation.CANCEL_TASK,
    Operation.SUBSCRIBE_TO_TASK,
}

# The member of `params` that names the task, by version. From 0.2 on a send names it in the message.
# The trap: of push get, list and delete `id` is the task in 0.x and the config in 1.0.
_BY_ID: Final = dict.fromkeys((Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK), "id")
TASK_MEMBER: Final[Mapping[Version, Mapping[Operation, str]]] = {
    Version.V0_1: {
        **_BY_ID,
        **dict.fromkeys(SENDS, "id"),
        Operation.CREATE_PUSH_CONFIG: "id",
        Operation.GET_PUSH_CONFIG: "id",
    },
    **{
        version: {
            **_BY_ID,
            Operation.CREATE_PUSH_CONFIG: "taskId",
            Operation.GET_PUSH_CONFIG: "id",
            Operation.LIST_PUSH_CONFIGS: "id",
            Operation.DELETE_PUSH_CONFIG: "id",
        }
        for version in (Version.V0_2, Version.V0_3)
    },
    Version.V1_0: {**_BY_ID, **dict.fromkeys(_PUSH_OPERATIONS, "taskId")},
}

_INLINE_PUSH: Final = ("pushNotification", "pushNotificationConfig", "taskPushNotificationConfig")

# (where, value): one place of a request that names something.
Place: TypeAlias = tuple[str, Any]
_Members: TypeAlias = dict[str, Any]


class Payload(NamedTuple):
    """What a request names. `metadata` holds the objects a skill may be named in, in order."""

    task_id: str | None = None
    context_id: str | None = None
    references: tuple[str, ...] = ()
    tenant: str | None = None
    push: tuple[PushTarget, ...] = ()
    metadata: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """What the path and the query of an HTTP+JSON request named already."""

    task_id: str | None = None
    config_id: str | None = None
    tenant: str | None = None
    query: Mapping[str, str] | None = None


def read_payload(
    value: Mapping[str, Any], operation: Operation, version: Version, given: Given | None = None
) -> Payload:
    """Read `params` of a JSON-RPC request, or with `given` the body of an HTTP+JSON one.

    Raises Refused(INVALID_PARAMS) for a missing, malformed or contradicting id.
    """
    root = "params" if given is None else "body"
    fields = members(value, PARAMS, root)
    if operation in SENDS:
        return _read_send(fields, version, root, given)
    if operation in _ON_A_TASK:
        if given is not None:
            return _read_on_a_route(fields, operation, root, given)
        return _read_on_a_task(fields, operation, TASK_MEMBER[version][operation], version)
    context = None
    if operation is Operation.LIST_TASKS:
        context = agreed("context", *_places(fields, root, "contextId"), *_asked(given, "contextId"))
    return Payload(context_id=context, tenant=_tenant(fields, root, given))


def _read_send(fields: _Members, version: Version, root: str, given: Given | None) -> Payload:
    where, content = _message_of(fields, root)
    message = members(content, MESSAGE, where)
    if version is Version.V0_1:
        require_id(f"{root}.id", fields.get("id"))
    task_id = agreed(
        "task",
        *_places(message, where, "taskId"),
        *_places(fields, root, "id", "taskId"),
        *_asked(given, "id", "taskId"),
    )
    context_id = agreed(
        "context",
        *_places(message, where, "contextId"),
        *_places(fields, root, "contextId", "sessionId"),
        *_asked(given, "contextId"),
    )
    push = Push()
    push.read_inline(fields, root)
    if fields.get("configuration") is not None:
        inner = f"{root}.configuration"
        push.read_inline(members(_object(fields["configuration"], inner), CONFIGURATION, inner), inner)
    return Payload(
        task_id,
        context_id,
        _references(message.get("referenceTaskIds"), f"{where}.referenceTaskIds"),
        _tenant(fields, root, given, push.tenants),
        push.checked(task_id),
        tuple(m for m in (message.get("metadata"), fields.get("metadata")) if type(m) is dict),
    )


def _message_of(fields: _Members, root: str) -> tuple[str, Mapping[str, Any]]:
    # 0.3 ProtoJSON calls it `request` in the proto and `message` in JSON; its servers take both.
    message, request = fields.get("message"), fields.get("request")
    if message is not None and request is not None:
        raise _invalid(f"`{root}` has both `message` and `request`")
    where = f"{root}.message" if request is None else f"{root}.request"
    content = message if request is None else request
    if not isinstance(content, dict):
        raise _invalid(f"`{where}` must be an object")
    return where, content


def _read_on_a_task(fields: _Members, operation: Operation, member: str, version: Version) -> Payload:
    task_id = require_id(f"params.{member}", fields.get(member))
    if len(fields) == 1 and operation is not Operation.CREATE_PUSH_CONFIG:
        return Payload(task_id)
    names_config = operation in _PUSH_OPERATIONS and version is Version.V1_0
    places = _task_places(fields, "params", names_config)
    return _read_rest(fields, operation, "params", places, None)


def _read_on_a_route(fields: _Members, operation: Operation, root: str, given: Given) -> Payload:
    names_config = operation in _PUSH_OPERATIONS
    # `?id=` beside a path that names the task: a transcoder may bind it (1.0 §11.5).
    asked = (given.query or {}).get("id")
    if asked and asked != (given.config_id if names_config else given.task_id):
        raise _invalid("the query names another id than the path")
    places = [("path", require_id("path", given.task_id)), *_asked(given, "taskId")]
    places += ((where, _resource(where, value)) for where, value in _asked(given, "name", "parent"))
    places += _task_places(fields, root, names_config)
    return _read_rest(fields, operation, root, places, given)


def _task_places(fields: _Members, root: str, names_config: bool) -> list[Place]:
    """Every member that could name the task; `id` is the config's where `names_config`."""
    places = _places(fields, root, "taskId") if names_config else _places(fields, root, "id", "taskId")
    places += ((where, _resource(where, value)) for where, value in _places(fields, root, "name", "parent"))
    return places


def _read_rest(
    fields: _Members, operation: Operation, root: str, places: list[Place], given: Given | None
) -> Payload:
    push = Push()
    if operation is Operation.CREATE_PUSH_CONFIG:
        push.read_created(fields, root)
    return Payload(
        agreed("task", *places, *push.tasks),
        tenant=_tenant(fields, root, given, push.tenants),
        push=tuple(push.targets),
    )


def _places(fields: Mapping[str, Any], where: str, *names: str) -> list[Place]:
    return [(f"{where}.{name}", fields[name]) for name in names if name in fields]


def _asked(given: Given | None, *names: str) -> list[Place]:
    return _places(given.query, "query", *names) if given is not None and given.query else []


def _tenant(fields: _Members, root: str, given: Given | None, further: Sequence[Place] = ()) -> str | None:
    path = [("path", given.tenant)] if given is not None else []
    return agreed("tenant", *path, *_places(fields, root, "tenant"), *_asked(given, "tenant"), *further)


# --- ids -----------------------------------------------------------------------------------------


def read_id(where: str, value: Any) -> str | None:
    """An id, None where the member is absent, null or empty (FC-172). Only JSON strings are ids:
    a2a-js 1.3 turns numbers and arrays into one."""
    if value is None or value == "":
        return None
    if type(value) is not str:
        raise _invalid(f"`{where}` must be a string")
    if len(value) > MAX_ID:
        raise _invalid(f"`{where}` is longer than {MAX_ID} characters")
    return value


def require_id(where: str, value: Any) -> str:
    """An id that must be there. Nothing is ever taken in its place."""
    found = read_id(where, value)
    if found is None:
        raise _invalid(f"`{where}` is missing or empty")
    return found


def agreed(what: str, *places: Place) -> str | None:
    """The one id that all places with an id name, None where none does."""
    named: str | None = None
    for where, value in places:
        found = read_id(where, value)
        if found is not None and found != named:
            if named is not None:
                raise _invalid(f"`{where}` names another {what} than the rest of the request")
            named = found
    return named


def _resource(where: str, value: Any) -> str | None:
    """The task id in a resource name: `tasks/{id}` or `tasks/{id}/pushNotificationConfigs/{cid}` (a2a.v1).

    Both py and js 0.3 accept more (`tasks/ID/x`), so anything else is refused.
    """
    name = read_id(where, value)
    if name is None:
        return None
    parts = name.split("/")
    exact = len(parts) == 2 or (len(parts) == 4 and parts[2] == "pushNotificationConfigs")
    if not exact or parts[0] != "tasks" or "" in parts:
        raise _invalid(f"`{where}` is no resource name of a task")
    task = parts[1]
    if "%" in task and unquote(task) != task:  # go and js encode ids here, py does not
        raise _invalid(f"`{where}` holds a percent escape")
    return task


def _references(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _invalid(f"`{where}` must be a list of strings")
    ids = tuple(dict.fromkeys(require_id(f"{where}[]", item) for item in value))
    if len(ids) > MAX_REFERENCES:
        raise _invalid(f"`{where}` names more than {MAX_REFERENCES} tasks")
    return ids


# --- push configs ----------------------------------------------------------------------------------


class Push:
    """Push configs of one request, wherever they sit: targets, and the tasks and tenants they name."""

    def __init__(self) -> None:
        self.targets: list[PushTarget] = []
        self.tasks: list[Place] = []
        self.tenants: list[Place] = []

    def read_inline(self, fields: _Members, root: str) -> None:
        """The configs a send may carry, under the name of any version."""
        for name in _INLINE_PUSH:
            if fields.get(name) is not None:
                self.read(fields[name], f"{root}.{name}")

    def read_created(self, fields: _Members, root: str) -> None:
        """The config of a push create: flat (1.0), nested (0.x), or in `config` (0.3 REST)."""
        if fields.get("config") is not None:
            self.read(fields["config"], f"{root}.config")
        self.read_inline(fields, root)
        if "url" in fields or not self.targets:
            self._add(fields, root)

    def read(self, value: Any, where: str) -> None:
        """One config object, which may wrap the real one once (a2a.v1 TaskPushNotificationConfig)."""
        config = members(_object(value, where), PUSH_CONFIG, where)
        self.tasks.append((f"{where}.taskId", config.get("taskId")))
        self.tasks.append((f"{where}.name", _resource(f"{where}.name", config.get("name"))))
        self.tenants.append((f"{where}.tenant", config.get("tenant")))
        wrapped = config.get("pushNotificationConfig")
        if wrapped is not None:
            inner = f"{where}.pushNotificationConfig"
            content = members(_object(wrapped, inner), PUSH_CONFIG, inner)
            self.tasks.append((f"{inner}.taskId", content.get("taskId")))
            self.tasks.append((f"{inner}.name", _resource(f"{inner}.name", content.get("name"))))
            self.tenants.append((f"{inner}.tenant", content.get("tenant")))
            if content.get("pushNotificationConfig") is not None:
                raise _invalid(f"`{inner}` wraps another config")
            self._add(content, inner)
        if wrapped is None or "url" in config:
            self._add(config, where)

    def _add(self, config: _Members, where: str) -> None:
        url = config.get("url")
        if type(url) is not str or not url:
            raise _invalid(f"`{where}.url` must be a string")
        inner = f"{where}.authentication"
        authentication = members(_object(config.get("authentication"), inner), AUTHENTICATION, inner)
        schemes = authentication.get("schemes")
        if schemes is not None and not isinstance(schemes, list):
            raise _invalid(f"`{inner}.schemes` must be a list of strings")
        values = (
            (f"{where}.token", config.get("token")),
            (f"{inner}.credentials", authentication.get("credentials")),
            (f"{inner}.scheme", authentication.get("scheme")),
            *((f"{inner}.schemes[]", scheme) for scheme in schemes or ()),
        )
        self.targets.append(PushTarget(url, tuple(_header_values(values))))

    def checked(self, task_id: str | None) -> tuple[PushTarget, ...]:
        """The targets of a send; its configs must name no other task than `task_id`.

        A config that names a task in a send that names none would add a webhook to that task.
        """
        if self.tasks and agreed("task", *self.tasks) not in (None, task_id):
            raise _invalid("a push config names a task that the message does not")
        return tuple(self.targets)


def _header_values(values: tuple[Place, ...]) -> Iterator[str]:
    for where, value in values:
        if value is None:
            continue
        if type(value) is not str:
            raise _invalid(f"`{where}` must be a string")
        yield value


def _object(value: Any, where: str) -> Mapping[str, Any]:
    """An object; null and absent are the empty one (ProtoJSON)."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid(f"`{where}` must be an object")
    return value


def _invalid(detail: str) -> Refused:
    return Refused(Reason.INVALID_PARAMS, detail)
