"""TLS on the traffic port and on the way to the agent, with real handshakes, on the product's event loop."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from structlog.testing import capture_logs

from sidecar.config import Limits, Tls
from sidecar.model import Exchange, Head, Reply
from sidecar.proxy import from_files, tls
from sidecar.proxy.lean_edge import LeanServer
from sidecar.proxy.loads import Loads, new_loads
from sidecar.proxy.shared_port import SharedPort
from sidecar.proxy.tls import TlsSite, server_context
from sidecar.starting import CannotStart
from sidecar.workers.ports import open_port
from tests.certificates import Authority, Issued, Volume, put
from tests.edge.agent import Agent, a_task, answers, event_stream, result
from tests.edge.conftest import EDGES, Answer, SharedEdge, Sidecar, Start, a_message, eventually

NOT_LET_IN = (aiohttp.ClientError, OSError)
ALICE = "spiffe://example.test/alice"


@pytest.fixture(params=[*EDGES, "shared"])
def edge(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return EDGES.get(request.param, SharedEdge)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_files, "INTERVAL", 0.01)


@pytest.fixture(autouse=True)
async def silent_loop(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Nothing in this file may end in the loop's exception handler, or be logged by it."""
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    yield
    assert seen == []
    assert [r for r in caplog.records if r.name.startswith("asyncio") and r.levelno >= logging.WARNING] == []


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("the authority")


@pytest.fixture(scope="module")
def foreign() -> Authority:
    return Authority("another authority")


@dataclass
class Secured:
    """A sidecar under TLS, and callers who believe its authority."""

    running: Sidecar
    authority: Authority
    volume: Volume
    stack: AsyncExitStack

    @property
    def port(self) -> int:
        return self.running.app.traffic[1]

    async def caller(
        self, shown: tuple[str, str] | None = None, believes: Authority | None = None
    ) -> Sidecar:
        """A caller with connections of its own."""
        context = (believes or self.authority).trusting(shown)
        session = await self.stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context), timeout=aiohttp.ClientTimeout(total=20)
            )
        )
        caller = Sidecar(self.running.app, self.running.issuer, session, self.running.audit_file)
        caller.url = caller.url.replace("http:", "https:")
        return caller

    async def metric(self, name: str) -> float:
        async with self.running.session.get(f"{self.running.admin_url}/metrics") as metrics:
            lines = (await metrics.text()).splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    async def shows(self) -> bytes:
        """The certificate a new connection meets."""
        return (await asyncio.to_thread(look, self.port, unverified())).certificate


Secure = Callable[..., Awaitable[Secured]]


@pytest.fixture
async def secure(start: Start, authority: Authority, tmp_path: Path) -> AsyncIterator[Secure]:
    """Start a sidecar under TLS; `clients` is the authority callers' certificates are verified by."""
    async with AsyncExitStack() as stack:

        async def secured(
            shown: Issued | None = None,
            clients: bytes | None = None,
            certificate: str = "optional",
            **more: Any,
        ) -> Secured:
            volume = Volume(tmp_path / "tls", **files(shown or authority.server(), clients))
            section = {"certificate_file": volume.path("crt"), "key_file": volume.path("key")}
            if clients is not None:
                section |= {"client_ca_file": volume.path("ca"), "client_certificate": certificate}
            return Secured(await start(tls=section, **more), authority, volume, stack)

        yield secured


def files(shown: Issued, clients: bytes | None = None) -> dict[str, bytes]:
    return {"crt": shown.chain_pem, "key": shown.key_pem()} | ({"ca": clients} if clients is not None else {})


