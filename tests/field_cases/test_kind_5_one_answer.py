"""Kind 5, what does not exist has one look, and an id is exactly itself: FC-069, FC-071."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from sidecar.model import SENDS, Operation
from tests.edge.agent import Agent
from tests.edge.conftest import Answer, Start
from tests.field_cases.doors import Asking, a_line, a_task_in, on_the_wire, undated
from tests.matrix.agent import not_found
from tests.matrix.cells import Asked, a_random_id, cases, every_cell, picks
from tests.matrix.conftest import At, Cell
from tests.matrix.forms import require_error, require_not_found
from tests.matrix.requests import Request, Row

in_session = pytest.mark.asyncio(loop_scope="session")
NAMING = [asked for asked in every_cell() if not picks(asked)]  # where an id nobody has is not found


# --- FC-069 --------------------------------------------------------------------------------------

# What callers and proxies vary. Each is compared with itself, foreign against absent.
MANNERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "plainly": ("1.1", ()),
    "accepting anything": ("1.1", ("Accept: */*",)),
    "accepting JSON": ("1.1", ("Accept: application/json",)),
    "accepting an event stream": ("1.1", ("Accept: text/event-stream",)),
    "accepting what is not there": ("1.1", ("Accept: text/html;q=0.9", "Accept-Language: de")),
    "accepting compression": ("1.1", ("Accept-Encoding: gzip, br, zstd",)),
    "by HTTP/1.0": ("1.0", ()),
    "by HTTP/1.0, kept alive": ("1.0", ("Connection: keep-alive",)),
    "with a request id": ("1.1", ("X-Request-Id: r-1",)),
}
LENGTHS = (1, 36, 300)


async def raw_answer(
    cell: Cell, request: Request, token: str, version: str, headers: tuple[str, ...]
) -> bytes:
    """Every byte of the answer but the date. Read to its length where the connection stays open."""
    keeps = "Connection: keep-alive" in headers
    sent = on_the_wire(request, token, *headers, version=version, close=version == "1.1")
    async with a_line(cell.running.app.traffic[1], sent) as line:
        if not keeps:
            return undated(await line.rest())
        head = await line.until(b"\r\n\r\n")
        length = next(h for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:"))
        return undated(head + await line.reader.readexactly(int(length.split(b":")[1])))


@in_session
@pytest.mark.parametrize("asked", cases(a for a in NAMING if not a.snake))
async def test_fc_069_not_found_is_one_answer_to_the_byte(at: At, asked: Asked) -> None:
    """The bytes are ours for every cause (design §2.6): the agent's own words differ by operation."""
    cell = await at(asked.row)
    task = await a_task_in(cell, "working")
    token = cell.running.token("mallory")
    untouched = cell.untouched()
    for version, headers in MANNERS.values():
        foreign = await raw_answer(cell, asked.request(task), token, version, headers)
        absent = await raw_answer(cell, asked.request(a_random_id()), token, version, headers)
        assert foreign == absent
        assert b" 200 OK" in foreign[:20] if asked.row.jsonrpc else b" 404 " in foreign[:20]
    plain = await cell.ask(borne(asked.request(task), token), None)
    require_not_found(asked.row, plain)
    for named in [*(a_random_id() for _ in range(20)), *("x" * length for length in LENGTHS)]:
        assert (await cell.ask(borne(asked.request(named), token), None)).shown == plain.shown
    assert untouched(), "the agent was asked"


MASKED = SENDS | {Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK}


