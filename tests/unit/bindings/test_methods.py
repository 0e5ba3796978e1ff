"""The tables: which operation exists in which dialect, and that an empty cell refuses."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import sidecar.bindings
from sidecar.bindings.dialect import HTTP, JSONRPC
from sidecar.bindings.methods import (
    HTTP_ROUTES,
    JSONRPC_METHODS,
    ends_like_a_method,
    is_nearly_a_method,
    looks_like_a_route,
    rows,
)
from sidecar.bindings.surface import Surface
from sidecar.model import Dialect, Operation, Reason

from .asking import envelope, message, outcome, send

README = Path(sidecar.bindings.__file__).parent / "README.md"
HOOK = {"url": "https://h.example"}
# Valid in every version: whichever member names the task there, it is T.
PARAMS: dict[Operation, list[dict[str, Any]]] = {
    operation: [{"id": "T"}, {"taskId": "T"}] for operation in Operation
} | {
    Operation.SEND_MESSAGE: [{"message": message()}, {"id": "T", "message": message()}],
    Operation.SEND_STREAMING_MESSAGE: [{"message": message()}, {"id": "T", "message": message()}],
    Operation.CREATE_PUSH_CONFIG: [
        {"taskId": "T", "pushNotificationConfig": HOOK},
        {"id": "T", "pushNotificationConfig": HOOK},
    ],
}
BODIES: dict[Operation, Any] = {
    Operation.SEND_MESSAGE: {"message": message()},
    Operation.SEND_STREAMING_MESSAGE: {"message": message()},
    Operation.CREATE_PUSH_CONFIG: HOOK,
}


def methods_of(operation: Operation, dialect: Dialect) -> list[str]:
    return [
        name
        for (version, name), o in JSONRPC_METHODS.items()
        if version is dialect.version and o is operation
    ]


def routes_of(operation: Operation, dialect: Dialect) -> list[tuple[str, str]]:
    return [
        (verb, pattern)
        for (version, verb, pattern), o in HTTP_ROUTES.items()
        if version is dialect.version and o is operation
    ]


def called(operation: Operation, method: str, surface: Surface) -> set[Any]:
    return {outcome(send("POST", "/", envelope(method, p), surface=surface)) for p in PARAMS[operation]}


@pytest.mark.parametrize("dialect", JSONRPC, ids=str)
@pytest.mark.parametrize("operation", Operation)
def test_every_cell_of_json_rpc(operation: Operation, dialect: Dialect) -> None:
    surface = Surface(frozenset({dialect}))
    own = methods_of(operation, dialect)
    for method in own:
        assert called(operation, method, surface) <= {operation, Reason.INVALID_PARAMS}
        assert operation in called(operation, method, surface)
    others = {name for (_, name), o in JSONRPC_METHODS.items() if o is operation} - set(own)
    for method in others - set(rows(surface.dialects)):
        assert called(operation, method, surface) == {Reason.UNKNOWN_OPERATION}


@pytest.mark.parametrize("dialect", HTTP, ids=str)
@pytest.mark.parametrize("operation", Operation)
def test_every_cell_of_http_json(operation: Operation, dialect: Dialect) -> None:
    surface = Surface(frozenset({dialect}))
    for version, verb, pattern in (key for key, o in HTTP_ROUTES.items() if o is operation):
        path = pattern.replace("{id}", "T").replace("{cid}", "c")
        expected = operation if version is dialect.version else Reason.UNKNOWN_PATH
        assert outcome(send(verb, path, BODIES.get(operation, b""), surface=surface)) == expected


def test_every_operation_exists_in_1_0() -> None:
    for operation, dialect in product(Operation, (JSONRPC[0], HTTP[0])):
        assert methods_of(operation, dialect) if dialect is JSONRPC[0] else routes_of(operation, dialect)


def table() -> str:
    """The table of the README, from the tables of the code."""
    dialects = (*reversed(JSONRPC), *reversed(HTTP))
    lines = ["| operation | " + " | ".join(map(str, dialects)) + " |", "| --- " * 7 + "|"]
    for operation in Operation:
        cells = []
        for dialect in dialects:
            if dialect in JSONRPC:
                found = [f"`{name}`" for name in methods_of(operation, dialect)]
            else:
                found = [f"`{verb} {pattern}`" for verb, pattern in routes_of(operation, dialect)]
            cells.append("<br>".join(found) or "–")
        lines.append(f"| {operation} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_readme_shows_the_tables() -> None:
    assert table() in README.read_text()


@pytest.mark.parametrize(
    ("name", "nearly"),
    [
        pytest.param("tasks/get", True, id="exactly"),
        pytest.param("\tTASKS/GET ", True, id="trimmed and in another case"),
        pytest.param("Get\u200bTask\0", True, id="with characters nobody sees"),
        pytest.param("ＧetTask", True, id="with a full-width letter"),
        pytest.param("tools/list", False, id="another protocol's"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_nearly_a_method(name: str, nearly: bool) -> None:
    assert is_nearly_a_method(name) is nearly


@pytest.mark.parametrize(
    ("path", "method", "route"),
    [
        pytest.param("x/message/send", True, False, id="two words of a method"),
        pytest.param("x/tasks/pushNotificationConfig/get", True, True, id="three words of a method"),
        pytest.param("x/GetTask", True, False, id="one word"),
        pytest.param("v1/card", False, True, id="the card of 0.3"),
        pytest.param("v1/card/x", False, False, id="something below it"),
        pytest.param("x/TASKS.;a=b", False, True, id="another case, a dot and a parameter"),
        pytest.param("", False, False, id="the root"),
        pytest.param("x", False, False, id="any word"),
    ],
)
def test_words_of_a_path(path: str, method: bool, route: bool) -> None:
    segments = path.split("/")
    assert (ends_like_a_method(segments), looks_like_a_route(segments)) == (method, route)
