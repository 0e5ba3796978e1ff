"""Refusals as a client of each dialect must find them (design §8), written out once more and not computed.

Owns: what a test expects on the wire.
Never: imports the encoder it checks.
"""

from __future__ import annotations

import json
from typing import Any

from sidecar.model import Version
from tests.edge.conftest import Answer
from tests.matrix.requests import Row

INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def told(row: Row, answer: Answer) -> Any:
    """The error of a refusal, out of the one event of a 0.x stream where it is one."""
    if answer.header("Content-Type") == "text/event-stream":
        assert row.sse, "only 0.x JSON-RPC streams are refused as a stream"
        lines = answer.body.split(b"\n")
        assert lines[1:] == [b"", b""], "more than one event"
        return json.loads(lines[0].removeprefix(b"data: "))
    assert answer.header("Content-Type") == "application/json"
    return answer.json


def require_not_found(row: Row, answer: Answer, rpc_id: Any = 1) -> None:
    """The one answer about a task that is not the caller's."""
    old = row.dialect.version is not Version.V1_0
    info = {"@type": INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": {}}
    text = "Task not found"
    if row.jsonrpc:
        error = {"code": -32001, "message": text} | ({} if old else {"data": [info]})
        expected: Any = {"jsonrpc": "2.0", "id": rpc_id, "error": error}
    elif old:
        expected = {"code": -32001, "message": text}  # a2a-js 0.3's; the specification fixes none
    else:
        expected = {"error": {"code": 404, "status": "NOT_FOUND", "message": text, "details": [info]}}
    assert answer.status == (200 if row.jsonrpc else 404)
    assert told(row, answer) == expected
    assert (answer.header("Content-Type") == "text/event-stream") is row.sse


def require_unauthenticated(row: Row, answer: Answer, rpc_id: Any = 1) -> None:
    """401 with a challenge; never an event stream, since the status is its own."""
    assert answer.status == 401
    assert (answer.header("WWW-Authenticate") or "").startswith("Bearer")
    assert answer.header("Content-Type") == "application/json"
    body = answer.json
    if row.jsonrpc:
        assert (body["jsonrpc"], body["id"]) == ("2.0", rpc_id)
        assert body["error"]["code"] == -31401
        assert "result" not in body
    elif row.dialect.version is Version.V1_0:
        assert body.keys() == {"error"}
        assert body["error"].keys() == {"code", "status", "message", "details"}
        assert (body["error"]["code"], body["error"]["status"]) == (401, "UNAUTHENTICATED")
    else:
        assert body.keys() == {"code", "message"}


def require_divergence(row: Row, answer: Answer, rpc_id: Any = 1) -> None:
    """`CapabilityScopeDivergence`, naming what is missing, with the ErrorInfos of design §8."""
    old = row.dialect.version is not Version.V1_0
    assert answer.status == (200 if row.jsonrpc else 403)
    assert answer.header("WWW-Authenticate") == 'Bearer error="insufficient_scope", scope="r w"'
    body = told(row, answer)
    assert (answer.header("Content-Type") == "text/event-stream") is row.sse
    error = body if not row.jsonrpc and old else body["error"]
    assert error["message"].startswith("CapabilityScopeDivergence: refused before any task was created: ")
    assert error["message"].endswith("the token presented by planner holds w; missing r")
    if row.jsonrpc:
        assert (body["jsonrpc"], body["id"]) == ("2.0", rpc_id)
    if not row.jsonrpc and old:
        assert error == {"code": -31403, "message": error["message"]}
        return
    infos = error["data"] if row.jsonrpc else error["details"]
    protocol = ("UNSUPPORTED_OPERATION", "a2a-protocol.org")
    ours = ("CAPABILITY_SCOPE_DIVERGENCE", "a2a-sidecar")
    assert [(i["reason"], i["domain"]) for i in infos] == ([ours] if old else [protocol, ours])
    for info in infos:
        metadata = info["metadata"]
        assert {k: metadata[k] for k in ("required", "held", "missing", "presented_by")} == {
            "required": "r w",
            "held": "w",
            "missing": "r",
            "presented_by": "planner",
        }
        assert metadata.keys() == {
            *("skill", "chosen_by", "required", "held", "missing", "presented_by", "decision_id")
        }
    if row.jsonrpc:
        assert error["code"] == (-31403 if old else -32004)
    else:
        assert (error["code"], error["status"]) == (403, "PERMISSION_DENIED")


def require_early_end(row: Row, answer: Answer, *, skill: str, needed: int) -> None:
    """`TokenLifetimeTooShort`, in the form of a policy refusal, with a challenge that asks for another token."""
    old = row.dialect.version is not Version.V1_0
    assert answer.status == (200 if row.jsonrpc else 403)
    challenge = answer.header("WWW-Authenticate") or ""
    assert challenge.startswith(
        'Bearer error="invalid_token", error_description="the token expires too early; '
    )
    error = told(row, answer)
    error = error if not row.jsonrpc and old else error["error"]
    assert error["message"].startswith("TokenLifetimeTooShort: refused before any task was created: ")
    assert "obtain one that is valid for longer" in error["message"]
    if not row.jsonrpc and old:
        assert error == {"code": -31403, "message": error["message"]}
        return
    assert error["code"] == ((-31403 if old else -32004) if row.jsonrpc else 403)
    infos = error["data"] if row.jsonrpc else error["details"]
    protocol = ("UNSUPPORTED_OPERATION", "a2a-protocol.org")
    ours = ("TOKEN_LIFETIME_TOO_SHORT", "a2a-sidecar")
    assert [(i["reason"], i["domain"]) for i in infos] == ([ours] if old else [protocol, ours])
    for info in infos:
        metadata = dict(info["metadata"])
        assert 0 <= int(metadata.pop("remaining_seconds")) < needed
        assert metadata.pop("decision_id")
        assert metadata == {
            "skill": skill,
            "chosen_by": "named by metadata skillId",
            "needed_seconds": str(needed),
            "presented_by": "planner",
        }


def require_error(row: Row, answer: Answer, *, jsonrpc: int, http: int, rpc_id: Any = 1) -> None:
    """An error of the dialect's own form, by its code."""
    body = told(row, answer)
    if row.jsonrpc:
        assert answer.status == 200
        assert body["jsonrpc"] == "2.0"
        assert body["id"] == rpc_id
        assert body["error"]["code"] == jsonrpc
    else:
        assert answer.status == http
        error = body if row.dialect.version is not Version.V1_0 else body["error"]
        assert error["message"]
