"""Connections to the agent: used again only when clean, never shared by two replies, given up whole."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from multidict import CIMultiDict

from sidecar.model import Reason, Refused
from sidecar.proxy.hop import MOST_UNREAD, HopReply
from sidecar.proxy.hop_pool import Hops
from tests.certificates import Authority
from tests.hop.clients import LIMITS
from tests.hop.scripted import Connection, Script, Upstream, says

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
BEGUN = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"
MUCH = 64 * 2**20  # bytes: more than any socket holds


async def ask(hops: Hops, body: bytes | AsyncIterator[bytes] | None = b"", **headers: str) -> HopReply:
    sent = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return await hops.request("POST", "/a?b=c", sent, body)


async def read(reply: HopReply) -> bytes:
    async with aclosing(reply):
        return b"".join([chunk async for chunk in reply])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def refused(work: Awaitable[object]) -> Reason:
    with pytest.raises(Refused) as raised:
        await work
    return raised.value.refusal.reason


class Pool:
    """The hops to an upstream, closed at the end."""

    def __init__(self, upstream: Upstream, **limits: float) -> None:
        self.hops = Hops(upstream.url, LIMITS.model_copy(update=limits), dict)

    async def __aenter__(self) -> Hops:
        return self.hops

    async def __aexit__(self, *_: object) -> None:
        await self.hops.close()
        assert not self.hops._all, "nothing is left open"


# --- one after the other --------------------------------------------------------------------------


async def test_a_clean_connection_is_used_again() -> None:
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        assert [await read(await ask(hops)) for _ in range(5)] == [b"hello"] * 5
        assert len(upstream.connections) == 1


async def test_what_is_sent() -> None:
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        await read(await ask(hops, b"abc", X_A="1", Content_Length="99", Host="elsewhere"))
        await read(await ask(hops, pieces(b"ab", b"", b"c")))
        await read(await ask(hops, pieces(b"ab", b"c"), Content_Length="3"))
        assert [request.partition(b"Host: ")[2].partition(b"\r\n")[2] for request in upstream.requests] == [
            b"X-A: 1\r\nContent-Length: 3\r\n\r\nabc",
            b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            b"Content-Length: 3\r\n\r\nabc",
        ]
        assert {request.partition(b"\r\n")[0] for request in upstream.requests} == {b"POST /a?b=c HTTP/1.1"}


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 40_000
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        await read(await ask(hops, body))
        assert upstream.requests[0].endswith(body)


@pytest.mark.parametrize("value", ["1\r\nX-B: 2", "1\nX-B: 2", "1\0"])
async def test_a_field_cannot_become_two(value: str) -> None:
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        with pytest.raises(ValueError, match="line break"):
            await ask(hops, X_A=value)
        assert not upstream.connections


@pytest.mark.parametrize(
    ("body", "length"), [((b"ab",), "3"), ((b"ab", b"cd"), "3")], ids=["too short", "too long"]
)
async def test_a_body_that_is_not_as_long_as_it_said(body: tuple[bytes, ...], length: str) -> None:
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        assert await refused(ask(hops, pieces(*body), Content_Length=length)) is Reason.AGENT_FAILED
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 2, "half a request is on the first"


# --- what must not be used again ------------------------------------------------------------------


async def test_an_abandoned_reply_takes_its_connection_along() -> None:
    async with Upstream(says(BEGUN)) as upstream, Pool(upstream) as hops:
        reply = await ask(hops)
        await reply.aclose()
        upstream.script = says(HELLO)
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 2


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nConte"], ids=["before", "within the head"])
async def test_a_call_that_is_cancelled_takes_its_connection_along(said: bytes) -> None:
    async with Upstream(says(said)) as upstream, Pool(upstream) as hops:
        call = asyncio.create_task(ask(hops))
        await until(lambda: len(upstream.requests) == 1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        upstream.script = says(HELLO)
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 2


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_a_call_that_is_cancelled_while_it_connects_leaves_nothing(tls: bool, tmp_path: Path) -> None:
    """uvloop closes a connection whose maker was cancelled without a word to its protocol."""
    authority = Authority()
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(*authority.server().write(tmp_path, "agent"))
    trusting = {"ssl": authority.trusting()} if tls else {}
    async with Upstream(says(HELLO), tls=shown if tls else None) as upstream:
        hops = Hops(upstream.url, LIMITS, lambda: trusting)
        for turns in range(40):
            call = asyncio.create_task(ask(hops))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            if not call.cancelled():
                await call.result().aclose()
        await until(lambda: not hops._all)
        assert hops._opening == 0
        async with asyncio.timeout(20):
            await hops.close()


async def test_bytes_nobody_asked_for_end_an_idle_connection() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(HELLO)
        await read_.wait()
        await connection.say(HELLO.replace(b"hello", b"EVIL!"))
        await connection.gone()

    read_ = asyncio.Event()
    async with Upstream(script) as upstream, Pool(upstream) as hops:
        assert await read(await ask(hops)) == b"hello"
        read_.set()
        await until(lambda: not hops._idle)
        upstream.script = says(HELLO)
        assert await read(await ask(hops)) == b"hello"


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("POST", b"HTTP/1.1 204 No Content\r\nContent-Length: 45\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 45\r\n\r\n"),
    ],
    ids=["HEAD", "HEAD, chunked", "204", "304"],
)
async def test_a_body_that_should_not_be_there_is_nobodys_reply(method: str, head: bytes) -> None:
    """An agent that sends it all the same may send it a moment later."""
    later = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(head)
        await later.wait()
        await connection.say(HELLO.replace(b"hello", b"EVIL!"))
        await connection.gone()

    async with Upstream(script) as upstream, Pool(upstream) as hops:
        assert await read(await hops.request(method, "/", CIMultiDict(), None)) == b""
        upstream.script = says(HELLO)
        later.set()
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 2


async def test_the_last_request_on_a_connection_says_so() -> None:
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        await read(await hops.request("POST", "/", CIMultiDict(), pieces(b"a"), last=True))
        await read(await hops.request("POST", "/", CIMultiDict(), b"a", last=True))
        await read(await ask(hops))
        assert [b"Connection: close\r\n" in request for request in upstream.requests] == [True, True, False]
        assert len(upstream.connections) == 3


async def test_an_agent_that_ended_an_idle_connection_costs_nobody_a_call() -> None:
    async with Upstream(says(HELLO, end="close")) as upstream, Pool(upstream) as hops:
        for _ in range(3):
            assert await read(await ask(hops)) == b"hello"
            await until(lambda: not hops._idle)
        assert len(upstream.connections) == 3


async def test_what_was_sent_is_not_sent_again() -> None:
    """Invariant 10: the agent may have carried it out."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(HELLO)
        await connection.request()
        connection.reset()

    async with Upstream(script) as upstream, Pool(upstream) as hops:
        assert await read(await ask(hops)) == b"hello"
        assert await refused(ask(hops)) is Reason.AGENT_FAILED
        assert len(upstream.requests) == 2
        assert len(upstream.connections) == 1