@dataclass
class Met:
    """What a raw connection found."""

    certificate: bytes
    version: str | None
    alpn: str | None
    resumed: bool | None
    answer: bytes
    session: ssl.SSLSession | None


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def look(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None, request: bytes = b""
) -> Met:
    """Connect with a blocking socket, in a thread; with `request`, read the answer to the end."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as tls,
    ):
        answer = b""
        if request:
            tls.sendall(request)
            while piece := tls.recv(65536):
                answer += piece
            if not answer:
                raise ConnectionResetError("no answer")
        certificate = tls.getpeercert(binary_form=True)
        assert certificate is not None
        return Met(
            certificate,
            tls.version(),
            tls.selected_alpn_protocol(),
            tls.session_reused,
            answer,
            tls.session,
        )


def get(target: str, *headers: str) -> bytes:
    lines = [f"GET {target} HTTP/1.1", "Host: localhost", *headers, "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(15):
        while not await holds():
            await asyncio.sleep(0.005)


# --- calls ---------------------------------------------------------------------------------------


async def test_calls_over_tls_are_calls_like_any_other(secure: Secure, agent: Agent) -> None:
    agent.script = answers({"task": a_task("t-1")}, a_task("t-1"))
    alice = await (await secure()).caller()
    assert (await alice.submit()).json["result"]["task"]["id"] == "t-1"
    assert (await alice.call("GetTask", {"id": "t-1"})).json["result"]["id"] == "t-1"
    assert (await alice.call("GetTask", {"id": "t-1"}, who="bob")).json["error"]["code"] == -32001
    assert (await alice.call("GetTask", {"id": "t-1"}, who=None)).status == 401


async def test_a_body_of_megabytes_passes_both_ways(secure: Secure, agent: Agent) -> None:
    async def echo(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(body=body)

    agent.script = echo
    alice = await (await secure()).caller()
    sent = b"x" * 5_000_000
    assert (await alice.send("POST", "/upload", data=io.BytesIO(sent))).body == sent


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_raw_connection_meets_http_1_1_and_nothing_else(
    secure: Secure, authority: Authority, version: ssl.TLSVersion
) -> None:
    secured = await secure()
    context = authority.trusting()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    met = await asyncio.to_thread(look, secured.port, context, None, get("/.well-known/agent-card.json"))
    assert met.alpn == "http/1.1"
    assert met.version == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
    assert met.answer.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated:DeprecationWarning")
async def test_tls_1_1_is_refused(secure: Secure) -> None:
    secured = await secure()
    old = unverified()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(look, secured.port, old)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert (await asyncio.to_thread(look, secured.port, old)).version == "TLSv1.2"


async def test_the_admin_port_stays_plain(secure: Secure) -> None:
    secured = await secure()
    async with secured.running.session.get(secured.running.admin_url + "/livez") as reply:
        assert reply.status == 200


# --- what is no TLS ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(get("/"), id="plain HTTP"),
        pytest.param(
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600, id="a broken client hello"
        ),
        pytest.param(b"\xff" * 1000, id="noise"),
        pytest.param(b"\x16\x03\x01", id="the beginning of a record, then the end"),
        pytest.param(b"", id="nothing at all, then the end"),
    ],
)
async def test_what_is_no_tls_ends_without_a_word_in_the_log(
    secure: Secure, agent: Agent, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    secured = await secure()
    capfd.readouterr()
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
        writer.write(sent)
        writer.write_eof()
        with suppress(ConnectionResetError):
            assert b"HTTP" not in await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert (await (await secured.caller()).send("GET", "/.well-known/agent-card.json")).status == 200
    assert capfd.readouterr() == ("", "")
    assert agent.received == []


async def test_noise_after_the_handshake_ends_the_connection(secure: Secure, authority: Authority) -> None:
    secured = await secure()

    def noise() -> bytes:
        with socket.create_connection(("127.0.0.1", secured.port), timeout=20) as plain:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = authority.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(65536))
            plain.sendall(outgoing.read() + b"\x17\x03\x03\x00\x40" + b"x" * 64)
            with suppress(ConnectionResetError):
                while plain.recv(65536):
                    pass
            return b"ended"

    assert await asyncio.to_thread(noise) == b"ended"


async def test_a_handshake_that_does_not_go_on_is_ended(secure: Secure) -> None:
    secured = await secure(limits={"header_timeout": 0.2})
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
    with suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


# --- certificates of callers ---------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A client certificate of a case, made of both authorities."""

    make: Callable[[Authority, Authority], Issued | None]
    let_in: tuple[bool, bool]  # where one is optional, where one is required


def _under_an_intermediate(ours: Authority, _: Authority) -> Issued:
    return Authority("an intermediate", under=ours).client(ALICE)


def _without_its_chain(ours: Authority, _: Authority) -> Issued:
    whole = _under_an_intermediate(ours, _)
    return Issued(whole.certificate, whole.key)


def _named_like_ours(ours: Authority, _: Authority) -> Issued:
    return Authority("the authority").client(ALICE)


