"""What the edges promise a caller and a handler, seen below sockets. What only the lean one keeps says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict

from sidecar.app import Edge
from sidecar.config import Limits
from sidecar.model import Exchange, Refused, Reply
from sidecar.proxy.lean_edge import LeanServer
from tests.edge.conftest import eventually
from tests.edge.wires import Body, Listener, Told, Wire, connect

GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def saying(reply: Reply) -> Listener:
    return Listener(lambda _: reply)


def named(told: Told) -> Reply:
    return Reply(200, CIMultiDict(), told.target.encode())


class Gate:
    """An `answer` that waits to be opened, then reads the body and says which request it was."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked: list[str] = []
        self.bodies: list[bytes | None] = []
        self.cancelled = 0

    async def __call__(self, exchange: Exchange) -> Reply:
        self.asked.append(exchange.head.target)
        try:
            await self.open.wait()
            self.bodies.append(b"".join([chunk async for chunk in exchange.chunks()]))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        except Refused:
            self.bodies.append(None)
        return Reply(200, CIMultiDict(), exchange.head.target.encode())


def gated(edge: Edge) -> tuple[Gate, Wire]:
    gate = Gate()
    server: Any = edge(gate, Limits(), lambda: "d-1")
    return gate, Wire(server())


# --- requests --------------------------------------------------------------------------------------


async def test_a_head_that_is_too_large_as_a_whole_is_refused_in_whatever_pieces_it_comes() -> None:
    large = b"GET /2 HTTP/1.1\r\nHost: x\r\n" + b"".join(
        b"X-%d: %b\r\n" % (n, b"a" * 20_000) for n in range(4)
    )
    for pieces in ([GET % 1 + large + b"\r\n" + GET % 3], [GET % 1, large, b"\r\n"]):
        listener = Listener(named)
        wire = connect(LeanServer, listener)
        await wire.hear(*pieces)
        assert [told.target for told in listener.told] == ["/1"]
        sent = b"".join(wire.sent)
        assert sent.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"HTTP/1.1 431 " in sent
        assert wire.closing


async def test_a_head_begun_behind_another_request_is_no_larger_than_any() -> None:
    gate, wire = gated(LeanServer)
    large = b"GET /large HTTP/1.1\r\nHost: x\r\n" + b"X-A: %b\r\n" % (b"a" * 30_000) * 7 + b"\r\n"
    await wire.hear(GET % 0 + large[:200_000])
    await wire.hear(large[200_000:])
    gate.open.set()
    await wire.rest()
    assert gate.asked == ["/0"]
    assert wire.sent[-1].startswith(b"HTTP/1.1 431 ")


async def test_a_reply_before_the_body_was_read_arrives_whole() -> None:
    """Whoever was sending the body on is stopped, and may not have ended yet when the rest of it is read."""
    senders = []

    async def refuses(exchange: Exchange) -> Reply:
        body = exchange.chunks()
        sender = asyncio.create_task(anext(body))
        senders.append(sender)
        await asyncio.sleep(0)
        sender.cancel()
        return Reply(413, CIMultiDict(), b"too large")

    server: Any = LeanServer(refuses, Limits(), lambda: "d-1")
    wire = Wire(server())
    await wire.hear(POST % 10 + b"", b"hello", b"world")
    assert b"".join(wire.sent).endswith(b"too large")
    assert b"HTTP/1.1 500" not in b"".join(wire.sent)
    await asyncio.gather(*senders, return_exceptions=True)
    await eventually(lambda: wire.closing)


async def test_pipelined_requests_are_answered_one_at_a_time_in_order_and_reading_stops_meanwhile(
    edge: Edge,
) -> None:
    gate, wire = gated(edge)
    await wire.hear(b"".join(GET % n for n in range(200)))
    assert gate.asked == ["/0"]
    assert not wire.reading
    gate.open.set()
    await eventually(lambda: len(gate.asked) == 200)
    await wire.rest()
    assert gate.asked == [f"/{n}" for n in range(200)]
    assert [piece.rpartition(b"\r\n\r\n")[2] for piece in wire.sent] == [b"/%d" % n for n in range(200)]
    assert wire.reading
    await wire.hang_up()


async def test_bodies_that_come_late_do_not_use_up_the_places_of_pipelined_requests() -> None:
    """aiohttp's own server counts each of them as waiting for ever: after 32 it leaves a request lying."""
    listener = Listener(named)
    wire = connect(LeanServer, listener)
    for _ in range(40):
        await wire.hear(POST % 3, b"abc")
    await wire.hear((POST % 3 + b"abc") * 3)
    assert len(listener.told) == 43
    assert {told.body for told in listener.told} == {b"abc"}
    await wire.hear(*[(POST % 3 + b"abc") * 100] * 3)
    assert len(listener.told) == 343
    await wire.hang_up()