@in_session
@pytest.mark.parametrize(
    "asked",
    cases(a for a in NAMING if a.row.operation in MASKED and a.place in ("", "continues") and not a.snake),
)
async def test_fc_069_the_agents_own_not_found_is_that_answer_too(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    task = await a_task_in(cell, "working")
    foreign = await cell.ask(asked.request(task), "mallory")
    cell.agent.script = not_found(asked.row, task)
    assert (await cell.ask(asked.request(task), "alice")).shown == foreign.shown


def borne(request: Request, bearer: str) -> Request:
    """The request with this credential: minting one for each of thousands would be what takes the time."""
    return replace(request, headers=request.headers | {"Authorization": f"Bearer {bearer}"})


# --- FC-071 --------------------------------------------------------------------------------------

SPELLINGS: Mapping[str, Callable[[str], Any]] = {
    "in upper case": str.upper,
    "with a blank before it": lambda t: f" {t}",
    "with a blank after it": lambda t: f"{t} ",
    "with a tab after it": lambda t: f"{t}\t",
    "with a line end after it": lambda t: f"{t}\n",
    "with a NUL after it": lambda t: f"{t}\0",
    "with an escaped NUL after it": lambda t: f"{t}%00",
    "escaped": lambda t: "".join(f"%{ord(c):02x}" for c in t),
    "with full-width digits": lambda t: t.translate({ord("0") + d: ord("０") + d for d in range(10)}),
    "with a soft hyphen": lambda t: f"{t[:4]}\u00ad{t[4:]}",
    "with a zero-width blank": lambda t: f"{t}\u200b",
    "with a BOM": lambda t: f"\ufeff{t}",
    "with a dot after it": lambda t: f"{t}.",
    "with an owner": lambda t: f"{t}:owner",
    "as a pattern": lambda t: f"{t}*",
    "as an SQL pattern": lambda t: f"{t[:-1]}%",
    "as an SQL pattern of one": lambda t: f"{t[:-1]}_",
    "closing a quote": lambda t: f"{t}'--",
    "with an SQL condition": lambda t: f"x' OR id='{t}",
    "as a command of a store": lambda t: f"{t}\r\nDEL {t}",
    "as a resource name": lambda t: f"tasks/{t}",
    "one step up": lambda t: f"../{t}",
    "beside another": lambda t: f"x/../{t}",
    "twice": lambda t: f"{t},{t}",
    "as nothing": lambda t: "",
    "as too much": lambda t: t * (300_000 // len(t)),
    "as a little too much": lambda t: t + "x" * 1025,
}


def spelt(asked: Asked, task: str, spelling: Callable[[str], Any]) -> Request:
    """The request with the id so written: as JSON has it, and percent-encoded once in a path."""
    request = asked.request("PLACEHOLDER")
    value = spelling(task)
    body = request.body
    if body is not None:
        body = body.replace(b"PLACEHOLDER", json.dumps(value)[1:-1].encode())
    return replace(request, target=request.target.replace("PLACEHOLDER", quote(value, safe="")), body=body)


def refused_as_unreadable(row: Row, answer: Answer) -> bool:
    """refuse-parse, or a path that is none (an id of nothing, or one a request line has no room for)."""
    if not row.jsonrpc:
        return answer.status in (400, 404, 405, 414, 431)
    text = answer.body.removeprefix(b"data: ")
    return answer.status == 200 and json.loads(text)["error"]["code"] in (-32700, -32600, -32602)


@in_session
@pytest.mark.parametrize("asked", cases(a for a in NAMING if not a.snake))
async def test_fc_071_an_id_is_itself_and_no_other_spelling(at: At, asked: Asked) -> None:
    """For the owner as for anybody: what the agent might fold onto the task must not reach it unjudged."""
    cell = await at(asked.row)
    task = await a_task_in(cell, "working")
    while not (set("abcdef") & set(task) and set("0123456789") & set(task)):
        task = await a_task_in(cell, "working")
    untouched = cell.untouched()
    for who in ("alice", "mallory"):
        bearer = cell.running.token(who)
        absent = await cell.ask(borne(asked.request(a_random_id()), bearer), None)
        require_not_found(asked.row, absent)
        for name, spelling in SPELLINGS.items():
            if name == "as nothing" and asked.row.operation in SENDS and asked.place != "refers to":
                continue  # FC-172: an empty task id of a send names none
            answer = await cell.ask(borne(spelt(asked, task, spelling), bearer), None)
            assert answer.shown == absent.shown or refused_as_unreadable(asked.row, answer), (name, who)
    assert untouched(), "the agent was asked"


@in_session
@pytest.mark.parametrize("asked", cases(a for a in NAMING if a.row.jsonrpc and not a.snake))
async def test_fc_071_only_a_string_is_an_id(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    untouched = cell.untouched()
    request = asked.request("PLACEHOLDER")
    assert request.body is not None
    for value in (7, 7.0, True, ["7"], {"id": "7"}):
        body = request.body.replace(b'"PLACEHOLDER"', json.dumps(value).encode())
        for who in ("alice", "mallory"):
            answer = await cell.ask(replace(request, body=body), who)
            require_error(asked.row, answer, jsonrpc=-32602, http=400)
    assert untouched(), "the agent was asked"


async def test_fc_071_an_overlong_id_is_refused_before_any_look_up(start: Start, agent: Agent) -> None:
    ledger = Asking()
    running = await start(ledger)
    for size in (1025, 1_000_000):
        for method, params in (
            ("GetTask", {"id": "x" * size}),
            ("SendMessage", {"message": {"messageId": "m", "parts": [], "contextId": "x" * size}}),
            ("tasks/get", {"id": "x" * size}),
        ):
            assert (await running.call(method, params)).json["error"]["code"] == -32602
    assert (await running.call("GetTask", {"id": "x" * 1024})).json["error"]["code"] == -32001
    assert ledger.ids == ["x" * 1024]
    assert agent.received == []
