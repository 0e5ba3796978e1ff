"""The JSON-RPC envelope.

Owns: recognising an envelope by content, reading its id, method and params.
Never: decides anything; knows where ids sit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from sidecar.bindings.methods import METHOD_NAMES, Row, is_nearly_a_method, rows
from sidecar.bindings.strict import MOST_MEMBERS, PROTOTYPE, fold, members, vocabulary, words_of
from sidecar.bindings.surface import Surface
from sidecar.model import Operation, Reason, Refused, RpcId

ENVELOPE: Final = vocabulary("jsonrpc", "id", "method", "params")

_REQUEST_WORDS: Final = frozenset({"parts", "content", "role", "messageid"})
_ID_WORDS: Final = frozenset(
    {"id", "taskid", "contextid", "sessionid", "name", "parent", "message", "params"}
)


def is_envelope(value: Mapping[str, Any]) -> bool:
    """Whether an object is a JSON-RPC request to somebody: it says so, names a method of ours, or might inherit one."""
    if "jsonrpc" in value or PROTOTYPE in value:
        return True
    if len(value) > MOST_MEMBERS:
        return not {"jsonrpc", "method"}.isdisjoint(words_of(value))
    for name, content in value.items():
        word = fold(name)
        if word == "jsonrpc":
            return True
        if word == "method" and type(content) is str and is_nearly_a_method(content):
            return True
    return False


def holds_envelope(batch: list[Any]) -> bool:
    """Whether an array holds an envelope, at any nesting of arrays (FC-010)."""
    pending: list[Any] = [batch]
    while pending:
        for item in pending.pop():
            if type(item) is list:
                pending.append(item)
            elif type(item) is dict and is_envelope(item):
                return True
    return False


def resembles_a_request(value: Mapping[str, Any], *, below: bool = True) -> bool:
    """Whether an object without an envelope has an A2A request in it.

    A message is one (python-a2a takes such bodies), and so are parameters that name a task where no method is
    named: a2a-sdk 0.2 carries out the first operation whose parameters fit.
    """
    for name, content in value.items():
        if type(content) is dict:
            word = fold(name)
            if word in ("message", "request") and any(fold(n) in _REQUEST_WORDS for n in content):
                return True
            if word == "params" and below:
                nameless = type(value.get("method")) is not str
                if resembles_a_request(content, below=False) or (nameless and _names_a_task(content)):
                    return True
    return False


def _names_a_task(params: Mapping[str, Any]) -> bool:
    return any(type(content) is str and fold(name) in ("id", "taskid") for name, content in params.items())


def names_something(value: Mapping[str, Any]) -> bool:
    """Whether an object has a member that could name a task, a context or a message."""
    return any(fold(name) in _ID_WORDS for name in value)


def open_envelope(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members of an envelope. Raises Refused(INVALID_REQUEST) for twins and wrong spellings."""
    found = members(value, ENVELOPE, "request", Reason.INVALID_REQUEST)
    if len(value) > len(found) and resembles_a_request(value, below=False):
        raise _invalid("the body is both a JSON-RPC envelope and a bare A2A request")
    return found


def read_rpc_id(envelope: Mapping[str, Any]) -> RpcId:
    """The id to echo. Raises Refused(INVALID_REQUEST) for a fraction, a boolean or a structure,
    which servers round, coerce or refuse (JSON-RPC 2.0 §4)."""
    found = envelope.get("id")
    if found is None or type(found) is str or type(found) is int:
        return found
    raise _invalid("`id` must be a string, an integer or null")


def read_method(envelope: Mapping[str, Any], surface: Surface) -> Row | None:
    """What the method means here, None for one that only `other_paths.methods` names.

    Raises Refused(UNKNOWN_OPERATION) for all others, those of dialects that are not enabled included.
    """
    if envelope.get("jsonrpc") != "2.0":
        raise _invalid('`jsonrpc` must be "2.0"')
    method = envelope.get("method")
    if type(method) is not str:
        raise _invalid("`method` must be a string")
    row = rows(surface.dialects).get(method)
    if row is not None:
        return row
    if method in METHOD_NAMES:
        raise Refused(Reason.UNKNOWN_OPERATION, "the method belongs to a version that is not enabled here")
    if method in surface.methods and not is_nearly_a_method(method):
        return None
    raise Refused(Reason.UNKNOWN_OPERATION, "the method is not known here")


def read_params(envelope: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """`params`, which only the extended card may leave out. Raises Refused(INVALID_PARAMS)."""
    params = envelope.get("params")
    if type(params) is dict:
        return params
    if params is None and row.operation is Operation.GET_EXTENDED_CARD:
        return {}
    raise Refused(Reason.INVALID_PARAMS, "`params` must be an object")


def echoed(rpc_id: RpcId) -> bytes:
    """An id as JSON. orjson stops at 64 bits; an id is echoed whatever its size."""
    if isinstance(rpc_id, int):
        return str(rpc_id).encode()
    return orjson.dumps(rpc_id if rpc_id is None else encodable(rpc_id))


def encodable(text: str) -> str:
    """Text that JSON in UTF-8 can carry: it may hold lone surrogates (undecodable bytes of a header)."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _invalid(detail: str) -> Refused:
    return Refused(Reason.INVALID_REQUEST, detail)
