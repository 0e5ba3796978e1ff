"""Kind 5, wherever an answer has the id it is found: FC-075."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.field_cases.doors import (
    EVENTS,
    SENDING,
    V0_1,
    V1_0,
    a_message,
    a_status,
    a_whole_task,
    an_artifact,
    bare,
    each,
    gets,
    require_owned_by_alice_alone,
    says,
    sse,
    wrapped,
)
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import At
from tests.matrix.requests import Names, Request, Row

in_session = pytest.mark.asyncio(loop_scope="session")


# --- FC-075 --------------------------------------------------------------------------------------

JSON = "application/json"


def whole(row: Row, value: Any, media_type: str = JSON) -> tuple[bytes, str]:
    """An answer: as an event where the call streams."""
    return (sse(value), EVENTS) if row.streams else (json.dumps(value).encode(), media_type)


def media(row: Row) -> str:
    return EVENTS if row.streams else JSON


def plain_task(row: Row, task: str) -> Any:
    """A Task without a wrapper, whatever the version."""
    return wrapped(row, {"id": task, "contextId": f"c-{task}", "status": {"state": "working"}, "history": []})


def long_task(row: Row, task: str) -> Any:
    """Five megabytes, the id last."""
    value = a_whole_task(row, task, metadata={"padding": "x" * 5_000_000})
    result_ = value["result"] if row.jsonrpc else value
    inner = result_.get("task", result_)
    inner["id"] = inner.pop("id")
    return value


def in_lines(value: Any, end: bytes = b"\r\n") -> bytes:
    """An event whose data is spread over many lines, one of them empty of anything but the field."""
    lines = json.dumps(value, indent=1).encode().split(b"\n")
    return b"".join(b"data:" + b" " * (n % 2) + line + end for n, line in enumerate(lines)) + end


Shown = Callable[[Row, str], tuple[bytes, str]]
SHAPES: Mapping[str, Shown] = {
    "a task": lambda row, t: whole(row, a_whole_task(row, t)),
    "a task without its wrapper": lambda row, t: whole(row, plain_task(row, t)),
    "as another media type": lambda row, t: whole(row, a_whole_task(row, t), "application/a2a+json"),
    "with a charset": lambda row, t: (whole(row, a_whole_task(row, t))[0], f"{media(row)};charset=utf-8"),
    "five megabytes, the id last": lambda row, t: whole(row, long_task(row, t)),
}
IN_SNAKE_CASE: Mapping[str, Shown] = {
    "in snake case": lambda row, t: whole(
        row, wrapped(row, {"task": {"id": t, "context_id": f"c-{t}", "status": {}}})
    ),
}
EVENT_SHAPES: Mapping[str, Shown] = {
    "a status first": lambda row, t: whole(row, a_status(row, t)),
    "an artifact first": lambda row, t: whole(row, an_artifact(row, t)),
    "over many data lines": lambda row, t: (in_lines(a_whole_task(row, t)), EVENTS),
    "among other fields": lambda row, t: (b": hi\nevent: x\nid: 1\n" + sse(a_whole_task(row, t)), EVENTS),
    "behind a BOM": lambda row, t: (b"\xef\xbb\xbf" + sse(a_whole_task(row, t)), EVENTS),
    "behind an event that says nothing": lambda row, t: (b"data: \n\n" + sse(a_whole_task(row, t)), EVENTS),
}


def shapes() -> Iterator[Any]:
    for row in SENDING:
        for table in (SHAPES, {} if bare(row) else IN_SNAKE_CASE, EVENT_SHAPES if row.streams else {}):
            for name, shown in table.items():
                yield pytest.param(row, shown, id=f"{row.dialect} {row.name}: {name}")


def naming(row: Row, task: str) -> Request:
    """A send that makes `task`; only in 0.1 it says so."""
    return row.sending(Names(task if row.dialect.version is V0_1 else None))


@in_session
@pytest.mark.parametrize(("row", "shown"), list(shapes()))
async def test_fc_075_wherever_an_answer_has_the_id_it_is_found(at: At, row: Row, shown: Shown) -> None:
    cell = await at(row)
    made = a_random_id()
    body, media_type = shown(row, made)
    cell.agent.script = says(body, media_type)
    answer = await cell.ask(naming(row, made))
    assert answer.status == 200
    assert answer.body == body
    await require_owned_by_alice_alone(cell, made)


UNARY = [row for row in SENDING if not row.streams]


@in_session
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("row", each(UNARY))
async def test_fc_075_in_a_compressed_answer_too(at: At, row: Row, coding: str) -> None:
    cell = await at(row)
    made = a_random_id()
    text = json.dumps(a_whole_task(row, made)).encode()
    body = gzip.compress(text) if coding == "gzip" else zlib.compress(text)
    cell.agent.script = says(body, JSON, Content_Encoding=coding)
    answer = await cell.ask(naming(row, made))
    assert (answer.status, answer.body) == (200, body)
    assert answer.header("Content-Encoding") == coding
    await require_owned_by_alice_alone(cell, made)


@in_session
@pytest.mark.parametrize("row", each(row for row in SENDING if row.dialect.version is V1_0))
async def test_fc_075_a_message_first_and_a_task_later(at: At, row: Row) -> None:
    """The message gives its context an owner, and no task; what is made in that context later is the owner's."""
    cell = await at(row)
    context, said, made = (a_random_id() for _ in range(3))
    body, media_type = whole(row, a_message(row, context, taskId=said))
    cell.agent.script = says(body, media_type)
    assert (await cell.ask(row.sending(Names()))).body == body
    assert not await gets(cell, "alice", said), "a message made a task"
    body, media_type = whole(row, a_whole_task(row, made, context))
    cell.agent.script = says(body, media_type)
    request = row.sending(Names())
    assert request.body is not None
    call = json.loads(request.body)
    (call["params"] if row.jsonrpc else call)["message"]["contextId"] = context
    request = replace(request, body=json.dumps(call).encode())
    untouched = cell.untouched()
    assert b"Task not found" in (await cell.ask(request, "mallory")).body
    assert untouched(), "the agent was asked"
    assert (await cell.ask(request)).body == body
    assert await gets(cell, "alice", made, context)
    assert not await gets(cell, "mallory", made, context)


