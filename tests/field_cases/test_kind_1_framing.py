"""Field cases of kind 1: where one request ends and the next begins.

Every case of framing is tried with both of aiohttp's parsers: the C one that is shipped, and the Python one that
takes its place where the extension could not be built; and with the C one under aiohttp's own server.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from aiohttp import web

from tests.edge.conftest import Answer
from tests.field_cases.conftest import (
    T_A,
    T_M,
    ByParser,
    N,
    Scene,
    Scenes,
    envelope,
    http,
    read_answers,
    require_equal_to_nf,
    require_not_found,
    speak,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

both_parsers = pytest.mark.parametrize("parser", ["C", "Python", "server"])
V1 = "A2A-Version: 1.0"
HIDDEN = "/hidden"  # a request for it was never asked for by framing that is read right


async def answered(scene: Scene, *pieces: bytes) -> list[Answer]:
    return read_answers(await speak(scene.port, *pieces))


def asked(scene: Scene, line: str, *headers: str | bytes, body: bytes = b"", who: str = "mallory") -> bytes:
    """A request with a credential; the framing is the test's."""
    return http(line, "Host: agents.test", *scene.bearer(who), *headers, body=body)


def last(scene: Scene) -> bytes:
    """A request that ends the connection, so that a connection which was kept shows at once."""
    return asked(scene, "GET /last HTTP/1.1", "Connection: close")


def seen(scene: Scene) -> list[str]:
    """What the agent was asked, in order."""
    return [f"{got.method} {got.target}" for got in scene.agent.received]


