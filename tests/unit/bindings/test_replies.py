"""What replies are about: by tables, and by what real agents sent."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.bindings.replies import (
    TERMINAL,
    LongReply,
    Seen,
    Shape,
    Unclear,
    read_event,
    read_reply,
)
from sidecar.bindings.sse import SseParser
from sidecar.model import Binding, Call, Dialect, Form, Operation, Version

JSONRPC, REST = Binding.JSONRPC, Binding.HTTP_JSON
V01, V03, V10 = Version.V0_1, Version.V0_3, Version.V1_0
SEND, STREAM = Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE
GET, CANCEL, SUBSCRIBE = Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK
PUSH_GET, PUSH_LIST = Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS
PUSH_DELETE, CARD = Operation.DELETE_PUSH_CONFIG, Operation.GET_EXTENDED_CARD


def a_call(operation: Operation = SEND, version: Version = V10, binding: Binding = REST) -> Call:
    dialect = Dialect(binding, version)
    return Call(operation, Form(dialect), dialect, "/")


def enveloped(result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def failed(code: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no", **more}}


def read_long(body: bytes, http_status: int, call: Call, size: int = 3) -> Seen:
    reply = LongReply(http_status, call)
    for at in range(0, len(body), size):
        reply.feed(body[at : at + size])
    return reply.close()


def read_all_ways(value: Any, call: Call, http_status: int = 200) -> Seen:
    """As a whole reply, in small pieces, and in one; all must agree."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    seen = read_reply(body, http_status, call)
    assert read_long(body, http_status, call) == seen
    assert read_long(body, http_status, call, size=1 << 20) == seen
    return seen


STATUS = {"state": "TASK_STATE_WORKING", "timestamp": "2026-03-01T09:30:00Z"}
BODY = {"role": "agent", "parts": [{"text": "hi"}]}
TASK = {"id": "t-1", "contextId": "c-1", "status": STATUS}
WORKING = {"state": "working", "status_at": "2026-03-01T09:30:00Z"}
SEEN_TASK = Seen(Shape.TASK, "t-1", "c-1", **WORKING)


