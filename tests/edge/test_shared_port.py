"""One port, several who accept: each gets a share, and nobody waits for one who does not come."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from sidecar.config import Limits
from sidecar.model import Exchange, Reply
from sidecar.proxy import shared_port
from sidecar.proxy.lean_edge import LeanServer
from sidecar.proxy.loads import ABSENT, Loads, new_loads
from sidecar.proxy.shared_port import SharedPort
from sidecar.starting import CannotStart
from sidecar.workers.ports import open_port, require_unshared
from tests.edge.conftest import eventually

Begin = Callable[[int], Awaitable[LeanServer]]


async def answer(exchange: Exchange) -> Reply:
    return Reply(200, CIMultiDict(), b"ok")


@pytest.fixture
def port() -> socket.socket:
    (bound,) = open_port("127.0.0.1:0")
    return bound


@pytest.fixture
def loads() -> Loads:
    block = new_loads(2)
    loads = Loads(block)
    os.close(block)
    return loads


@pytest.fixture
async def begin(port: socket.socket, loads: Loads) -> AsyncIterator[Begin]:
    """Begin to accept, as one of two processes."""
    async with AsyncExitStack() as stack:
        stack.callback(port.close)

        async def begun(process: int) -> LeanServer:
            server = LeanServer(answer, Limits(), lambda: "d-1")
            runner = web.ServerRunner(server, shutdown_timeout=1.0)  # type: ignore[arg-type]
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await SharedPort(runner, [port.dup()], loads, process, Limits(), None).start()
            return server

        yield begun


@pytest.fixture
async def connect(port: socket.socket) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A caller with a connection of its own, which is kept, and an answer."""
    async with AsyncExitStack() as stack:

        async def connected() -> None:
            session = await stack.enter_async_context(aiohttp.ClientSession())
            async with session.get(f"http://127.0.0.1:{port.getsockname()[1]}/") as reply:
                assert await reply.text() == "ok"

        yield connected


async def test_each_gets_a_share_of_many_at_once(
    begin: Begin, connect: Callable[[], Awaitable[None]]
) -> None:
    both = [await begin(0), await begin(1)]
    await asyncio.gather(*(connect() for _ in range(40)))
    counts = [len(server.connections) for server in both]
    assert sum(counts) == 40
    assert min(counts) >= 18


async def test_what_each_has_is_told_and_taken_back(
    begin: Begin, loads: Loads, connect: Callable[[], Awaitable[None]]
) -> None:
    server = await begin(0)
    assert (loads.of(0), loads.of(1)) == (0, ABSENT)
    await connect()
    assert loads.of(0) == 1
    for connection in tuple(server.connections):
        connection.hang_up()
    await eventually(lambda: loads.of(0) == 0)


async def test_nobody_waits_for_one_that_has_fewer_and_does_not_come(
    begin: Begin, loads: Loads, connect: Callable[[], Awaitable[None]]
) -> None:
    server = await begin(0)
    loads.tell(1, 0)  # it hangs
    for _ in range(3):
        await connect()
    assert len(server.connections) == 3


async def test_whoever_has_more_leaves_it_to_the_other(
    begin: Begin, loads: Loads, connect: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_port, "PATIENCE", 60.0)
    one = await begin(0)
    await connect()
    loads.tell(1, 0)
    waiting = asyncio.ensure_future(connect())
    other = await begin(1)
    await waiting
    assert (len(one.connections), len(other.connections)) == (1, 1)
    for _ in range(6):
        await connect()
    assert (len(one.connections), len(other.connections)) == (4, 4)


async def test_one_that_stopped_is_not_waited_for(
    begin: Begin, loads: Loads, port: socket.socket, connect: Callable[[], Awaitable[None]]
) -> None:
    await begin(0)
    runner = web.ServerRunner(LeanServer(answer, Limits(), lambda: "d-1"))  # type: ignore[arg-type]
    await runner.setup()
    await SharedPort(runner, [port.dup()], loads, 1, Limits(), None).start()
    assert loads.of(1) == 0
    await runner.cleanup()
    assert loads.of(1) == ABSENT
    await connect()


async def test_without_descriptors_it_tries_again(
    begin: Begin,
    connect: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(shared_port, "RETRY", 0.01)
    refused = [OSError(errno.EMFILE, "Too many open files")]
    accept = socket.socket.accept

    def short_of_descriptors(self: socket.socket) -> tuple[socket.socket, object]:
        if refused:
            raise refused.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", short_of_descriptors)
    server = await begin(0)
    await connect()
    assert len(server.connections) == 1
    assert refused == []
    assert "Too many open files" in capfd.readouterr().out


# --- opening it ----------------------------------------------------------------------------------


def test_a_port_that_others_could_share_is_refused() -> None:
    with socket.socket() as shared:
        require_unshared([shared], "127.0.0.1:1")
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with pytest.raises(CannotStart, match=r"cannot listen on 127\.0\.0\.1:1: SO_REUSEPORT is set"):
            require_unshared([shared], "127.0.0.1:1")


def test_every_address_of_a_name_is_listened_on() -> None:
    expected = {found[4][0] for found in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
    opened = open_port("localhost:0")
    try:
        assert {one.getsockname()[0] for one in opened} == expected
        for one in opened:
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    finally:
        for one in opened:
            one.close()


def test_a_name_that_does_not_resolve_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nothing)
    with pytest.raises(CannotStart, match=r"cannot listen on nowhere:1: .*Name or service not known"):
        open_port("nowhere:1")
