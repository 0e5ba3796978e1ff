"""The order of recognition: calls, what might be A2A and has no name, and everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidecar.bindings.dialect import DIALECTS
from sidecar.model import Call, Form, NamedSkill, Operation, Other, Reason, Unreadable

from .asking import (
    EVERYTHING,
    HEADERS_1_0,
    INVALID_REQUEST,
    envelope,
    message,
    only,
    outcome,
    rpc,
    send,
)

GET = envelope("GetTask", {"id": "T"})
NO_PATH = Reason.UNKNOWN_PATH


def test_the_hot_case_word_by_word() -> None:
    dialect = DIALECTS["JSONRPC/1.0"]
    assert rpc("GetTask", {"id": "T"}) == Call(Operation.GET_TASK, Form(dialect, "r-1"), dialect, "/", "T")


def test_the_target_of_a_call_is_canonical() -> None:
    decoded = send("GET", "/%74asks/T%3Ax?historyLength=1")
    assert isinstance(decoded, Call)
    assert decoded.target == "/tasks/T:x?historyLength=1"


# --- requests without a name -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/stream", {"message": {"parts": []}}, id="a message with parts"),
        pytest.param("/x", {"message": {"content": "hi", "role": "user"}}, id="a message with content"),
        pytest.param("/x", {"request": {"message_id": "m"}}, id="a request with a message id"),
        pytest.param("/x", {"Message": {"ROLE": 1}}, id="in another case"),
        pytest.param("/x", {"id": "1", "params": {"message": message()}}, id="inside params"),
        pytest.param(
            "/", {"id": 1, "params": {"id": "T"}}, id="params that name a task: a2a-sdk 0.2 gets it"
        ),
        pytest.param("/x", {"id": 1, "params": {"task_id": "T"}}, id="the same in snake case, anywhere"),
        pytest.param(
            "/", {"method": 1, "params": {"id": "T"}}, id="the same beside a method that is no string"
        ),
        pytest.param("/message/send", {"id": "T"}, id="an id at a method's name"),
        pytest.param("/x/GetTask", {"taskId": "T"}, id="an id at a method's name of 1.0"),
        pytest.param("/x/Message/Stream", {"params": {}}, id="params at a method's name in another case"),
        pytest.param("/agent/getAuthenticatedExtendedCard", {"name": "x"}, id="at the card's method"),
    ],
)
def test_requests_without_an_envelope(target: str, body: Any) -> None:
    assert outcome(send("POST", target, body)) == NO_PATH


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/chat", {"message": "hi"}, id="a message that is text"),
        pytest.param("/chat", {"message": {"text": "hi"}}, id="a message of another shape"),
        pytest.param("/run", {"newMessage": {"role": "user", "parts": []}}, id="another member"),
        pytest.param("/x", {"id": "T", "taskId": "T"}, id="ids on another path"),
        pytest.param("/message/send", {"to": "bob", "text": "hi"}, id="a method's name, but no id"),
        pytest.param("/x", {"params": {"message": "hi"}}, id="params of another shape"),
        pytest.param("/x", {"params": {"id": 7, "q": "x"}}, id="params with an id that is no string"),
        pytest.param("/x", {"method": "rename", "params": {"id": "T"}}, id="params of a method of its own"),
        pytest.param("/x", b"plain text", id="text"),
        pytest.param("/x", b"", id="nothing"),
    ],
)
def test_requests_of_another_api(target: str, body: Any) -> None:
    decoded = send("POST", target, body)
    assert decoded == Other(Form(), target, target)


@pytest.mark.parametrize("target", ["/", "/upload", "/tasks/T"])
def test_what_cannot_be_read_is_refused_on_every_path(target: str) -> None:
    for body in (b'{"a":1,"a":1}', b"[1,2", b"\xef\xbb\xbf{}"):
        assert outcome(send("POST", target, body)) == Reason.UNPARSABLE


@pytest.mark.parametrize(
    ("target", "headers", "surface", "dialect"),
    [
        pytest.param("/", [], EVERYTHING, "JSONRPC/0.3", id="JSON-RPC where it is served"),
        pytest.param("/", HEADERS_1_0, EVERYTHING, "JSONRPC/1.0", id="by the header"),
        pytest.param("/", [], only("HTTP+JSON/0.3"), "HTTP+JSON/0.3", id="else HTTP+JSON"),
        pytest.param("/", [], only("GRPC/1.0"), None, id="else none"),
        pytest.param("/v1/tasks/T", [], EVERYTHING, "HTTP+JSON/0.3", id="the route's where there is one"),
    ],
)
def test_the_form_of_what_cannot_be_read(target: str, headers: Any, surface: Any, dialect: Any) -> None:
    decoded = send("POST", target, b"{", headers, surface)
    assert isinstance(decoded, Unreadable)
    assert decoded.form.dialect == (DIALECTS[dialect] if dialect else None)


# --- preflights and upgrades -----------------------------------------------------------------------

PREFLIGHT = [("Origin", "https://x"), ("Access-Control-Request-Method", "POST")]


@pytest.mark.parametrize("target", ["/", "/tasks/T", "/message:send", "/x/tasks/T", "/docs"])
def test_preflights(target: str) -> None:
    decoded = send("OPTIONS", target, b"", PREFLIGHT)
    assert decoded == Other(Form(), target, target, preflight=True)


@pytest.mark.parametrize(
    ("method", "body", "headers", "expected"),
    [
        pytest.param(
            "OPTIONS", GET, PREFLIGHT, Reason.METHOD_NOT_ALLOWED, id="a preflight with a call in it"
        ),
        pytest.param("GET", b"", PREFLIGHT, Other, id="another verb"),
        pytest.param("OPTIONS", b"", [], Other, id="no method asked for"),
    ],
)
def test_what_is_no_preflight(method: str, body: Any, headers: Any, expected: Any) -> None:
    decoded = send(method, "/", body, headers)
    assert outcome(decoded) == expected
    assert not getattr(decoded, "preflight", False)


@pytest.mark.parametrize(
    ("method", "target", "body", "upgrade", "expected"),
    [
        pytest.param("GET", "/ws", b"", "websocket", Other, id="FC-014 on another path the policy decides"),
        pytest.param("POST", "/", GET, "websocket", Reason.UPGRADE_REFUSED, id="FC-014 with a call"),
        pytest.param("GET", "/tasks/T", b"", "websocket", Reason.UPGRADE_REFUSED, id="FC-014 on a route"),
        pytest.param(
            "GET", "/tasks/T", b"", "h2c, websocket", Reason.UPGRADE_REFUSED, id="FC-014 one of two"
        ),
        pytest.param("GET", "/tasks/T", b"", "TLS/1.0", Reason.UPGRADE_REFUSED, id="FC-014 another protocol"),
        pytest.param("GET", "/x/tasks/T", b"", "websocket", NO_PATH, id="an unreadable request stays one"),
    ],
)
def test_upgrades(method: str, target: str, body: Any, upgrade: str, expected: Any) -> None:
    decoded = send(method, target, body, [("Connection", "Upgrade"), ("Upgrade", upgrade)])
    assert outcome(decoded) == expected
    assert not isinstance(decoded, Other) or decoded.upgrade


def test_an_offer_of_h2c_is_no_upgrade() -> None:
    """Java's HTTP client makes it with every first request over clear text."""
    offer = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")]
    assert outcome(send("POST", "/", GET, offer)) == Operation.GET_TASK
    decoded = send("GET", "/docs", b"", offer)
    assert isinstance(decoded, Other)
    assert not decoded.upgrade