# --- what a result is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "call", "seen"),
    [
        pytest.param({"task": TASK}, a_call(), SEEN_TASK, id="1.0: a wrapped task"),
        pytest.param(TASK, a_call(GET), SEEN_TASK, id="1.0: get answers a bare task"),
        pytest.param(
            {"id": "t-1", "context_id": "c-1", "status": STATUS},
            a_call(CANCEL),
            SEEN_TASK,
            id="snake case, as fasta2a answers get and cancel",
        ),
        pytest.param(
            {"task": {**TASK, "kind": "task"}},
            a_call(version=V03),
            SEEN_TASK,
            id="0.3, wrapped as by fasta2a",
        ),
        pytest.param({**TASK, "kind": "task"}, a_call(version=V03), SEEN_TASK, id="0.3: a task by its kind"),
        pytest.param(
            TASK, a_call(version=V03), SEEN_TASK, id="0.3: a failed task without kind, as by a2a-js"
        ),
        pytest.param(
            {"id": "t-1", "contextId": "c-1", "kind": "task"},
            a_call(version=V03),
            Seen(Shape.TASK, "t-1", "c-1"),
            id="a task without status",
        ),
        pytest.param(
            {"id": "t-1", "contextId": "c-1"}, a_call(GET), Seen(Shape.TASK, "t-1", "c-1"), id="nor kind"
        ),
        pytest.param(
            {"id": "t-1", "status": {}}, a_call(GET), Seen(Shape.TASK, "t-1"), id="a task without context"
        ),
        pytest.param(
            {**TASK, "contextId": ""},
            a_call(GET),
            Seen(Shape.TASK, "t-1", **WORKING),
            id="an empty context is none",
        ),
        pytest.param(
            {"task": {**TASK, "context_id": "c-1", "taskId": "t-1"}},
            a_call(),
            SEEN_TASK,
            id="two spellings that agree",
        ),
        pytest.param({"task": {**TASK, "context_id": None}}, a_call(), SEEN_TASK, id="null is absent"),
        pytest.param(
            {"task": TASK, "message": None}, a_call(), SEEN_TASK, id="a wrapper's null member is absent"
        ),
        pytest.param(
            {"message": {**BODY, "messageId": "m", "contextId": "c-1", "taskId": "t-9"}},
            a_call(),
            Seen(Shape.MESSAGE, context_id="c-1"),
            id="the task id of a message owns nothing",
        ),
        pytest.param(
            {**BODY, "kind": "message", "messageId": "m", "contextId": "c-1", "taskId": "t-9"},
            a_call(version=V03),
            Seen(Shape.MESSAGE, context_id="c-1"),
            id="0.3: a bare message",
        ),
        pytest.param(
            {"message_id": "m", "content": [{"text": "hi"}], "context_id": "c-1"},
            a_call(version=V03),
            Seen(Shape.MESSAGE, context_id="c-1"),
            id="a message by its members",
        ),
        pytest.param(
            {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": STATUS}},
            a_call(STREAM),
            Seen(Shape.STATUS, "t-1", "c-1", **WORKING),
            id="1.0: a status event",
        ),
        pytest.param(
            {"status_update": {"task_id": "t-1", "context_id": "c-1", "status": STATUS}},
            a_call(STREAM),
            Seen(Shape.STATUS, "t-1", "c-1", **WORKING),
            id="a status event in snake case",
        ),
        pytest.param(
            {"kind": "status-update", "taskId": "t-1", "contextId": "c-1", "status": STATUS, "final": True},
            a_call(STREAM, V03),
            Seen(Shape.STATUS, "t-1", "c-1", **WORKING),
            id="0.3: a status event by its kind",
        ),
        pytest.param(
            {"taskId": "t-1", "status": STATUS},
            a_call(STREAM, V03),
            Seen(Shape.STATUS, "t-1", **WORKING),
            id="a status event by its members",
        ),
        pytest.param(
            {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": {"parts": []}}},
            a_call(STREAM),
            Seen(Shape.ARTIFACT, "t-1", "c-1"),
            id="1.0: an artifact event",
        ),
        pytest.param(
            {"taskId": "t-1", "artifact": {}, "lastChunk": True},
            a_call(STREAM, V03),
            Seen(Shape.ARTIFACT, "t-1"),
            id="an artifact event by its members",
        ),
        pytest.param({}, a_call(), Seen(Shape.NOTHING), id="an empty object"),
        pytest.param({"name": "agent", "skills": []}, a_call(CARD), Seen(Shape.CARD), id="an extended card"),
        pytest.param(
            {
                **TASK,
                "history": [{"taskId": "t-8", "contextId": "c-8"}],
                "artifacts": [{"artifactId": "a", "parts": [{"data": {"id": "t-7", "taskId": "t-7"}}]}],
                "metadata": {"taskId": "t-6", "contextId": "c-6"},
                "status": {**STATUS, "message": {**BODY, "taskId": "t-5", "contextId": "c-5"}},
            },
            a_call(GET),
            SEEN_TASK,
            id="ids further inside are not the task's own",
        ),
        pytest.param(
            {**TASK, "metadata": {"x": 1e400}, "n": 10**40}, a_call(GET), SEEN_TASK, id="large numbers"
        ),
    ],
)
@pytest.mark.parametrize("binding", [REST, JSONRPC])
def test_results(binding: Binding, result: Any, call: Call, seen: Seen) -> None:
    call = a_call(call.operation, call.dialect.version, binding)
    body = json.dumps(result if binding is REST else enveloped(result)).replace("Infinity", "1e999").encode()
    assert read_reply(body, 201, call) == seen
    assert read_event(body, call) == seen
    if b"1e999" not in body:
        assert read_all_ways(body, call) == seen


@pytest.mark.parametrize(
    ("result", "operation", "seen"),
    [
        pytest.param(
            {"id": "t-1", "sessionId": "s-1", "status": {"state": "completed"}},
            SEND,
            Seen(Shape.TASK, "t-1", "s-1", "completed"),
            id="a task and its session",
        ),
        pytest.param(
            {
                "id": "t-1",
                "sessionId": "s-1",
                "message": BODY,
                "artifacts": [],
                "status": {"state": "canceled"},
            },
            SEND,
            Seen(Shape.TASK, "t-1", "s-1", "canceled"),
            id="a task that has a message, as by python-a2a",
        ),
        pytest.param(
            {"id": "t-1", "status": {"state": "working"}, "final": False},
            STREAM,
            Seen(Shape.STATUS, "t-1", None, "working"),
            id="a status event",
        ),
        pytest.param(
            {"id": "t-1", "artifact": {}}, SUBSCRIBE, Seen(Shape.ARTIFACT, "t-1"), id="an artifact event"
        ),
        pytest.param(
            {"id": "t-1", "pushNotificationConfig": {"url": "https://x"}},
            PUSH_GET,
            Seen(Shape.PUSH, "t-1"),
            id="a push config",
        ),
    ],
)
def test_results_of_0_1(result: Any, operation: Operation, seen: Seen) -> None:
    assert read_all_ways(enveloped(result), a_call(operation, V01, JSONRPC)) == seen


def test_a_get_may_be_answered_by_a_task_with_a_message_in_any_version() -> None:
    task = {"id": "t-1", "message": BODY, "sessionId": "s-1", "status": {"state": "completed"}}
    assert read_all_ways(enveloped(task), a_call(GET, V03, JSONRPC)) == Seen(
        Shape.TASK, "t-1", None, "completed"
    )


@pytest.mark.parametrize(
    ("written", "state"),
    [
        ("input-required", "input-required"),
        ("TASK_STATE_INPUT_REQUIRED", "input-required"),
        ("TASK_STATE_CANCELLED", "canceled"),
        ("TASK_STATE_CANCELED", "canceled"),
        ("unknown", "unknown"),
        (1, "submitted"),
        (5, "canceled"),
        (8, "auth-required"),
        (0, None),
        (9, None),
        (-1, None),
        (True, None),
        ("TASK_STATE_UNSPECIFIED", None),
        ("", None),
        ("paused", None),
        (["completed"], None),
        (None, None),
    ],
)
def test_states_are_one_spelling(written: Any, state: str | None) -> None:
    assert read_all_ways({"id": "t-1", "status": {"state": written}}, a_call(GET)).state == state


def test_terminal_states() -> None:
    assert sorted(TERMINAL) == ["canceled", "completed", "failed", "rejected"]


# --- push configs ----------------------------------------------------------------------------

NAME = "tasks/t-1/pushNotificationConfigs/p"


@pytest.mark.parametrize(
    ("result", "task", "config"),
    [
        pytest.param(
            {"id": "p", "taskId": "t-1", "url": "https://x"}, "t-1", "p", id="1.0: flat, `id` is the config's"
        ),
        pytest.param({"taskId": "t-1", "pushNotificationConfig": {"id": "p"}}, "t-1", "p", id="0.3 JSON-RPC"),
        pytest.param({"name": NAME, "pushNotificationConfig": {"id": "q"}}, "t-1", "q", id="0.3 HTTP+JSON"),
        pytest.param({"name": NAME, "push_notification_config": {}}, "t-1", "p", id="snake case"),
        pytest.param({"id": "t-1", "pushNotificationConfig": {}}, "t-1", None, id="0.1"),
        pytest.param({"taskId": "t-1", "pushNotificationConfig": {"id": 5}}, "t-1", None, id="a number"),
        pytest.param([{"taskId": "t-1", "pushNotificationConfig": {}}] * 2, "t-1", None, id="a list"),
        pytest.param([{"taskId": "t-1", "id": "p"}] * 2, "t-1", None, id="a list with ids"),
        pytest.param({"configs": [{"name": NAME}, {"taskId": "t-1"}]}, "t-1", None, id="under `configs`"),
        pytest.param([], None, None, id="an empty list"),
        pytest.param({"configs": [], "nextPageToken": ""}, None, None, id="an empty list under `configs`"),
        pytest.param({"id": "p", "url": "https://x"}, None, "p", id="a config that names no task"),
    ],
)
@pytest.mark.parametrize("binding", [REST, JSONRPC])
def test_push_configs(binding: Binding, result: Any, task: str | None, config: str | None) -> None:
    body = result if binding is REST else enveloped(result)
    assert read_all_ways(body, a_call(PUSH_LIST, V03, binding)) == Seen(Shape.PUSH, task, config_id=config)


@pytest.mark.parametrize(
    "result",
    [
        pytest.param([{"taskId": "t-1"}, {"taskId": "t-2"}], id="configs of two tasks"),
        pytest.param({"configs": [{"name": NAME}, {"taskId": "t-2"}]}, id="in two spellings"),
        pytest.param({"taskId": "t-2", "name": NAME}, id="a config that names two"),
        pytest.param({"taskId": "t-1", "task_id": "t-2"}, id="two spellings that differ"),
        pytest.param(
            {"id": "t-2", "taskId": "t-1", "pushNotificationConfig": {}}, id="`id` beside another task id"
        ),
        pytest.param({"name": "tasks/t-1/pushNotificationConfigs/p/x"}, id="a longer name"),
        pytest.param({"name": "x/tasks/t-1/pushNotificationConfigs/p"}, id="a name with a prefix"),
        pytest.param({"taskId": ["t-1"]}, id="an id that is no string"),
        pytest.param(["t-1"], id="a config that is no object"),
        pytest.param("t-1", id="no object at all"),
    ],
)
def test_push_configs_that_are_unclear(result: Any) -> None:
    assert_unclear(enveloped(result), a_call(PUSH_LIST, V03, JSONRPC))


@pytest.mark.parametrize(
    ("body", "http_status", "binding"),
    [
        pytest.param(b"", 204, REST, id="204"),
        pytest.param(b" \r\n", 200, REST, id="nothing but blanks"),
        pytest.param(b"{}", 200, REST, id="an empty object"),
        pytest.param(b"", 204, JSONRPC, id="204 to JSON-RPC"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"result":null}', 200, JSONRPC, id="result null"),
        pytest.param(b'{"jsonrpc":"2.0","id":1}', 200, JSONRPC, id="neither result nor error"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"result":{}}', 200, JSONRPC, id="an empty result"),
        pytest.param(b"{}", 200, JSONRPC, id="an empty envelope"),
    ],
)
def test_nothing(body: bytes, http_status: int, binding: Binding) -> None:
    for operation in (PUSH_DELETE, SEND):
        assert read_all_ways(body, a_call(operation, V03, binding), http_status) == Seen(Shape.NOTHING)
    assert read_event(body, a_call(STREAM, V03, binding)) == Seen(Shape.NOTHING)


# --- errors ----------------------------------------------------------------------------------

INFO = {"reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}


@pytest.mark.parametrize(
    ("body", "http_status", "call", "not_found"),
    [
        pytest.param(failed(-32001), 200, a_call(binding=JSONRPC), True, id="-32001"),
        pytest.param(failed(-32001, data=None), 404, a_call(binding=JSONRPC), True, id="-32001 under 404"),
        pytest.param(failed(-32603, data=[INFO]), 200, a_call(binding=JSONRPC), True, id="an ErrorInfo that says it"),
        pytest.param(failed(-32603, data=[{**INFO, "domain": "x"}]), 200, a_call(binding=JSONRPC), False, id="a domain of others"),
        pytest.param(failed(-32603, data="TASK_NOT_FOUND"), 200, a_call(binding=JSONRPC), False, id="data that is text"),
        pytest.param(failed(-32002), 200, a_call(binding=JSONRPC), False, id="another code"),
        pytest.param(failed("-32001"), 200, a_call(binding=JSONRPC), False, id="a code that is text"),
        pytest.param(failed(-32001.0), 200, a_call(binding=JSONRPC), False, id="a code that is a fraction"),
        pytest.param(failed(-32000, message="Task not found"), 404, a_call(binding=JSONRPC), False, id="text alone"),
        pytest.param({"error": "Task not found: t"}, 404, a_call(GET, V01, JSONRPC), False, id="an error that is text"),
        pytest.param({**failed(-32001), "result": None}, 200, a_call(binding=JSONRPC), True, id="result null beside it"),
        pytest.param({"code": -32001, "message": "x"}, 400, a_call(binding=JSONRPC), False, id="no envelope"),
        pytest.param(b"Internal Server Error", 500, a_call(binding=JSONRPC), False, id="text under 500"),
        pytest.param(b"<html>{}</html>", 413, a_call(binding=JSONRPC), False, id="a page under 413"),
        pytest.param(b"", 502, a_call(binding=JSONRPC), False, id="nothing under 502"),
        pytest.param(b"", 304, a_call(), False, id="not modified"),
        pytest.param(b'"no"', 500, a_call(), False, id="JSON text under 500"),
        pytest.param([], 500, a_call(), False, id="a list under 500"),
        pytest.param({"error": {"code": 404, "message": "x", "details": [INFO]}}, 404, a_call(), True, id="1.0: 404 with ErrorInfo"),
        pytest.param({"error": {"code": 404, "message": "x", "details": [INFO]}}, 400, a_call(), False, id="1.0: ErrorInfo but 400"),
        pytest.param({"error": {"code": 404, "message": "Task not found"}}, 404, a_call(), False, id="1.0: 404 without ErrorInfo"),
        pytest.param({"message": "Task not found"}, 404, a_call(), False, id="1.0: text alone"),
        pytest.param({"message": "Task not found"}, 404, a_call(GET, V03), True, id="0.3: as a2a-sdk says it on get"),
        pytest.param({"message": "Task t-1 was specified but does not exist"}, 404, a_call(SEND, V03), True, id="0.3: and on send"),
        pytest.param({"message": "Task not found", "x": 1}, 404, a_call(GET, V03), False, id="0.3: text and more"),
        pytest.param({"message": "Task not found"}, 500, a_call(GET, V03), False, id="0.3: text under 500"),
        pytest.param({"message": "Not Found"}, 404, a_call(GET, V03), False, id="0.3: a path that is not there"),
        pytest.param({"code": -32001, "message": "Task not found: t"}, 404, a_call(GET, V03), True, id="0.3: as a2a-js says it"),
        pytest.param({"detail": "Method Not Allowed"}, 405, a_call(GET, V03), False, id="a framework's error"),
        pytest.param({"kind": "Status", "status": "Failure", "code": 403}, 403, a_call(), False, id="a kind of others"),
        pytest.param({"parts": [{}], "role": "agent"}, 500, a_call(binding=JSONRPC), False, id="a message under 500, as by python-a2a"),
    ],
)  # fmt: skip
def test_errors(body: Any, http_status: int, call: Call, not_found: bool) -> None:
    assert read_all_ways(body, call, http_status) == Seen(Shape.ERROR, not_found=not_found)


@pytest.mark.parametrize(
    ("data", "call", "not_found"),
    [
        pytest.param(failed(-32001), a_call(STREAM, V03, JSONRPC), True, id="JSON-RPC"),
        pytest.param(failed(-32600), a_call(STREAM, V03, JSONRPC), False, id="JSON-RPC, another error"),
        pytest.param({"error": {"code": 404, "details": [INFO]}}, a_call(STREAM), True, id="1.0 HTTP+JSON"),
        pytest.param(
            {"error": {"code": 500, "message": "x"}}, a_call(STREAM), False, id="1.0, another error"
        ),
        pytest.param({"code": -32001, "message": "x"}, a_call(STREAM, V03), True, id="0.3 HTTP+JSON"),
    ],
)
def test_errors_in_a_stream(data: Any, call: Call, not_found: bool) -> None:
    assert read_event(json.dumps(data).encode(), call) == Seen(Shape.ERROR, not_found=not_found)


# --- what is unclear -------------------------------------------------------------------------


def assert_unclear(value: Any, call: Call, http_status: int = 200) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(Unclear):
        read_reply(body, http_status, call)
    with pytest.raises(Unclear):
        read_long(body, http_status, call)
    if http_status == 200:
        with pytest.raises(Unclear):
            read_event(body, call)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"id":"t-1","id":"t-2","status":{}}', id="duplicate ids"),
        pytest.param(b'{"id":"t-1","\\u0069d":"t-2","status":{}}', id="duplicate ids, one escaped"),
        pytest.param(b'{"id":"t-1","status":{},"status":{"state":"completed"}}', id="duplicate status"),
        pytest.param(b'{"id":"t-1","contextId":"c-1","context_id":"c-2","status":{}}', id="two contexts"),
        pytest.param(b'{"id":"t-1","contextId":"","context_id":"c-2","status":{}}', id="one of them empty"),
        pytest.param(b'{"taskId":"t-1","task_id":"t-2","status":{}}', id="two task ids of an event"),
        pytest.param(b'{"id":"t-1","taskId":"t-2","status":{}}', id="a task that is an event of another"),
        pytest.param(b'{"id":1,"status":{}}', id="a number for an id"),
        pytest.param(b'{"id":["t-1"],"status":{}}', id="a list for an id"),
        pytest.param(b'{"id":true,"status":{}}', id="a bool for an id"),
        pytest.param(b'{"id":"t-1","contextId":7,"status":{}}', id="a number for a context"),
        pytest.param(b'{"id":"","status":{}}', id="an empty id"),
        pytest.param(b'{"kind":"task","contextId":"c-1"}', id="a task without id"),
        pytest.param(b'{"statusUpdate":{"contextId":"c-1","status":{}}}', id="an event without task id"),
        pytest.param(b'{"kind":"task","taskId":"t-1","id":"t-2"}', id="a kind and two ids"),
        pytest.param(b'{"kind":"message","id":"t-1","status":{}}', id="a task called a message"),
        pytest.param(b'{"kind":"task","id":"t-1","parts":[],"role":"agent"}', id="a message called a task"),
        pytest.param(b'{"id":"t-1","status":{},"parts":[],"role":"agent"}', id="a message and a task"),
        pytest.param(b'{"taskId":"t-1","status":{},"artifact":{}}', id="a status and an artifact"),
        pytest.param(b'{"kind":"push","id":"t-1","status":{}}', id="an unknown kind"),
        pytest.param(b'{"kind":["task"],"id":"t-1","status":{}}', id="a kind that is no text"),
        pytest.param(b'{"task":{"id":"t-1"},"message":{"role":"agent"}}', id="two wrapped results"),
        pytest.param(b'{"statusUpdate":{"taskId":"t-1"},"status_update":{"taskId":"t-1"}}', id="a wrapper twice"),
        pytest.param(b'{"task":{"id":"t-1"},"id":"t-2","status":{}}', id="a task in a task"),
        pytest.param(b'{"message":{"role":"agent"},"id":"t-2","status":{}}', id="a task around a message"),
        pytest.param(b'{"task":{"id":"t-1","kind":"message"}}', id="a wrapper with another kind inside"),
        pytest.param(b'{"task":"t-1"}', id="a wrapper around text"),
        pytest.param(b'{"message":"hi"}', id="a message that is text"),
        pytest.param(b'{"tasks":[{"id":"t-1"}]}', id="a list of tasks"),
        pytest.param(b'{"ok":true}', id="something else"),
        pytest.param(b'{"jsonrpc":"2.0","id":"t-1","result":{"task":{"id":"t-1"}}}', id="an envelope on HTTP+JSON"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"t-1"', id="text"),
        pytest.param(b"7", id="a number"),
        pytest.param(b'{"task":{"id":"t-1"}}x', id="trailing data"),
        pytest.param(b'{"task":{"id":"t-1"}}{"task":{"id":"t-2"}}', id="two documents"),
        pytest.param(b'{"task":{"id":"t-1"}', id="a body that broke off"),
        pytest.param(b'{"task":{"id":"t-1"}, "x": "ab', id="a body that broke off in a string"),
        pytest.param(b"\xef\xbb\xbf{}", id="a BOM"),
        pytest.param('{"task":{"id":"t-1"}}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"task":{"id":"t-1\xff"}}', id="no UTF-8"),
        pytest.param(b'{"task":{"id":"t-1\\ud800"}}', id="a lone surrogate in an id"),
        pytest.param(b'{"task":{"id":"t-1"},"x":' + b"[" * 300 + b"]" * 300 + b"}", id="nested too deeply"),
        pytest.param(b'{"task":{"id":"t-1"},"x":' + b"1" * 5000 + b"}", id="a number too long"),
        pytest.param(b"<html></html>", id="a page under 200"),
    ],
)  # fmt: skip
def test_unclear(body: bytes) -> None:
    assert_unclear(body, a_call())


