"""What a dialect does not have, or what is not enabled, is refused in its own form, and the agent never asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.bindings.methods import EXTENDED_CARD_PATH, HTTP_ROUTES, JSONRPC_METHODS
from sidecar.model import Dialect, Version
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import At
from tests.matrix.requests import DIALECTS, ROWS, Row

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLD_CARDS = (Version.V0_2, Version.V0_3)


def is_served(row: Row, dialect: Dialect) -> bool:
    """Whether a sidecar with only `dialect` serves this row."""
    if row.key[-1] == EXTENDED_CARD_PATH:  # of JSON-RPC agents of 0.2 and 0.3 as well
        return dialect.version in OLD_CARDS
    if row.jsonrpc:
        return (dialect.version, row.key[1]) in JSONRPC_METHODS and dialect.binding is row.dialect.binding
    return row.dialect == dialect


def empty_cells() -> Iterator[Any]:
    for dialect in DIALECTS:
        home = next(row for row in ROWS if row.dialect == dialect)
        for row in ROWS:
            if not is_served(row, dialect):
                yield pytest.param(home, row, id=f"{row.dialect} {row.name} where only {dialect} is enabled")


@pytest.mark.parametrize(("home", "row"), list(empty_cells()))
async def test_a_call_of_another_dialect_is_refused(at: At, home: Row, row: Row) -> None:
    cell = await at(home)
    task = await cell.a_task_of("alice")
    untouched = cell.untouched()
    answer = await cell.ask(row.anyhow(task), "alice")
    body = answer.json
    if row.jsonrpc:
        assert answer.status == 200
        assert (body["jsonrpc"], body["id"]) == ("2.0", 1)
        assert body["error"]["code"] == -32601
    else:
        assert answer.status == 404
        # The form of whoever would ask this: only `/v1` marks a client of 0.3.
        assert body.keys() == ({"code", "message"} if row.key[2].startswith("/v1/") else {"error"})
    assert answer.shown == (await cell.ask(row.anyhow(task), "bob")).shown
    assert answer.shown == (await cell.ask(row.anyhow(a_random_id()), "bob")).shown
    assert (await cell.ask(row.anyhow(task), None)).status == 401
    assert untouched(), "the agent was asked"


VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def wrong_verbs() -> Iterator[Any]:
    patterns = {(row.key[2], row) for row in ROWS if not row.jsonrpc}
    for pattern, row in sorted(patterns, key=lambda found: found[0]):
        for verb in VERBS:
            if (row.dialect.version, verb, pattern) not in HTTP_ROUTES:
                yield pytest.param(row, verb, pattern, id=f"{verb} {pattern}")


@pytest.mark.parametrize(("row", "verb", "pattern"), list(wrong_verbs()))
async def test_a_verb_the_route_does_not_have_is_405(at: At, row: Row, verb: str, pattern: str) -> None:
    cell = await at(row)
    task = await cell.a_task_of("alice")
    untouched = cell.untouched()
    shown = []
    for named in (task, a_random_id()):
        target = pattern.replace("{id}", named).replace("{cid}", "cfg-1")
        answer = await cell.running.send(verb, target, who="bob")
        assert answer.status == 405
        assert answer.header("Allow")
        shown.append(answer.shown)
    assert shown[0] == shown[1]
    assert untouched(), "the agent was asked"


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "POST"])
async def test_json_rpc_needs_post(at: At, verb: str) -> None:
    row = next(r for r in ROWS if r.jsonrpc and r.dialect.version is Version.V1_0)
    cell = await at(row)
    untouched = cell.untouched()
    request = row.anyhow("t")
    answer = await cell.running.send(verb, "/", data=request.body, headers=request.headers)
    assert answer.status == 405
    assert untouched(), "the agent was asked"