def twice(row: Row, task: str) -> bytes:
    return json.dumps(a_whole_task(row, task)).encode().replace(b'"id": "', b'"id": "t-x", "id": "', 1)


def misread(row: Row, **members: Any) -> bytes:
    value = a_whole_task(row, "t")
    result_ = value["result"] if row.jsonrpc else value
    result_.get("task", result_).update(members)
    return json.dumps(value).encode()


# What no reader can be sure of.
UNREADABLE: Mapping[str, Callable[[Row, str], tuple[bytes, dict[str, str]]]] = {
    "cut off": lambda row, t: (json.dumps(a_whole_task(row, t)).encode()[:-3], {}),
    "two JSON texts": lambda row, t: (json.dumps(a_whole_task(row, t)).encode() * 2, {}),
    "the id twice": lambda row, t: (twice(row, t), {}),
    "two ids": lambda row, t: (misread(row, id=t, taskId="t-other"), {}),
    "an id that is a number": lambda row, t: (misread(row, id=17), {}),
    "an id that is a list": lambda row, t: (misread(row, id=[t]), {}),
    "no id": lambda row, t: (misread(row, id=None), {}),
    "a page": lambda row, t: (f"<html>made {t}</html>".encode(), {}),
    "a list of tasks": lambda row, t: (json.dumps(wrapped(row, [{"id": t, "status": {}}])).encode(), {}),
    "nothing": lambda row, t: (json.dumps(wrapped(row, None)).encode(), {}),
    "UTF-16": lambda row, t: (json.dumps(a_whole_task(row, t)).encode("utf-16"), {}),
    "a coding nobody knows": lambda row, t: (t.encode(), {"Content_Encoding": "br"}),
    "no gzip": lambda row, t: (json.dumps(a_whole_task(row, t)).encode(), {"Content_Encoding": "gzip"}),
    "gzip, cut off": lambda row, t: (
        gzip.compress(json.dumps(a_whole_task(row, t)).encode())[:-9],
        {"Content_Encoding": "gzip"},
    ),
}


def unreadable() -> Iterator[Any]:
    for row in SENDING:
        for kind in UNREADABLE:
            if not (row.streams and kind == "nothing"):  # an event that says nothing may pass
                yield pytest.param(row, kind, id=f"{row.dialect} {row.name}: {kind}")


@in_session
@pytest.mark.parametrize(("row", "kind"), list(unreadable()))
async def test_fc_075_what_cannot_be_read_is_no_success(at: At, row: Row, kind: str) -> None:
    cell = await at(row)
    made = a_random_id()
    body, headers = UNREADABLE[kind](row, made)
    if row.streams:
        body = b"data: " + body + b"\n\n"
    cell.agent.script = says(body, media(row), **headers)
    answer = await cell.ask(naming(row, made))
    assert answer.status >= 500 or b'"error"' in answer.body or b'"code"' in answer.body
    assert answer.header("Retry-After") is None, "a mesh would send it again"
    assert made.encode() not in answer.body
    assert b"t-other" not in answer.body
    assert not await gets(cell, "mallory", made)
