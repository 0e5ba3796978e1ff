"""What is the caller's own business is let pass, however it looks, and is read by agents as it was judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from sidecar.model import SENDS, Call, Version
from tests.differential.hostile_requests import EVERYTHING
from tests.differential.judging import compared, judged
from tests.differential.reading import Asked, Readers
from tests.matrix.requests import ROWS, Names, Row

Json = dict[str, Any]
Change = Callable[[Json, Json], None]  # what a send asks for, and its message

TWINS: Final[Json] = dict.fromkeys(
    (
        "taskId",
        "task_id",
        "TASKID",
        "Task-Id",
        "taſkId",
        "taskid ",
        "id",
        "ID",
        "contextId",
        "referenceTaskIds",
    ),
    "x",
) | {"message": {"taskId": ["x"]}, "context_id": None, "Params": 1}


def parts_of(message: Json) -> list[Json]:
    """They are called `content` in the ProtoJSON of 0.3."""
    found: list[Json] = message["content" if "content" in message else "parts"]
    return found


def metadata(value: Json) -> Change:
    def change(params: Json, message: Json) -> None:
        params["metadata"] = message["metadata"] = value

    return change


def beside(value: Json) -> Change:
    """Members nobody knows, in both objects."""

    def change(params: Json, message: Json) -> None:
        params.update(value)
        message.update(value)

    return change


def data_part(value: Json) -> Change:
    def change(params: Json, message: Json) -> None:
        parts = parts_of(message)
        # 0.2 and 0.3; of 1.0; of the ProtoJSON of 0.3
        if "kind" in parts[0]:
            parts.append({"kind": "data", "data": value})
        elif "content" in message:
            parts.append({"data": {"data": value}})
        else:
            parts.append({"data": value})

    return change


def text(value: str) -> Change:
    def change(params: Json, message: Json) -> None:
        parts_of(message)[0]["text"] = value

    return change


def unset(params: Json, message: Json) -> None:
    params["metadata"] = message["contextId"] = message["extensions"] = None


def several(params: Json, message: Json) -> None:
    parts = parts_of(message)
    parts.extend([parts[0]] * 3)
    message["extensions"] = ["https://example.com/ext/v1"]


DOCUMENTS: Final[Mapping[str, Change]] = {
    "twins in metadata": metadata(TWINS),
    "twins deep in metadata": metadata({"a": [{"b": {"message": TWINS, "params": TWINS}}]}),
    "twins in data": data_part(TWINS),
    "an envelope in data": data_part({"jsonrpc": "2.0", "method": "tasks/get", "params": {"id": "x"}}),
    "a method in metadata": metadata({"method": "tasks/cancel", "jsonrpc": "2.0", "Method": "GetTask"}),
    "words of JavaScript in metadata": metadata({"__proto__": {"taskId": "x"}, "constructor": {}, "toString": 1}),
    "addresses for names in metadata": metadata({"https://example.com/ext/v1": {"taskId": "x"}, "": 1, "$ref": "#"}),
    "a number past 64 bits in metadata": metadata({"n": 2**70, "m": -(2**63), "f": 1e300, "z": 0.1}),
    "thirty levels of metadata": metadata(json.loads('{"a":' * 30 + "1" + "}" * 30)),
    "two thousand members in metadata": metadata({f"k{n}": n for n in range(2000)}),
    "members of an extension": beside({"x-vendor": {"taskId": "x", "task_id": "y"}, "_id": "x", "traceparent": "00"}),
    "text about tasks": text('{"taskId":"x","task_id":"y"} "method":"tasks/cancel" \\u0069d'),
    "text in many scripts": text("grüß Gott, 你好, שלום, 👩‍👩‍👧, \u2028 and \x7f"),
    "text of control characters": text("a\tb\nc\r\x01 \u0000"),
    "null for what is not there": unset,
    "several parts and an extension": several,
}  # fmt: skip
SENDING: Final = tuple(
    row for row in ROWS if row.operation in SENDS and row.dialect.version is not Version.V0_1
)
WRITTEN: Final[Mapping[str, Callable[[Any], str]]] = {
    "as it is": lambda v: json.dumps(v, ensure_ascii=False),
    "with every character escaped that can be, and spaces": lambda v: json.dumps(v, indent=2),
}


def cases() -> Iterator[Any]:
    for row in SENDING:
        for name, change in DOCUMENTS.items():
            for how, write in WRITTEN.items():
                yield pytest.param(row, change, write, id=f"{row.dialect} {row.name}: {name}, {how}")


@pytest.mark.parametrize(("row", "change", "write"), [*cases()])
def test_opaque_content_is_free(
    row: Row, change: Change, write: Callable[[Any], str], readers: Readers
) -> None:
    request = row.sending(Names("mine", ("ref-1",)))
    body = json.loads(request.body or b"")
    params = body.get("params", body)
    change(params, params["message"])
    asked = Asked(request.method, request.target, request.headers, write(body).encode())
    decoded = judged(asked, EVERYTHING)
    assert isinstance(decoded, Call), decoded
    assert (decoded.operation, decoded.task_id, decoded.references) == (row.operation, "mine", ("ref-1",))
    problems, answers = compared(asked, decoded, readers)
    assert problems == []
    tasks = {reading.task for said in answers.values() for answer in said.values() for reading in answer.seen}
    assert tasks == {"mine"}, answers