SHOWN = {
    "none": Shown(lambda ours, other: None, (True, False)),
    "one of the authority": Shown(lambda ours, other: ours.client(ALICE), (True, True)),
    "one of an intermediate, with it": Shown(_under_an_intermediate, (True, True)),
    "one of an intermediate, without it": Shown(_without_its_chain, (False, False)),
    "one of another authority": Shown(lambda ours, other: other.client(ALICE), (False, False)),
    "one of an authority of the same name": Shown(_named_like_ours, (False, False)),
    "one that has expired": Shown(lambda ours, other: ours.client(ALICE, expired=True), (False, False)),
    "one for servers": Shown(lambda ours, other: ours.server(), (False, False)),
}


@pytest.mark.parametrize("required", [False, True], ids=["optional", "required"])
@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
async def test_who_is_let_in(
    secure: Secure, authority: Authority, foreign: Authority, tmp_path: Path, shown: Shown, required: bool
) -> None:
    secured = await secure(clients=authority.issued.pem, certificate="required" if required else "optional")
    made = shown.make(authority, foreign)
    caller = await secured.caller(made.write(tmp_path, "alice") if made else None)
    if shown.let_in[required]:
        assert (await caller.send("GET", "/.well-known/agent-card.json")).status == 200
    else:
        with pytest.raises(NOT_LET_IN):
            await caller.send("GET", "/.well-known/agent-card.json")


async def test_an_intermediate_alone_may_be_the_authority(
    secure: Secure, authority: Authority, tmp_path: Path
) -> None:
    team = Authority("one team", under=authority)
    secured = await secure(clients=team.issued.pem, certificate="required")
    assert (await (await secured.caller(team.client(ALICE).write(tmp_path, "in"))).send("GET", "/x")).status
    with pytest.raises(NOT_LET_IN):
        await (await secured.caller(authority.client(ALICE).write(tmp_path, "out"))).send("GET", "/x")


@dataclass
class Edge:
    """An edge that remembers the heads it was given."""

    port: int = 0
    heads: list[Head] = field(default_factory=list)

    async def answer(self, exchange: Exchange) -> Reply:
        self.heads.append(exchange.head)
        return Reply(200, CIMultiDict(), b"ok")


@asynccontextmanager
async def an_edge(tls: Tls | None, kind: Callable[..., Any]) -> AsyncIterator[Edge]:
    edge = Edge()
    shared = kind is SharedEdge
    server = (LeanServer if shared else kind)(edge.answer, Limits(), lambda: "d-1")
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    if shared:
        bound = open_port("127.0.0.1:0")
        edge.port = bound[0].getsockname()[1]
        await SharedPort(runner, bound, Loads(new_loads(1)), 0, Limits(), tls).start()
    else:
        site = TlsSite(runner, "127.0.0.1", 0, tls, Limits()) if tls else web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        edge.port = runner.addresses[0][1]
    try:
        yield edge
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("shows", [True, False], ids=["a certificate", "no certificate"])
@pytest.mark.parametrize("asked", [True, False], ids=["asked for one", "not asked"])
async def test_the_head_has_the_certificate_of_the_connection(
    authority: Authority, edge: Callable[..., Any], tmp_path: Path, shows: bool, asked: bool
) -> None:
    alice = authority.client(ALICE)
    certificate, key = authority.server().write(tmp_path, "server")
    ca = authority.write(tmp_path / "ca.pem") if asked else None
    tls = Tls(certificate_file=certificate, key_file=key, client_ca_file=ca)
    context = authority.trusting(alice.write(tmp_path, "alice") if shows else None)
    async with (
        an_edge(tls, edge) as asking,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
    ):
        for _ in range(2):
            async with session.get(f"https://127.0.0.1:{asking.port}/") as reply:
                assert await reply.text() == "ok"
    first, second = asking.heads
    assert first.certificate == (alice.der if shows and asked else None)
    assert second.certificate is first.certificate  # taken once


async def test_the_head_has_no_certificate_without_tls(edge: Callable[..., Any]) -> None:
    async with an_edge(None, edge) as asking, aiohttp.ClientSession() as session:
        assert (await session.get(f"http://127.0.0.1:{asking.port}/")).status == 200
    assert [head.certificate for head in asking.heads] == [None]


# --- other files ---------------------------------------------------------------------------------


