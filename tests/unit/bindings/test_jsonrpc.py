"""The JSON-RPC envelope: recognised on any door, read in one way or refused."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.bindings.dialect import DIALECTS
from sidecar.model import Call, Form, Operation, Other, Reason, Unreadable

from .asking import (
    EVERYTHING,
    HEADERS_1_0,
    INVALID_PARAMS,
    INVALID_REQUEST,
    envelope,
    message,
    only,
    outcome,
    rpc,
    send,
)

GET, GET_OLD = envelope("GetTask", {"id": "T"}), envelope("tasks/get", {"id": "T"})
UNKNOWN, PATH = Reason.UNKNOWN_OPERATION, Reason.UNKNOWN_PATH


# --- any door ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "body", "expected"),
    [
        pytest.param("POST", "/", GET, Operation.GET_TASK, id="at the root"),
        pytest.param("POST", "/deep/down/", GET, Operation.GET_TASK, id="on a path nobody listed"),
        pytest.param(
            "POST", "/.well-known/agent-card.json", GET, Operation.GET_TASK, id="on the card's path"
        ),
        pytest.param("POST", "/x", GET_OLD | {"extra": 1}, Operation.GET_TASK, id="with unknown members"),
        pytest.param("PUT", "/", GET, Reason.METHOD_NOT_ALLOWED, id="PUT"),
        pytest.param("GET", "/", GET, Reason.METHOD_NOT_ALLOWED, id="GET with a body"),
        pytest.param("post", "/", GET, Reason.METHOD_NOT_ALLOWED, id="FC-022 a verb in lower case"),
        pytest.param("OPTIONS", "/", GET, Reason.METHOD_NOT_ALLOWED, id="FC-022 OPTIONS with a body"),
        pytest.param("POST", "/tasks", GET, INVALID_REQUEST, id="on a route"),
        pytest.param("POST", "/v1/message:send", GET, INVALID_REQUEST, id="on a route that could carry it"),
        pytest.param("POST", "/acme/message:send", GET, INVALID_REQUEST, id="on a tenant's route"),
        pytest.param("POST", "/a2a/tasks/send", GET, PATH, id="on a path that looks like a route"),
    ],
)
def test_any_door(method: str, target: str, body: Any, expected: Any) -> None:
    assert outcome(send(method, target, body)) == expected


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/x"]
)
def test_any_content_type(content_type: str) -> None:
    assert outcome(send("POST", "/x", GET, [("Content-Type", content_type)])) == Operation.GET_TASK


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"method": "GetTask", "params": {"id": "T"}}, INVALID_REQUEST, id="no jsonrpc member"),
        pytest.param({"METHOD": " gettask\n"}, INVALID_REQUEST, id="no jsonrpc member, and nearly a method"),
        pytest.param({"method": "Get\u200bTask"}, INVALID_REQUEST, id="FC-029 a zero-width space"),
        pytest.param({"JSONRPC": "2.0", "method": "x"}, INVALID_REQUEST, id="FC-003 jsonrpc in a wrong case"),
        pytest.param(GET | {"Method": "CancelTask"}, INVALID_REQUEST, id="FC-003 a second method"),
        pytest.param(GET | {"Params": {"id": "A"}}, INVALID_REQUEST, id="FC-003 second params"),
        pytest.param(GET | {"ID": 2}, INVALID_REQUEST, id="FC-003 a second id"),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "Method": "GetTask"}, INVALID_REQUEST, id="FC-003 only Method"
        ),
        pytest.param(GET | {"jsonrpc": "1.0"}, INVALID_REQUEST, id="another version of JSON-RPC"),
        pytest.param(GET | {"jsonrpc": 2.0}, INVALID_REQUEST, id="a version that is a number"),
        pytest.param(
            GET | {"message": message()}, INVALID_REQUEST, id="an envelope that is a bare request too"
        ),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}}, INVALID_REQUEST, id="a response"),
        pytest.param({"__proto__": GET}, INVALID_REQUEST, id="an envelope to inherit"),
        pytest.param(GET | {"__proto__": {}}, INVALID_REQUEST, id="an envelope with a prototype"),
        pytest.param({"method": "POST", "path": "/x"}, Other, id="a method of somebody else's API"),
        pytest.param({"method": 7}, Other, id="a method that is no string, without jsonrpc"),
    ],
)
def test_what_an_envelope_must_be(body: Any, expected: Any) -> None:
    assert outcome(send("POST", "/", body)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("GetTask ", UNKNOWN, id="FC-029 a trailing space"),
        pytest.param(" GetTask", UNKNOWN, id="FC-029 a leading space"),
        pytest.param("gettask", UNKNOWN, id="FC-029 lower case, even where the policy lists it"),
        pytest.param("GetTask\0", UNKNOWN, id="FC-029 NUL"),
        pytest.param("GetTask\n", UNKNOWN, id="FC-029 a line feed"),
        pytest.param("", UNKNOWN, id="FC-029 nothing"),
        pytest.param("rpc.discover", UNKNOWN, id="FC-029 a reserved name"),
        pytest.param("tools/list", UNKNOWN, id="FC-029 another protocol's name"),
        pytest.param(7, INVALID_REQUEST, id="FC-029 a number"),
        pytest.param(["GetTask"], INVALID_REQUEST, id="FC-029 an array"),
        pytest.param(None, INVALID_REQUEST, id="null"),
        pytest.param("vendor/ping", Other, id="a name the policy lists"),
    ],
)
def test_method_names(name: Any, expected: Any) -> None:
    assert outcome(rpc(name, {"id": "T"})) == expected


def test_a_listed_method_is_marked_and_keeps_its_form() -> None:
    decoded = rpc("vendor/ping", [1], id=7)
    assert isinstance(decoded, Other)
    assert decoded.listed_method
    assert decoded.form == Form(DIALECTS["JSONRPC/0.3"], 7)


def test_escapes_change_nothing() -> None:
    """FC-011."""
    body = b'{"jsonrpc":"2.0","id":1,"\\u006dethod":"\\u0043ancelTask","params":{"\\u0069d":"\\u0054"}}'
    decoded = send("POST", "/", body)
    assert isinstance(decoded, Call)
    assert (decoded.operation, decoded.task_id) == (Operation.CANCEL_TASK, "T")


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        pytest.param("/x", [GET], INVALID_REQUEST, id="FC-010 a batch of one, anywhere"),
        pytest.param("/x", [1, [[], [{"method": "tasks/get"}]]], INVALID_REQUEST, id="FC-010 nested arrays"),
        pytest.param("/x", b"  \n[" + b'{"jsonrpc":"2.0"}]', INVALID_REQUEST, id="FC-010 leading space"),
        pytest.param("/", [], INVALID_REQUEST, id="FC-010 the empty batch, where JSON-RPC may live"),
        pytest.param("/", [1], INVALID_REQUEST, id="an array, where JSON-RPC may live"),
        pytest.param("/x", [], Other, id="an empty array of another API"),
        pytest.param("/x", [{"a": 1}, "b", [{"method": "POST"}]], Other, id="an array of another API"),
        pytest.param("/message:send", [GET], INVALID_REQUEST, id="a batch on a route"),
        pytest.param("/", b'"text"', Other, id="FC-010 a string"),
        pytest.param("/", b"null", Other, id="FC-010 null"),
    ],
)
def test_batches(target: str, body: Any, expected: Any) -> None:
    decoded = send("POST", target, body)
    assert outcome(decoded) == expected
    assert decoded.form.rpc_id is None


# --- the id of the request -------------------------------------------------------------------------


@pytest.mark.parametrize("rpc_id", ["a", "", 7, -1, 0, 10**30, None])
def test_ids_that_are_echoed(rpc_id: Any) -> None:
    decoded = rpc("GetTask", {"id": "T"}, id=rpc_id)
    assert isinstance(decoded, Call)
    assert decoded.form.rpc_id == rpc_id
    assert type(decoded.form.rpc_id) is type(rpc_id)


@pytest.mark.parametrize("rpc_id", [1.0, 0.5, True, False, [], {}, ["a"]])
def test_ids_that_servers_coerce(rpc_id: Any) -> None:
    decoded = rpc("GetTask", {"id": "T"}, id=rpc_id)
    assert isinstance(decoded, Unreadable)
    assert (decoded.reason, decoded.form.rpc_id) == (INVALID_REQUEST, None)


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        pytest.param("SendMessage", {"message": message()}, INVALID_REQUEST, id="a send needs an id"),
        pytest.param("message/stream", {"message": message()}, INVALID_REQUEST, id="so does a stream"),
        pytest.param("GetTask", {"id": "T"}, Operation.GET_TASK, id="a get passes"),
        pytest.param("tasks/cancel", {"id": "T"}, Operation.CANCEL_TASK, id="a cancel passes"),
    ],
)
def test_without_an_id(method: str, params: Any, expected: Any) -> None:
    body = envelope(method, params)
    del body["id"]
    decoded = send("POST", "/", body)
    assert outcome(decoded) == expected
    assert decoded.form.rpc_id is None


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        pytest.param("GetTask", None, INVALID_PARAMS, id="missing"),
        pytest.param("GetTask", ["T"], INVALID_PARAMS, id="a list"),
        pytest.param("GetTask", "T", INVALID_PARAMS, id="a string"),
        pytest.param("ListTasks", None, INVALID_PARAMS, id="missing in a list"),
        pytest.param("GetExtendedAgentCard", None, Operation.GET_EXTENDED_CARD, id="the card may go without"),
        pytest.param("GetExtendedAgentCard", [], INVALID_PARAMS, id="but not with a list"),
    ],
)
def test_params(method: str, params: Any, expected: Any) -> None:
    assert outcome(rpc(method, params)) == expected


# --- dialects ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "surface", "expected"),
    [
        pytest.param("tasks/get", only("JSONRPC/0.1", "JSONRPC/0.2"), "JSONRPC/0.2", id="0.2 before 0.1"),
        pytest.param("tasks/get", EVERYTHING, "JSONRPC/0.3", id="0.3 before both"),
        pytest.param("tasks/get", only("JSONRPC/0.1", "JSONRPC/1.0"), "JSONRPC/0.1", id="0.1 where alone"),
        pytest.param("GetTask", EVERYTHING, "JSONRPC/1.0", id="PascalCase is 1.0"),
    ],
)
def test_the_method_names_the_dialect(method: str, surface: Any, expected: str) -> None:
    for headers in ([], HEADERS_1_0, [("A2A-Version", "0.3")]):
        decoded = send("POST", "/", envelope(method, {"id": "T"}), headers, surface)
        assert isinstance(decoded, Call)
        assert str(decoded.dialect) == expected


@pytest.mark.parametrize(
    ("method", "headers", "sse", "dialect"),
    [
        pytest.param("message/stream", [], True, "JSONRPC/0.3", id="a 0.3 stream wants events"),
        pytest.param("tasks/resubscribe", HEADERS_1_0, True, "JSONRPC/0.3", id="a 0.3 subscription too"),
        pytest.param("tasks/sendSubscribe", [], True, "JSONRPC/0.1", id="a 0.1 stream too"),
        pytest.param("SendStreamingMessage", [], False, "JSONRPC/1.0", id="a 1.0 stream does not"),
        pytest.param("SubscribeToTask", HEADERS_1_0, False, "JSONRPC/1.0", id="nor a 1.0 subscription"),
        pytest.param("tasks/get", [], False, "JSONRPC/0.3", id="nor a get"),
        pytest.param("nope", HEADERS_1_0, False, "JSONRPC/1.0", id="an unknown method goes by the header"),
        pytest.param("nope", [], False, "JSONRPC/0.3", id="and without one by 0.3"),
    ],
)
def test_the_form_of_a_refusal(method: str, headers: Any, sse: bool, dialect: str) -> None:
    decoded = send("POST", "/", envelope(method, {}), headers)
    assert isinstance(decoded, Unreadable)
    assert decoded.form == Form(DIALECTS[dialect], "r-1", sse)


@pytest.mark.parametrize(
    ("headers", "target", "expected"),
    [
        pytest.param([("A2A-Version", "1.0")], "/?A2A-Version=1.0", Operation.GET_TASK, id="twice the same"),
        pytest.param([], "/?A2A-Version=1.0", Operation.GET_TASK, id="only in the query"),
        pytest.param(
            [("A2A-Version", "1.0")], "/?A2A-Version=0.3", INVALID_REQUEST, id="header and query differ"
        ),
        pytest.param([("A2A-Version", "1.0")], "/?a2a-version=0.3", INVALID_REQUEST, id="in any case"),
        pytest.param(
            [("A2A-Version", "1.0"), ("a2a-version", "0.3")], "/", INVALID_REQUEST, id="two headers"
        ),
        pytest.param(
            [], "/?A2A-Version=0.3&A2A-Version=1.0", INVALID_REQUEST, id="FC-018 twice in the query"
        ),
    ],
)
def test_the_declared_version(headers: Any, target: str, expected: Any) -> None:
    assert outcome(send("POST", target, GET, headers)) == expected
