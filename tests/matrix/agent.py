"""What the agent behind the matrix answers, in the dialect it was asked in.

Owns: the bytes of a plausible reply to every row, and of the agent's own not-found.
Never: listens (tests/edge/agent.py does).
"""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from sidecar.model import SENDS, Binding, Operation, Version
from tests.edge.agent import Script
from tests.matrix.requests import HOOK, Row

V0_1, V1_0 = Version.V0_1, Version.V1_0
INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def replying(row: Row, task: str, *, context: str = "c") -> tuple[Script, bytes]:
    """A script that answers `row` about `task`, and the bytes of its body."""
    value = _value(row, task, context)
    if row.streams:
        said = b": hello\r\n\r\n"
        for event in _events(row, task, context):
            said += b"id: 7\r\ndata: " + json.dumps(_wrapped(row, event), indent=None).encode() + b"\r\n\r\n"
        return _script(200, "text/event-stream", said), said
    if value is None and not row.jsonrpc:
        return _script(204, None, b""), b""
    # Spaced out, so that a body written anew would show.
    said = json.dumps(_wrapped(row, value), indent=2, ensure_ascii=False).encode() + b"\n"
    return _script(200, "application/json", said), said


def not_found(row: Row, task: str, *, as_event: bool = False) -> Script:
    """The agent's own not-found, in its own words, with the id in them."""
    text = f"Task {task} was not found in the task store"
    info = {"@type": INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": {"t": task}}
    modern = row.dialect.version is V1_0
    if row.jsonrpc:
        error: dict[str, Any] = {"code": -32001, "message": text}
        said: Any = {"jsonrpc": "2.0", "id": 1, "error": error | ({"data": [info]} if modern else {})}
    elif modern:
        said = {"error": {"code": 404, "status": "NOT_FOUND", "message": text, "details": [info]}}
    else:
        said = {"code": -32001, "message": text}  # as a2a-js 0.3 writes it
    body = json.dumps(said).encode()
    if as_event:
        return _script(200, "text/event-stream", b"data: " + body + b"\n\n")
    return _script(200 if row.jsonrpc else 404, "application/json", body)


def answering(said: Any) -> Script:
    """A script that answers with this JSON, whatever it is asked."""
    return _script(200, "application/json", json.dumps(said).encode())


def _script(status: int, media_type: str | None, body: bytes) -> Script:
    headers = {"X-From": "the agent"} | ({"Content-Type": media_type} if media_type else {})

    async def script(request: web.Request, _: bytes) -> web.StreamResponse:
        if media_type != "text/event-stream":
            return web.Response(status=status, headers=headers, body=body)
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        await response.write(body)
        return response

    return script


def _wrapped(row: Row, value: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "result": value} if row.jsonrpc else value


def a_task(row: Row, task: str, context: str) -> dict[str, Any]:
    """A Task as the version writes it."""
    version = row.dialect.version
    if version is V0_1:
        return {"id": task, "sessionId": context, "status": {"state": "working"}}
    if row.dialect.binding is Binding.JSONRPC and version is not V1_0:
        return {"kind": "task", "id": task, "contextId": context, "status": {"state": "working"}}
    return {
        "id": task,
        "contextId": context,
        "status": {"state": "TASK_STATE_WORKING"},
        "metadata": {"ä": 1e2},
    }


def _events(row: Row, task: str, context: str) -> list[Any]:
    """A first event with the task, then a status."""
    whole = a_task(row, task, context)
    if row.dialect.version is V0_1:
        return [{"id": task, "status": {"state": "working"}, "final": False}]
    status: dict[str, Any] = {"taskId": task, "contextId": context, "status": whole["status"]}
    if row.jsonrpc and row.dialect.version is not V1_0:
        return [whole, {"kind": "status-update", "final": True, **status}]
    return [{"task": whole}, {"statusUpdate": status}]


def _value(row: Row, task: str, context: str) -> Any:
    """The result of a unary reply; None where there is nothing to say."""
    bare = row.jsonrpc and row.dialect.version is not V1_0
    match row.operation:
        case operation if operation in SENDS:
            whole = a_task(row, task, context)
            return whole if bare else {"task": whole}
        case Operation.GET_TASK | Operation.CANCEL_TASK:
            return a_task(row, task, context)
        case Operation.CREATE_PUSH_CONFIG | Operation.GET_PUSH_CONFIG:
            return _config(row, task)
        case Operation.LIST_PUSH_CONFIGS:
            return [_config(row, task)] if bare else {"configs": [_config(row, task)]}
    return None


def _config(row: Row, task: str) -> dict[str, Any]:
    if row.dialect.version is V1_0:
        return {"taskId": task, "id": "cfg-1", "url": HOOK}
    named = {"id": task} if row.dialect.version is V0_1 else {"taskId": task}
    if not row.jsonrpc:
        named = {"name": f"tasks/{task}/pushNotificationConfigs/cfg-1"}
    return {**named, "pushNotificationConfig": {"url": HOOK}}