async def test_a_turned_volume_changes_what_new_connections_meet_and_no_others(
    secure: Secure, agent: Agent, authority: Authority
) -> None:
    """Nobody is refused on the way, an open connection and an open stream go on."""
    go_on = asyncio.Event()

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        if b"Streaming" not in body:
            return result(body, a_task("t-1"))
        response = await event_stream(request)
        task = {"jsonrpc": "2.0", "id": 1, "result": {"task": a_task("t-1")}}
        await response.write(b"data: " + json.dumps(task).encode() + b"\n\n")
        await go_on.wait()
        await response.write(b": still here\n\n")
        return response

    agent.script = script
    one, two = authority.server(), authority.server()
    secured = await secure(one)
    alice, open_ = await secured.caller(), await secured.caller()
    assert (await open_.send("GET", "/.well-known/agent-card.json")).status == 200
    stream = await alice.session.post(
        alice.url + "/",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendStreamingMessage",
            "params": {"message": a_message()},
        },
        headers=alice.headers("alice") | {"A2A-Version": "1.0"},
    )
    assert await stream.content.readuntil(b"\n\n")

    for shown in (two, one, two):
        secured.volume.turn(**files(shown))

        async def met(shown: Issued = shown) -> bool:
            return await secured.shows() == shown.der  # each look connects, and fails the test if refused

        await until(met)

    assert await connections_of(open_) == 1
    assert (await open_.call("GetTask", {"id": "t-1"})).json["result"]["id"] == "t-1"
    assert await connections_of(open_) == 1
    go_on.set()
    assert await stream.content.read() == b": still here\n\n"


async def connections_of(caller: Sidecar) -> int:
    """How many connections a caller keeps."""
    connector = caller.session.connector
    assert connector is not None
    return sum(len(kept) for kept in connector._conns.values())


async def test_nobody_is_refused_while_servers_take_turns(secure: Secure, authority: Authority) -> None:
    every = [authority.server() for _ in range(13)]
    secured = await secure(every[0])
    seen: set[bytes] = set()
    done = asyncio.Event()

    async def connects() -> int:
        count = 0
        while not done.is_set():
            seen.add(await secured.shows())
            count += 1
        return count

    callers = [asyncio.create_task(connects()) for _ in range(4)]
    for shown in every[1:]:
        secured.volume.turn(**files(shown))
        await eventually(lambda shown=shown: shown.der in seen or any(c.done() for c in callers))
    done.set()
    assert all(count > 0 for count in await asyncio.gather(*callers))
    assert seen == {shown.der for shown in every}
    assert len(listening(secured.port)) <= 2  # what binds the port, and the one server that serves now