def test_connect_is_an_upgrade() -> None:
    decoded = send("CONNECT", "/x")
    assert isinstance(decoded, Other)
    assert decoded.upgrade


# --- the skill ---------------------------------------------------------------------------------

SKILL = [("A2A-Skill", "by-header")]
BY_METADATA = NamedSkill("s", "metadata skillId")
BY_HEADER = NamedSkill("by-header", "header A2A-Skill")


@pytest.mark.parametrize(
    ("params", "headers", "skill"),
    [
        pytest.param({"message": message(metadata={"skillId": "s"})}, SKILL, BY_METADATA, id="metadata first"),
        pytest.param({"metadata": {"skillId": "s"}}, [], BY_METADATA, id="of the request"),
        pytest.param(
            {"message": message(metadata={"skillId": "s"}), "metadata": {"skillId": "t"}}, [], BY_METADATA, id="message first"
        ),
        pytest.param({"metadata": {"skillId": 5}}, SKILL, BY_HEADER, id="a number names none"),
        pytest.param({"metadata": {"skillId": ""}}, SKILL, BY_HEADER, id="an empty string names none"),
        pytest.param({"metadata": {"skillid": "s"}}, [], None, id="the key is exact"),
        pytest.param({"metadata": ["skillId"]}, SKILL, BY_HEADER, id="metadata that is a list"),
        pytest.param({}, [("a2a-skill", "by-header")], BY_HEADER, id="a header in any case"),
        pytest.param({}, [("A2A-Skill", "")], None, id="an empty header names none"),
        pytest.param({}, [], None, id="nothing named"),
    ],
)  # fmt: skip
def test_the_skill_a_caller_names(params: Any, headers: Any, skill: Any) -> None:
    body = {"message": message()} | params
    for decoded in (
        send("POST", "/", envelope("SendMessage", body), headers),
        send("POST", "/", envelope("message/stream", body), headers),
        send("POST", "/message:send", body, headers),
    ):
        assert isinstance(decoded, Call)
        assert decoded.skill == skill


def test_a_repeated_skill_header_is_refused() -> None:
    body = envelope("SendMessage", {"message": message()})
    assert outcome(send("POST", "/", body, [*SKILL, *SKILL])) == INVALID_REQUEST


def test_without_sources_no_skill_is_named() -> None:
    bare = replace(EVERYTHING, skill_from=())
    decoded = rpc("SendMessage", {"message": message(metadata={"skillId": "s"})}, bare)
    assert isinstance(decoded, Call)
    assert decoded.skill is None


def test_a_source_of_another_kind_names_no_skill() -> None:
    odd = replace(EVERYTHING, skill_from=("claim:skill", "header:A2A-Skill"))
    decoded = send("POST", "/", envelope("SendMessage", {"message": message()}), SKILL, odd)
    assert isinstance(decoded, Call)
    assert decoded.skill == BY_HEADER


def test_other_operations_name_no_skill() -> None:
    decoded = send("POST", "/", GET, [*SKILL, *SKILL])
    assert isinstance(decoded, Call)
    assert decoded.skill is None
