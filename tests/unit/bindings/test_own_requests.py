"""What the sidecar asks of the agent by itself, pinned as it goes out."""

from __future__ import annotations

import pytest

from sidecar.bindings.own_requests import OwnRequest, cancel_request, extended_card_request, get_request
from sidecar.model import Binding, Call, Dialect, Form, Operation, RpcId, Selection, Version

JSONRPC, REST, GRPC = Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC
V01, V02, V03, V10 = Version.V0_1, Version.V0_2, Version.V0_3, Version.V1_0
JSON = {"Accept": "application/json", "Content-Type": "application/json"}


def a_send(binding: Binding, version: Version, target: str, tenant: str | None = None) -> Call:
    dialect = Dialect(binding, version)
    return Call(Operation.SEND_MESSAGE, Form(dialect), dialect, target, tenant=tenant)


@pytest.mark.parametrize(
    ("call", "target", "body"),
    [
        pytest.param(
            a_send(JSONRPC, V01, "/"),
            "/",
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"tasks/cancel","params":{"id":"t-1"}}',
            id="0.1 JSON-RPC",
        ),
        pytest.param(
            a_send(JSONRPC, V03, "/rpc?key=k"),
            "/rpc?key=k",
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"tasks/cancel","params":{"id":"t-1"}}',
            id="0.3 JSON-RPC, where the send went",
        ),
        pytest.param(
            a_send(JSONRPC, V03, "/", "acme"),
            "/",
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"tasks/cancel","params":{"id":"t-1"}}',
            id="0.3 knows no tenant",
        ),
        pytest.param(
            a_send(JSONRPC, V10, "/", "acme"),
            "/",
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"CancelTask","params":{"tenant":"acme","id":"t-1"}}',
            id="1.0 JSON-RPC carries the tenant along",
        ),
        pytest.param(
            a_send(REST, V03, "/rest/v1/message:stream"),
            "/rest/v1/tasks/t-1:cancel",
            b"{}",
            id="0.3 HTTP+JSON keeps its base",
        ),
        pytest.param(
            a_send(REST, V10, "/acme/message:send?A2A-Version=1.0"),
            "/acme/tasks/t-1:cancel?A2A-Version=1.0",
            b"{}",
            id="1.0 HTTP+JSON keeps tenant prefix and query",
        ),
        pytest.param(
            a_send(REST, V10, "/message:send", "acme"),
            "/tasks/t-1:cancel",
            b'{"tenant":"acme"}',
            id="1.0 HTTP+JSON carries along a tenant of the body",
        ),
        pytest.param(a_send(REST, V10, "/message%3Asend"), "/tasks/t-1:cancel", b"{}", id="an escaped colon"),
    ],
)
def test_cancel(call: Call, target: str, body: bytes) -> None:
    version = {"A2A-Version": "1.0"} if call.dialect.version is V10 else {}
    assert cancel_request(call, "t-1") == OwnRequest("POST", target, {**JSON, **version}, body)


@pytest.mark.parametrize(
    ("task_id", "segment"),
    [
        pytest.param("a/../b", "a%2F..%2Fb", id="slashes"),
        pytest.param("a?b#c%", "a%3Fb%23c%25", id="marks of a URL"),
        pytest.param("a:subscribe", "a%3Asubscribe", id="a colon"),
        pytest.param("ü \r\n", "%C3%BC%20%0D%0A", id="no byte outside a request line"),
    ],
)
def test_an_id_stays_one_path_segment(task_id: str, segment: str) -> None:
    assert cancel_request(a_send(REST, V10, "/message:send"), task_id).target == f"/tasks/{segment}:cancel"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(a_send(REST, V10, "/tasks/t-1"), id="a path that is no send"),
        pytest.param(a_send(REST, V10, "/message:sends"), id="a longer tail"),
        pytest.param(a_send(GRPC, V10, "/lf.a2a.v1.A2AService/SendMessage"), id="gRPC"),
        pytest.param(a_send(GRPC, V10, "/message:send"), id="gRPC whatever its path"),
    ],
)
def test_what_cannot_be_cancelled_this_way_is_an_error(call: Call) -> None:
    with pytest.raises(ValueError, match="no cancel request"):
        cancel_request(call, "t-1")


