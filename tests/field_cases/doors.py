"""What the cases of ownership and of streams share: tasks in a given state, events of every dialect, and connections
of which each byte counts.

Owns: making both in the form of a row of the protocol's tables.
Never: says what an answer should be.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from sidecar.ledger.memory import MemoryLedger
from sidecar.model import SENDS, Binding, Operation, Version
from tests.edge.agent import Script
from tests.edge.conftest import Answer
from tests.matrix.agent import replying
from tests.matrix.cells import a_random_id
from tests.matrix.conftest import Cell
from tests.matrix.requests import ROWS, Names, Request, Row

V0_1, V1_0 = Version.V0_1, Version.V1_0
EVENTS = "text/event-stream"


def each(rows: Any) -> list[Any]:
    """Rows as parameters, each named as its users know it."""
    return [pytest.param(row, id=f"{row.dialect} {row.name}") for row in rows]


SENDING = [row for row in ROWS if row.operation in SENDS]
STREAMING = [row for row in ROWS if row.streams]


def row_of(like: Row, operation: Operation) -> Row:
    """The first row of another operation in the same dialect."""
    return next(row for row in ROWS if row.dialect == like.dialect and row.operation is operation)


# --- what an agent says --------------------------------------------------------------------------


def in_state(said: bytes, state: str) -> bytes:
    """A reply of `tests.matrix.agent` with its task in another state (`input-required`)."""
    modern = f'"TASK_STATE_{state.upper().replace("-", "_")}"'.encode()
    return said.replace(b'"TASK_STATE_WORKING"', modern).replace(b'"working"', f'"{state}"'.encode())


def says(
    body: bytes, media_type: str | None = "application/json", status: int = 200, **headers: str
) -> Script:
    """A script that answers with these bytes. A stream leaves in one piece."""
    return says_in_pieces([body], media_type, status, **headers)


def says_in_pieces(
    pieces: list[bytes], media_type: str | None = EVENTS, status: int = 200, **headers: str
) -> Script:
    """A script that answers with these bytes, each piece on its way before the next is written."""

    async def script(request: web.Request, _: bytes) -> web.StreamResponse:
        response = web.StreamResponse(
            status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        if media_type:
            response.headers["Content-Type"] = media_type
        else:
            response.headers["Content-Type"] = ""  # else aiohttp would make one up
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)  # lets the sidecar, in this same loop, read it alone
        return response

    return script


def wrapped(row: Row, value: Any, rpc_id: Any = 1) -> Any:
    return {"jsonrpc": "2.0", "id": rpc_id, "result": value} if row.jsonrpc else value


def bare(row: Row) -> bool:
    """Whether results are told apart by `kind` and stand unwrapped (JSON-RPC before 1.0)."""
    return row.dialect.binding is Binding.JSONRPC and row.dialect.version is not V1_0


def a_status(row: Row, task: str, context: str | None = None, **more: Any) -> Any:
    """A status event of this dialect."""
    context = context or f"c-{task}"
    if row.dialect.version is V0_1:
        return wrapped(row, {"id": task, "status": {"state": "working"}, "final": False, **more})
    named = {"taskId": task, "contextId": context}
    if bare(row):
        status = {"kind": "status-update", **named, "status": {"state": "working"}, "final": False}
        return wrapped(row, status | more)
    return wrapped(row, {"statusUpdate": {**named, "status": {"state": "TASK_STATE_WORKING"}, **more}})


def an_artifact(row: Row, task: str, context: str | None = None, text: str = "text") -> Any:
    """An artifact event of this dialect."""
    if row.dialect.version is V0_1:
        artifact = {"parts": [{"type": "text", "text": text}], "index": 0}
        return wrapped(row, {"id": task, "artifact": artifact})
    named = {"taskId": task, "contextId": context or f"c-{task}"}
    part = {"kind": "text", "text": text} if bare(row) else {"text": text}
    event = {**named, "artifact": {"artifactId": "a", "parts": [part]}}
    return wrapped(row, {"kind": "artifact-update", **event} if bare(row) else {"artifactUpdate": event})


def a_whole_task(row: Row, task: str, context: str | None = None, **more: Any) -> Any:
    """A task as the first event of a stream, or as the answer to a send."""
    context = context or f"c-{task}"
    if row.dialect.version is V0_1:
        return wrapped(
            row, {"id": task, "sessionId": context, "status": {"state": "working"}, "history": [], **more}
        )
    if bare(row):
        return wrapped(
            row, {"kind": "task", "id": task, "contextId": context, "status": {"state": "working"}, **more}
        )
    value = {"id": task, "contextId": context, "status": {"state": "TASK_STATE_WORKING"}, **more}
    return wrapped(row, {"task": value})


def a_message(row: Row, context: str, **more: Any) -> Any:
    """A message as an answer or an event."""
    said = {"messageId": "m-9", "contextId": context, **more}
    if bare(row):
        return wrapped(
            row, {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]} | said
        )
    parts = "content" if row.dialect.version is not V1_0 else "parts"
    return wrapped(row, {"message": {"role": "ROLE_AGENT", parts: [{"text": "hi"}], **said}})


def sse(value: Any, end: bytes = b"\n") -> bytes:
    return b"data: " + json.dumps(value).encode() + end + end


# --- tasks and their owners ----------------------------------------------------------------------


async def a_task_in(cell: Cell, state: str, who: str = "alice", context: str | None = None) -> str:
    """A task `who` submitted and that the ledger has last seen in `state`. Its context is `c-<task>`."""
    made = a_random_id()
    create = next(r for r in ROWS if r.dialect == cell.row.dialect and r.operation in SENDS)
    names = Names(made) if create.dialect.version is V0_1 else Names()
    _, said = replying(create, made, context=context or f"c-{made}")
    cell.agent.script = says(in_state(said, state))
    answer = await cell.ask(create.sending(names), who)
    assert answer.status == 200
    assert made.encode() in answer.body
    return made


async def gets(cell: Cell, who: str, task: str, context: str | None = None) -> bool:
    """Whether `who` may get `task`. The agent would answer anybody, so this is the ledger's word alone."""
    get = row_of(cell.row, Operation.GET_TASK)
    cell.agent.script, _ = replying(get, task, context=context or f"c-{task}")
    before = len(cell.agent.received)
    answer = await cell.ask(get.on_a_task(task), who)
    reached = len(cell.agent.received) > before
    assert reached is (task.encode() in answer.body)
    return reached


