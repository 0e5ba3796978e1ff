"""The bytes of every refusal, per dialect, and that what must look alike does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.bindings.refusals import (
    NOT_FOUND_REASONS,
    ON_THE_WIRE,
    encode_refusal,
    stream_failure,
)
from sidecar.model import Binding, Dialect, Divergence, Form, Reason, Refusal, Reply, Version

JSONRPC, REST = Binding.JSONRPC, Binding.HTTP_JSON
J10 = Form(Dialect(JSONRPC, Version.V1_0), rpc_id="r-1")
J03 = Form(Dialect(JSONRPC, Version.V0_3), rpc_id="r-1")
J03_STREAM = Form(Dialect(JSONRPC, Version.V0_3), rpc_id="r-1", sse=True)
J01 = Form(Dialect(JSONRPC, Version.V0_1), rpc_id=7)
R10 = Form(Dialect(REST, Version.V1_0), media_type="application/a2a+json")
R03 = Form(Dialect(REST, Version.V0_3))
PLAIN = Form()
FORMS = {"J10": J10, "J03": J03, "J03 stream": J03_STREAM, "J01": J01, "R10": R10, "R03": R03, "plain": PLAIN}

DIVERGENCE = Divergence(
    skill="merge",
    chosen_by="named by metadata skillId",
    required=frozenset({"repo:write", "repo:read"}),
    held=frozenset({"repo:read"}),
    missing=frozenset({"repo:write"}),
    presented_by="planner",
)
DIVERGED = Refusal(Reason.SCOPE_DIVERGENCE, divergence=DIVERGENCE)
TOLD = (
    "CapabilityScopeDivergence: refused before any task was created: "
    'skill "merge" (named by metadata skillId) needs repo:read repo:write; '
    "the token presented by planner holds repo:read; missing repo:write"
)
METADATA = {
    "skill": "merge",
    "chosen_by": "named by metadata skillId",
    "required": "repo:read repo:write",
    "held": "repo:read",
    "missing": "repo:write",
    "presented_by": "planner",
    "decision_id": "d-1",
}
STEP_UP = 'Bearer error="insufficient_scope", scope="repo:read repo:write"'


def an_info(reason: str, domain: str, metadata: dict[str, str]) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadata": metadata,
    }


THEIRS = an_info("UNSUPPORTED_OPERATION", "a2a-protocol.org", METADATA)
OURS = an_info("CAPABILITY_SCOPE_DIVERGENCE", "a2a-sidecar", METADATA)
ABSENT = an_info("TASK_NOT_FOUND", "a2a-protocol.org", {})


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def sent(reply: Reply) -> tuple[int, list[tuple[str, str]], bytes]:
    assert isinstance(reply.body, bytes)
    return reply.status, list(reply.headers.items()), reply.body


def encode(refusal: Refusal, form: Form) -> Reply:
    return encode_refusal(refusal, form, "d-1")


def message(reply: Reply) -> str:
    assert isinstance(reply.body, bytes)
    found = json.loads(reply.body)
    text = found.get("error", found)["message"]
    assert isinstance(text, str)
    return text


def test_every_reason_has_a_row() -> None:
    assert set(ON_THE_WIRE) == set(Reason)


# --- not found -------------------------------------------------------------------------------

NOT_FOUND = {
    "J10": compact(
        {
            "jsonrpc": "2.0",
            "id": "r-1",
            "error": {"code": -32001, "message": "Task not found", "data": [ABSENT]},
        }
    ),
    "J03": b'{"jsonrpc":"2.0","id":"r-1","error":{"code":-32001,"message":"Task not found"}}',
    "J03 stream": b'data: {"jsonrpc":"2.0","id":"r-1","error":{"code":-32001,"message":"Task not found"}}\n\n',
    "J01": b'{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Task not found"}}',
    "R10": compact(
        {"error": {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": [ABSENT]}}
    ),
    "R03": b'{"code":-32001,"message":"Task not found"}',
    "plain": b'{"error":{"code":404,"status":"NOT_FOUND","message":"Task not found"}}',
}
MEDIA_TYPES = {"J03 stream": "text/event-stream", "R10": "application/a2a+json"}


def test_the_causes_of_not_found() -> None:
    assert {reason.name for reason in NOT_FOUND_REASONS} == {
        "NOT_FOUND",
        "TENANT_MISMATCH",
        "CONTEXT_MISMATCH",
        "CONTEXT_NOT_ISSUED",
    }


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("reason", sorted(NOT_FOUND_REASONS, key=str), ids=lambda reason: reason.value)
def test_every_not_found_is_the_same_bytes_and_headers(form: str, reason: Reason) -> None:
    # Whatever a cause brings along, nothing of it shows.
    refusal = Refusal(
        reason, "it is bob's", divergence=DIVERGENCE, challenge='Bearer realm="x"', internal="foreign"
    )
    for decision_id in ("d-1", "d-2"):
        assert sent(encode_refusal(refusal, FORMS[form], decision_id)) == (
            200 if form.startswith("J") else 404,
            [
                ("Content-Type", MEDIA_TYPES.get(form, "application/json")),
                ("Cache-Control", "no-store"),
            ],
            NOT_FOUND[form],
        )


def test_an_unknown_mount_looks_like_an_unknown_path() -> None:
    mount, path = (
        encode(Refusal(reason, "x"), PLAIN) for reason in (Reason.AGENT_NOT_FOUND, Reason.UNKNOWN_PATH)
    )
    assert sent(mount) == sent(path)
    assert mount.status == 404


# --- policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "status", "media_type", "body"),
    [
        pytest.param(
            J10,
            200,
            "application/json",
            {
                "jsonrpc": "2.0",
                "id": "r-1",
                "error": {"code": -32004, "message": TOLD, "data": [THEIRS, OURS]},
            },
            id="1.0 JSON-RPC: the protocol's error first, which its clients keep text and metadata of",
        ),
        pytest.param(
            J03,
            200,
            "application/json",
            {"jsonrpc": "2.0", "id": "r-1", "error": {"code": -31403, "message": TOLD, "data": [OURS]}},
            id="0.3 JSON-RPC: a code no client replaces the text of",
        ),
        pytest.param(
            R10,
            403,
            "application/a2a+json",
            {
                "error": {
                    "code": 403,
                    "status": "PERMISSION_DENIED",
                    "message": TOLD,
                    "details": [THEIRS, OURS],
                }
            },
            id="1.0 HTTP+JSON",
        ),
        pytest.param(R03, 403, "application/json", {"code": -31403, "message": TOLD}, id="0.3 HTTP+JSON"),
        pytest.param(
            PLAIN,
            403,
            "application/json",
            {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": TOLD}},
            id="no dialect",
        ),
    ],
)
def test_divergence(form: Form, status: int, media_type: str, body: dict[str, Any]) -> None:
    assert sent(encode(DIVERGED, form)) == (
        status,
        [("Content-Type", media_type), ("Cache-Control", "no-store"), ("WWW-Authenticate", STEP_UP)],
        compact(body),
    )


def test_divergence_on_a_stream_of_0_3_is_one_event() -> None:
    reply = encode(DIVERGED, J03_STREAM)
    whole = encode(DIVERGED, J03)
    assert isinstance(whole.body, bytes)
    assert sent(reply) == (
        200,
        [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("WWW-Authenticate", STEP_UP)],
        b"data: " + whole.body + b"\n\n",
    )


def test_the_example_of_the_contract() -> None:
    refusal = Refusal(
        Reason.SCOPE_DIVERGENCE,
        divergence=DIVERGENCE._replace(required=frozenset({"repo:write"})),
    )
    assert message(encode(refusal, J10)) == (
        'CapabilityScopeDivergence: refused before any task was created: skill "merge" '
        "(named by metadata skillId) needs repo:write; the token presented by planner holds repo:read; "
        "missing repo:write"
    )


@pytest.mark.parametrize(
    ("reason", "change", "told"),
    [
        pytest.param(
            Reason.SCOPE_DIVERGENCE,
            {"skill": "", "chosen_by": "no skill named: union of all skills"},
            "CapabilityScopeDivergence: refused before any task was created: the card needs repo:read "
            "repo:write (no skill named: union of all skills); the token presented by planner holds repo:read; "
            "missing repo:write",
            id="no skill",
        ),
        pytest.param(
            Reason.SCOPE_DIVERGENCE,
            {"held": frozenset(), "presented_by": "", "chosen_by": ""},
            'CapabilityScopeDivergence: refused before any task was created: skill "merge" needs repo:read '
            "repo:write; the token holds no scopes; missing repo:write",
            id="no scopes, presented by nobody known",
        ),
        pytest.param(
            Reason.SCOPE_DIVERGENCE,
            {"required": frozenset(), "missing": frozenset()},
            'CapabilityScopeDivergence: refused before any task was created: skill "merge" (named by metadata '
            "skillId) needs another kind of credential; the token presented by planner holds repo:read",
            id="no alternative the credential could satisfy",
        ),
        pytest.param(
            Reason.INSUFFICIENT_SCOPE,
            {"skill": "", "chosen_by": ""},
            "InsufficientScope: refused before the agent was asked: the operation needs repo:read repo:write; "
            "the token presented by planner holds repo:read; missing repo:write",
            id="a scope of the operation",
        ),
    ],
)
def test_what_is_told_of_a_divergence(reason: Reason, change: dict[str, Any], told: str) -> None:
    refusal = Refusal(reason, divergence=DIVERGENCE._replace(**change))
    assert message(encode(refusal, J10)) == told


def test_a_policy_refusal_without_divergence_has_no_step_up_and_names_the_decision() -> None:
    reply = encode(Refusal(Reason.UNKNOWN_SKILL, "`deploy`"), J10)
    metadata = {"decision_id": "d-1"}
    assert sent(reply) == (
        200,
        [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
        compact(
            {
                "jsonrpc": "2.0",
                "id": "r-1",
                "error": {
                    "code": -32004,
                    "message": "UnknownSkill: refused before any task was created: `deploy`",
                    "data": [
                        an_info("UNSUPPORTED_OPERATION", "a2a-protocol.org", metadata),
                        an_info("UNKNOWN_SKILL", "a2a-sidecar", metadata),
                    ],
                },
            }
        ),
    )


@pytest.mark.parametrize(
    ("required", "header"),
    [
        pytest.param({'a"b', "c\\d", "e f", "ü", "x\r\ny", "", "ok"}, ', scope="ok"', id="no scope token"),
        pytest.param({"ü"}, "", id="nothing left"),
        pytest.param({"s" * 3000}, "", id="a list too long is left out, not cut"),
        pytest.param(set(), "", id="nothing required"),
    ],
)
def test_what_of_the_scopes_reaches_the_header(required: set[str], header: str) -> None:
    divergence = DIVERGENCE._replace(required=frozenset(required))
    reply = encode(Refusal(Reason.SCOPE_DIVERGENCE, divergence=divergence), J10)
    assert reply.headers["WWW-Authenticate"] == f'Bearer error="insufficient_scope"{header}'


# --- a token that ends too early ---------------------------------------------------------------

EARLY = Refusal(
    Reason.TOKEN_LIFETIME_TOO_SHORT,
    divergence=DIVERGENCE._replace(missing=frozenset(), needed_lifetime=600.0, remaining_lifetime=190.7),
)
EARLY_TOLD = (
    'TokenLifetimeTooShort: refused before any task was created: skill "merge" (named by metadata skillId) needs a '
    "token that is valid for at least 10m; the one presented by planner expires in 3m 10s; "
    "obtain one that is valid for longer"
)
EARLY_METADATA = {
    "skill": "merge",
    "chosen_by": "named by metadata skillId",
    "needed_seconds": "600",
    "remaining_seconds": "190",
    "presented_by": "planner",
    "decision_id": "d-1",
}
EARLY_INFOS = [
    an_info("UNSUPPORTED_OPERATION", "a2a-protocol.org", EARLY_METADATA),
    an_info("TOKEN_LIFETIME_TOO_SHORT", "a2a-sidecar", EARLY_METADATA),
]


@pytest.mark.parametrize(
    ("form", "status", "body"),
    [
        pytest.param(
            J10,
            200,
            {
                "jsonrpc": "2.0",
                "id": "r-1",
                "error": {"code": -32004, "message": EARLY_TOLD, "data": EARLY_INFOS},
            },
            id="1.0 JSON-RPC",
        ),
        pytest.param(
            J03,
            200,
            {
                "jsonrpc": "2.0",
                "id": "r-1",
                "error": {"code": -31403, "message": EARLY_TOLD, "data": EARLY_INFOS[1:]},
            },
            id="0.3 JSON-RPC",
        ),
        pytest.param(
            R10,
            403,
            {
                "error": {
                    "code": 403,
                    "status": "PERMISSION_DENIED",
                    "message": EARLY_TOLD,
                    "details": EARLY_INFOS,
                }
            },
            id="1.0 HTTP+JSON",
        ),
        pytest.param(R03, 403, {"code": -31403, "message": EARLY_TOLD}, id="0.3 HTTP+JSON"),
    ],
)
def test_a_token_that_ends_too_early(form: Form, status: int, body: dict[str, Any]) -> None:
    reply = encode(EARLY, form)
    assert (reply.status, reply.body) == (status, compact(body))
    assert reply.headers["WWW-Authenticate"] == (
        'Bearer error="invalid_token", '
        'error_description="the token expires too early; one that is valid for at least 10m is needed"'
    )


@pytest.mark.parametrize(
    ("needed", "remaining", "told"),
    [
        pytest.param(
            5400.0, 3600.0, "at least 1h 30m; the one presented by planner expires in 1h", id="whole"
        ),
        pytest.param(
            0.2, 0.1, "at least 1s; the one presented by planner expires in 0s", id="less than a second"
        ),
        pytest.param(
            60.0, -4.2, "at least 1m; the one presented by planner expires in 0s", id="within the leeway"
        ),
        pytest.param(
            90061.0,
            86400.0,
            "at least 1d 1h 1m 1s; the one presented by planner expires in 1d",
            id="days and seconds",
        ),
    ],
)
def test_how_long_is_told(needed: float, remaining: float, told: str) -> None:
    divergence = DIVERGENCE._replace(needed_lifetime=needed, remaining_lifetime=remaining)
    reply = encode(Refusal(Reason.TOKEN_LIFETIME_TOO_SHORT, divergence=divergence), J10)
    assert told in message(reply)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            {"skill": "", "chosen_by": "no skill named: union of all skills", "presented_by": ""},
            "TokenLifetimeTooShort: refused before any task was created: the agent (no skill named: union of all "
            "skills) needs a token that is valid for at least 10m; the one it was sent expires in 3m 10s; "
            "obtain one that is valid for longer",
            id="no skill, presented by nobody known",
        ),
        pytest.param(
            {"after_creation": True},
            EARLY_TOLD.replace(
                "refused before any task was created",
                "the agent made a new task and was asked to cancel it",
            ),
            id="found out when the task was there",
        ),
    ],
)
def test_what_is_told_of_an_early_end(change: dict[str, Any], told: str) -> None:
    assert EARLY.divergence is not None
    refusal = EARLY._replace(divergence=EARLY.divergence._replace(**change))
    assert message(encode(refusal, J10)) == told


# --- everything else -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "jsonrpc", "rest", "rest_0", "code", "code_0", "status", "retry"),
    [
        (Reason.UNAUTHENTICATED, 401, 401, 401, -31401, -31401, "UNAUTHENTICATED", False),
        (Reason.KEYS_UNAVAILABLE, 503, 503, 503, -32603, -32603, "UNAVAILABLE", True),
        (Reason.UNPARSABLE, 200, 400, 400, -32700, -32700, "INVALID_ARGUMENT", False),
        (Reason.INVALID_REQUEST, 200, 400, 400, -32600, -32600, "INVALID_ARGUMENT", False),
        (Reason.INVALID_PARAMS, 200, 400, 400, -32602, -32602, "INVALID_ARGUMENT", False),
        (Reason.UNKNOWN_OPERATION, 200, 404, 404, -32601, -32601, "UNIMPLEMENTED", False),
        (Reason.UNSUPPORTED_OPERATION, 200, 400, 501, -32004, -32004, "FAILED_PRECONDITION", False),
        (Reason.METHOD_NOT_ALLOWED, 405, 405, 405, -32600, -32600, "UNIMPLEMENTED", False),
        (Reason.UNKNOWN_PATH, 404, 404, 404, -32601, -32601, "NOT_FOUND", False),
        (Reason.BAD_PATH, 400, 400, 400, -32600, -32600, "INVALID_ARGUMENT", False),
        (Reason.ENCODING_REFUSED, 415, 415, 415, -32600, -32600, "INVALID_ARGUMENT", False),
        (Reason.UPGRADE_REFUSED, 400, 400, 400, -32600, -32600, "INVALID_ARGUMENT", False),
        (Reason.BODY_TOO_LARGE, 413, 413, 413, -32600, -32600, "RESOURCE_EXHAUSTED", False),
        (Reason.BODY_TOO_SLOW, 408, 408, 408, -32600, -32600, "DEADLINE_EXCEEDED", False),
        (Reason.OVERLOADED, 429, 429, 429, -32603, -32603, "RESOURCE_EXHAUSTED", True),
        (Reason.SCOPE_DIVERGENCE, 200, 403, 403, -32004, -31403, "PERMISSION_DENIED", False),
        (Reason.INSUFFICIENT_SCOPE, 200, 403, 403, -32004, -31403, "PERMISSION_DENIED", False),
        (Reason.UNKNOWN_SKILL, 200, 403, 403, -32004, -31403, "PERMISSION_DENIED", False),
        (Reason.TOKEN_LIFETIME_TOO_SHORT, 200, 403, 403, -32004, -31403, "PERMISSION_DENIED", False),
        (Reason.PUSH_TARGET_REFUSED, 200, 400, 400, -32602, -32602, "INVALID_ARGUMENT", False),
        (Reason.AGENT_NOT_FOUND, 404, 404, 404, -32601, -32601, "NOT_FOUND", False),
        (Reason.LEDGER_UNAVAILABLE, 503, 503, 503, -32603, -32603, "UNAVAILABLE", True),
        (Reason.CARD_UNAVAILABLE, 503, 503, 503, -32603, -32603, "UNAVAILABLE", True),
        (Reason.AGENT_UNAVAILABLE, 503, 503, 503, -32603, -32603, "UNAVAILABLE", True),
        (Reason.AGENT_FAILED, 500, 500, 500, -32603, -32603, "INTERNAL", False),
        (Reason.REPLY_UNREADABLE, 502, 502, 502, -32603, -32603, "INTERNAL", False),
        (Reason.REPLY_TOO_LARGE, 502, 502, 502, -32603, -32603, "INTERNAL", False),
        (Reason.COLLISION, 500, 500, 500, -32603, -32603, "INTERNAL", False),
        (Reason.SHARED_CONTEXT, 500, 500, 500, -32603, -32603, "INTERNAL", False),
        (Reason.FOREIGN_REPLY, 500, 500, 500, -32603, -32603, "INTERNAL", False),
        (Reason.RECORDING_FAILED, 500, 500, 500, -32603, -32603, "INTERNAL", False),
        (Reason.INTERNAL, 500, 500, 500, -32603, -32603, "INTERNAL", False),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
def test_statuses_and_codes(
    reason: Reason, jsonrpc: int, rest: int, rest_0: int, code: int, code_0: int, status: str, retry: bool
) -> None:
    replies = {name: encode(Refusal(reason), form) for name, form in FORMS.items()}
    bodies = {name: reply.body for name, reply in replies.items()}
    # A stream of 0.x is refused as an event where its status is 200, else as a reply.
    event = isinstance(bodies["J03 stream"], bytes) and bodies["J03 stream"].startswith(b"data: ")
    assert event is (jsonrpc == 200)
    assert {name: reply.status for name, reply in replies.items()} == {
        **dict.fromkeys(("J10", "J03", "J03 stream", "J01"), jsonrpc),
        "R10": rest,
        "R03": rest_0,
        "plain": rest,
    }
    read = {name: json.loads(body) for name, body in bodies.items() if not body.startswith(b"data: ")}
    assert (read["J10"]["id"], read["J10"]["error"]["code"]) == ("r-1", code)
    assert (read["J03"]["id"], read["J03"]["error"]["code"]) == ("r-1", code_0)
    assert (read["J01"]["id"], read["J01"]["error"]["code"]) == (7, code_0)
    assert (read["R10"]["error"]["code"], read["R10"]["error"]["status"]) == (rest, status)
    assert isinstance(read["R10"]["error"]["details"], list)
    assert read["R03"]["code"] == code_0
    assert (read["plain"]["error"]["code"], read["plain"]["error"]["status"]) == (rest, status)
    for reply in replies.values():
        assert reply.headers.get("Retry-After") == ("1" if retry else None)
        assert ("WWW-Authenticate" in reply.headers) is (reason is Reason.UNAUTHENTICATED)
        assert ("Allow" in reply.headers) is (reason is Reason.METHOD_NOT_ALLOWED)
        assert next(iter(reply.headers)) == "Content-Type"
        assert "charset" not in reply.headers["Content-Type"]


@pytest.mark.parametrize(
    ("reason", "form", "body"),
    [
        pytest.param(
            Reason.UNAUTHENTICATED,
            J10,
            b'{"jsonrpc":"2.0","id":"r-1","error":{"code":-31401,"message":"authentication required: expired"}}',
            id="1.0 JSON-RPC",
        ),
        pytest.param(
            Reason.UNAUTHENTICATED,
            J03_STREAM,
            b'{"jsonrpc":"2.0","id":"r-1","error":{"code":-31401,"message":"authentication required: expired"}}',
            id="a 0.3 stream, as a plain body",
        ),
        pytest.param(
            Reason.UNAUTHENTICATED,
            R10,
            b'{"error":{"code":401,"status":"UNAUTHENTICATED","message":"authentication required: expired",'
            b'"details":[]}}',
            id="1.0 HTTP+JSON",
        ),
        pytest.param(
            Reason.UNAUTHENTICATED,
            R03,
            b'{"code":-31401,"message":"authentication required: expired"}',
            id="0.3 HTTP+JSON",
        ),
    ],
)
def test_unauthenticated(reason: Reason, form: Form, body: bytes) -> None:
    challenge = 'Bearer error="invalid_token"'
    reply = encode(Refusal(reason, "expired", challenge=challenge), form)
    assert reply.status == 401
    assert list(reply.headers) == ["Content-Type", "Cache-Control", "WWW-Authenticate"]
    assert reply.headers["WWW-Authenticate"] == challenge
    assert reply.body == body


@pytest.mark.parametrize("challenge", [None, "", "Bearer\r\nX-Evil: 1", "Bearer ü", "B" * 5000])
def test_a_challenge_that_cannot_be_sent_becomes_a_plain_one(challenge: str | None) -> None:
    assert (
        encode(Refusal(Reason.UNAUTHENTICATED, challenge=challenge), J10).headers["WWW-Authenticate"]
        == "Bearer"
    )


@pytest.mark.parametrize("form", list(FORMS))
def test_a_nonce_for_proofs_is_a_header_that_is_not_cached(form: str) -> None:
    challenge = 'DPoP error="use_dpop_nonce", algs="ES256"'
    reply = encode(Refusal(Reason.UNAUTHENTICATED, challenge=challenge, nonce="n-0_1"), FORMS[form])
    assert reply.status == 401
    assert reply.headers.getall("DPoP-Nonce") == ["n-0_1"]
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["WWW-Authenticate"] == challenge


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Refusal(Reason.UNAUTHENTICATED), id="none"),
        pytest.param(Refusal(Reason.UNAUTHENTICATED, nonce="a b"), id="a space"),
        pytest.param(Refusal(Reason.UNAUTHENTICATED, nonce="a\r\nX-Evil: 1"), id="a line break"),
        pytest.param(Refusal(Reason.UNAUTHENTICATED, nonce="ü"), id="not ASCII"),
        pytest.param(Refusal(Reason.NOT_FOUND, nonce="n-0"), id="with another reason"),
    ],
)
def test_what_is_no_nonce_is_not_sent(refusal: Refusal) -> None:
    assert "DPoP-Nonce" not in encode(refusal, J10).headers


def test_unsupported_operation_carries_the_protocols_error_info() -> None:
    info = an_info("UNSUPPORTED_OPERATION", "a2a-protocol.org", {})
    j10, j03, r10 = (encode(Refusal(Reason.UNSUPPORTED_OPERATION), form) for form in (J10, J03, R10))
    assert json.loads(j10.body)["error"]["data"] == [info]
    assert "data" not in json.loads(j03.body)["error"]
    assert json.loads(r10.body)["error"]["details"] == [info]


@pytest.mark.parametrize(
    ("form", "allow"), [(J10, "POST"), (R10, "GET, POST, DELETE"), (PLAIN, "GET, POST, DELETE")]
)
def test_a_method_that_is_not_served_lists_those_that_are(form: Form, allow: str) -> None:
    assert encode(Refusal(Reason.METHOD_NOT_ALLOWED), form).headers["Allow"] == allow


def test_a_shared_context_names_the_setting() -> None:
    assert message(encode(Refusal(Reason.SHARED_CONTEXT, "c-1"), J10)) == (
        "the agent gives one context id to several callers; "
        "list it under ownership.shared_context_ids or fix the agent"
    )


@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
@pytest.mark.parametrize(
    "reason",
    [*sorted(NOT_FOUND_REASONS, key=str), Reason.COLLISION, Reason.FOREIGN_REPLY, Reason.INTERNAL],
    ids=lambda r: r.value,
)
def test_details_of_others_are_never_shown(reason: Reason, form: Form) -> None:
    assert (
        encode(Refusal(reason, "secret", internal="secret"), form).body == encode(Refusal(reason), form).body
    )


@pytest.mark.parametrize("reason", list(Reason), ids=lambda r: r.value)
@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
def test_what_is_internal_stays_internal(form: Form, reason: Reason) -> None:
    reply = encode(Refusal(reason, internal="10.0.0.7 refused"), form)
    assert isinstance(reply.body, bytes)
    assert b"10.0.0.7" not in reply.body


@pytest.mark.parametrize(
    ("rpc_id", "echoed"),
    [
        (None, b"null"),
        (0, b"0"),
        (-5, b"-5"),
        (2**53 + 1, b"9007199254740993"),
        (10**30, b"1" + b"0" * 30),
        ("", b'""'),
        ("1", b'"1"'),
        ('a"\\\n', b'"a\\"\\\\\\n"'),
        ("ü", '"ü"'.encode()),
    ],
)
@pytest.mark.parametrize("version", [Version.V0_1, Version.V0_3, Version.V1_0])
def test_the_id_is_echoed_with_its_type(version: Version, rpc_id: str | int | None, echoed: bytes) -> None:
    reply = encode(Refusal(Reason.INVALID_REQUEST), Form(Dialect(JSONRPC, version), rpc_id=rpc_id))
    assert isinstance(reply.body, bytes)
    assert reply.body.startswith(b'{"jsonrpc":"2.0","id":' + echoed + b',"error":{"code":-32600,')


def test_text_that_is_no_unicode_or_too_long_is_still_json() -> None:
    divergence = DIVERGENCE._replace(skill="\udcff", held=frozenset({"\udcfe"}), presented_by="p" * 9999)
    reply = encode(Refusal(Reason.SCOPE_DIVERGENCE, "d" * 9999, divergence=divergence), J10)
    assert isinstance(reply.body, bytes)
    assert json.loads(reply.body)["error"]["data"][0]["metadata"]["skill"] == "?"
    assert len(reply.body) < 4000


def test_a_media_type_we_do_not_know_is_not_mirrored() -> None:
    form = R10._replace(media_type="text/html\r\nX: 1")
    assert encode(Refusal(Reason.NOT_FOUND), form).headers["Content-Type"] == "application/json"


# --- in the middle of a stream ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "event"),
    [
        pytest.param(
            J10,
            b'data: {"jsonrpc":"2.0","id":"r-1","error":{"code":-32603,"message":"the agent answered about '
            b'something else"}}\n\n',
            id="1.0 JSON-RPC",
        ),
        pytest.param(
            J03_STREAM,
            b'data: {"jsonrpc":"2.0","id":"r-1","error":{"code":-32603,"message":"the agent answered about '
            b'something else"}}\n\n',
            id="0.3 JSON-RPC",
        ),
        pytest.param(
            R10,
            b'event: error\ndata: {"error":{"code":500,"status":"INTERNAL","message":"the agent answered about '
            b'something else","details":[]}}\n\n',
            id="1.0 HTTP+JSON",
        ),
        pytest.param(
            R03,
            b'event: error\ndata: {"code":-32603,"message":"the agent answered about something else"}\n\n',
            id="0.3 HTTP+JSON",
        ),
    ],
)
def test_a_failure_in_the_middle_of_a_stream_is_one_event(form: Form, event: bytes) -> None:
    assert stream_failure(Refusal(Reason.FOREIGN_REPLY, "t-2"), form, "d-1") == event