async def test_an_idle_connection_is_gone_before_the_agents_patience_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sidecar.proxy.hop_pool.KEEPALIVE_SECONDS", 0.05)
    monkeypatch.setattr("sidecar.proxy.hop_pool._SWEEP_SECONDS", 0.01)
    async with Upstream(says(HELLO)) as upstream, Pool(upstream) as hops:
        await read(await ask(hops))
        await until(lambda: not hops._all)
        assert len(upstream.connections) == 1


# --- early replies, and bodies both ways ----------------------------------------------------------


async def test_a_reply_before_the_body_is_sent_is_a_reply() -> None:
    never = asyncio.Event()
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            yield b"begun"
            await never.wait()
        finally:
            closed.set()

    async def script(connection: Connection) -> None:
        await connection.reader.readuntil(b"begun")
        await connection.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        await connection.gone()

    async with Upstream(script) as upstream, Pool(upstream) as hops:
        reply = await ask(hops, endless())
        assert (reply.status, await read(reply)) == (413, b"no")
        await closed.wait()
        await until(lambda: not hops._all)  # the rest of the request would have become part of the next


async def test_an_agent_that_does_not_read_stops_the_sender() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < MUCH:
            sent += 2**16
            yield b"x" * 2**16

    begun = asyncio.Event()

    async def script(connection: Connection) -> None:
        connection.reader._limit = 1024  # type: ignore[attr-defined]
        begun.set()
        await enough.wait()

    enough = asyncio.Event()
    async with Upstream(script) as upstream, Pool(upstream) as hops:
        call = asyncio.create_task(ask(hops, endless()))
        await begun.wait()
        await until(lambda: any(hop._drained is not None for hop in hops._all))
        assert sent < MUCH
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        enough.set()


async def test_a_caller_that_does_not_read_stops_the_agent() -> None:
    said = 0

    async def script(connection: Connection) -> None:
        nonlocal said
        await connection.request()
        await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MUCH)
        while said < MUCH:
            await connection.say(b"x" * 2**16)
            said += 2**16
        await connection.gone()

    async with Upstream(script) as upstream, Pool(upstream) as hops:
        reply = await ask(hops)
        await until(lambda: any(hop._paused for hop in hops._all))
        assert reply._unread < MOST_UNREAD + 2**20
        size = 0
        async for chunk in reply:
            size += len(chunk)
        assert size == MUCH, "and goes on when there is room"


# --- many at once ---------------------------------------------------------------------------------