async def until_gets(cell: Cell, who: str, task: str) -> None:
    """Wait until `who` is the owner. Waits in vain for whoever is not."""
    async with asyncio.timeout(10):
        while not await gets(cell, who, task):
            await asyncio.sleep(0.01)


async def require_owned_by_alice_alone(cell: Cell, task: str) -> None:
    assert await gets(cell, "alice", task), "alice does not own it"
    assert not await gets(cell, "mallory", task), "a stranger may have it"


class Asking(MemoryLedger):
    """A ledger that remembers the ids it was asked for and given."""

    def __init__(self) -> None:
        super().__init__(now=time.time)
        self.ids: list[str] = []

    async def facts(self, owner: Any, resources: Any) -> Any:
        self.ids += [resource.id for resource in resources]
        return await super().facts(owner, resources)

    async def record(self, owner: Any, entries: Any) -> Any:
        self.ids += [entry.resource.id for entry in entries]
        return await super().record(owner, entries)


async def a_stream_of(cell: Cell) -> tuple[str, Request]:
    """A request that alice may make and that is answered by a stream about the task beside it."""
    row = cell.row
    if row.operation in SENDS:
        made = a_random_id()
        return made, row.sending(Names(made if row.dialect.version is V0_1 else None))
    task = await a_task_in(cell, "working")
    return task, row.on_a_task(task)


# --- connections ---------------------------------------------------------------------------------


@dataclass
class Line:
    """One connection of a caller."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> Answer:
        """Status line and headers of what comes next."""
        async with asyncio.timeout(10):
            start, *lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        pairs = [line.decode().split(":", 1) for line in lines]
        return Answer(int(start.split()[1]), [(k, v.strip()) for k, v in pairs], b"")

    async def until(self, mark: bytes) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.readuntil(mark)

    async def rest(self) -> bytes:
        """All that still comes, until the other side closes or resets."""
        got = b""
        async with asyncio.timeout(10):
            try:
                while piece := await self.reader.read(65536):
                    got += piece
            except ConnectionError:
                pass
        return got

    def reset(self) -> None:
        """Leave with RST instead of FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def on_the_wire(
    request: Request, token: str | None, *headers: str, version: str = "1.1", close: bool = True
) -> bytes:
    """A request of the tables, byte for byte."""
    lines = [f"{request.method} {request.target} HTTP/{version}", "Host: agents.test"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"Content-Length: {len(request.body)}"] if request.body is not None else []
    lines += [*headers, *(["Connection: close"] if close else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (request.body or b"")


@asynccontextmanager
async def a_line(port: int, sent: bytes, *, receive_buffer: int | None = None) -> AsyncIterator[Line]:
    """A connection on which this was sent; it is dropped when left."""
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=2**20)
    writer.write(sent)
    try:
        yield Line(reader, writer)
    finally:
        writer.transport.abort()


END = b"0\r\n\r\n"  # the last chunk: a neat end


def unchunked(framed: bytes) -> bytes:
    """The body of a chunked reply, as far as it came."""
    body = b""
    while framed:
        size, _, framed = framed.partition(b"\r\n")
        body, framed = body + framed[: int(size, 16)], framed[int(size, 16) + 2 :]
    return body


def undated(raw: bytes) -> bytes:
    """A whole reply without its date."""
    head, mark, body = raw.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"date:")]
    return b"\r\n".join(lines) + mark + body