@pytest.mark.parametrize(
    ("binding", "version", "base", "tenant", "method", "target", "body"),
    [
        pytest.param(
            *(JSONRPC, V10, "/rpc", "", "POST", "/rpc"),
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"GetExtendedAgentCard","params":{}}',
            id="1.0 JSON-RPC",
        ),
        pytest.param(
            *(JSONRPC, V10, "/", "acme", "POST", "/"),
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"GetExtendedAgentCard","params":{"tenant":"acme"}}',
            id="1.0 JSON-RPC with a tenant",
        ),
        pytest.param(
            *(JSONRPC, V03, "/", "", "POST", "/"),
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"agent/getAuthenticatedExtendedCard"}',
            id="0.3 JSON-RPC",
        ),
        pytest.param(
            *(JSONRPC, V02, "/", "", "GET", "/agent/authenticatedExtendedCard", b""), id="0.2 at the root"
        ),
        pytest.param(
            *(JSONRPC, V02, "/a/rpc", "", "GET", "/a/agent/authenticatedExtendedCard", b""),
            id="0.2 beside the endpoint",
        ),
        pytest.param(*(REST, V10, "/", "", "GET", "/extendedAgentCard", b""), id="1.0 HTTP+JSON"),
        pytest.param(
            *(REST, V10, "/rest", "a/b", "GET", "/rest/a%2Fb/extendedAgentCard", b""),
            id="1.0 HTTP+JSON with a tenant",
        ),
        pytest.param(*(REST, V03, "/rest/", "", "GET", "/rest/v1/card", b""), id="0.3 HTTP+JSON"),
    ],
)
def test_extended_card(
    binding: Binding, version: Version, base: str, tenant: str, method: str, target: str, body: bytes
) -> None:
    request = extended_card_request(Dialect(binding, version), base, tenant=tenant)
    assert (request.method, request.target, request.body) == (method, target, body)
    assert request.headers.get("A2A-Version") == ("1.0" if version is V10 else None)
    assert ("Content-Type" in request.headers) is bool(body)


@pytest.mark.parametrize("dialect", [Dialect(JSONRPC, V01), Dialect(GRPC, V10)], ids=str)
def test_no_extended_card_is_an_error(dialect: Dialect) -> None:
    with pytest.raises(ValueError, match="no extended card"):
        extended_card_request(dialect, "/")


def a_list(
    binding: Binding,
    version: Version,
    target: str,
    tenant: str | None = None,
    history: int | None = None,
    rpc_id: RpcId = 7,
) -> Call:
    dialect = Dialect(binding, version)
    selection = Selection(history_length=history)
    form = Form(dialect, rpc_id)
    return Call(Operation.LIST_TASKS, form, dialect, target, tenant=tenant, selection=selection)


@pytest.mark.parametrize(
    ("call", "method", "target", "body"),
    [
        pytest.param(
            a_list(JSONRPC, V10, "/rpc", "acme", 0),
            "POST",
            "/rpc",
            b'{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"tenant":"acme","id":"t 1","historyLength":0}}',
            id="1.0 JSON-RPC: the caller's id, tenant and history",
        ),
        pytest.param(
            a_list(JSONRPC, V03, "/", "acme", rpc_id=None),
            "POST",
            "/",
            b'{"jsonrpc":"2.0","id":"a2a-sidecar","method":"tasks/get","params":{"id":"t 1"}}',
            id="0.3 JSON-RPC: never without an id",
        ),
        pytest.param(
            a_list(JSONRPC, V10, "/", rpc_id=2**70),
            "POST",
            "/",
            b'{"jsonrpc":"2.0","id":1180591620717411303424,"method":"GetTask","params":{"id":"t 1"}}',
            id="an id past 64 bits",
        ),
        pytest.param(
            a_list(REST, V10, "/acme/tasks?pageSize=2&tenant=acme&A2A-Version=1.0&status=x", "acme", 3),
            "GET",
            "/acme/tasks/t%201?tenant=acme&A2A-Version=1.0&historyLength=3",
            b"",
            id="1.0 HTTP+JSON: of the query what says where and how to ask",
        ),
        pytest.param(
            a_list(REST, V03, "/rest/v1/tasks"), "GET", "/rest/v1/tasks/t%201", b"", id="0.3 HTTP+JSON"
        ),
    ],
)
def test_a_task_of_a_list_is_got_where_the_list_went(
    call: Call, method: str, target: str, body: bytes
) -> None:
    request = get_request(call, "t 1")
    assert (request.method, request.target, request.body) == (method, target, body)
    assert request.headers.get("A2A-Version") == ("1.0" if call.dialect.version is V10 else None)


def test_there_is_no_get_where_there_is_no_such_binding() -> None:
    with pytest.raises(ValueError, match="no request for a task in GRPC"):
        get_request(a_list(GRPC, V10, "/"), "t-1")


@pytest.mark.parametrize(
    "id_",
    [
        "VICTIM:subscribe",
        "VICTIM:CANCEL",
        "a/b",
        "..",
        ".",
        "",
        "tasks",
        "message:send",
        "a\\b",
        "a?b",
        "a#b",
        "a\0",
    ],
)
def test_an_id_whose_path_would_name_something_else_is_not_asked_for(id_: str) -> None:
    with pytest.raises(ValueError, match="no segment"):
        get_request(a_list(REST, V10, "/tasks"), id_)
    assert get_request(a_list(JSONRPC, V10, "/"), id_).target == "/"