def listening(port: int) -> list[str]:
    """The descriptors of this process that connections to a port come in by."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(descriptor))) as one:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and one.getsockname()[1] == port:
                found.append(descriptor)
    return found


BROKEN = {
    "another certificate's key": lambda old, new: {"crt": new.chain_pem, "key": old.key_pem()},
    "an encrypted key": lambda old, new: {"crt": new.chain_pem, "key": new.key_pem(b"secret")},
    "an empty certificate": lambda old, new: {"crt": b"", "key": new.key_pem()},
    "half a certificate": lambda old, new: {"crt": new.chain_pem[:200], "key": new.key_pem()},
    "no key": lambda old, new: {"crt": new.chain_pem},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_files_that_do_not_fit_are_kept_out_and_told_of_once(
    secure: Secure,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[Issued, Issued], dict[str, bytes]],
) -> None:
    old, new = authority.server(), authority.server()
    tries: list[None] = []

    def counted(section: Tls) -> ssl.SSLContext:
        tries.append(None)
        return server_context(section)

    monkeypatch.setattr(tls, "server_context", counted)
    secured = await secure(old)
    with capture_logs() as logs:
        secured.volume.turn(**broken(old, new))
        await eventually(lambda: len(tries) > 6)
        assert await secured.shows() == old.der
        assert await secured.metric('a2a_sidecar_files_stale{key="tls"}') == 1
        (told,) = [line for line in logs if line["log_level"] == "error"]
        assert told["key"] == "tls"
        assert told["problem"].startswith(
            ("tls.certificate_file: `", "tls.key_file: `", "tls.key_file: cannot")
        )
        secured.volume.turn(**files(new))
        await eventually(lambda: "changed files were read" in [line["event"] for line in logs])
    assert await secured.shows() == new.der
    assert await secured.metric('a2a_sidecar_files_stale{key="tls"}') == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("setting", ["optional", "required"])
async def test_another_client_authority_replaces_the_first(
    secure: Secure,
    authority: Authority,
    foreign: Authority,
    tmp_path: Path,
    setting: str,
    version: ssl.TLSVersion,
) -> None:
    """New connections are verified by the new one alone; a session begun under the old one does not go on."""
    shown = authority.server()
    secured = await secure(shown, clients=authority.issued.pem, certificate=setting)
    before = authority.trusting(authority.client(ALICE).write(tmp_path, "before"))
    before.minimum_version = before.maximum_version = version
    after = await secured.caller(foreign.client(ALICE).write(tmp_path, "after"))
    card = get("/.well-known/agent-card.json")

    met = await asyncio.to_thread(look, secured.port, before, None, card)
    again = await asyncio.to_thread(look, secured.port, before, met.session, card)
    assert (met.resumed, again.resumed) == (False, True)  # the ticket is good until then
    still_open = await secured.caller((str(tmp_path / "before.pem"), str(tmp_path / "before.key")))
    assert (await still_open.send("GET", "/.well-known/agent-card.json")).status == 200

    secured.volume.turn(**files(shown, foreign.issued.pem))

    async def new_one_is_believed() -> bool:
        with suppress(*NOT_LET_IN):
            return (await after.send("GET", "/.well-known/agent-card.json")).status == 200
        return False

    await until(new_one_is_believed)
    for session in (None, met.session, again.session):
        with pytest.raises(OSError):
            await asyncio.to_thread(look, secured.port, before, session, card)
    assert (await still_open.send("GET", "/.well-known/agent-card.json")).status == 200


async def test_what_runs_on_an_earlier_server_is_finished_before_the_end(
    secure: Secure, agent: Agent, authority: Authority
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        asked.set()
        await go_on.wait()
        return web.Response(body=b"done")

    agent.script = script
    one, two = authority.server(), authority.server()
    secured = await secure(one)
    alice = await secured.caller()
    call = asyncio.create_task(alice.send("GET", "/slow"))
    await asked.wait()
    secured.volume.turn(**files(two))

    async def turned() -> bool:
        return await secured.shows() == two.der

    await until(turned)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", secured.port
    )  # its handshake will come too late
    stopping = asyncio.create_task(secured.running.app.stop())

    async def closed() -> bool:
        try:
            await secured.shows()
        except OSError:
            return True
        return False

    await until(closed)
    await writer.start_tls(authority.trusting(), server_hostname="localhost")
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    assert not call.done()
    go_on.set()
    answer: Answer = await call
    assert (answer.status, answer.body) == (200, b"done")
    await stopping


# --- files that stop the start -------------------------------------------------------------------

START: dict[str, tuple[Callable[[Issued, Issued], dict[str, bytes]], str, str]] = {
    "no certificate file": (lambda a, b: {"key": a.key_pem()}, "tls.certificate_file", "crt"),
    "no key file": (lambda a, b: {"crt": a.pem}, "tls.key_file", "key"),
    "an empty certificate": (lambda a, b: {"crt": b"", "key": a.key_pem()}, "tls.certificate_file", "crt"),
    "a certificate in DER": (lambda a, b: {"crt": a.der, "key": a.key_pem()}, "tls.certificate_file", "crt"),
    "the files changed over": (
        lambda a, b: {"crt": a.key_pem(), "key": a.pem},
        "tls.certificate_file",
        "crt",
    ),
    "an encrypted key": (lambda a, b: {"crt": a.pem, "key": a.key_pem(b"secret")}, "tls.key_file", "key"),
    "noise for a key": (lambda a, b: {"crt": a.pem, "key": b"noise"}, "tls.key_file", "key"),
    "another certificate's key": (lambda a, b: {"crt": a.pem, "key": b.key_pem()}, "tls.key_file", "key"),
    "no client authority": (lambda a, b: files(a), "tls.client_ca_file", "ca"),
    "an empty client authority": (lambda a, b: files(a, b""), "tls.client_ca_file", "ca"),
    "a broken client authority": (lambda a, b: files(a, a.pem[:300] + b"!"), "tls.client_ca_file", "ca"),
}


@pytest.mark.parametrize(("make", "key", "name"), START.values(), ids=START)
async def test_files_that_cannot_be_used_stop_the_start(
    start: Start,
    authority: Authority,
    tmp_path: Path,
    make: Callable[[Issued, Issued], dict[str, bytes]],
    key: str,
    name: str,
) -> None:
    for file, content in make(authority.server(), authority.server()).items():
        put(tmp_path / file, content)
    section = {
        "certificate_file": str(tmp_path / "crt"),
        "key_file": str(tmp_path / "key"),
        "client_ca_file": str(tmp_path / "ca"),
    }
    if "authority" not in key and name != "ca":
        authority.write(tmp_path / "ca")
    with pytest.raises(CannotStart) as said:
        await start(tls=section)
    assert str(said.value).startswith(f"{key}: ")
    assert f"`{tmp_path / name}`" in str(said.value)


def test_nobody_is_asked_for_a_pass_phrase(authority: Authority, tmp_path: Path) -> None:
    """OpenSSL asks at the terminal, were it left to it; so there is one here."""
    issued = authority.server()
    files_ = {
        "certificate_file": put(tmp_path / "crt", issued.pem),
        "key_file": put(tmp_path / "key", issued.key_pem(b"secret")),
    }
    reads = f"from sidecar.proxy.tls import *; server_context(Tls(**{files_!r}))"
    at_a_terminal = f"import pty, sys; pty.spawn([sys.executable, '-c', {reads!r}])"
    done = subprocess.run(
        [sys.executable, "-c", at_a_terminal], stdin=subprocess.DEVNULL, capture_output=True, timeout=25
    )
    assert b"is encrypted" in done.stdout
    assert b"pass phrase:" not in done.stdout


# --- the way to the agent ------------------------------------------------------------------------


@dataclass
class SecureAgent(Agent):
    """A scripted agent that speaks TLS; `shown_to_it` are the certificates its callers showed."""

    context: ssl.SSLContext | None = None
    shown_to_it: list[bytes | None] = field(default_factory=list)

    async def up(self) -> None:
        server = web.Server(self._noting, handler_cancellation=True, auto_decompress=False)
        self._runner = web.ServerRunner(server, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.context).start()
        self.port = self._runner.addresses[0][1]

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    async def _noting(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        self.shown_to_it.append(request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True))
        return await self._handle(request)


def agent_context(shown: tuple[str, str], clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*shown)
    if clients is not None:
        context.load_verify_locations(cadata=clients.issued.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture
async def agents() -> AsyncIterator[Callable[..., Awaitable[SecureAgent]]]:
    async with AsyncExitStack() as stack:

        async def started(shown: tuple[str, str], clients: Authority | None = None) -> SecureAgent:
            return await stack.enter_async_context(SecureAgent(context=agent_context(shown, clients)))

        yield started


Agents = Callable[..., Awaitable[SecureAgent]]


def fronted(agent: Agent, **tls: str) -> list[dict[str, Any]]:
    return [{"name": "review", "upstream": agent.url, "public_url": "https://agents.test/review", "tls": tls}]


async def echo(request: web.Request, body: bytes) -> web.StreamResponse:
    return web.Response(body=b"heard")


UPSTREAM: dict[str, tuple[tuple[str, ...], bool, bool, str | None, str]] = {
    # names of the agent's certificate, expired, ca_file is another's, server_name, what is told (empty: it works)
    "the right one": (("localhost",), False, False, None, ""),
    "of an authority that is not ours": (
        ("localhost",),
        False,
        True,
        None,
        "unable to get local issuer certificate",
    ),
    "of another name": (("agent.test",), False, False, None, "Hostname mismatch"),
    "of another name that is named": (("agent.test",), False, False, "agent.test", ""),
    "of the URL's name where another is named": (
        ("localhost",),
        False,
        False,
        "agent.test",
        "Hostname mismatch",
    ),
    "expired": (("localhost",), True, False, None, "certificate has expired"),
}


@pytest.mark.parametrize(
    ("names", "expired", "other", "server_name", "told"), UPSTREAM.values(), ids=UPSTREAM
)
async def test_the_agents_certificate_is_verified(
    start: Start,
    agents: Agents,
    authority: Authority,
    foreign: Authority,
    tmp_path: Path,
    names: tuple[str, ...],
    expired: bool,
    other: bool,
    server_name: str | None,
    told: str,
) -> None:
    agent = await agents(authority.server(names, expired=expired).write(tmp_path, "agent"))
    agent.script = echo
    tls = {"ca_file": (foreign if other else authority).write(tmp_path / "ca.pem")}
    if server_name is not None:
        tls["server_name"] = server_name
    with capture_logs() as logs:
        running = await start(agents=fronted(agent, **tls))
        answer = await running.send("GET", "/other")
        if not told:
            assert (answer.status, answer.body) == (200, b"heard")
            return
        assert answer.status == 503
        assert answer.header("Retry-After") is not None
        assert agent.shown_to_it == []  # nothing was sent
        (failed,) = [
            r
            for r in await running.records(lambda rs: any(r.get("internal") for r in rs))
            if r.get("internal")
        ]
        await eventually(lambda: any(line["event"] == "agent card cannot be used" for line in logs))
        (card,) = [line for line in logs if line["event"] == "agent card cannot be used"]
    for text in (failed["internal"], card["problem"]):
        assert f"its certificate does not verify: {told}" in text
    assert "certificate" not in answer.body.decode()


async def test_an_agent_of_no_system_authority_is_not_believed(
    start: Start, agents: Agents, authority: Authority, tmp_path: Path
) -> None:
    agent = await agents(authority.server().write(tmp_path, "agent"))
    running = await start(agents=fronted(agent))
    assert (await running.send("GET", "/other")).status == 503
    assert agent.shown_to_it == []


async def test_an_agent_that_speaks_no_tls_is_unavailable(start: Start, agent: Agent, tmp_path: Path) -> None:
    agent.script = echo
    plain = fronted(agent)
    plain[0]["upstream"] = agent.url.replace("http:", "https:")
    running = await start(agents=plain)
    assert (await running.send("GET", "/other")).status == 503
    records = await running.records(lambda rs: any(r.get("internal") for r in rs))
    assert any(r.get("internal", "").startswith("TLS failed: ") for r in records)
    assert agent.received == []


async def test_the_agent_is_shown_our_certificate_and_the_new_one_once_it_changed(
    start: Start, agents: Agents, authority: Authority, tmp_path: Path
) -> None:
    one, two = authority.client("sidecar.test"), authority.client("sidecar.test")
    agent = await agents(authority.server().write(tmp_path, "agent"), authority)
    agent.script = echo
    volume = Volume(tmp_path / "ours", **files(one, authority.issued.pem))
    tls = {
        "ca_file": volume.path("ca"),
        "certificate_file": volume.path("crt"),
        "key_file": volume.path("key"),
    }
    running = await start(agents=fronted(agent, **tls))
    assert (await running.send("GET", "/other")).body == b"heard"
    assert set(agent.shown_to_it) == {one.der}
    volume.turn(**files(two, authority.issued.pem))

    async def second() -> bool:
        assert (await running.send("GET", "/other")).body == b"heard"
        return agent.shown_to_it[-1] == two.der

    await until(second)


async def test_an_agent_that_wants_a_certificate_and_gets_none_is_told_of(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    """An agent on OpenSSL's own sockets, which say why they end a handshake, as most servers do."""
    context = agent_context(authority.server().write(tmp_path, "agent"), authority)
    listening = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        with listening:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                with plain, suppress(OSError):
                    context.wrap_socket(plain, server_side=True).close()

    refusing = asyncio.create_task(asyncio.to_thread(refuse))
    upstream = f"https://localhost:{listening.getsockname()[1]}"
    ca = authority.write(tmp_path / "ca.pem")
    with capture_logs() as logs:
        await start(
            agents=[
                {"name": "a", "upstream": upstream, "public_url": "https://a.test", "tls": {"ca_file": ca}}
            ]
        )
        await eventually(lambda: any("CERTIFICATE_REQUIRED" in line.get("problem", "") for line in logs))
    listening.shutdown(socket.SHUT_RDWR)
    await refusing


