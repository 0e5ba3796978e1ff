"""Where task, context and tenant ids sit, per version.

Owns: the members of every request object, and what a payload names: task, context, references,
tenant, push targets, metadata.
Never: knows the transport; compares an id with anything but another place of the same request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sidecar.bindings.dialect import VERSION_NAME
from sidecar.bindings.ids import (
    Place,
    agreed,
    invalid,
    places_in,
    read_id,
    read_object,
    read_references,
    require_id,
    task_in_name,
)
from sidecar.bindings.push import Push
from sidecar.bindings.selection import read_selection
from sidecar.bindings.strict import members, vocabulary
from sidecar.model import SENDS, Operation, PushTarget, Selection, Version

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
_ONE_CONFIG: Final = frozenset({Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG})
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

_Members: TypeAlias = dict[str, Any]


class Payload(NamedTuple):
    """What a request names. `metadata` holds the objects a skill may be named in, in order."""

    task_id: str | None = None
    context_id: str | None = None
    references: tuple[str, ...] = ()
    tenant: str | None = None
    push: tuple[PushTarget, ...] = ()
    metadata: tuple[Mapping[str, Any], ...] = ()
    selection: Selection | None = None
    config_id: str | None = None


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
    if operation is Operation.LIST_TASKS:
        return _read_list(fields, root, given)
    return Payload(tenant=_tenant(fields, root, given))


def _read_send(fields: _Members, version: Version, root: str, given: Given | None) -> Payload:
    where, content = _message_of(fields, root)
    message = members(content, MESSAGE, where)
    if version is Version.V0_1:
        require_id(f"{root}.id", fields.get("id"))
    task_id = agreed(
        "task",
        *places_in(message, where, "taskId"),
        *places_in(fields, root, "id", "taskId"),
        *_asked(given, "id", "taskId"),
    )
    context_id = agreed(
        "context",
        *places_in(message, where, "contextId"),
        *places_in(fields, root, "contextId", "sessionId"),
        *_asked(given, "contextId"),
    )
    push = Push()
    push.read_inline(fields, root)
    if fields.get("configuration") is not None:
        inner = f"{root}.configuration"
        push.read_inline(members(read_object(fields["configuration"], inner), CONFIGURATION, inner), inner)
    return Payload(
        task_id,
        context_id,
        read_references(message.get("referenceTaskIds"), f"{where}.referenceTaskIds"),
        _tenant(fields, root, given, push.tenants),
        push.checked(task_id),
        tuple(m for m in (message.get("metadata"), fields.get("metadata")) if type(m) is dict),
    )


def _message_of(fields: _Members, root: str) -> tuple[str, Mapping[str, Any]]:
    # 0.3 ProtoJSON calls it `request` in the proto and `message` in JSON; its servers take both.
    message, request = fields.get("message"), fields.get("request")
    if message is not None and request is not None:
        raise invalid(f"`{root}` has both `message` and `request`")
    where = f"{root}.message" if request is None else f"{root}.request"
    content = message if request is None else request
    if not isinstance(content, dict):
        raise invalid(f"`{where}` must be an object")
    return where, content


def _read_on_a_task(fields: _Members, operation: Operation, member: str, version: Version) -> Payload:
    task_id = require_id(f"params.{member}", fields.get(member))
    if len(fields) == 1 and operation is not Operation.CREATE_PUSH_CONFIG:
        return Payload(task_id)
    names_config = operation in _PUSH_OPERATIONS and version is Version.V1_0
    places = _task_places(fields, "params", names_config)
    return _read_rest(fields, operation, "params", places, None, names_config=names_config)


def _read_on_a_route(fields: _Members, operation: Operation, root: str, given: Given) -> Payload:
    names_config = operation in _PUSH_OPERATIONS
    # `?id=` beside a path that names the task: a transcoder may bind it (1.0 §11.5).
    asked = (given.query or {}).get("id")
    if asked and asked != (given.config_id if names_config else given.task_id):
        raise invalid("the query names another id than the path")
    places = [("path", require_id("path", given.task_id)), *_asked(given, "taskId")]
    places += ((where, task_in_name(where, value)) for where, value in _asked(given, "name", "parent"))
    places += _task_places(fields, root, names_config)
    return _read_rest(fields, operation, root, places, given, names_config=names_config)


def _read_list(fields: _Members, root: str, given: Given | None) -> Payload:
    # A list by HTTP+JSON is a GET, which has no body.
    asked, where = (fields, root) if given is None else (given.query or {}, "query")
    return Payload(
        context_id=read_id(f"{where}.contextId", asked.get("contextId")),
        tenant=_tenant(fields, root, given),
        selection=read_selection(asked, where, as_text=given is not None),
    )


def _task_places(fields: _Members, root: str, names_config: bool) -> list[Place]:
    """Every member that could name the task; `id` is the config's where `names_config`."""
    places = places_in(fields, root, "taskId") if names_config else places_in(fields, root, "id", "taskId")
    places += (
        (where, task_in_name(where, value)) for where, value in places_in(fields, root, "name", "parent")
    )
    return places


def _read_rest(
    fields: _Members,
    operation: Operation,
    root: str,
    places: list[Place],
    given: Given | None,
    *,
    names_config: bool,
) -> Payload:
    push = Push()
    config_id = None
    if operation is Operation.CREATE_PUSH_CONFIG:
        push.read_created(fields, root)
    elif operation in _ONE_CONFIG:
        config_id = _config_id(fields, root, names_config, given)
    return Payload(
        agreed("task", *places, *push.tasks),
        tenant=_tenant(fields, root, given, push.tenants),
        push=tuple(push.targets),
        config_id=config_id,
    )


def _config_id(fields: _Members, root: str, names_config: bool, given: Given | None) -> str | None:
    """The one config a get or delete names: by 1.0's `id`, 0.x's `pushNotificationConfigId`, or the path."""
    names = ("pushNotificationConfigId", "configId", *(("id",) if names_config else ()))
    asked = _asked(given, "pushNotificationConfigId", "configId")
    path = [("path", given.config_id)] if given is not None else []
    return agreed("push config", *path, *places_in(fields, root, *names), *asked)


def _asked(given: Given | None, *names: str) -> list[Place]:
    return places_in(given.query, "query", *names) if given is not None and given.query else []


def _tenant(fields: _Members, root: str, given: Given | None, further: Sequence[Place] = ()) -> str | None:
    path = [("path", given.tenant)] if given is not None else []
    return agreed("tenant", *path, *places_in(fields, root, "tenant"), *_asked(given, "tenant"), *further)
