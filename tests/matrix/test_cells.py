"""Every operation in every dialect: one answer to strangers, no change for the owner.

What a cell is: one row of the protocol's tables, one place in it that can name a task, one spelling.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sidecar.model import SENDS, Operation, Version
from tests.matrix.agent import answering, not_found, replying
from tests.matrix.cells import RPC_IDS, Asked, a_random_id, cases, every_cell, picks
from tests.matrix.conftest import At
from tests.matrix.forms import require_error, require_not_found, require_unauthenticated, told
from tests.matrix.requests import CARDS, LISTS, ROWS, Names, Row

pytestmark = pytest.mark.asyncio(loop_scope="session")

V0_1 = Version.V0_1

# --- the stranger ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", cases(a for a in every_cell() if not picks(a)))
async def test_another_callers_task_answers_as_one_that_never_was(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    task = await cell.a_task_of("alice")
    untouched = cell.untouched()
    for rpc_id in RPC_IDS if asked.row.jsonrpc else (1,):
        foreign = await cell.ask(asked.request(task, rpc_id), "bob")
        absent = await cell.ask(asked.request(a_random_id(), rpc_id), "bob")
        assert foreign.shown == absent.shown
        require_not_found(asked.row, foreign, rpc_id)
        assert task.encode() not in foreign.body
    assert untouched(), "the agent was asked"


@pytest.mark.parametrize("asked", cases(a for a in every_cell() if picks(a)))
async def test_0_1_an_id_that_is_taken_is_not_found_and_goes_no_further(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    task = await cell.a_task_of("alice")
    untouched = cell.untouched()
    for rpc_id in RPC_IDS:
        require_not_found(asked.row, await cell.ask(asked.request(task, rpc_id), "bob"), rpc_id)
    assert untouched(), "the agent was asked"


@pytest.mark.parametrize("asked", cases(a for a in every_cell() if "webhook" in a.place))
async def test_a_webhook_is_not_slipped_onto_another_task_than_the_one_named(at: At, asked: Asked) -> None:
    """An inline push config that names a task the message does not is refused, whosever the task is."""
    cell = await at(asked.row)
    task, own, other = [await cell.a_task_of(who) for who in ("alice", "bob", "bob")]
    untouched = cell.untouched()
    for message in (None, own):
        foreign, absent, mine = [
            await cell.ask(asked.row.sending(Names(message, inline=named), snake=asked.snake), "bob")
            for named in (task, a_random_id(), other)
        ]
        assert foreign.shown == absent.shown == mine.shown
        require_error(asked.row, foreign, jsonrpc=-32602, http=400)
    assert untouched(), "the agent was asked"


# --- the owner -------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", cases(every_cell()))
async def test_the_owners_call_and_its_answer_pass_unchanged(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    task = await cell.a_task_of("alice")
    request = asked.request(task)
    # What only refers to a task makes a new one; in 0.1 under the id the caller picked.
    shown = task if asked.place != "refers to" else a_random_id()
    if asked.row.dialect.version is V0_1 and asked.place == "refers to":
        picked = Names(shown, (task,))
        request = asked.row.sending(picked, snake=asked.snake)
    cell.agent.script, said = replying(asked.row, shown, context=f"c-{task}")
    answer = await cell.ask(request, "alice")
    got = cell.agent.received[-1]
    assert (got.method, got.target, got.body) == (request.method, request.target, request.body or b"")
    for name in ("A2A-Version", "Content-Type"):
        assert got.values(name) == [v for k, v in request.headers.items() if k == name]
    assert answer.status in (200, 204)
    assert answer.body == said
    assert answer.header("X-From") == "the agent"


# --- nobody ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", cases(every_cell()))
async def test_without_a_credential_nothing_is_told_but_that(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    task = await cell.a_task_of("alice")
    untouched = cell.untouched()
    for rpc_id in RPC_IDS if asked.row.jsonrpc else (1,):
        answer = await cell.ask(asked.request(task, rpc_id), None)
        require_unauthenticated(asked.row, answer, rpc_id)
        assert answer.shown == (await cell.ask(asked.request(a_random_id(), rpc_id), None)).shown
    assert untouched(), "the agent was asked"


# --- the agent's own not-found ---------------------------------------------------------------------

MASKED = SENDS | {Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK}


def that_may_be_purged() -> Iterator[Asked]:
    return (
        a for a in every_cell() if a.row.operation in MASKED and a.place in ("", "continues") and not a.snake
    )


@pytest.mark.parametrize("asked", cases(that_may_be_purged()))
async def test_what_the_agent_itself_has_forgotten_answers_in_our_form(at: At, asked: Asked) -> None:
    cell = await at(asked.row)
    task = await cell.a_task_of("alice")
    cell.agent.script = not_found(asked.row, task)
    purged = await cell.ask(asked.request(task), "alice")
    assert task.encode() in cell.agent.received[-1].target.encode() + cell.agent.received[-1].body
    require_not_found(asked.row, purged)
    if not picks(asked):
        assert purged.shown == (await cell.ask(asked.request(a_random_id()), "alice")).shown
    assert task.encode() not in purged.body


@pytest.mark.parametrize("asked", cases(a for a in that_may_be_purged() if a.row.streams))
async def test_a_stream_that_begins_with_not_found_says_so_in_our_words(at: At, asked: Asked) -> None:
    """Agents in Go and Java answer every stream call with a stream. Its head has left by then, the text has not."""
    cell = await at(asked.row)
    task = await cell.a_task_of("alice")
    cell.agent.script = not_found(asked.row, task, as_event=True)
    purged = await cell.ask(asked.request(task), "alice")
    assert purged.status == 200
    assert purged.header("Content-Type") == "text/event-stream"
    assert task.encode() not in purged.body
    assert b"Task not found" in purged.body
    assert purged.body.endswith(b"\n\n")


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ROWS if r.operation.startswith("push")])
async def test_the_agents_word_on_webhooks_passes_unchanged(at: At, row: Row) -> None:
    """A push config may be missing where its task is not: only the agent knows which."""
    cell = await at(row)
    task = await cell.a_task_of("alice")
    cell.agent.script = not_found(row, task)
    answer = await cell.ask(row.on_a_task(task), "alice")
    assert f"Task {task} was not found in the task store".encode() in answer.body


# --- lists and cards -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.dialect} {r.name}") for r in ROWS if r.key in LISTS])
async def test_lists_are_of_the_callers_own_and_never_the_agents(at: At, row: Row) -> None:
    cell = await at(row)
    who = f"lister-{uuid.uuid4()}"
    task = await cell.a_task_of(who)
    get = next(r for r in ROWS if r.dialect == row.dialect and r.operation is Operation.GET_TASK)
    cell.agent.script, _ = replying(get, task, context=f"c-{task}")
    for rpc_id in RPC_IDS if row.jsonrpc else (1,):
        answer = await cell.ask(row.plain(rpc_id), who)
        assert answer.status == 200
        page = answer.json["result"] if row.jsonrpc else answer.json
        assert not row.jsonrpc or answer.json["id"] == rpc_id
        assert ([t["id"] for t in page["tasks"]], page["totalSize"]) == ([task], 1)
        asked = cell.agent.received[-1]
        assert task in asked.target + asked.body.decode()
        assert asked.method == ("POST" if row.jsonrpc else "GET")

        untouched = cell.untouched()
        nobody = await cell.ask(row.plain(rpc_id), "somebody without tasks")
        page = nobody.json["result"] if row.jsonrpc else nobody.json
        assert page == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
        require_unauthenticated(row, await cell.ask(row.plain(rpc_id), None), rpc_id)
        assert untouched(), "the agent was asked"


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.dialect} {r.name}") for r in ROWS if r.key in CARDS])
async def test_the_extended_card_is_the_callers_own_and_leads_to_us(at: At, row: Row) -> None:
    cell = await at(row)
    untouched = cell.untouched()
    require_unauthenticated(row, await cell.ask(row.plain(), None))
    assert untouched(), "the agent was asked"
    card = cell.agent.card | {"description": "extended"}
    said = {"jsonrpc": "2.0", "id": 1, "result": card} if row.jsonrpc else card
    cell.agent.script = answering(said)
    request = row.plain()
    answer = await cell.ask(request, "alice")
    got = cell.agent.received[-1]
    assert (got.method, got.target, got.body) == (request.method, request.target, request.body or b"")
    body = told(row, answer)
    shown = body["result"] if row.jsonrpc else body
    assert shown["description"] == "extended"
    assert {i["url"] for i in shown["supportedInterfaces"]} == {"https://agents.test/review/"}
