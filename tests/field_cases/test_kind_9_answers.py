"""Kind 9, answers that are not what was asked for: FC-115 (another type), FC-117 (another's task)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sidecar.model import SENDS
from tests.field_cases.doors import (
    EVENTS,
    SENDING,
    STREAMING,
    V0_1,
    a_message,
    a_status,
    a_stream_of,
    a_task_in,
    a_whole_task,
    an_artifact,
    each,
    gets,
    require_owned_by_alice_alone,
    says,
    says_in_pieces,
    sse,
    wrapped,
)
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import At
from tests.matrix.requests import Names, Request, Row

in_session = pytest.mark.asyncio(loop_scope="session")
JSON = "application/json"


# --- FC-115 --------------------------------------------------------------------------------------


def as_json(row: Row, task: str) -> bytes:
    return json.dumps(a_whole_task(row, task)).encode()


def as_events(row: Row, task: str) -> bytes:
    return sse(a_whole_task(row, task)) + sse(a_status(row, task))


def as_lines(row: Row, task: str) -> bytes:
    return as_json(row, task) + b"\n" + json.dumps(a_status(row, task)).encode() + b"\n"


READ: Mapping[str, tuple[Callable[[Row, str], bytes], str | None]] = {
    "JSON": (as_json, JSON),
    "JSON of A2A's own type": (as_json, "application/a2a+json"),
    "JSON without a type": (as_json, None),
    "JSON called text": (as_json, "text/plain"),
    "events": (as_events, EVENTS),
    "events with a charset": (as_events, f"{EVENTS};charset=utf-8"),
    "events in another case": (as_events, "Text/Event-Stream; charset=UTF-8"),
}
REFUSED: Mapping[str, tuple[Callable[[Row, str], bytes], str | None, int]] = {
    "events without a type": (as_events, None, 200),
    "events called JSON": (as_events, JSON, 200),
    "JSON called events": (as_json, EVENTS, 200),
    "JSON lines": (as_lines, "application/x-ndjson", 200),
    "no content": (lambda row, t: b"", None, 204),
    "an empty body": (lambda row, t: b"", JSON, 200),
    "an empty body without a type": (lambda row, t: b"", None, 200),
}


def naming(row: Row, task: str) -> Request:
    return row.sending(Names(task if row.dialect.version is V0_1 else None))


@in_session
@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_115_a_task_is_recorded_whatever_type_of_answer_has_it(at: At, row: Row, kind: str) -> None:
    """A stream answered at once, and a plain call answered by events: the caller gets what the agent said."""
    cell = await at(row)
    made = a_random_id()
    written, media_type = READ[kind]
    cell.agent.script = says(written(row, made), media_type)
    answer = await cell.ask(naming(row, made))
    assert (answer.status, answer.body) == (200, written(row, made))
    assert (answer.header("Content-Type") or None) == media_type
    await require_owned_by_alice_alone(cell, made)


@in_session
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_115_what_is_neither_is_an_error(at: At, row: Row, kind: str) -> None:
    cell = await at(row)
    made = a_random_id()
    written, media_type, status = REFUSED[kind]
    cell.agent.script = says(written(row, made), media_type, status)
    answer = await cell.ask(naming(row, made))
    if media_type == EVENTS:  # its head has left by then
        assert b"-32603" in answer.body or b'"INTERNAL"' in answer.body
    else:
        assert answer.status == 502
    assert answer.header("Retry-After") is None
    assert made.encode() not in answer.body
    assert not await gets(cell, "mallory", made)


@in_session
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_115_the_agents_own_401_is_the_callers(at: At, row: Row) -> None:
    """The credential is the caller's own, forwarded: so is the challenge (design, where it decides otherwise)."""
    cell = await at(row)
    made = a_random_id()
    said = b'{"error":"token too old for me"}'
    cell.agent.script = says(said, JSON, 401, WWW_Authenticate='Bearer realm="agent"')
    answer = await cell.ask(naming(row, made))
    assert (answer.status, answer.body) == (401, said)
    assert answer.header("WWW-Authenticate") == 'Bearer realm="agent"'
    if row.dialect.version is not V0_1:
        assert not await gets(cell, "alice", made)


# --- FC-117 --------------------------------------------------------------------------------------

SECRET = "what alice's task says"
Foreign = Callable[[Row, str], Any]


def in_the_form_of_0_3(row: Row, task: str) -> Any:
    """The event of another version than the one spoken."""
    status = {"state": "working"}
    event = {
        "kind": "status-update",
        "taskId": task,
        "contextId": f"c-{task}",
        "status": status,
        "final": True,
    }
    return wrapped(row, event | {"metadata": {"text": SECRET}})