async def test_an_agent_under_another_authority_is_believed_once_the_file_says_so(
    start: Start, agents: Agents, authority: Authority, foreign: Authority, tmp_path: Path
) -> None:
    agent = await agents(foreign.server().write(tmp_path, "agent"))
    agent.script = echo
    volume = Volume(tmp_path / "theirs", ca=authority.issued.pem)
    running = await start(agents=fronted(agent, ca_file=volume.path("ca")))
    assert (await running.send("GET", "/other")).status == 503
    with capture_logs() as logs:
        volume.turn(ca=b"nothing")
        await eventually(lambda: any(line["log_level"] == "error" for line in logs))
        assert [line["key"] for line in logs if line["log_level"] == "error"] == ["agents[review].tls"]
    volume.turn(ca=foreign.issued.pem)

    async def believed() -> bool:
        return (await running.send("GET", "/other")).status == 200

    await until(believed)
    volume.turn(ca=authority.issued.pem)

    async def no_more() -> bool:
        return (await running.send("GET", "/other")).status == 503

    await until(no_more)


async def test_files_for_the_agent_that_cannot_be_used_stop_the_start(
    start: Start, agents: Agents, authority: Authority, tmp_path: Path
) -> None:
    agent = await agents(authority.server().write(tmp_path, "agent"))
    with pytest.raises(CannotStart) as said:
        await start(agents=fronted(agent, ca_file=str(tmp_path / "absent.pem")))
    assert str(said.value).startswith(f"agents[review].tls.ca_file: cannot read `{tmp_path / 'absent.pem'}`")


