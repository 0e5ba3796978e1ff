"""Ids as a request names them: strings, in one or several places that agree.

Owns: what an id may be, and that no two places of one request name different things.
Never: knows which place counts, or looks anything up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from sidecar.model import Reason, Refused

MAX_ID: Final = 1024  # characters; longer ids are refused before any look-up
MAX_REFERENCES: Final = 256

# (where, value): one place of a request that may name something.
Place: TypeAlias = tuple[str, Any]


def read_id(where: str, value: Any) -> str | None:
    """An id, None where the member is absent, null or empty (FC-172). Only JSON strings are ids:
    a2a-js 1.3 turns numbers and arrays into one."""
    if value is None or value == "":
        return None
    if type(value) is not str:
        raise invalid(f"`{where}` must be a string")
    if len(value) > MAX_ID:
        raise invalid(f"`{where}` is longer than {MAX_ID} characters")
    return value


def require_id(where: str, value: Any) -> str:
    """An id that must be there. Nothing is ever taken in its place."""
    found = read_id(where, value)
    if found is None:
        raise invalid(f"`{where}` is missing or empty")
    return found


def agreed(what: str, *places: Place) -> str | None:
    """The one id that all places with an id name, None where none does."""
    named: str | None = None
    for where, value in places:
        found = read_id(where, value)
        if found is not None and found != named:
            if named is not None:
                raise invalid(f"`{where}` names another {what} than the rest of the request")
            named = found
    return named


def task_in_name(where: str, value: Any) -> str | None:
    """The task id in a resource name: `tasks/{id}` or `tasks/{id}/pushNotificationConfigs/{cid}` (a2a.v1).

    Both py and js 0.3 accept more (`tasks/ID/x`), so anything else is refused.
    """
    name = read_id(where, value)
    if name is None:
        return None
    parts = name.split("/")
    exact = len(parts) == 2 or (len(parts) == 4 and parts[2] == "pushNotificationConfigs")
    if not exact or parts[0] != "tasks" or "" in parts:
        raise invalid(f"`{where}` is no resource name of a task")
    task = parts[1]
    if "%" in task and unquote(task) != task:  # go and js encode ids here, py does not
        raise invalid(f"`{where}` holds a percent escape")
    return task


def config_in_name(value: Any) -> str | None:
    """The push config's id in a resource name that `task_in_name` has accepted, None where it names the task alone."""
    parts = value.split("/") if isinstance(value, str) else []
    return parts[3] if len(parts) == 4 else None


def read_references(value: Any, where: str) -> tuple[str, ...]:
    """The ids of a list of ids, each once; none where the list is absent or null."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise invalid(f"`{where}` must be a list of strings")
    if len(value) > MAX_REFERENCES:
        raise invalid(f"`{where}` names more than {MAX_REFERENCES} tasks")
    return tuple(dict.fromkeys(require_id(f"{where}[]", item) for item in value))


def places_in(fields: Mapping[str, Any], where: str, *names: str) -> list[Place]:
    """The places of an object that are there, with their names for an error."""
    return [(f"{where}.{name}", fields[name]) for name in names if name in fields]


def read_object(value: Any, where: str) -> Mapping[str, Any]:
    """An object; null and absent are the empty one (ProtoJSON)."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(f"`{where}` must be an object")
    return value


def invalid(detail: str) -> Refused:
    """The refusal of a payload. `detail` names places, never what a caller wrote there."""
    return Refused(Reason.INVALID_PARAMS, detail)