async def test_fc_012_the_second_run_is_with_the_python_parser(by_parser: ByParser) -> None:
    """What the environment says is what a process like the one under test gets."""
    await by_parser("Python")
    chosen = "from aiohttp.http_parser import HttpRequestParser, HttpRequestParserPy as py; print(HttpRequestParser is py)"
    env = {"AIOHTTP_NO_EXTENSIONS": "1"}
    done = subprocess.run([sys.executable, "-c", chosen], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@both_parsers
@pytest.mark.parametrize(
    ("line", "headers", "body"),
    [
        pytest.param(
            "POST /first HTTP/1.1",
            ["Content-Length: 5", "Transfer-Encoding: chunked"],
            b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n",
            id="a length and chunked",
        ),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Transfer-Encoding: chunked", "Content-Length: 60"],
            b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n",
            id="chunked and a length",
        ),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Content-Length: 5", "Content-Length: 6"],
            b"abcdeGET /hidden HTTP/1.1\r\n\r\n",
            id="two lengths",
        ),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Content-Length: 5, 6"],
            b"abcdeGET /hidden HTTP/1.1\r\n\r\n",
            id="a list of lengths",
        ),
        pytest.param("POST /first HTTP/1.1", ["Content-Length: +5"], b"abcde", id="a length with a plus"),
        pytest.param("POST /first HTTP/1.1", ["Content-Length: -5"], b"abcde", id="a length below nought"),
        pytest.param("POST /first HTTP/1.1", ["Content-Length: 0x5"], b"abcde", id="a length in hex"),
        pytest.param(
            "POST /first HTTP/1.1", ["Content-Length: 1_0"], b"abcdeabcde", id="a length with an underscore"
        ),
        pytest.param(
            "POST /first HTTP/1.1", ["Content-Length: 5 5"], b"abcde", id="a length with a blank in it"
        ),
        pytest.param(
            "POST /first HTTP/1.1", ["Content-Length: \u00b2"], b"ab", id="a length in a digit of no ASCII"
        ),
        pytest.param(
            "POST /first HTTP/1.1", ["Content-Length:"], b"GET /hidden HTTP/1.1\r\n\r\n", id="an empty length"
        ),
        pytest.param("POST /first HTTP/1.1", ["Transfer-Encoding: xchunked"], b"0\r\n\r\n", id="xchunked"),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Transfer-Encoding: chunked, identity"],
            b"0\r\n\r\n",
            id="chunked, identity",
        ),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Transfer-Encoding: chunked, chunked"],
            b"0\r\n\r\n0\r\n\r\n",
            id="chunked twice",
        ),
        pytest.param("POST /first HTTP/1.1", ["Transfer-Encoding: gzip"], b"0\r\n\r\n", id="only gzip"),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Transfer-Encoding: \x0bchunked"],
            b"0\r\n\r\n",
            id="a vertical tab before it",
        ),
        pytest.param(
            "POST /first HTTP/1.1",
            ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
            b"0\r\n\r\n",
            id="two transfer codings in two lines",
        ),
        pytest.param(
            "GET /first HTTP/1.1",
            ["X-A: \rTransfer-Encoding: chunked"],
            b"0\r\n\r\n",
            id="a bare CR in a value",
        ),
        pytest.param("GET /first HTTP/1.1", ["X-A: b\nX-B: c\rX-C: d"], b"", id="a bare LF, then a bare CR"),
        pytest.param("GET /first HTTP/1.1", ["X-Other : x"], b"", id="a blank before the colon"),
        pytest.param(
            "GET /first HTTP/1.1",
            ["Transfer-Encoding : chunked"],
            b"0\r\n\r\n",
            id="the same of a framing header",
        ),
        pytest.param("GET /first HTTP/1.1", [": x"], b"", id="a header without a name"),
        pytest.param("GET /first HTTP/1.1", ["X-Other"], b"", id="a header without a colon"),
        pytest.param("GET /first HTTP/1.1", ["X(Other): x"], b"", id="a name that is no token"),
        pytest.param("GET /first HTTP/1.1", [b"X-Other: a\x00b"], b"", id="NUL in a value"),
        pytest.param("GET /first HTTP/1.1", [b"X-\xc3\xa9: a"], b"", id="a name beyond ASCII"),
        pytest.param("GET /first HTTP/1.1", ["Host: other.test"], b"", id="two hosts"),
        pytest.param("GET /first HTTP/1.1", ["Host: agents.test"], b"", id="one host twice"),
        pytest.param(
            "POST /first HTTP/1.0", ["Transfer-Encoding: chunked"], b"0\r\n\r\n", id="chunked in HTTP/1.0"
        ),
        pytest.param("GET /first\tHTTP/1.1", [], b"", id="a tab in the line"),
        pytest.param("GET /first HTTP/1.1 ", [], b"", id="a blank after the line"),
        pytest.param(" GET /first HTTP/1.1", [], b"", id="a blank before the line"),
        pytest.param("GET /fi rst HTTP/1.1", [], b"", id="a blank in the target"),
        pytest.param("GET /first HTTP/1.1x", [], b"", id="a version with a tail"),
        pytest.param("GET /first http/1.1", [], b"", id="a version in lower case"),
        pytest.param("GET /first HTTP/11", [], b"", id="a version without a dot"),
        pytest.param("GET /first", [], b"", id="no version"),
    ],
)
async def test_fc_012_framing_that_conflicts_is_the_end_of_the_connection(
    by_parser: ByParser, parser: str, line: str, headers: list[str | bytes], body: bytes
) -> None:
    scene = await by_parser(parser)
    got = await answered(scene, asked(scene, line, *headers, body=body) + last(scene))
    assert [answer.status for answer in got] == [400]
    assert scene.untouched, seen(scene)


@both_parsers
@pytest.mark.parametrize(
    "credential", ["Authorization : Bearer {}", "Authorization: \r\n Bearer {}", "Authorization\t: Bearer {}"]
)
async def test_fc_012_nor_is_a_credential_read_from_a_line_that_is_none(
    by_parser: ByParser, parser: str, credential: str
) -> None:
    """A blank before the colon, and a value on a line of its own (obs-fold)."""
    scene = await by_parser(parser)
    said = credential.format(scene.token("alice"))
    sent = http(f"GET /tasks/{T_A} HTTP/1.1", "Host: agents.test", said, V1)
    got = await answered(scene, sent + last(scene))
    assert [answer.status for answer in got] == [400]
    assert scene.untouched