async def test_a_stream_the_caller_leaves_ends_at_the_agent_too(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    """At once, and at an agent too that goes on writing without ever reading TLS's goodbye."""
    context = agent_context(authority.server().write(tmp_path, "agent"))
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def talk(plain: socket.socket) -> None:
        with suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as connection:
            if b"/events" not in connection.recv(65536):
                connection.sendall(
                    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                return
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            try:
                while True:
                    connection.sendall(b": open\n\n")
            finally:
                ended.set()

    def accept() -> None:
        with listening, suppress(OSError):
            while True:
                threading.Thread(target=talk, args=listening.accept()[:1], daemon=True).start()

    accepting = asyncio.create_task(asyncio.to_thread(accept))
    upstream = f"https://localhost:{listening.getsockname()[1]}"
    ca = authority.write(tmp_path / "ca.pem")
    running = await start(
        agents=[{"name": "a", "upstream": upstream, "public_url": "https://a.test", "tls": {"ca_file": ca}}]
    )
    reply = await running.session.get(running.url + "/events", headers=running.headers("alice"))
    assert await reply.content.readuntil(b"\n\n") == b": open\n\n"
    reply.close()
    await eventually(ended.is_set)
    listening.shutdown(socket.SHUT_RDWR)
    await accepting


async def test_a_websocket_through_tls_on_both_sides(
    secure: Secure, agents: Agents, authority: Authority, tmp_path: Path
) -> None:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        socket_ = web.WebSocketResponse()
        await socket_.prepare(request)
        async for message in socket_:
            await socket_.send_str(f"you said {message.data}")
        return socket_

    ours = authority.client("sidecar.test")
    certificate, key = ours.write(tmp_path, "ours")
    agent = await agents(authority.server(("agent.test",)).write(tmp_path, "agent"), authority)
    agent.script = script
    tls = {
        "ca_file": authority.write(tmp_path / "ca.pem"),
        "server_name": "agent.test",
        "certificate_file": certificate,
        "key_file": key,
    }
    secured = await secure(agents=fronted(agent, **tls), other_paths={"upgrades": ["/ws"]})
    alice = await secured.caller()
    async with alice.session.ws_connect(alice.url + "/ws", headers=alice.headers("alice")) as connected:
        for word in ("one", "two", "x" * 200_000):
            await connected.send_str(word)
            assert await connected.receive_str() == f"you said {word}"
    assert agent.shown_to_it[-1] == ours.der


async def test_a_websocket_goes_to_no_agent_whose_certificate_does_not_verify(
    start: Start, agents: Agents, authority: Authority, foreign: Authority, tmp_path: Path
) -> None:
    agent = await agents(foreign.server().write(tmp_path, "agent"))
    tls = {"ca_file": authority.write(tmp_path / "ca.pem")}
    running = await start(agents=fronted(agent, **tls), other_paths={"upgrades": ["/ws"]})
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await running.session.ws_connect(running.url + "/ws", headers=running.headers("alice"))
    assert refused.value.status == 503
    records = await running.records(lambda rs: any(r.get("internal") for r in rs))
    assert any("its certificate does not verify" in r.get("internal", "") for r in records)
    assert agent.shown_to_it == []