@pytest.mark.parametrize(
    "body",
    [
        pytest.param([enveloped({"task": TASK})], id="a batch"),
        pytest.param({**enveloped({"task": TASK}), **failed(-32001)}, id="both result and error"),
        pytest.param({"task": TASK}, id="no envelope"),
        pytest.param({"jsonrpc": "2.0", "task": TASK}, id="a task beside the result"),
        pytest.param({"jsonrpc": "2.0", "id": "t-1", "status": {}}, id="an envelope that is a task"),
        pytest.param({"id": 1, "ok": True}, id="something else"),
        pytest.param(enveloped([{"task": TASK}]), id="a list of results"),
        pytest.param(enveloped("t-1"), id="text"),
    ],
)
def test_unclear_responses(body: Any) -> None:
    assert_unclear(body, a_call(binding=JSONRPC))


@pytest.mark.parametrize(
    ("body", "binding"),
    [
        pytest.param(enveloped({"task": TASK}), JSONRPC, id="a result, which some clients read all the same"),
        pytest.param(TASK, JSONRPC, id="a bare task"),
        pytest.param({"task": TASK}, REST, id="a wrapped task"),
        pytest.param({"kind": "task", "id": "t-1"}, REST, id="a task by its kind"),
        pytest.param({"error": {}, "taskId": "t-1", "status": {}}, REST, id="a task beside an error"),
        pytest.param(b'{"error":{"code":-32001},"error":{}}', JSONRPC, id="duplicate keys"),
        pytest.param(b'{"error":', JSONRPC, id="an error that broke off"),
    ],
)
def test_a_task_under_a_status_of_failure_is_unclear(body: Any, binding: Binding) -> None:
    assert_unclear(body, a_call(binding=binding), 500)