@both_parsers
@pytest.mark.parametrize("fold", ["X-A: b\r\n c", "X-A: b\r\n\tc", "X-A: b\r\n Content-Length: 40"])
async def test_fc_012_a_folded_header_hides_nothing(by_parser: ByParser, parser: str, fold: str) -> None:
    """Refused, or made one line (RFC 9112 §5.2): what the agent gets has no fold in it."""
    scene = await by_parser(parser)
    got = await answered(scene, asked(scene, "GET /first HTTP/1.1", fold) + last(scene))
    if got[0].status == 400:
        assert len(got) == 1
        assert scene.untouched
        return
    assert seen(scene) == ["GET /first", "GET /last"]
    assert all("\n" not in value and "\r" not in value for _, value in scene.agent.received[0].headers)
    assert scene.agent.received[0].values("Content-Length") == []


@both_parsers
@pytest.mark.parametrize("end", ["kept", "closed"])
async def test_fc_012_what_is_framed_well_is_as_many_requests_as_it_looks(
    by_parser: ByParser, parser: str, end: str
) -> None:
    """After a chunked request the connection ends (see FC-013), whatever follows in it."""
    scene = await by_parser(parser)
    inside = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    one = asked(scene, "POST /first HTTP/1.1", f"Content-Length: {len(inside)}", body=inside)
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(inside), inside)
    two = asked(scene, "POST /second HTTP/1.1", "Transfer-Encoding: chunked", body=chunked)
    got = await answered(scene, one + (last(scene) if end == "kept" else two + last(scene)))
    assert [answer.status for answer in got] == [200, 200]
    assert seen(scene) == ["POST /first", "GET /last" if end == "kept" else "POST /second"]
    assert [r.body for r in scene.agent.received] == [inside, b"" if end == "kept" else inside]


@both_parsers
async def test_fc_012_blanks_in_the_request_line_are_one(by_parser: ByParser, parser: str) -> None:
    """RFC 9112 §3 lets a server be lenient here. Refused, or forwarded in a form that nobody reads otherwise."""
    scene = await by_parser(parser)
    got = await answered(scene, asked(scene, "GET  /first HTTP/1.1", "Connection: close"))
    assert [answer.status for answer in got] in ([400], [200])
    assert seen(scene) == (["GET /first"] if got[0].status == 200 else [])


@both_parsers
async def test_fc_012_each_of_many_requests_is_judged_by_its_own_credential(
    by_parser: ByParser, parser: str
) -> None:
    """What an earlier request of the connection proved says nothing about the next."""
    scene = await by_parser(parser)
    get = f"GET /tasks/{T_A} HTTP/1.1"
    sent = (
        asked(scene, get, V1, who="alice")
        + asked(scene, get, V1)
        + http(get, "Host: agents.test", V1)
        + asked(scene, f"GET /tasks/{N} HTTP/1.1", V1, "Connection: close")
    )
    _, foreign, nobody, absent = await answered(scene, sent)
    assert seen(scene) == [f"GET /tasks/{T_A}"]
    require_not_found(foreign)
    assert foreign.body == absent.body
    assert nobody.status == 401


# --- FC-013 --------------------------------------------------------------------------------------


@both_parsers
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"5;a\nxx\r\nabcde\r\n0\r\n\r\n", id="a line feed in an extension"),
        pytest.param(b"5\nabcde\n0\n\n", id="line feeds alone"),
        pytest.param(b"5\r\nabcde\n0\r\n\r\n", id="a line feed after the data"),
        pytest.param(b"0x5\r\nabcde\r\n0\r\n\r\n", id="0x5"),
        pytest.param(b"+5\r\nabcde\r\n0\r\n\r\n", id="+5"),
        pytest.param(b"-5\r\nabcde\r\n0\r\n\r\n", id="-5"),
        pytest.param(b" 5\r\nabcde\r\n0\r\n\r\n", id="a blank before the size"),
        pytest.param(b"5_0\r\nabcde\r\n0\r\n\r\n", id="an underscore in the size"),
        pytest.param(b"g\r\nabcde\r\n0\r\n\r\n", id="g"),
        pytest.param(b"\r\nabcde\r\n0\r\n\r\n", id="no size"),
        pytest.param(b";a=b\r\nabcde\r\n0\r\n\r\n", id="only an extension"),
        pytest.param(b"5\r\nabcdeXX0\r\n\r\n", id="no line end after the data"),
        pytest.param(b"5\r\nabcdef\r\n0\r\n\r\n", id="more data than the size says"),
        pytest.param(b"5\r\nabcde\r\n0\r\nX : y\r\n\r\n", id="a trailer with a blank before the colon"),
        pytest.param(b"5\r\nabcde\r\n0\r\nno colon\r\n\r\n", id="a trailer without a colon"),
    ],
)
@pytest.mark.parametrize("first", ["{", "a"], ids=["read whole", "streamed"])
async def test_fc_013_chunks_that_are_none(by_parser: ByParser, parser: str, body: bytes, first: str) -> None:
    """Nothing after them is read as a request, and the agent sees no request that is complete."""
    scene = await by_parser(parser)
    sent = body.replace(b"abcde", first.encode() + b"bcde")
    got = await answered(
        scene, asked(scene, "POST /first HTTP/1.1", "Transfer-Encoding: chunked", body=sent) + last(scene)
    )
    assert [answer.status for answer in got] in ([400], [500], []), (
        "refused, or torn off while it was streamed"
    )
    if first == "{":
        assert [answer.status for answer in got] == [400]
    assert "GET /last" not in seen(scene)
    assert scene.untouched, seen(scene)


