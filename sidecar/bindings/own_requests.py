"""Requests the sidecar makes itself, in the caller's dialect.

Owns: cancelling a task nobody could be given, getting the tasks of a list, and asking for the caller's extended card.
Never: sends anything, or adds credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

import orjson

from sidecar.bindings.dialect import VERSION_NAME
from sidecar.bindings.jsonrpc import echoed
from sidecar.bindings.methods import RESERVED, SUFFIXES
from sidecar.model import Binding, Call, Dialect, RpcId, Version


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """`target` is path and query below the mount, as in `Call`. Content-Length and Host are not in `headers`."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


_RPC_ID: Final = "a2a-sidecar"  # one request on one connection at a time: nothing to tell apart

# 1.0 §9.4.5; 0.1 to 0.3 share the name.
_CANCEL: Final[Mapping[Version, str]] = {
    Version.V0_1: "tasks/cancel",
    Version.V0_2: "tasks/cancel",
    Version.V0_3: "tasks/cancel",
    Version.V1_0: "CancelTask",
}

_NO_SEGMENTS: Final = frozenset(word.casefold() for word in RESERVED) | {"", ".", ".."}
_ASKED_WHERE: Final = frozenset({"tenant", VERSION_NAME.lower()})  # parameters of a query, in lower case

# The tail of a send's path; the base and a tenant stand before it.
_SEND_TAIL: Final = re.compile(r"/message(?::|%3[Aa])(?:send|stream)$")


def cancel_request(call: Call, task_id: str) -> OwnRequest:
    """Cancel `task_id`, which the agent made for `call`, where `call` itself went.

    Raises ValueError for a binding that has no such request, and for an HTTP+JSON call that is no send.
    """
    tenant = _tenant_of(call)
    if call.dialect.binding is Binding.JSONRPC:
        method = _CANCEL[call.dialect.version]
        return _rpc(call.dialect, call.target, method, {**tenant, "id": task_id})
    path, mark, query = call.target.partition("?")
    base, tails = _SEND_TAIL.subn("", path)
    if call.dialect.binding is not Binding.HTTP_JSON or not tails:
        raise ValueError(f"no cancel request for a call to `{path}` in {call.dialect}")
    # The id is the agent's: whatever is in it must stay one path segment.
    target = f"{base}/tasks/{quote(task_id, safe='')}:cancel{mark}{query}"
    return _request(call.dialect, "POST", target, orjson.dumps(tenant))


def get_request(call: Call, task_id: str) -> OwnRequest:
    """Get `task_id` on behalf of the list `call`, where it went and under the same tenant and JSON-RPC id.

    Raises ValueError for a binding that has no such request, and for an id whose path would name something else.
    """
    asked = call.selection.history_length if call.selection else None
    history = {} if asked is None else {"historyLength": asked}
    if call.dialect.binding is Binding.JSONRPC:
        tenant = _tenant_of(call)
        method = "GetTask" if call.dialect.version is Version.V1_0 else "tasks/get"
        return _rpc(call.dialect, call.target, method, {**tenant, "id": task_id, **history}, call.form.rpc_id)
    path, _, query = call.target.partition("?")
    if call.dialect.binding is not Binding.HTTP_JSON:
        raise ValueError(f"no request for a task in {call.dialect}")
    if _names_more(task_id):
        raise ValueError("an id that is no segment of a path of its own")
    # Of the list's own query only what says where and how to ask goes on.
    kept = [(name, value) for name, value in parse_qsl(query) if name.lower() in _ASKED_WHERE]
    further = urlencode([*kept, *history.items()])
    target = f"{path}/{quote(task_id, safe='')}" + (f"?{further}" if further else "")
    return _request(call.dialect, "GET", target)


def extended_card_request(dialect: Dialect, target_base: str, *, tenant: str = "") -> OwnRequest:
    """Ask for the extended card at the interface whose path below the mount is `target_base`.

    `tenant` is the one the interface declares (1.0). Raises ValueError where a dialect has no extended card.
    """
    base = target_base.rstrip("/")
    match dialect:
        case Dialect(Binding.JSONRPC, Version.V1_0):
            params = {"tenant": tenant} if tenant else {}
            return _rpc(dialect, target_base, "GetExtendedAgentCard", params)
        case Dialect(Binding.JSONRPC, Version.V0_3):
            return _rpc(dialect, target_base, "agent/getAuthenticatedExtendedCard", None)
        case Dialect(Binding.JSONRPC, Version.V0_2):
            # 0.2.1 §7.8: `{card.url}/../agent/authenticatedExtendedCard`, over HTTP.
            return _request(dialect, "GET", f"{base.rpartition('/')[0]}/agent/authenticatedExtendedCard")
        case Dialect(Binding.HTTP_JSON, Version.V1_0):
            prefix = f"/{quote(tenant, safe='')}" if tenant else ""
            return _request(dialect, "GET", f"{base}{prefix}/extendedAgentCard")
        case Dialect(Binding.HTTP_JSON, Version.V0_3 | Version.V0_2):
            return _request(dialect, "GET", f"{base}/v1/card")
        case _:
            raise ValueError(f"no extended card in {dialect}")


def _names_more(task_id: str) -> bool:
    """Whether `/tasks/{id}` would be another route: servers decode a segment first, so `x:subscribe` names task `x`."""
    plain = task_id.casefold()
    separated = any(mark in task_id for mark in "/\\?#\0")
    return plain.endswith(SUFFIXES) or plain in _NO_SEGMENTS or separated


def _tenant_of(call: Call) -> dict[str, str]:
    return {"tenant": call.tenant} if call.tenant and call.dialect.version is Version.V1_0 else {}


def _rpc(
    dialect: Dialect, target: str, method: str, params: Mapping[str, object] | None, rpc_id: RpcId = None
) -> OwnRequest:
    named = orjson.dumps({"method": method} | ({} if params is None else {"params": params}))
    id_ = echoed(_RPC_ID if rpc_id is None else rpc_id)
    return _request(dialect, "POST", target, b'{"jsonrpc":"2.0","id":' + id_ + b"," + named[1:])


def _request(dialect: Dialect, method: str, target: str, body: bytes = b"") -> OwnRequest:
    headers = {"Accept": "application/json"}
    if body:
        headers["Content-Type"] = "application/json"  # what every agent takes, also for HTTP+JSON 1.0
    if dialect.version is Version.V1_0:
        headers["A2A-Version"] = "1.0"  # absent means 0.3 (1.0 §3.6.2)
    return OwnRequest(method, target, MappingProxyType(headers), body)