# --- a reply too large to keep ---------------------------------------------------------------


def test_a_long_reply_is_found_wherever_its_ids_are() -> None:
    filler = {"parts": [{"raw": "A" * 300_000, "n": list(range(2000))}], "escaped": '\\"\n😀' * 2000}
    task = {"artifacts": [filler] * 5, "history": [filler], "metadata": filler, **TASK}
    body = json.dumps(enveloped({"task": task})).encode()
    for size in (1000, 65536, len(body)):
        assert read_long(body, 200, a_call(binding=JSONRPC), size) == SEEN_TASK


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(json.dumps({"task": {**TASK, "id": 'a"\\b\n/é'}}).encode(), id="escapes"),
        pytest.param(b'{"task":{"\\u0069d":"t-\\u0031","status":{}}}', id="an escaped key"),
        pytest.param(
            '{"x":"\\\\","task":{"id":"é","status":{}}}'.encode(), id="a backslash at the end of a string"
        ),
    ],
)
def test_no_cut_changes_what_a_long_reply_is(body: bytes) -> None:
    expected = read_reply(body, 200, a_call())
    for size in range(1, len(body)):
        assert read_long(body, 200, a_call(), size) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"task":{"id":"' + b"t" * 5000 + b'","status":{}}}', id="an id that is too long"),
        pytest.param(b'{"task":{"id":"\\ud83d\\ude00","status":{}}}', id="an id that cannot be read exactly"),
        pytest.param(b'{"task":{"id":"\\u0000","status":{}}}', id="an id that looks like the mark"),
        pytest.param(b'{"task":{"id":"t-1"},"x":NaN}', id="NaN, which the parser of long replies does not know"),
        pytest.param(b'{"configs":[' + b'{"name":null},' * 9000 + b"{}]}", id="too many values"),
    ],
)  # fmt: skip
def test_what_only_a_long_reply_finds_unclear(body: bytes) -> None:
    with pytest.raises(Unclear):
        read_long(body, 200, a_call(), 1000)