@both_parsers
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(b"ffffffffffffffff", id="more than anybody has"),
        pytest.param(b"10000000000000005", id="past 64 bits"),
    ],
)
async def test_fc_013_a_size_nobody_can_fill(by_parser: ByParser, parser: str, size: bytes) -> None:
    """Refused, or waited for: it does not wrap round to a small one."""
    scene = await by_parser(parser)
    body = size + b"\r\n{bcde\r\n0\r\n\r\n"
    sent = asked(scene, "POST /first HTTP/1.1", "Transfer-Encoding: chunked", body=body) + last(scene)
    got = read_answers(await speak(scene.port, sent, hang_up=True))
    assert [answer.status for answer in got] in ([400], [])
    await scene.ask("GET /afterwards")
    assert seen(scene) == ["GET /afterwards"]


@both_parsers
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"5 \r\nabcde\r\n0\r\n\r\n", id="a blank after the size"),
        pytest.param(b"00000000000000005\r\nabcde\r\n0\r\n\r\n", id="noughts before the size"),
        pytest.param(b"5;a=b\r\nabcde\r\n0;c\r\n\r\n", id="extensions"),
        pytest.param(b'5;a="\\"b"\r\nabcde\r\n0\r\n\r\n', id="a quoted extension"),
        pytest.param(b"5;a\rxx\r\nabcde\r\n0\r\n\r\n", id="a carriage return in an extension"),
        pytest.param(b"5\r\nabcde\r\n0\r\nX-Trailer: y\r\n\r\n", id="a trailer"),
        pytest.param(b"5\r\nabcde\r\n000\r\n\r\n", id="three noughts at the end"),
    ],
)
async def test_fc_013_what_may_be_dropped_is_dropped(by_parser: ByParser, parser: str, body: bytes) -> None:
    """Refused, or forwarded as the five bytes it means, in framing of our own; then the connection ends."""
    scene = await by_parser(parser)
    got = await answered(
        scene, asked(scene, "POST /first HTTP/1.1", "Transfer-Encoding: chunked", body=body) + last(scene)
    )
    assert [answer.status for answer in got] in ([400], [200])
    if got[0].status == 400:
        assert scene.untouched
        return
    assert seen(scene) == ["POST /first"]
    assert scene.agent.received[0].body == b"abcde"
    assert scene.agent.received[0].values("X-Trailer") == []
    assert not (parser != "Python" and b"\rxx" in body), "the shipped parser refuses a bare CR"


TRAILERS = [
    "Authorization: Bearer {}",
    "authorization: Bearer {}",
    "A2A-Version: 0.3",
    "Content-Length: 0",
    "Host: evil.test",
    "Transfer-Encoding: identity",
    "X-Forwarded-User: alice",
    "X-Other: y\r\nAuthorization: Bearer {}",
]


