"""The matrix has a case for every row of the protocol's tables, and none besides."""

from __future__ import annotations

from sidecar.bindings.methods import HTTP_ROUTES, JSONRPC_METHODS
from sidecar.model import SENDS, Operation
from tests.matrix.cells import every_cell
from tests.matrix.requests import (
    CARDS,
    HTTP_ON_A_TASK,
    HTTP_SENDS,
    JSONRPC_ON_A_TASK,
    JSONRPC_SENDS,
    LISTS,
    ROWS,
)

CASES = [*JSONRPC_ON_A_TASK, *JSONRPC_SENDS, *HTTP_ON_A_TASK, *HTTP_SENDS, *LISTS, *CARDS]


def test_every_row_has_its_case() -> None:
    assert {*JSONRPC_METHODS, *HTTP_ROUTES} - {*CASES} == set()


def test_every_case_has_its_row() -> None:
    assert {*CASES} - {*JSONRPC_METHODS, *HTTP_ROUTES} == set()
    assert len(CASES) == len({*CASES})


def test_every_case_asks_what_its_row_says() -> None:
    for row in ROWS:
        if row.operation in SENDS:
            assert row.key in {*JSONRPC_SENDS, *HTTP_SENDS}
        elif row.operation is Operation.LIST_TASKS:
            assert row.key in LISTS
        elif row.operation is Operation.GET_EXTENDED_CARD:
            assert row.key in CARDS
        else:
            assert row.key in {*JSONRPC_ON_A_TASK, *HTTP_ON_A_TASK}


def test_every_operation_is_in_some_row() -> None:
    assert {row.operation for row in ROWS} == {*Operation}


def test_all_six_dialects_are_there() -> None:
    assert {str(asked.row.dialect) for asked in every_cell()} == {
        *("JSONRPC/0.1", "JSONRPC/0.2", "JSONRPC/0.3", "JSONRPC/1.0", "HTTP+JSON/0.3", "HTTP+JSON/1.0")
    }
    assert len([*every_cell()]) > 100