def in_the_form_of_1_0(row: Row, task: str) -> Any:
    event = {"taskId": task, "contextId": f"c-{task}", "status": {"state": "TASK_STATE_WORKING"}}
    return wrapped(row, {"statusUpdate": event | {"metadata": {"text": SECRET}}})


FOREIGN: Mapping[str, Foreign] = {
    "its status": lambda row, t: a_status(row, t, metadata={"text": SECRET}),
    "its artifact": lambda row, t: an_artifact(row, t, text=SECRET),
    "itself": lambda row, t: a_whole_task(row, t, metadata={"text": SECRET}),
    "its status in the form of 0.3": in_the_form_of_0_3,
    "its status in the form of 1.0": in_the_form_of_1_0,
    "itself, in snake case": lambda row, t: wrapped(
        row, {"task": {"id": t, "context_id": f"c-{t}", "status": {}, "metadata": {"text": SECRET}}}
    ),
    "its status, said to be in the reader's own context": lambda row, t: a_status(
        row, t, "OWN", metadata={"text": SECRET}
    ),
}


def foreign_events() -> Iterator[Any]:
    for row in STREAMING:
        for name, event in FOREIGN.items():
            yield pytest.param(row, event, id=f"{row.dialect} {row.name}: {name}")


async def mallorys_stream(cell: Any) -> tuple[str, Request]:
    """As `a_stream_of`, mallory's."""
    if cell.row.operation in SENDS:
        return await a_stream_of(cell)
    task = await a_task_in(cell, "working", "mallory")
    return task, cell.row.on_a_task(task)


@in_session
@pytest.mark.parametrize(("row", "event"), list(foreign_events()))
async def test_fc_117_an_event_about_anothers_task_ends_the_stream(at: At, row: Row, event: Foreign) -> None:
    cell = await at(row)
    theirs = await a_task_in(cell, "working", "alice")
    own, request = await mallorys_stream(cell)
    foreign = json.loads(json.dumps(event(row, theirs)).replace('"OWN"', json.dumps(f"c-{own}")))
    before, after = sse(a_whole_task(row, own)), sse(a_status(row, own, metadata={"n": "later"}))
    cell.agent.script = says_in_pieces([before, sse(foreign), after])
    records = len(cell.running.audit_file.read_text().splitlines())
    answer = await cell.ask(request, "mallory")
    assert answer.body.startswith(before)
    rest = answer.body[len(before) :]
    assert b"-32603" in rest or b'"INTERNAL"' in rest, "the stream did not end with an error"
    assert theirs.encode() not in rest
    assert SECRET.encode() not in rest
    assert b"later" not in rest
    alerts = {"collision", "foreign_reply"}
    told = await cell.running.records(lambda rs: any(r.get("outcome") in alerts for r in rs[records:]))
    assert SECRET not in json.dumps(told)
    assert await gets(cell, "alice", theirs)
    assert not await gets(cell, "mallory", theirs)
    assert await gets(cell, "mallory", own)


@in_session
@pytest.mark.parametrize("row", each(row for row in STREAMING if row.dialect.version is not V0_1))
async def test_fc_117_an_id_inside_ones_own_task_passes_and_owns_nothing(at: At, row: Row) -> None:
    """In history, artifacts, metadata or a message (design §5): a task may speak of another without being about it.
    0.1 has no message with a task id."""
    cell = await at(row)
    theirs = await a_task_in(cell, "working", "alice")
    own, request = await mallorys_stream(cell)
    message = {"messageId": "m", "role": "agent", "parts": [], "taskId": theirs, "contextId": f"c-{theirs}"}
    task = a_whole_task(row, own, history=[message], metadata={"taskId": theirs, "task": {"id": theirs}})
    said = [sse(task), sse(a_message(row, f"c-{own}", taskId=theirs))]
    if row.operation not in SENDS:
        said.pop()  # a subscription has no messages
    cell.agent.script = says_in_pieces(said)
    assert (await cell.ask(request, "mallory")).body == b"".join(said)
    assert await gets(cell, "mallory", own)
    assert not await gets(cell, "mallory", theirs)
    assert await gets(cell, "alice", theirs)


@in_session
@pytest.mark.parametrize(
    "row", each(r for r in STREAMING if r.operation in SENDS and r.dialect.version is not V0_1)
)
async def test_fc_117_a_message_in_anothers_context_is_withheld(at: At, row: Row) -> None:
    cell = await at(row)
    theirs = await a_task_in(cell, "working", "alice")
    cell.agent.script = says_in_pieces([sse(a_message(row, f"c-{theirs}", metadata={"text": SECRET}))])
    answer = await cell.ask(row.sending(Names()), "mallory")
    assert SECRET.encode() not in answer.body
    assert theirs.encode() not in answer.body