async def test_a_large_body_nobody_reads_yet_waits_with_the_caller(edge: Edge) -> None:
    gate, wire = gated(edge)
    piece, pieces = b"x" * 65536, 64
    await wire.hear(POST % (65536 * pieces), *[piece] * pieces)
    assert wire.stuck
    assert not wire.reading
    assert gate.bodies == []
    gate.open.set()
    await eventually(lambda: wire.reading)
    await wire.hear(*[piece] * (pieces + 1 - wire.heard))
    assert gate.bodies == [piece * pieces]
    await wire.hang_up()


@pytest.mark.parametrize("size", [2**19 - 1, 2**19, 2**19 + 1, 2**19 + 2**18 + 7])
async def test_a_body_around_the_mark_at_which_reading_stops_comes_whole(edge: Edge, size: int) -> None:
    gate, wire = gated(edge)
    body = bytes(size)
    await wire.hear(POST % size + body)
    gate.open.set()
    await eventually(lambda: gate.bodies)
    assert gate.bodies == [body]
    await wire.hear(POST % 1 + b"a")
    assert gate.bodies == [body, b"a"]
    await wire.hang_up()


async def test_broken_framing_is_told_to_whoever_reads_the_body_at_once() -> None:
    """aiohttp's own server leaves them waiting."""
    gate, wire = gated(LeanServer)
    gate.open.set()
    await wire.hear(
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", b"c\r\nno size\r\n"
    )
    assert gate.bodies == [None]
    assert wire.closing


async def test_what_follows_an_offered_upgrade_is_bounded(edge: Edge) -> None:
    gate, wire = gated(edge)
    offer = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    await wire.hear(offer, *[b"x" * 65536] * 16)
    assert wire.stuck
    assert not wire.reading
    gate.open.set()
    await eventually(lambda: wire.closing)  # an answer that is no 101 is the last
    assert gate.asked == ["/a"]


@pytest.mark.parametrize("asked", ["while it is read", "before it is read"])
async def test_a_body_nobody_wants_is_read_for_a_while_and_then_no_longer(edge: Edge, asked: str) -> None:
    listener = Listener(named, reads=False)
    wire = connect(edge, listener)
    if asked == "while it is read":
        await wire.hear(POST % 9 + b"abc", b"defghi" + GET % 2)
        assert [told.target for told in listener.told] == ["/a", "/2"]
    else:
        await wire.hear(POST % 9 + b"abc")
        assert not wire.closing
        await eventually(lambda: wire.closing)
        assert [told.target for told in listener.told] == ["/a"]
    await wire.hang_up()


# --- callers who leave, and who do not listen ------------------------------------------------------


async def test_a_caller_who_leaves_cancels_the_handler(edge: Edge) -> None:
    gate, wire = gated(edge)
    await wire.hear(GET % 1)
    assert gate.asked == ["/1"]
    await wire.hang_up()
    assert gate.cancelled == 1


@pytest.mark.parametrize("leaves", [True, False])
async def test_after_is_called_once_and_a_streamed_body_closed(edge: Edge, leaves: bool) -> None:
    called: list[int] = []
    go_on = asyncio.Event()

    class Slow(Body):
        async def __anext__(self) -> bytes:
            chunk = await super().__anext__()
            if chunk == b"two":
                await go_on.wait()
            return chunk

    body = Slow([b"one", b"two"])
    wire = connect(edge, saying(Reply(200, CIMultiDict(), body, after=lambda: called.append(1))))
    await wire.hear(GET % 1)
    assert b"3\r\none\r\n" in b"".join(wire.sent)
    assert called == []
    if not leaves:
        go_on.set()
        await wire.rest()
        assert wire.sent[-1].endswith(b"0\r\n\r\n")
    await wire.hang_up()
    await eventually(lambda: called)
    assert called == [1]
    assert body.closed


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_caller_who_takes_nothing_is_let_go(streamed: bool) -> None:
    """aiohttp's own server would add an error page to what a caller has of a whole body, and wait."""
    body = Body([b"x" * 2**20, b"y"]) if streamed else b"x" * 2**20
    called: list[int] = []
    listener = saying(Reply(200, CIMultiDict(), body, after=lambda: called.append(1)))
    wire = connect(LeanServer, listener, Limits(body_timeout=0.05))
    wire.full = True
    await wire.hear(GET % 1)
    assert called == []
    await eventually(lambda: wire.aborted)
    await eventually(lambda: called)
    assert called == [1]


