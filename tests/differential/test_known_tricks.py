"""Every trick known to hide a task id, in every dialect it applies to: refused, or judged as real agents read it."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from sidecar.bindings.dialect import HTTP_0_3
from sidecar.model import SENDS, Binding, Call, Operation, Version
from sidecar.proxy.body import inflate
from tests.differential.hostile_requests import EVERYTHING
from tests.differential.judging import compared, judged
from tests.differential.reading import Asked, Readers
from tests.differential.tricks import escaped, snake
from tests.matrix.requests import ROWS, Names, Request, Row

TASK, REFERENCE = "7f3a-task", "7f3a-reference"

# --- valid requests to play with -------------------------------------------------------------------


def valid(row: Row) -> Request:
    if row.operation in SENDS:
        references = () if row.dialect.version is Version.V0_1 else (REFERENCE,)
        return row.sending(Names(TASK, references, TASK if row.dialect == HTTP_0_3 else None))
    return row.anyhow(TASK)


def names_the_task_in_its_body(row: Row) -> bool:
    return TASK.encode() in (valid(row).body or b"")


WITH_TASK: Final = tuple(row for row in ROWS if names_the_task_in_its_body(row))
RPC: Final = tuple(row for row in ROWS if row.jsonrpc)
SENDING: Final = tuple(
    row for row in ROWS if row.operation in SENDS and row.dialect.version is not Version.V0_1
)
OLD_REST: Final = tuple(row for row in WITH_TASK if row.dialect == HTTP_0_3)
# Routes of the texts and protos of 0.2 and 0.3 that no SDK here serves.
SERVED_BY_NOBODY: Final = frozenset(
    {
        "POST /v1/task/{id}/pushNotificationConfigs",
        "POST /v1/task/{id}/pushNotifications",
        "POST /v1/tasks/{id}/pushNotifications",
    }
)

Bytes = Callable[[bytes], bytes]
Json = dict[str, Any]


def in_text(pattern: str, becomes: str | Callable[[re.Match[str]], str]) -> Bytes:
    """Every place of the body that matches changes; there must be one."""

    def change(body: bytes) -> bytes:
        text, count = re.subn(pattern, becomes, body.decode())
        assert count, "the trick does not apply"
        return text.encode()

    return change


def in_params(change: Callable[[Json], None]) -> Bytes:
    """The object that names the task changes: the message of a send, else the parameters."""

    def changed(body: bytes) -> bytes:
        value = json.loads(body)
        holder = value.get("params", value)
        holder = holder["message"] if TASK in json.dumps(holder.get("message", {})) else holder
        change(holder)
        return json.dumps(value).encode()

    return changed


def respelt(spell: Callable[[str], str]) -> Bytes:
    """Every name of a member, by JSON text."""
    return in_text(r'"(\w+)":', lambda found: spell(found[1]) + ":")


def member_of_task(holder: Json) -> str:
    return next(name for name in ("taskId", "id", "name", "parent") if TASK in str(holder.get(name)))


def revalued(value: Any) -> Bytes:
    def change(holder: Json) -> None:
        holder[member_of_task(holder)] = value

    return in_params(change)


def with_twin(spell: Callable[[str], str], first: Any = TASK) -> Bytes:
    """The member once more in another spelling."""

    def change(holder: Json) -> None:
        name = member_of_task(holder)
        holder[name] = first
        holder[spell(name)] = "theirs"

    return in_params(change)


def only(spell: Callable[[str], str]) -> Bytes:
    def change(holder: Json) -> None:
        name = member_of_task(holder)
        holder[spell(name)] = holder.pop(name)

    return in_params(change)


def doubled(name: str) -> Bytes:
    """A member of the envelope, or the one that names the task, twice in a row."""
    place = (
        r'"(taskId|id|name|parent)":\s*("[^"]*7f3a-task[^"]*")'
        if not name
        else rf'"({name})":\s*("[^"]*"|{{)'
    )
    return in_text(place, r'"\1": "theirs", "\1": \2')


TWO_WORDS: Final = tuple(row for row in WITH_TASK if b'"taskId":' in (valid(row).body or b""))


@dataclass(frozen=True, slots=True)
class Trick:
    """What is done to a valid body, and to which; `call` where the outcome is to be a call on the same task.

    `heard`: an agent carries it out. We read it even where none does.
    """

    rows: tuple[Row, ...]
    change: Bytes
    call: bool = False
    heard: bool = True
    headers: Mapping[str, str] | None = None


TRICKS: Final[Mapping[str, Trick]] = {
    # 1
    "names in snake case": Trick(WITH_TASK, respelt(lambda n: f'"{snake(n)}"'), call=True),
    # 2
    "snake case beside camelCase": Trick(TWO_WORDS, with_twin(snake)),
    "snake case beside null": Trick(TWO_WORDS, with_twin(snake, None)),
    "snake case beside nothing": Trick(TWO_WORDS, with_twin(snake, "")),
    # 3
    "request in place of message": Trick(
        tuple(r for r in SENDING if r in OLD_REST), in_text('"message":', '"request":'), call=True
    ),
    "request in place of message, where it means nothing": Trick(
        tuple(r for r in SENDING if r not in OLD_REST), in_text('"message":', '"request":'), call=True, heard=False
    ),
    "request beside message": Trick(SENDING, in_text('"message":', '"request": {"taskId": "theirs"}, "message":')),
    # 4
    "an array for an id": Trick(WITH_TASK, revalued([TASK])),
    "an array in an array": Trick(WITH_TASK, revalued([[TASK]])),
    "a number for an id": Trick(WITH_TASK, revalued(123)),
    "a boolean for an id": Trick(WITH_TASK, revalued(True)),
    "an object for an id": Trick(WITH_TASK, revalued({"toString": TASK})),
    # 5
    "the task's member twice": Trick(WITH_TASK, doubled("")),
    "method twice": Trick(RPC, doubled("method")),
    "params twice": Trick(tuple(r for r in RPC if r in WITH_TASK), in_text('"params":', '"params": {}, "params":')),
    "message twice": Trick(SENDING, in_text('"message":', '"message": {}, "message":')),
    # 6
    "every name escaped": Trick(WITH_TASK, respelt(escaped), call=True),
    "the task's id escaped": Trick(WITH_TASK, in_text("7f3a", r"\\u0037f3\\u0061"), call=True),
    # 7
    "compressed, as the sidecar inflates it": Trick(
        WITH_TASK, lambda b: inflate(gzip.compress(b), "gzip", 2**20), call=True
    ),
    # 8
    **{
        f"in {charset}": Trick(WITH_TASK, lambda b, charset=charset: b.decode().encode(charset))  # type: ignore[misc]
        for charset in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig")
    },
    **{
        f"said to be {charset}": Trick(
            WITH_TASK, lambda b: b, headers={"Content-Type": f"application/json; charset={charset}"}
        )
        for charset in ("utf-7", "utf-16", "latin-1")
    },
    # 14, where JSON has resource names
    **{
        f"a resource name like {name.replace(TASK, 'ID')}": Trick(
            OLD_REST, in_text(f'"tasks/{TASK}[^"]*"', json.dumps(name))
        )
        for name in (f"tasks/{TASK}/x", f"x/tasks/{TASK}", TASK, f"/tasks/{TASK}", f"tasks//{TASK}", f"Tasks/{TASK}")
    },
    # parsers that differ
    "the name in capitals": Trick(WITH_TASK, only(str.upper)),
    "capitals beside the right spelling": Trick(WITH_TASK, with_twin(str.upper)),
    "two documents": Trick(WITH_TASK, lambda b: b + b),
    "a second document on a line of its own": Trick(WITH_TASK, lambda b: b + b"\n" + b),
    "numbers for names of a kind": Trick(
        tuple(r for r in SENDING if r.dialect.version is Version.V1_0), in_text('"ROLE_USER"', "1"), call=True
    ),
    "a send without an id": Trick(
        tuple(r for r in RPC if r.operation in SENDS), in_text(r'"jsonrpc": "2.0",\s*"id": 1', '"jsonrpc": "2.0"')
    ),
    "no send, without an id": Trick(
        tuple(r for r in RPC if r.operation not in SENDS and r in WITH_TASK),
        in_text(r'"jsonrpc": "2.0",\s*"id": 1', '"jsonrpc": "2.0"'),
        call=True,
    ),
}  # fmt: skip


def cases() -> Iterator[Any]:
    for name, trick in TRICKS.items():
        for row in trick.rows:
            yield pytest.param(trick, row, id=f"{name}: {row.dialect} {row.name}")


@pytest.mark.parametrize(("trick", "row"), [*cases()])
def test_a_trick_in_a_body(trick: Trick, row: Row, readers: Readers) -> None:
    request = valid(row)
    assert request.body is not None
    headers = {**request.headers, **(trick.headers or {})}
    asked = Asked(request.method, request.target, headers, trick.change(request.body))
    decoded = judged(asked, EVERYTHING)
    assert isinstance(decoded, Call) is trick.call, decoded
    if isinstance(decoded, Call):
        assert (decoded.operation, decoded.task_id) == (row.operation, TASK)
        assert set(decoded.references) == ({REFERENCE} if row in SENDING else set())
        problems, answers = compared(asked, decoded, readers)
        assert problems == []
        tasks = {
            reading.task for said in answers.values() for answer in said.values() for reading in answer.seen
        }
        assert (TASK in tasks) is (trick.heard and row.name not in SERVED_BY_NOBODY), answers


POST, GET = "POST", "GET"
ONE: Final[Mapping[str, str]] = {"A2A-Version": "1.0"}


@pytest.mark.parametrize(
    ("method", "target", "headers", "expected"),
    [
        pytest.param(POST, "/MESSAGE:Send", ONE, None, id="another case: Express routes it"),
        pytest.param(POST, "/message:send/", ONE, None, id="a trailing slash: Express routes it"),
        pytest.param(POST, f"/Tasks/{TASK}:cancel", ONE, None, id="a route's word in another case"),
        pytest.param(POST, f"/tasks/{TASK}%3Acancel", ONE, Operation.CANCEL_TASK, id="an escaped colon"),
        pytest.param(POST, f"/tas%6bs/{TASK}:cancel", ONE, Operation.CANCEL_TASK, id="an escaped letter"),
        pytest.param(GET, "/tasks/%37f3a-task", ONE, Operation.GET_TASK, id="an escaped id"),
        pytest.param(GET, f"/tasks/x%2F{TASK}", ONE, None, id="an escaped slash: part of the id, or not"),
        pytest.param(POST, "/v1/message:send", ONE, None, id="a tenant called v1, or 0.3"),
        pytest.param(GET, f"/other/tasks/{TASK}", ONE, None, id="any first segment: a tenant to Express"),
        pytest.param("HEAD", f"/tasks/{TASK}", ONE, None, id="HEAD tells whether a task exists"),
        pytest.param("HEAD", f"/v1/tasks/{TASK}", {}, None, id="HEAD in 0.3"),
    ],
)
def test_a_trick_in_a_path(
    method: str, target: str, headers: Mapping[str, str], expected: Operation | None, readers: Readers
) -> None:
    send = next(
        row
        for row in SENDING
        if row.dialect.binding is Binding.HTTP_JSON and row.dialect.version is Version.V1_0
    )
    body = valid(send).body if method == POST and "send" in target.lower() else b""
    asked = Asked(method, target, {**headers, "Content-Type": "application/json"}, body or b"")
    decoded = judged(asked, EVERYTHING)
    assert (decoded.operation if isinstance(decoded, Call) else None) == expected
    if isinstance(decoded, Call):
        assert decoded.task_id == TASK
        problems, answers = compared(asked, decoded, readers)
        assert problems == []
        assert answers["rest"]["a2a-sdk-1"].seen  # which is why it is forwarded


@pytest.mark.parametrize("row", [r for r in ROWS if r.name == "ListTasks"], ids=str)
def test_numbers_that_are_proto_json(row: Row) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"status":6,"pageSize":"5"}}'
    decoded = judged(Asked(POST, "/", ONE, body), EVERYTHING)
    assert isinstance(decoded, Call)
    assert decoded.selection is not None
    assert (decoded.selection.page_size, decoded.selection.state) == (5, "input-required")
