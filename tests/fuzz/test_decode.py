"""Decoding never fails, and never makes a call of what does not name one exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.decode import decode
from sidecar.bindings.dialect import DIALECTS
from sidecar.bindings.methods import HTTP_ROUTES, JSONRPC_METHODS
from sidecar.bindings.surface import Surface
from sidecar.bindings.target import below, read_target
from sidecar.model import Binding, Call, Head, Operation, Other, Refused, Unreadable

SURFACE = Surface(
    dialects=frozenset(DIALECTS.values()),
    rest_bases=((), ("rest",)),
    tenants=frozenset({"acme"}),
    skill_from=("metadata:skillId", "header:A2A-Skill"),
    methods=frozenset({"vendor/ping"}),
    depth=20,
)
NAMES = [name for _, name in JSONRPC_METHODS]
WORDS = [
    *("jsonrpc", "id", "method", "params", "message", "request", "taskId", "task_id", "TASKID", "contextId"),
    *(
        "sessionId",
        "referenceTaskIds",
        "configuration",
        "taskPushNotificationConfig",
        "pushNotification",
        "url",
    ),
    *(
        "authentication",
        "schemes",
        "metadata",
        "skillId",
        "name",
        "parent",
        "tenant",
        "config",
        "parts",
        "Method",
    ),
]
PIECES = [
    *(
        "tasks",
        "task",
        "v1",
        "message:send",
        "message:stream",
        "rest",
        "acme",
        "T",
        "T:cancel",
        "T:subscribe",
    ),
    *(
        "pushNotificationConfigs",
        "card",
        "extendedAgentCard",
        "agent",
        "x",
        "",
        "%74asks",
        "TASKS",
        "T%3Acancel",
    ),
    *("%2F", "%252F", ".", "..", "%2e%2e", "T;x=1", "a%20b", "%ff", "é", "message%3Asend", "a\\b"),
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["T", "2.0", *NAMES]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=12,
)
envelopes = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "method": st.sampled_from(NAMES) | st.text(max_size=10),
        "params": json_values | st.dictionaries(st.sampled_from(WORDS), json_values, max_size=4),
    },
    optional={"id": json_values},
)
bodies = st.one_of(
    st.none(),
    st.binary(max_size=40),
    json_values.map(lambda v: json.dumps(v).encode()),
    envelopes.map(lambda v: json.dumps(v).encode()),
)
targets = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=5).map(lambda p: "/" + "/".join(p))
queries = st.sampled_from(["", "?", "?contextId=C", "?a=1&a=2", "?A2A-Version=1.0", "?x;y", "?id=T", "?%zz"])
verbs = st.sampled_from(["GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "post", "CONNECT"])
headers = st.lists(
    st.tuples(
        st.sampled_from(["A2A-Version", "Content-Type", "A2A-Skill", "Upgrade", "Content-Length", "Accept"]),
        st.sampled_from(["1.0", "0.3", "", "application/json; charset=utf-16", "websocket", "h2c", "s", "0"]),
    ),
    max_size=3,
)


def head_of(method: str, target: str, pairs: list[tuple[str, str]]) -> Head:
    return Head(method, target, CIMultiDictProxy(CIMultiDict(pairs)))


def may_call(head: Head, body: bytes | None, call: Call) -> bool:
    """Whether a call can be told from the request without our decoder: by a method name read with
    the standard library, or by the words of the path as they were sent on."""
    if call.dialect.binding is Binding.JSONRPC:
        value = json.loads(body or b"")
        operation = JSONRPC_METHODS.get((call.dialect.version, value["method"]))
        return head.method == "POST" and value["jsonrpc"] == "2.0" and operation == call.operation
    path = call.target.partition("?")[0]
    return (head.method != "GET" or not (body or b"").strip()) and any(
        verb == head.method
        and operation == call.operation
        and path.endswith(pattern.rpartition("}")[2] or "")
        and (call.task_id is None) == ("{id}" not in pattern)
        for (_, verb, pattern), operation in HTTP_ROUTES.items()
    )


@settings(max_examples=400, deadline=None)
@given(method=verbs, path=targets, query=queries, pairs=headers, body=bodies)
def test_any_request_is_one_of_three(
    method: str, path: str, query: str, pairs: list[tuple[str, str]], body: bytes | None
) -> None:
    head = head_of(method, path + query, pairs)
    try:
        target = read_target(head.target)
    except Refused:
        return
    decoded = decode(head, target, body, SURFACE)
    assert isinstance(decoded, Call | Other | Unreadable)
    assert decoded.target == target.full
    if isinstance(decoded, Call):
        assert may_call(head, body, decoded)
        for named in (decoded.task_id, decoded.context_id, decoded.tenant, *decoded.references):
            assert named is None or (type(named) is str and 0 < len(named) <= 1024)


@settings(max_examples=300, deadline=None)
@given(
    body=st.binary(max_size=60),
    prefix=st.sampled_from([b"", b"{", b"[", b" {", b"\xef\xbb\xbf{", b"\xff\xfe"]),
)
def test_bytes_at_random_are_never_a_json_rpc_call(body: bytes, prefix: bytes) -> None:
    head = head_of("POST", "/", [])
    assert not isinstance(decode(head, read_target("/"), prefix + body, SURFACE), Call)


@settings(max_examples=300, deadline=None)
@given(value=envelopes)
def test_a_call_names_the_task_every_reader_sees(value: dict[str, Any]) -> None:
    """For a reader that ignores case and underscores, and takes the first or the last of two."""
    body = json.dumps(value).encode()
    decoded = decode(head_of("POST", "/", []), read_target("/"), body, SURFACE)
    if not isinstance(decoded, Call):
        return
    assert set(map(str.casefold, value)) <= {"jsonrpc", "id", "method", "params"}
    params = value["params"] or {}
    seen = [v for k, v in params.items() if k.casefold().replace("_", "") == "taskid" and v]
    sent = params.get("message")
    if decoded.operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE) and isinstance(
        sent, dict
    ):
        seen += [v for k, v in sent.items() if k.casefold().replace("_", "") == "taskid" and v]
    if decoded.operation is not Operation.LIST_TASKS and decoded.operation is not Operation.GET_EXTENDED_CARD:
        assert all(v == decoded.task_id for v in seen)


@settings(max_examples=400, deadline=None)
@given(target=(targets | st.text(max_size=12)), query=queries)
def test_a_target_is_read_or_refused_and_reading_is_idempotent(target: str, query: str) -> None:
    try:
        read = read_target(target + query)
    except Refused:
        return
    again = read_target(read.full)
    assert (again.path, again.segments, again.query) == (read.path, read.segments, read.query)
    assert "".join("/" + s for s in read.segments).count("/") == read.path.count("/")
    assert below(read, read.segments[:1]) is not None


@pytest.mark.parametrize("cut", range(68))
def test_half_a_call_is_no_call(cut: int) -> None:
    whole = b'{"jsonrpc":"2.0","id":"r","method":"tasks/get","params":{"id":"T"}}'
    decoded = decode(head_of("POST", "/", []), read_target("/"), whole[:cut], SURFACE)
    assert isinstance(decoded, Call) == (cut >= len(whole))