def test_a_long_reply_that_failed_stays_so() -> None:
    reply = LongReply(200, a_call())
    with pytest.raises(Unclear):
        reply.feed(b"{]")
    with pytest.raises(Unclear):
        reply.feed(b'{"task":{"id":"t-1"}}')
    with pytest.raises(Unclear):
        reply.close()


def test_a_long_string_takes_linear_time() -> None:
    def seconds(chunks: int) -> float:
        reply = LongReply(200, a_call())
        began = time.process_time()
        reply.feed(b'{"x":"')
        for _ in range(chunks):
            reply.feed(b"A" * 65536)
        reply.feed(b'","task":{"id":"t-1","status":{}}}')
        assert reply.close() == Seen(Shape.TASK, "t-1")
        return time.process_time() - began

    # Four times the bytes: about 4 if linear, 16 if the string is read again with every chunk.
    assert seconds(256) < 9 * min(seconds(64) for _ in range(3))


NAMES = st.sampled_from(
    [
        *(
            "id",
            "taskId",
            "task_id",
            "contextId",
            "context_id",
            "sessionId",
            "kind",
            "status",
            "state",
            "artifact",
        ),
        *(
            "task",
            "message",
            "statusUpdate",
            "artifact_update",
            "parts",
            "role",
            "result",
            "error",
            "code",
            "data",
        ),
        *(
            "jsonrpc",
            "name",
            "configs",
            "pushNotificationConfig",
            "history",
            "metadata",
            "reason",
            "domain",
            "x",
        ),
    ]
)
LEAVES = st.sampled_from(["t-1", "t-2", "task", "message", NAME, "completed", "", -32001, 1, True, None])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def or_unclear(read: Any) -> Seen | None:
    try:
        found = read()
    except Unclear:
        return None
    assert isinstance(found, Seen)
    return found