@both_parsers
@pytest.mark.parametrize("trailer", TRAILERS, ids=lambda t: t.partition(":")[0])
async def test_fc_013_a_trailer_is_no_header(by_parser: ByParser, parser: str, trailer: str) -> None:
    scene = await by_parser(parser)
    said = trailer.format(scene.token("alice"))

    async def cancelled(task: str) -> Answer:
        text = json.dumps(envelope("CancelTask", {"id": task})).encode()
        chunks = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(text), text, said.encode())
        head = ("Transfer-Encoding: chunked", f"Trailer: {said.partition(':')[0]}", V1, "Connection: close")
        (answer,) = await answered(scene, asked(scene, "POST / HTTP/1.1", *head, body=chunks))
        return answer

    foreign = await cancelled(T_A)
    if foreign.status == 400:
        assert scene.untouched
        return
    require_not_found(foreign)
    require_equal_to_nf(foreign, await cancelled(N))
    assert scene.untouched
    await cancelled(T_M)
    (own,) = scene.agent.received
    assert own.json["params"] == {"id": T_M}
    assert own.values("Authorization") == [f"Bearer {scene.token('mallory')}"]
    assert own.values("A2A-Version") == ["1.0"]
    assert own.values("Trailer") == own.values("X-Forwarded-User") == own.values("X-Other") == []
    assert own.values("Host") != ["evil.test"]


@both_parsers
@pytest.mark.parametrize("trailer", TRAILERS, ids=lambda t: t.partition(":")[0])
@pytest.mark.parametrize("at_once", [True, False], ids=["pipelined", "after the reply"])
async def test_fc_013_nor_is_it_one_of_the_next_request(
    by_parser: ByParser, parser: str, trailer: str, at_once: bool
) -> None:
    """What stands before us may carry several callers' requests on one connection: mallory's trailer would
    make an anonymous send hers, or spoil alice's."""
    scene = await by_parser(parser)
    said = trailer.format(scene.token("mallory"))
    body = b"1\r\na\r\n0\r\n%b\r\n\r\n" % said.encode()
    one = asked(scene, "POST /first HTTP/1.1", "Transfer-Encoding: chunked", body=body)
    two = http("GET /anonymous HTTP/1.1", "Host: agents.test")
    three = asked(scene, "GET /alices HTTP/1.1", "Connection: close", who="alice")
    if at_once:
        got = await answered(scene, one + two + three)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        writer.write(one)
        async with asyncio.timeout(10):
            start = await reader.readuntil(b"\r\n\r\n")
            writer.write(two + three)
            try:
                got = read_answers(start + await reader.read())
            except ConnectionError:  # it was closed before we wrote
                got = read_answers(start)[:1]
        writer.close()
    assert got[0].status in (200, 400)
    assert [answer.status for answer in got[1:]] in ([], [401, 200])
    for request in scene.agent.received[1:]:
        assert request.target == "/alices"
        assert request.values("Authorization") == [f"Bearer {scene.token('alice')}"]
        assert request.values("X-Other") == request.values("X-Forwarded-User") == []


# --- FC-014 --------------------------------------------------------------------------------------

H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
GET_TA = json.dumps(envelope("GetTask", {"id": T_A})).encode()


def no_tunnel(scene: Scene, got: list[Answer], *, most: int) -> None:
    assert len(got) >= 1
    assert all(answer.status != 101 for answer in got)
    assert len(scene.agent.received) <= most, seen(scene)
    assert not any(HIDDEN in line for line in seen(scene))
    for request in scene.agent.received:
        names = {name.lower() for name, _ in request.headers}
        assert not names & {"upgrade", "http2-settings", "connection"}