def echoing() -> Script:
    """Every reply's body is its request's, after a moment in which others come in."""

    async def script(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            await asyncio.sleep(0)
            body = request.partition(b"\r\n\r\n")[2]
            await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    return script


async def test_everybody_gets_their_own_reply() -> None:
    async def caller(name: int) -> None:
        for number in range(40):
            body = b"%d %d" % (name, number)
            if number % 7 == 3:  # some leave at whatever moment it is
                call = asyncio.create_task(ask(hops, body))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                if not call.cancelled():
                    await call.result().aclose()
                continue
            assert await read(await ask(hops, body)) == body

    async with Upstream(echoing()) as upstream, Pool(upstream) as hops:
        await asyncio.gather(*map(caller, range(12)))
        assert len(hops._all) <= LIMITS.connections
        assert hops._opening == 0


async def test_who_comes_when_all_are_taken_waits() -> None:
    async with Upstream(echoing()) as upstream, Pool(upstream, connections=1) as hops:
        first = await ask(hops, b"1")
        others = [asyncio.create_task(ask(hops, b"%d" % n)) for n in (2, 3, 4)]
        await asyncio.sleep(0)
        others[1].cancel()  # a place that waits is given back
        assert await read(first) == b"1"
        assert await read(await others[0]) == b"2"
        assert await read(await others[2]) == b"4"
        assert len(upstream.connections) == 1


async def test_who_waits_too_long_is_told_that_nothing_was_sent() -> None:
    async with Upstream(says(BEGUN)) as upstream, Pool(upstream, connections=1, connect_timeout=0.05) as hops:
        first = await ask(hops)
        assert await refused(ask(hops)) is Reason.AGENT_UNAVAILABLE
        await first.aclose()
        upstream.script = says(HELLO)
        assert await read(await ask(hops)) == b"hello"


async def test_to_end_is_to_end_everything() -> None:
    async with Upstream(says(BEGUN)) as upstream:
        hops = Hops(upstream.url, LIMITS.model_copy(update={"connections": 1}), dict)
        reply = await ask(hops)
        waiting = asyncio.create_task(ask(hops))
        await asyncio.sleep(0)
        await hops.close()
        assert await refused(waiting) is Reason.AGENT_UNAVAILABLE
        assert await reply.chunk() == b"hello", "what has arrived is given out"
        assert await refused(reply.chunk()) is Reason.AGENT_FAILED
        assert await refused(ask(hops)) is Reason.AGENT_UNAVAILABLE


# --- when nobody answers --------------------------------------------------------------------------


async def test_nobody_listens() -> None:
    async with Upstream(says(HELLO)) as upstream:
        url = upstream.url
    hops = Hops(url, LIMITS, dict)
    assert await refused(ask(hops)) is Reason.AGENT_UNAVAILABLE
    await hops.close()


@pytest.mark.parametrize("said", [b"", BEGUN], ids=["before", "within the body"])
async def test_an_agent_that_falls_silent_is_given_up(said: bytes) -> None:
    async with Upstream(says(said)) as upstream, Pool(upstream, stream_idle_timeout=0.1) as hops:

        async def whole() -> bytes:
            return await read(await ask(hops))

        assert await refused(whole()) is Reason.AGENT_FAILED


async def test_a_caller_that_is_slow_is_not_an_agent_that_is_silent() -> None:
    async with (
        Upstream(says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000)) as upstream,
        Pool(upstream, stream_idle_timeout=0.1) as hops,
    ):
        reply = await ask(hops)
        await until(lambda: any(hop._paused for hop in hops._all))
        sweeps = 0

        def swept() -> bool:
            nonlocal sweeps
            sweeps += 1
            return sweeps > 60  # three times the patience

        await until(swept)
        assert len(await read(reply)) == 1_000_000


# --- by other ways --------------------------------------------------------------------------------


async def test_a_unix_socket(tmp_path: Path) -> None:
    async with Upstream(says(HELLO), path=str(tmp_path / "agent.sock")) as upstream, Pool(upstream) as hops:
        assert await read(await ask(hops)) == b"hello"
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 1


async def test_tls(tmp_path: Path) -> None:
    authority = Authority()
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(*authority.server().write(tmp_path, "agent"))
    async with Upstream(says(HELLO), tls=shown) as upstream:
        trusting = {"ssl": authority.trusting()}
        hops = Hops(upstream.url, LIMITS, lambda: trusting)
        assert await read(await ask(hops)) == b"hello"
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 1
        trusting = {"ssl": authority.trusting()}  # its files have changed
        assert await read(await ask(hops)) == b"hello"
        assert len(upstream.connections) == 2
        trusting = {"ssl": Authority("another").trusting()}
        assert await refused(ask(hops)) is Reason.AGENT_UNAVAILABLE
        await hops.close()


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
