"""HTTP+JSON: every route, everything that only looks like one, and the query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidecar.model import Call, Form, Operation, Other, Reason, Unreadable

from .asking import (
    EVERYTHING,
    HEADERS_1_0,
    INVALID_PARAMS,
    INVALID_REQUEST,
    message,
    only,
    outcome,
    outcome_of_path,
    send,
)

HTTP_1_0, HTTP_0_3 = only("HTTP+JSON/1.0"), only("HTTP+JSON/0.3")
NOT_ALLOWED, NO_PATH = Reason.METHOD_NOT_ALLOWED, Reason.UNKNOWN_PATH
SEND = {"message": message()}
HOOK = {"url": "https://h.example"}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation", "task"),
    [
        pytest.param("POST", "/message:send", SEND, Operation.SEND_MESSAGE, None, id="send"),
        pytest.param("POST", "/message:stream", SEND, Operation.SEND_STREAMING_MESSAGE, None, id="stream"),
        pytest.param("GET", "/tasks", b"", Operation.LIST_TASKS, None, id="list"),
        pytest.param("GET", "/tasks/T", b"", Operation.GET_TASK, "T", id="get"),
        pytest.param("GET", "/tasks/a:b:c", b"", Operation.GET_TASK, "a:b:c", id="an id with colons"),
        pytest.param("POST", "/tasks/T:cancel", b"", Operation.CANCEL_TASK, "T", id="cancel without a body"),
        pytest.param("POST", "/tasks/a:b:cancel", {}, Operation.CANCEL_TASK, "a:b", id="cancel, colons in the id"),
        pytest.param("POST", "/tasks/T%3Acancel", {}, Operation.CANCEL_TASK, "T", id="FC-020 an escaped colon"),
        pytest.param("GET", "/%74asks/T:%73ubscribe", b"", Operation.SUBSCRIBE_TO_TASK, "T", id="FC-020 letters"),
        pytest.param("GET", "/tasks/T:subscribe", b"", Operation.SUBSCRIBE_TO_TASK, "T", id="subscribe by GET"),
        pytest.param("POST", "/tasks/T:subscribe", b"", Operation.SUBSCRIBE_TO_TASK, "T", id="subscribe by POST"),
        pytest.param("POST", "/tasks/T/pushNotificationConfigs", HOOK, Operation.CREATE_PUSH_CONFIG, "T", id="push create"),
        pytest.param("GET", "/tasks/T/pushNotificationConfigs", b"", Operation.LIST_PUSH_CONFIGS, "T", id="push list"),
        pytest.param("GET", "/tasks/T/pushNotificationConfigs/c", b"", Operation.GET_PUSH_CONFIG, "T", id="push get"),
        pytest.param("DELETE", "/tasks/T/pushNotificationConfigs/c", b"", Operation.DELETE_PUSH_CONFIG, "T", id="push delete"),
        pytest.param("GET", "/tasks/T:cancel/pushNotificationConfigs", b"", Operation.LIST_PUSH_CONFIGS, "T:cancel", id="only the last segment has a suffix"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("prefix", "surface", "tenant"),
    [
        pytest.param("", HTTP_1_0, None, id="1.0"),
        pytest.param("/acme", HTTP_1_0, "acme", id="1.0 under a tenant"),
        pytest.param("/rest", HTTP_1_0, None, id="1.0 under a base"),
        pytest.param("/rest/acme", HTTP_1_0, "acme", id="1.0 under a base and a tenant"),
        pytest.param("/acme/rest", HTTP_1_0, "acme", id="1.0 under a tenant and a base"),
        pytest.param("/v1", HTTP_0_3, None, id="0.3"),
        pytest.param("/rest/v1", HTTP_0_3, None, id="0.3 under a base"),
    ],
)
def test_every_route(
    method: str,
    path: str,
    body: Any,
    operation: Operation,
    task: str | None,
    prefix: str,
    surface: Any,
    tenant: Any,
) -> None:
    decoded = send(method, prefix + path, body, surface=surface)
    assert isinstance(decoded, Call), decoded
    assert (decoded.operation, decoded.task_id, decoded.tenant) == (operation, task, tenant)
    assert {decoded.dialect} == surface.dialects


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        pytest.param(
            "POST", "/v1/task/T/pushNotifications", Operation.CREATE_PUSH_CONFIG, id="create, singular"
        ),
        pytest.param(
            "POST", "/v1/task/T/pushNotificationConfigs", Operation.CREATE_PUSH_CONFIG, id="half singular"
        ),
        pytest.param("POST", "/v1/tasks/T/pushNotifications", Operation.CREATE_PUSH_CONFIG, id="create"),
        pytest.param("GET", "/v1/tasks/T/pushNotifications", Operation.LIST_PUSH_CONFIGS, id="list"),
        pytest.param("GET", "/v1/tasks/T/pushNotifications/c", Operation.GET_PUSH_CONFIG, id="get"),
        pytest.param("GET", "/v1/card", Operation.GET_EXTENDED_CARD, id="the extended card"),
    ],
)
def test_routes_of_older_protos(method: str, path: str, operation: Operation) -> None:
    decoded = send(method, path, HOOK if method == "POST" else b"")
    assert isinstance(decoded, Call)
    assert (decoded.operation, str(decoded.dialect)) == (operation, "HTTP+JSON/0.3")
    assert decoded.task_id == (None if path == "/v1/card" else "T")


@pytest.mark.parametrize(
    ("surface", "expected"),
    [
        pytest.param(only("JSONRPC/0.2"), Operation.GET_EXTENDED_CARD, id="with JSON-RPC 0.2"),
        pytest.param(only("JSONRPC/0.3"), Operation.GET_EXTENDED_CARD, id="with JSON-RPC 0.3"),
        pytest.param(
            replace(HTTP_0_3, rest_bases=(("rest",),)), Operation.GET_EXTENDED_CARD, id="outside the base"
        ),
        pytest.param(only("JSONRPC/1.0", "HTTP+JSON/1.0"), NO_PATH, id="not with 1.0 alone"),
        pytest.param(only("JSONRPC/0.1"), NO_PATH, id="not with 0.1 alone"),
    ],
)
def test_the_extended_card_of_json_rpc_agents(surface: Any, expected: Any) -> None:
    assert outcome(send("GET", "/agent/authenticatedExtendedCard", surface=surface)) == expected


@pytest.mark.parametrize(
    ("headers", "surface", "expected"),
    [
        pytest.param([], EVERYTHING, "HTTP+JSON/0.3", id="no version means 0.3"),
        pytest.param([("A2A-Version", "")], EVERYTHING, "HTTP+JSON/0.3", id="an empty version too"),
        pytest.param([("A2A-Version", "0.3.0")], EVERYTHING, "HTTP+JSON/0.3", id="a patch level too"),
        pytest.param(HEADERS_1_0, EVERYTHING, INVALID_REQUEST, id="1.0: v1 might be a tenant"),
        pytest.param([("A2A-Version", "1.1")], EVERYTHING, INVALID_REQUEST, id="any 1.x"),
        pytest.param([("A2A-Version", "2.0")], EVERYTHING, INVALID_REQUEST, id="what nobody knows"),
        pytest.param(
            HEADERS_1_0, replace(HTTP_1_0, tenants=frozenset({"v1"})), INVALID_REQUEST, id="no tenant v1"
        ),
        pytest.param([], HTTP_1_0, NO_PATH, id="0.3 is not served"),
        pytest.param(
            HEADERS_1_0, replace(EVERYTHING, rest_bases=((), ("v1",))), "HTTP+JSON/1.0", id="a base v1"
        ),
        pytest.param(
            [], replace(EVERYTHING, rest_bases=((), ("v1",))), "HTTP+JSON/0.3", id="a base v1, 0.3 meant"
        ),
        pytest.param(
            [], replace(HTTP_1_0, rest_bases=((), ("v1",))), "HTTP+JSON/1.0", id="a base v1, only 1.0"
        ),
    ],
)
def test_v1_paths(headers: Any, surface: Any, expected: Any) -> None:
    decoded = send("GET", "/v1/tasks/T", b"", headers, surface)
    assert (str(decoded.dialect) if isinstance(decoded, Call) else outcome(decoded)) == expected


@pytest.mark.parametrize("version", ["", "0.3", "1.0", "1.7", "junk"])
def test_other_paths_are_1_0_whatever_the_header(version: str) -> None:
    decoded = send("GET", "/tasks/T", b"", [("A2A-Version", version)])
    assert isinstance(decoded, Call)
    assert str(decoded.dialect) == "HTTP+JSON/1.0"


def test_versions_that_contradict() -> None:
    assert (
        outcome(send("GET", "/v1/tasks/T?A2A-Version=1.0", b"", [("A2A-Version", "0.3")])) == INVALID_REQUEST
    )
    assert outcome(send("GET", "/tasks/T?A2A-Version=1.0", b"", HEADERS_1_0)) == Operation.GET_TASK


# --- what only looks like a route ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param("GET", "/x/tasks/T", id="FC-021 an unknown prefix"),
        pytest.param("GET", "/tasks/tasks/T", id="FC-021 a word of ours as prefix"),
        pytest.param("GET", "/tasks/tasks", id="a list of the tenant `tasks`, or a task of that name"),
        pytest.param(
            "GET", "/tasks/extendedAgentCard", id="a card of the tenant `tasks`, or a task of that name"
        ),
        pytest.param("GET", "/tasks/EXTENDEDagentcard", id="the same in another case"),
        pytest.param(
            "GET", "/tasks/tasks/pushNotificationConfigs", id="a task of the tenant `tasks`, or configs"
        ),
        pytest.param("POST", "/anything/message:send", id="FC-021 a send under an unknown prefix"),
        pytest.param("GET", "/x/extendedAgentCard", id="FC-021 a card under an unknown prefix"),
        pytest.param("GET", "/x/v1/card", id="FC-021 a 0.3 card under an unknown prefix"),
        pytest.param("GET", "/x/v1/tasks/T", id="FC-021 a 0.3 path under an unknown prefix"),
        pytest.param("GET", "/acme/v1/tasks/T", id="a 0.3 path under a tenant"),
        pytest.param("GET", "/acme/agent/authenticatedExtendedCard", id="a 0.3 card under a tenant"),
        pytest.param("GET", "/acme/acme/tasks/T", id="two tenants"),
        pytest.param("GET", "/acme/rest/acme/tasks/T", id="a tenant on either side"),
        pytest.param("GET", "/rest/rest/tasks/T", id="two bases"),
        pytest.param("GET", "/TASKS/T", id="another case"),
        pytest.param("GET", "/Tasks", id="a list in another case"),
        pytest.param("POST", "/MESSAGE:Send", id="a send in another case"),
        pytest.param("GET", "/tasks/T:Subscribe", id="a suffix in another case"),
        pytest.param("POST", "/tasks/T:CANCEL", id="a cancel in another case"),
        pytest.param("GET", "/ACME/tasks/T", id="a tenant in another case"),
        pytest.param("GET", "/REST/tasks/T", id="a base in another case"),
        pytest.param("GET", "/tasks/T/", id="FC-024 a trailing slash"),
        pytest.param("GET", "/tasks/", id="a list with a trailing slash"),
        pytest.param("POST", "/message:send/", id="a send with a trailing slash"),
        pytest.param("GET", "/v1/card/", id="a card with a trailing slash"),
        pytest.param("GET", "/v1/Card", id="a card in another case"),
        pytest.param("POST", "/message:send/x", id="more after a send"),
        pytest.param("POST", "/message:explode", id="an unknown verb of message"),
        pytest.param("GET", "/tasks/T/artifacts", id="an unknown collection of a task"),
        pytest.param("GET", "/tasks/T/pushNotificationConfigs/c/d", id="more after a config"),
        pytest.param("GET", "/tasks/T/pushNotificationConfigs/", id="an empty config"),
        pytest.param("GET", "/tasks/T/PushNotificationConfigs", id="configs in another case"),
        pytest.param("POST", "/tasks/:cancel", id="a cancel of nothing"),
        pytest.param("GET", "/task/T", id="the singular without v1"),
        pytest.param("GET", "/x/tasks%20/T", id="a space behind a word of ours"),
        pytest.param("GET", "/x/%EF%BD%94asks/T", id="a full-width letter"),
        pytest.param("POST", "/a2a/tasks/get", id="an alias of python-a2a"),
        pytest.param("POST", "/lf.a2a.v1.A2AService/GetTask", id="a gRPC path"),
        pytest.param("POST", "/a2a.v1.A2AService/GetTask", id="a gRPC path of 0.3"),
    ],
)
def test_paths_that_look_like_routes(method: str, target: str) -> None:
    decoded = send(method, target, {"message": message()} if method == "POST" else b"")
    assert outcome(decoded) == NO_PATH


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("/tasks%2FT", Reason.BAD_PATH, id="FC-019 an escaped slash"),
        pytest.param("/x%2Ftasks/T", Reason.BAD_PATH, id="FC-019 an escaped slash before"),
        pytest.param(
            "/tasks/T%2FpushNotificationConfigs", Reason.BAD_PATH, id="FC-019 an escaped slash behind"
        ),
        pytest.param("/tasks/T%253Acancel", Reason.BAD_PATH, id="FC-020 a double escape"),
        pytest.param("/%2e/tasks/T", Reason.BAD_PATH, id="FC-021 a dot as tenant"),
        pytest.param("/tasks/T;x=1", Reason.BAD_PATH, id="FC-024 a parameter"),
        pytest.param("/tasks/T?", Operation.GET_TASK, id="FC-024 an empty query"),
        pytest.param("/healthz/../tasks/T", Reason.BAD_PATH, id="FC-024 dots after a public prefix"),
        pytest.param("/tasks/" + "x" * 1025, INVALID_PARAMS, id="a task id that is too long"),
        pytest.param(
            "/tasks/T/pushNotificationConfigs/" + "x" * 1025, INVALID_PARAMS, id="a config id too long"
        ),
    ],
)
def test_odd_targets(target: str, expected: Any) -> None:
    assert outcome_of_path("GET", target) == expected


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/docs",
        "/openapi.json",
        "/v1/chat/completions",
        "/v1/cards",
        "/card",
        "/my-tasks",
        "/messages:send",
        "/x;y",
    ],
)
def test_paths_that_are_clearly_something_else(target: str) -> None:
    decoded = send("GET", target)
    assert isinstance(decoded, Other)
    assert (decoded.path, decoded.form) == (target, Form())


def test_a_base_and_a_tenant_of_one_name_are_ambiguous() -> None:
    surface = replace(EVERYTHING, tenants=frozenset({"rest"}))
    assert outcome(send("GET", "/rest/tasks/T", surface=surface)) == INVALID_REQUEST


@pytest.mark.parametrize("word", ["tasks", "task", "v1", "message:send", ".well-known"])
def test_reserved_words_are_no_tenants(word: str) -> None:
    surface = replace(EVERYTHING, tenants=frozenset({word}))
    assert not isinstance(send("GET", f"/{word}/tasks/T", b"", HEADERS_1_0, surface), Call)


@pytest.mark.parametrize(
    "path", ["/tasks/T", "/v1/tasks/T", "/message:send", "/extendedAgentCard", "/v1/card"]
)
def test_routes_of_dialects_that_are_not_served(path: str) -> None:
    for method in ("GET", "POST", "HEAD"):
        assert outcome(send(method, path, surface=only("JSONRPC/0.3", "JSONRPC/1.0"))) == NO_PATH


# --- verbs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "PROPFIND", "FOO", "get", "Get", "POST"]
)
@pytest.mark.parametrize("path", ["/tasks/T", "/v1/tasks/T", "/tasks", "/extendedAgentCard", "/acme/tasks/T"])
def test_verbs_a_route_has_not(method: str, path: str) -> None:
    """FC-022."""
    assert outcome(send(method, path)) == NOT_ALLOWED


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("HEAD", "/tasks/T:subscribe", id="FC-022 HEAD on subscribe"),
        pytest.param("GET", "/tasks/T:cancel", id="GET on cancel"),
        pytest.param("GET", "/message:send", id="GET on send"),
        pytest.param("post", "/message:send", id="a verb in lower case"),
        pytest.param("POST", "/tasks/T:explode", id="an unknown suffix is part of the id"),
        pytest.param("DELETE", "/tasks/T", id="DELETE on a task"),
        pytest.param("DELETE", "/v1/tasks/T/pushNotifications/c", id="a delete that 0.2 has not"),
        pytest.param("HEAD", "/agent/authenticatedExtendedCard", id="HEAD on the extended card"),
    ],
)
def test_verbs_of_another_route(method: str, path: str) -> None:
    assert outcome(send(method, path)) == NOT_ALLOWED


# --- the query -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("/tasks?contextId=C&contextId=A", INVALID_PARAMS, id="FC-018 twice"),
        pytest.param("/tasks?pageSize=1&pageSize=100", INVALID_PARAMS, id="FC-018 a page size twice"),
        pytest.param("/tasks?x=1&x=2", INVALID_PARAMS, id="FC-018 an unknown name twice"),
        pytest.param("/tasks?contextId=C;contextId=A", INVALID_PARAMS, id="FC-018 a semicolon"),
        pytest.param("/tasks?contextId=C&%63ontextId=A", INVALID_PARAMS, id="FC-018 twice, once escaped"),
        pytest.param("/tasks?contextId[]=A", INVALID_PARAMS, id="FC-018 brackets"),
        pytest.param("/tasks?contextId%5B0%5D=A", INVALID_PARAMS, id="FC-018 escaped brackets"),
        pytest.param("/tasks?contextId=C&context_id=A", INVALID_PARAMS, id="camel and snake"),
        pytest.param("/tasks?contextId=C&ContextID=A", INVALID_PARAMS, id="another case beside"),
        pytest.param("/tasks?ContextId=A", INVALID_PARAMS, id="only another case"),
        pytest.param("/tasks?A2A-Version=1.0&a2a-version=1.0", INVALID_PARAMS, id="the version in two spellings"),
        pytest.param("/tasks?contextId=%zz", INVALID_PARAMS, id="a broken escape"),
        pytest.param("/tasks?contextId=%ff", INVALID_PARAMS, id="no UTF-8"),
        pytest.param("/tasks?contextId=" + "x" * 1025, INVALID_PARAMS, id="a context that is too long"),
        pytest.param("/tasks/T?id=A", INVALID_PARAMS, id="another id than the path's"),
        pytest.param("/tasks/T?taskId=A", INVALID_PARAMS, id="another task than the path's"),
        pytest.param("/v1/tasks/T?name=tasks/A", INVALID_PARAMS, id="another name than the path's"),
        pytest.param("/tasks/T/pushNotificationConfigs/c?id=d", INVALID_PARAMS, id="another config"),
        pytest.param("/tasks/T/pushNotificationConfigs/c?task_id=A", INVALID_PARAMS, id="another task of a config"),
        pytest.param("/acme/tasks/T?tenant=other", INVALID_PARAMS, id="FC-077 another tenant"),
        pytest.param("/tasks/T?id=T&taskId=&historyLength=0", Operation.GET_TASK, id="the same id"),
        pytest.param("/tasks/T/pushNotificationConfigs/c?id=c&taskId=T", Operation.GET_PUSH_CONFIG, id="the same ids"),
        pytest.param("/acme/tasks?tenant=acme&api_key=k&pageToken=a=", Operation.LIST_TASKS, id="the same tenant"),
    ],
)  # fmt: skip
def test_queries(target: str, expected: Any) -> None:
    assert outcome(send("GET", target)) == expected


@pytest.mark.parametrize("name", ["contextId", "context_id", "%63ontextId"])
def test_a_context_in_the_query(name: str) -> None:
    decoded = send("GET", f"/tasks?{name}=C%20D")
    assert isinstance(decoded, Call)
    assert (decoded.context_id, decoded.target) == ("C D", f"/tasks?{name}=C%20D")


def test_a_tenant_in_the_query() -> None:
    decoded = send("DELETE", "/tasks/T/pushNotificationConfigs/c?tenant=other")
    assert isinstance(decoded, Call)
    assert decoded.tenant == "other"


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/acme/message:send", {"message": message(), "tenant": "other"}, id="path and body"),
        pytest.param("/message:send?tenant=a", {"message": message(), "tenant": "b"}, id="query and body"),
        pytest.param("/message:send?taskId=A", {"message": message(taskId="T")}, id="a task in the query"),
        pytest.param(
            "/message:send?contextId=A", {"message": message(contextId="C")}, id="a context in the query"
        ),
    ],
)
def test_a_query_that_contradicts_the_body(target: str, body: Any) -> None:
    assert outcome(send("POST", target, body)) == INVALID_PARAMS


# --- bodies --------------------------------------------------------------------------------------

LENGTH = [("Content-Length", "5")]


@pytest.mark.parametrize(
    ("method", "target", "body", "headers", "expected"),
    [
        pytest.param("POST", "/message:send", b"", [], Reason.UNPARSABLE, id="a send without a body"),
        pytest.param("POST", "/message:send", b"a=b", [], Reason.UNPARSABLE, id="a send with a form"),
        pytest.param("POST", "/message:send", None, LENGTH, Reason.UNPARSABLE, id="a send that is streamed"),
        pytest.param("POST", "/message:send", b"{", [], Reason.UNPARSABLE, id="a send with half a body"),
        pytest.param("POST", "/message:send", [], [], INVALID_REQUEST, id="a send with a list"),
        pytest.param("POST", "/message:send", {}, [], INVALID_PARAMS, id="a send without a message"),
        pytest.param("POST", "/tasks/T:cancel", b"x", [], Reason.UNPARSABLE, id="a cancel with text"),
        pytest.param(
            "POST", "/tasks/T:cancel", None, LENGTH, Reason.UNPARSABLE, id="a cancel that is streamed"
        ),
        pytest.param(
            "POST", "/tasks/T:cancel", None, [], Operation.CANCEL_TASK, id="a cancel without a body"
        ),
        pytest.param(
            "POST", "/tasks/T:cancel", b" \n", [], Operation.CANCEL_TASK, id="a cancel with white space"
        ),
        pytest.param("GET", "/tasks/T", b" ", [], Operation.GET_TASK, id="a get with white space"),
        pytest.param("GET", "/tasks/T", b"{}", [], INVALID_REQUEST, id="a get with a body"),
        pytest.param("GET", "/tasks/T", b"x", [], INVALID_REQUEST, id="a get with text"),
        pytest.param("GET", "/tasks/T", None, LENGTH, INVALID_REQUEST, id="a get with a streamed body"),
        pytest.param("GET", "/tasks/T", None, [], Operation.GET_TASK, id="a get without one"),
        pytest.param(
            "DELETE", "/tasks/T/pushNotificationConfigs/c", {"id": "d"}, [], INVALID_REQUEST, id="a delete"
        ),
        pytest.param(
            "POST", "/tasks/T/pushNotificationConfigs", b"", [], Reason.UNPARSABLE, id="a push create"
        ),
    ],
)
def test_bodies(method: str, target: str, body: Any, headers: Any, expected: Any) -> None:
    assert outcome(send(method, target, body, headers)) == expected


@pytest.mark.parametrize(
    ("headers", "media_type"),
    [
        pytest.param([], "application/json", id="nothing said"),
        pytest.param(
            [("Content-Type", "application/a2a+json")], "application/a2a+json", id="by what is sent"
        ),
        pytest.param(
            [("Accept", "Application/A2A+JSON, */*")], "application/a2a+json", id="by what is accepted"
        ),
        pytest.param([("Accept", "text/event-stream")], "application/json", id="another type"),
    ],
)
def test_the_media_type_of_answers(headers: Any, media_type: str) -> None:
    for decoded in (send("POST", "/message:send", SEND, headers), send("PUT", "/message:send", b"", headers)):
        assert decoded.form.media_type == media_type


@pytest.mark.parametrize(
    ("target", "headers", "dialect"),
    [
        pytest.param("/v1/tasks/T/", [], "HTTP+JSON/0.3", id="a 0.3 path"),
        pytest.param("/v1/tasks/T/", HEADERS_1_0, "HTTP+JSON/1.0", id="a 0.3 path in a 1.0 request"),
        pytest.param("/x/tasks/T", [], "HTTP+JSON/1.0", id="any other"),
    ],
)
def test_the_dialect_of_a_refused_path(target: str, headers: Any, dialect: str) -> None:
    decoded = send("GET", target, b"", headers)
    assert isinstance(decoded, Unreadable)
    assert str(decoded.form.dialect) == dialect
