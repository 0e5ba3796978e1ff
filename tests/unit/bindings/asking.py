"""Requests for the tests of decoding, written short."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.decode import decode
from sidecar.bindings.dialect import DIALECTS
from sidecar.bindings.surface import Surface
from sidecar.bindings.target import read_target
from sidecar.model import Call, Decoded, Head, Reason, Refused, Unreadable

EVERYTHING = Surface(
    dialects=frozenset(DIALECTS.values()),
    rest_bases=((), ("rest",)),
    tenants=frozenset({"acme"}),
    skill_from=("metadata:skillId", "header:A2A-Skill"),
    methods=frozenset({"vendor/ping", "gettask"}),
)


def only(*dialects: str) -> Surface:
    """A surface with just these dialects."""
    return replace(EVERYTHING, dialects=frozenset(DIALECTS[name] for name in dialects))


def send(
    method: str,
    target: str,
    body: Any = b"",
    headers: list[tuple[str, str]] | None = None,
    surface: Surface = EVERYTHING,
) -> Decoded:
    """Decode one request; a body that is no bytes is written as JSON."""
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    head = Head(method, target, CIMultiDictProxy(CIMultiDict(headers or [])))
    return decode(head, read_target(target), sent, surface)


def envelope(method: Any, params: Any = None, **members: Any) -> dict[str, Any]:
    """A JSON-RPC request; `params` is left out where it is None."""
    found = {"jsonrpc": "2.0", "id": "r-1", "method": method}
    return (found if params is None else found | {"params": params}) | members


def rpc(method: Any, params: Any = None, surface: Surface = EVERYTHING, **members: Any) -> Decoded:
    return send("POST", "/", envelope(method, params, **members), surface=surface)


def outcome(decoded: Decoded) -> Any:
    """The reason of what is refused, the operation of a call, else the type."""
    if isinstance(decoded, Unreadable):
        return decoded.reason
    return decoded.operation if isinstance(decoded, Call) else type(decoded)


def outcome_of_path(method: str, target: str, body: Any = b"", **more: Any) -> Any:
    """As `outcome`, for a target that may not even be readable."""
    try:
        return outcome(send(method, target, body, **more))
    except Refused as refused:
        return refused.refusal.reason


def message(**members: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]} | members


HEADERS_1_0 = [("A2A-Version", "1.0")]
INVALID_PARAMS, INVALID_REQUEST = Reason.INVALID_PARAMS, Reason.INVALID_REQUEST
