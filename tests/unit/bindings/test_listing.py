"""Lists put together from the agent's own bytes."""

from __future__ import annotations

import json

import pytest

from sidecar.bindings.dialect import DIALECTS
from sidecar.bindings.listing import list_reply, listed_task
from sidecar.bindings.shapes import Unclear
from sidecar.model import Call, Form, Operation, Selection

JSONRPC, REST = DIALECTS["JSONRPC/1.0"], DIALECTS["HTTP+JSON/1.0"]
BY_RPC = Call(Operation.GET_TASK, Form(JSONRPC, 1), JSONRPC, "/")
BY_HTTP = Call(Operation.GET_TASK, Form(REST), REST, "/tasks/t")
ALL = Selection(include_artifacts=True)


@pytest.mark.parametrize(
    ("task", "selection", "shown"),
    [
        pytest.param('{"id":"t"}', ALL, '{"id":"t"}', id="nothing to cut"),
        pytest.param(
            '{ "id" : "t" , "n":1.0e5}', ALL, '{"id" : "t","n":1.0e5}', id="members as they were written"
        ),
        pytest.param(
            '{"id":"t","artifacts":[{"parts":[]}],"x":1}', Selection(), '{"id":"t","x":1}', id="artifacts go"
        ),
        pytest.param('{"artifacts":[],"id":"t"}', Selection(), '{"id":"t"}', id="empty ones too"),
        pytest.param(
            '{"id":"t","metadata":{"artifacts":[1]}}',
            Selection(),
            '{"id":"t","metadata":{"artifacts":[1]}}',
            id="further down they are not the task's",
        ),
        pytest.param(
            '{"id":"t","\\u0061rtifacts":[1]}',
            Selection(),
            '{"id":"t"}',
            id="an escaped name is the same name",
        ),
        pytest.param(
            '{"id":"t","history":[1, 2 ,{"a":[3]}]}',
            Selection(history_length=2),
            '{"id":"t","history":[2,{"a":[3]}]}',
            id="the newest messages",
        ),
        pytest.param(
            '{"id":"t","history":[ 1 ]}',
            Selection(history_length=5),
            '{"id":"t","history":[1]}',
            id="fewer than asked for",
        ),
        pytest.param('{"id":"t","history":[1]}', Selection(history_length=0), '{"id":"t"}', id="no history"),
        pytest.param(
            '{"id":"t","history":null}',
            Selection(history_length=3),
            '{"id":"t"}',
            id="a history that is none",
        ),
        pytest.param(
            '{"id":"t","history":[1]}',
            Selection(),
            '{"id":"t","history":[1]}',
            id="as much as the agent gave",
        ),
        pytest.param(
            '{"id":"t","n":-0.10,"m":%s}' % ("9" * 5000),
            ALL,
            '{"id":"t","n":-0.10,"m":%s}' % ("9" * 5000),
            id="numbers are not read",
        ),
        pytest.param(
            '{"id":"t","s":"\\ud83d\\ude00 \\u00e9 \\/ é"}',
            ALL,
            '{"id":"t","s":"\\ud83d\\ude00 \\u00e9 \\/ é"}',
            id="nor are strings",
        ),
        pytest.param('{"task":{"id":"t","artifacts":[1]}}', Selection(), '{"id":"t"}', id="fasta2a wraps it"),
    ],
)
def test_tasks(task: str, selection: Selection, shown: str) -> None:
    wrapped = '{"jsonrpc":"2.0", "id":1,\n"result" : ' + task + " }"
    assert listed_task(wrapped.encode(), BY_RPC, selection) == shown.encode()
    assert listed_task(f" {task}\n".encode(), BY_HTTP, selection) == shown.encode()


def test_what_stands_beside_a_wrapped_task_is_not_shown() -> None:
    reply = b'{"id":"foreign","task":{"id":"t"},"x":1}'
    assert listed_task(reply, BY_HTTP, ALL) == b'{"id":"t"}'


@pytest.mark.parametrize(
    "reply", [b"", b"[]", b"{}", b'{"result":5}', b'{"result":{"task":[]}}', b'{"result":{"id":"t"', b"\xff"]
)
def test_what_holds_no_task_is_unclear(reply: bytes) -> None:
    with pytest.raises(Unclear):
        listed_task(reply, BY_RPC, ALL)


def test_the_form_of_a_list() -> None:
    tasks = [b'{"id":"a"}', b'{"id":"b"}']
    rpc = list_reply(tasks, "next", 2, 5, Form(JSONRPC, "r-1"))
    bare = list_reply(tasks, "", 50, 2, Form(REST, media_type="application/a2a+json"))
    assert isinstance(rpc.body, bytes)
    assert isinstance(bare.body, bytes)
    page = {"tasks": [{"id": "a"}, {"id": "b"}], "nextPageToken": "next", "pageSize": 2, "totalSize": 5}
    assert json.loads(rpc.body) == {"jsonrpc": "2.0", "id": "r-1", "result": page}
    assert json.loads(bare.body) == page | {"nextPageToken": "", "pageSize": 50, "totalSize": 2}
    assert (rpc.status, rpc.headers["Content-Type"]) == (200, "application/json")
    assert bare.headers["Content-Type"] == "application/a2a+json"
    assert bare.headers["Cache-Control"] == "no-store"


def test_an_empty_list_has_every_member() -> None:
    assert (
        list_reply([], "", 50, 0, Form(REST)).body
        == b'{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}'
    )