async def test_a_caller_who_takes_it_slowly_gets_it_all(edge: Edge) -> None:
    wire = connect(edge, saying(Reply(200, CIMultiDict(), Body([b"x" * 2**17] * 3))))
    wire.full = True
    await wire.hear(GET % 1)
    sent = len(b"".join(wire.sent))
    assert sent < 2 * 2**17
    wire.take()
    await wire.rest()
    assert len(b"".join(wire.sent)) > 3 * 2**17
    assert not wire.closing
    await wire.hang_up()


async def test_silence_ends_a_connection(edge: Edge) -> None:
    wire = connect(edge, Listener(named), Limits(idle_timeout=0.05))
    await wire.hear(GET % 1)
    await eventually(lambda: wire.closing)
    assert len(wire.sent) == 1


async def test_a_caller_still_speaking_reads_why_the_connection_ends() -> None:
    """Closed at once, the bytes we did not read would make the system take back the page as well (RFC 9112 §9.6)."""
    server: Any = LeanServer(Listener(named), Limits(), lambda: "d-1")
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        async with asyncio.timeout(10):
            writer.write(b"garbage\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n")
            for _ in range(20):
                writer.write(b"x" * 65536)
                await writer.drain()
            assert b"the request is not valid" in await reader.read()
        writer.close()
    finally:
        await runner.cleanup()


# --- what is written -------------------------------------------------------------------------------


async def test_a_small_reply_is_one_write() -> None:
    wire = connect(LeanServer, saying(Reply(200, CIMultiDict({"X": "1"}), b"{}" * 1000)))
    await wire.hear(GET % 1)
    (sent,) = wire.sent
    assert sent.endswith(b"Content-Length: 2000\r\n" + sent.partition(b"2000\r\n")[2])
    assert sent.endswith(b"\r\n\r\n" + b"{}" * 1000)
    await wire.hang_up()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nSet-Cookie: b"),
        ("X", "a\nb"),
        ("X", "a\rb"),
        ("X", "a\0b"),
        ("X", "a\x7fb"),
        ("X\r\nY", "a"),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_field_that_would_be_more_than_one_is_never_written(
    edge: Edge, name: str, value: str, streamed: bool
) -> None:
    await require_unwritten(edge, name, value, streamed=streamed)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_field_that_is_no_text_is_never_written(streamed: bool) -> None:
    """aiohttp's server drops it, and with it bytes that an agent sent."""
    await require_unwritten(LeanServer, "X", "\ud800", streamed=streamed)


async def require_unwritten(edge: Edge, name: str, value: str, *, streamed: bool) -> None:
    body = Body([b"secret"]) if streamed else b"secret"
    wire = connect(edge, saying(Reply(200, CIMultiDict({name: value}), body)))
    await wire.hear(GET % 1)
    assert wire.closing
    sent = b"".join(wire.sent)
    assert b"Set-Cookie" not in sent
    assert b"secret" not in sent
    assert sent == b"" or sent.startswith(b"HTTP/1.1 500 ")
    if isinstance(body, Body):
        assert body.closed


async def test_bytes_of_an_agents_field_go_on_as_they_came() -> None:
    wire = connect(LeanServer, saying(Reply(200, CIMultiDict({"X": "caf\udce9"}), b"")))
    await wire.hear(GET % 1)
    assert b"X: caf\xe9\r\n" in wire.sent[0]
    await wire.hang_up()


@pytest.mark.parametrize("asked", [GET % 1, b"GET / HTTP/1.0\r\n\r\n"], ids=["1.1", "1.0"])
async def test_a_stream_shorter_than_declared_is_broken_off(asked: bytes) -> None:
    """Kept, the connection would give its caller the next reply as the rest of this one."""
    body = Body([b"one"])
    wire = connect(LeanServer, saying(Reply(200, CIMultiDict(), body, 6)))
    await wire.hear(asked, GET % 2)
    assert wire.aborted
    assert b"".join(wire.sent).count(b"HTTP/1.") == 1
    assert body.closed


async def test_a_handler_that_fails_shows_nothing(edge: Edge) -> None:
    async def fails(exchange: Exchange) -> Reply:
        raise ValueError("secret")

    server: Any = edge(fails, Limits(), lambda: "d-1")
    wire = Wire(server())
    await wire.hear(GET % 1 + GET % 2)
    (page,) = wire.sent
    assert page.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in page
    assert wire.closing