@settings(max_examples=300, deadline=None)
@given(
    value=VALUES,
    wrap=st.booleans(),
    http_status=st.sampled_from([200, 404, 500]),
    operation=st.sampled_from(list(Operation)),
    version=st.sampled_from(list(Version)),
    binding=st.sampled_from([REST, JSONRPC]),
)
def test_nothing_but_unclear_is_raised_and_a_long_reply_reads_alike(
    value: Any, wrap: bool, http_status: int, operation: Operation, version: Version, binding: Binding
) -> None:
    body = json.dumps(enveloped(value) if wrap else value).encode()
    call = a_call(operation, version, binding)
    seen = or_unclear(lambda: read_reply(body, http_status, call))
    assert or_unclear(lambda: read_long(body, http_status, call)) == seen
    or_unclear(lambda: read_event(body, call))


# --- what real agents sent -------------------------------------------------------------------

REPLIES = Path(__file__).parents[2] / "wire" / "replies"
FOLDER_DIALECTS = {
    "jsonrpc-v1": Dialect(JSONRPC, V10),
    "jsonrpc-v03": Dialect(JSONRPC, V03),
    "rest-v1": Dialect(REST, V10),
    "rest-v03": Dialect(REST, V03),
}


def dechunked(body: bytes) -> bytes:
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        if not size or not (length := int(size, 16)):
            break
        out += body[:length]
        body = body[length + 2 :]
    return out