@pytest.mark.parametrize("opened", [False, True], ids=["no path opened", "a path opened"])
@pytest.mark.parametrize(
    ("line", "headers", "body"),
    [
        pytest.param("GET /ws HTTP/1.1", H2C, b"", id="h2c"),
        pytest.param(f"GET /tasks/{T_A} HTTP/1.1", (*H2C, V1), b"", id="h2c on a task"),
        pytest.param(
            "POST / HTTP/1.1", (*H2C, V1, f"Content-Length: {len(GET_TA)}"), GET_TA, id="h2c with a call"
        ),
        pytest.param("GET /ws HTTP/1.1", ("Upgrade: h2c",), b"", id="h2c without Connection"),
        pytest.param(
            "GET /ws HTTP/1.1",
            ("Connection: Upgrade", "Upgrade: h2c, websocket"),
            b"",
            id="h2c and websocket",
        ),
        pytest.param("GET /ws HTTP/1.1", ("Connection: Upgrade", "Upgrade: TLS/1.2"), b"", id="TLS"),
        pytest.param("GET /ws HTTP/1.1", ("Connection: Upgrade",), b"", id="Connection without Upgrade"),
        pytest.param(f"GET /tasks/{T_A} HTTP/1.1", (*WEBSOCKET, V1), b"", id="websocket on a task"),
        pytest.param(
            f"GET /tasks/{T_M} HTTP/1.1", (*WEBSOCKET, V1), b"", id="websocket on the caller's own task"
        ),
        pytest.param(
            "POST / HTTP/1.1",
            (*WEBSOCKET, V1, f"Content-Length: {len(GET_TA)}"),
            GET_TA,
            id="websocket with a call",
        ),
        pytest.param("GET /other HTTP/1.1", WEBSOCKET, b"", id="websocket where no path is opened"),
        pytest.param("GET /ws/ HTTP/1.1", WEBSOCKET, b"", id="websocket beside the opened path"),
        pytest.param("CONNECT agents.test:443 HTTP/1.1", (), b"", id="CONNECT"),
        pytest.param("CONNECT /ws HTTP/1.1", (), b"", id="CONNECT with a path"),
    ],
)
async def test_fc_014_an_upgrade_opens_no_tunnel(
    scenes: Scenes, opened: bool, line: str, headers: tuple[str, ...], body: bytes
) -> None:
    scene = await scenes(other_paths={"upgrades": ["/ws"]} if opened else {"anonymous": ["/healthz"]})
    hidden = http("GET /hidden HTTP/1.1", "Host: agents.test", *scene.bearer(), "Connection: close")
    got = await answered(scene, asked(scene, line, *headers, body=body) + hidden)
    if f"GET {HIDDEN}" in seen(scene):
        # An offer of h2c may be ignored (RFC 9110 §7.8), as may `Connection` alone; then it is a second request.
        assert all("h2c" in h for h in headers if h.startswith("Upgrade:"))
        assert len(got) == 2
        scene.agent.received.pop()
    if any(word in "".join(headers) for word in ("websocket", "TLS")) or "CONNECT" in line:
        assert [answer.status for answer in got] == [400]
        assert scene.untouched
    no_tunnel(scene, got, most=1)
    if T_A in line or body:
        assert scene.untouched


@pytest.mark.parametrize("line", ["GET /ws HTTP/1.1", "POST /ws HTTP/1.1", "POST / HTTP/1.1"])
async def test_fc_014_a_second_request_as_the_body_of_an_upgrade(scene: Scene, line: str) -> None:
    hidden = b"GET /hidden HTTP/1.1\r\nHost: x\r\n"
    hidden += b"\r\n" * ((32 - len(hidden)) // 2)
    got = await answered(
        scene, asked(scene, line, *WEBSOCKET, f"Content-Length: {len(hidden)}", body=hidden) + last(scene)
    )
    assert [answer.status for answer in got] == [400]
    no_tunnel(scene, got, most=0)


@both_parsers
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
            id="the preface of HTTP/2",
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40 + b"\r\n\r\n", id="TLS"),
        pytest.param(
            b"CONNECT agents.test:443 HTTP/1.1\r\nHost: agents.test:443\r\n\r\n",
            id="CONNECT without a credential",
        ),
        pytest.param(
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n",
            id="the PROXY protocol",
        ),
    ],
)
async def test_fc_014_other_protocols_are_not_spoken(by_parser: ByParser, parser: str, sent: bytes) -> None:
    scene = await by_parser(parser)
    got = await answered(scene, sent)
    assert [answer.status for answer in got] == [400]
    assert scene.untouched


async def test_fc_014_a_101_of_the_agents_is_not_relayed(scene: Scene) -> None:
    """Design: an upgrade opens a tunnel only on a path the policy names; here the agent offers one unasked."""

    async def script(request: web.Request, _: bytes) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
        )
        return web.Response()

    scene.agent.script = script
    for line in ("GET /ws HTTP/1.1", f"GET /tasks/{T_M} HTTP/1.1"):
        scene.forget()
        (answer,) = await answered(scene, asked(scene, line, *H2C, V1, "Connection: close"))
        assert answer.status == 500
        no_tunnel(scene, [answer], most=1)
