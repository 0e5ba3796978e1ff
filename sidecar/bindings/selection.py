"""Which tasks a list asks for.

Owns: the parameters of ListTasks in both spellings and both carriers (1.0 §3.1.4, `tasks/list` of 0.3-dev).
Never: guesses a value that is not valid, or drops a filter it cannot read: that would list more than was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sidecar.bindings.ids import invalid
from sidecar.bindings.shapes import STATES, canonical_state
from sidecar.model import Selection

LARGEST_PAGE: Final = 100  # this and the default: 1.0 §3.1.4
_USUAL_PAGE: Final = 50
_LARGEST_INT: Final = 2**31 - 1  # int32
_LONGEST_TOKEN: Final = 8192  # characters; ours are far shorter

# RFC 3339 §5.6, which is what ProtoJSON reads; nanoseconds are cut to microseconds.
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DIGITS: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_ANY_STATE: Final = ("", 0, "TASK_STATE_UNSPECIFIED")
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_selection(fields: Mapping[str, Any], where: str, *, as_text: bool) -> Selection:
    """The selection in `fields`, which have canonical names; null counts as absent (ProtoJSON).

    `as_text`: the values come from a query and are all strings. Raises Refused(INVALID_PARAMS).
    """
    page_size = _integer(fields, "pageSize", where, as_text)
    if page_size is not None and not 1 <= page_size <= LARGEST_PAGE:
        raise invalid(f"`{where}.pageSize` must be from 1 to {LARGEST_PAGE}")
    history = _integer(fields, "historyLength", where, as_text)
    if history is not None and history < 0:
        raise invalid(f"`{where}.historyLength` must not be negative")
    return Selection(
        state=_state(fields.get("status"), where, as_text),
        changed_since=_changed_since(fields, where, as_text),
        page_size=_USUAL_PAGE if page_size is None else page_size,
        page_token=_token(fields.get("pageToken"), where),
        history_length=history,
        include_artifacts=_boolean(fields.get("includeArtifacts"), where, as_text),
    )


def _integer(fields: Mapping[str, Any], name: str, where: str, as_text: bool) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    # ProtoJSON takes an int32 as a number, whole in value, or as a string.
    whole = type(value) is float and value.is_integer() and not as_text
    if whole or (type(value) is str and _DIGITS.fullmatch(value)):
        value = int(value)
    if type(value) is not int or abs(value) > _LARGEST_INT:
        raise invalid(f"`{where}.{name}` must be an integer")
    return value


def _boolean(value: Any, where: str, as_text: bool) -> bool:
    if value is None:
        return False
    found = _WORDS.get(value) if as_text else value
    if type(found) is not bool:
        raise invalid(f"`{where}.includeArtifacts` must be true or false")
    return found


def _state(value: Any, where: str, as_text: bool) -> str | None:
    """One state, None for any: absent, and the unspecified one (1.0 §4.1.3)."""
    if as_text and type(value) is str and _DIGITS.fullmatch(value):
        value = int(value)
    if value is None or (value in _ANY_STATE and type(value) in (str, int)):
        return None
    found = canonical_state(value)
    if found is None:
        raise invalid(f"`{where}.status` must be one of {', '.join(STATES)}")
    return found


def _changed_since(fields: Mapping[str, Any], where: str, as_text: bool) -> int | None:
    """Microseconds since the epoch: `statusTimestampAfter` (RFC 3339), or 0.3-dev's `lastUpdatedAfter` (ms)."""
    stated, older = fields.get("statusTimestampAfter"), _milliseconds(fields, where, as_text)
    if stated is None or stated == "":
        return older
    if older is not None:
        raise invalid(f"`{where}` has both `statusTimestampAfter` and `lastUpdatedAfter`")
    if type(stated) is not str or not _TIMESTAMP.fullmatch(stated):
        raise invalid(f"`{where}.statusTimestampAfter` must be a timestamp of RFC 3339")
    try:
        return (datetime.fromisoformat(stated.upper()) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise invalid(f"`{where}.statusTimestampAfter` must be a timestamp of RFC 3339") from None


def _milliseconds(fields: Mapping[str, Any], where: str, as_text: bool) -> int | None:
    value = fields.get("lastUpdatedAfter")
    if value is None:
        return None
    if type(value) is str and _DIGITS.fullmatch(value) and as_text:
        value = int(value)
    if type(value) is not int or abs(value) > 2**53:
        raise invalid(f"`{where}.lastUpdatedAfter` must be a number of milliseconds")
    return value * 1000


def _token(value: Any, where: str) -> str:
    if value is None:
        return ""
    if type(value) is not str or len(value) > _LONGEST_TOKEN:
        raise invalid(f"`{where}.pageToken` is not one of ours")
    return value