def split_response(raw: bytes) -> tuple[int, str, bytes]:
    """HTTP status, media type and body of a recorded response."""
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = dechunked(body)
    return int(status.split(" ")[1]), headers.get("content-type", "").partition(";")[0], body


def brief(seen: Seen) -> list[str | None]:
    return [seen.shape.value, seen.task_id, seen.context_id]


def recordings() -> list[Any]:
    found = []
    for file in sorted(REPLIES.glob("*.jsonl")):
        dialect = next(d for tail, d in FOLDER_DIALECTS.items() if file.stem.endswith(tail))
        for line in file.read_text().splitlines():
            recorded = json.loads(line)
            found.append(pytest.param(dialect, recorded, id=f"{file.stem}: {recorded['name']}"))
    return found


def test_there_are_recordings_of_every_dialect() -> None:
    assert {param.values[0] for param in recordings()} == set(FOLDER_DIALECTS.values())


@pytest.mark.parametrize(("dialect", "recorded"), recordings())
def test_what_real_agents_sent(dialect: Dialect, recorded: dict[str, Any]) -> None:
    call = Call(Operation(recorded["operation"]), Form(dialect), dialect, "/")
    status, media_type, body = split_response(recorded["response"].encode("latin-1"))
    if media_type == "text/event-stream":
        events = SseParser(1 << 20).feed(body)
        seen = [read_event(event.data, call) for event in events if event.data is not None]
    else:
        seen = [read_all_ways(body, call, status)]
    assert [brief(one) for one in seen] == recorded["seen"]
