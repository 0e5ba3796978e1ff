"""Both edges read the same bytes as the same requests, wherever they are cut, and frame the same replies.

The one on aiohttp's own server is the oracle. Where it waits for the rest of a body whose framing is broken already, the
lean one may say so at once (400, and the end); that is the only difference allowed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import pytest
from multidict import CIMultiDict

from sidecar.app import Edge
from sidecar.model import Reason, Refused, Reply
from sidecar.proxy.lean_edge import LeanServer
from tests.edge.ordinary_edge import HttpServer
from tests.edge.wires import Body, Listener, Told, connect

# --- what is compared ------------------------------------------------------------------------------


@dataclass
class Outcome:
    told: list[Told]
    sent: bytes
    closed: bool  # before the caller hung up
    stuck: bool

    @property
    def heard(self) -> bytes:
        """What a caller can compare: without the date, and of the pages for what no parser could read the status."""
        return _PAGE.sub(rb"<page \1>", undated(self.sent))


def undated(sent: bytes) -> bytes:
    return re.sub(rb"Date: [^\r]+", b"Date: now", sent)


_PAGE = re.compile(
    rb"HTTP/\d\.\d (\d+) [^\r]*\r\n(?:[^\r]+\r\n)*Cache-Control: no-store\r\n(?:[^\r]+\r\n)*\r\n(?:\{[^}]*\}\})?"
)
# `Listener` was told that the rest of a body is none, and the connection ends.
_UNFRAMED = re.compile(
    rb"HTTP/1\.[01] 400 Bad Request\r\nContent-Length: \d+\r\n(?:[^\r]+\r\n)+\r\n(unframed)?"
)


def echo(told: Told) -> Reply:
    return Reply(200, CIMultiDict({"Content-Type": "text/plain"}), f"{told.target} {told.body!r}".encode())


async def outcome(edge: Edge, *pieces: bytes, reads: bool = True) -> Outcome:
    listener = Listener(echo, reads=reads)
    wire = connect(edge, listener)
    await wire.hear(*pieces)
    closed = wire.closing
    await wire.hang_up()
    assert wire.lost
    return Outcome(listener.told, b"".join(wire.sent), closed, wire.stuck)


async def require_no_worse(*pieces: bytes, reads: bool = True) -> Outcome:
    ordinary, lean = [await outcome(edge, *pieces, reads=reads) for edge in (HttpServer, LeanServer)]
    assert lean.told == ordinary.told, pieces
    assert not lean.stuck, pieces
    assert lean.closed >= ordinary.closed, pieces
    if lean.heard != ordinary.heard:
        said = lean.heard.removeprefix(ordinary.heard)
        assert _UNFRAMED.fullmatch(said), pieces
        assert lean.closed, pieces
        assert lean.told[-1].body is None, pieces
    return lean


# --- the bytes -------------------------------------------------------------------------------------

LINES = [
    b"POST /a HTTP/1.1\r\nHost: x\r\n",
    b"GET /a HTTP/1.0\r\n",
    b"HEAD /a HTTP/1.1\r\nhost:x\r\nX: 1\r\nx: \xff\xc3\xa9 2 \t\r\n",
]
FRAMINGS = [
    b"\r\n",
    b"Content-Length: 3\r\n\r\nabc",
    b"Content-Length: 0\r\n\r\n",
    b"Content-Length: 9\r\n\r\nabc",
    b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    b"Content-Length: +3\r\n\r\nabc",
    b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n2\r\nbc\r\n0\r\nX-T: v\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"X: a\r\n b\r\n\r\n",
    b"X : a\r\n\r\n",
    b"X: a\nY: b\n\n",
    b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"Connection: close\r\n\r\n",
    b"Connection: keep-alive\r\n\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
]
NEXT = [
    b"",
    b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"garbage\r\n\r\n",
]
STREAMS = [b"".join(parts) for parts in product(LINES, FRAMINGS, NEXT)]


def drop_of(stream: bytes) -> str:
    return ascii(stream.decode("latin-1")).strip("'")[:90]


@pytest.mark.parametrize(
    ("line", "framing", "reads"),
    [
        pytest.param(
            line, framing, reads, id=f"{drop_of(framing)}-{drop_of(line)}-{'read' if reads else 'left'}"
        )
        for framing, line, reads in product(FRAMINGS, LINES, [True, False])
        # For the rest of a body that is left both wait two seconds; test_lean_edge.py looks at that.
        if reads or not framing.endswith(b"9\r\n\r\nabc")
    ],
)
async def test_one_meaning_wherever_it_is_cut(line: bytes, framing: bytes, reads: bool) -> None:
    for after in NEXT:
        stream = line + framing + after
        await require_no_worse(stream, reads=reads)
        cuts = range(1, len(stream)) if after in NEXT[:2] else range(len(line), len(stream), 3)
        for cut in cuts:
            await require_no_worse(stream[:cut], stream[cut:], reads=reads)
        await require_no_worse(*(stream[i : i + 1] for i in range(len(stream))), reads=reads)


def mutated(choose: random.Random) -> Iterator[bytes]:
    """A stream with a few bytes taken out, doubled or replaced, in pieces."""
    stream = bytearray(b"".join(choose.choice(STREAMS) for _ in range(choose.randint(1, 3))))
    for _ in range(choose.randint(0, 3)):
        at = choose.randrange(len(stream))
        match choose.randrange(4):
            case 0:
                del stream[at : at + choose.randint(1, 3)]
            case 1:
                stream[at:at] = stream[at : at + choose.randint(1, 9)]
            case 2:
                stream[at] = choose.choice(b"\r\n\0 \t:;,0123456789abcdefG/\x7f\x80\xff")
            case _:
                stream[at:at] = choose.choice([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"0\r\n\r\n"])
        stream = stream or bytearray(b"\n")
    cuts = sorted(choose.sample(range(len(stream) + 1), min(len(stream), choose.randint(0, 5))))
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        yield bytes(stream[start:end])


@pytest.mark.parametrize("seed", range(20))
async def test_one_meaning_whatever_it_is(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(100):
        await require_no_worse(*(piece for piece in mutated(choose) if piece))


# --- replies ---------------------------------------------------------------------------------------

REPLIES = {
    "whole": lambda: Reply(200, CIMultiDict({"Content-Type": "text/plain", "X": "1"}), b"whole"),
    "empty": lambda: Reply(200, CIMultiDict()),
    "204": lambda: Reply(204, CIMultiDict({"X": "1"})),
    "304": lambda: Reply(304, CIMultiDict({"ETag": '"1"'})),
    "an unknown status": lambda: Reply(299, CIMultiDict(), b"x"),
    "an error": lambda: Reply(404, CIMultiDict([("Set-Cookie", "a"), ("Set-Cookie", "b")]), b"{}"),
    "names of ours": lambda: Reply(200, CIMultiDict({"Date": "never", "Server": "theirs"}), b"x"),
    "beyond ASCII": lambda: Reply(200, CIMultiDict({"X": "\u00e9\t\u20ac"}), b"x"),
    "a stream": lambda: Reply(200, CIMultiDict(), Body([b"one", b"", b"two"])),
    "a stream of known length": lambda: Reply(200, CIMultiDict(), Body([b"one", b"two"]), 6),
    "a stream past its length": lambda: Reply(200, CIMultiDict(), Body([b"one", b"two"]), 4),
    "an empty stream": lambda: Reply(200, CIMultiDict(), Body([])),
    "an empty 204": lambda: Reply(204, CIMultiDict(), Body([])),
    "a stream that breaks": lambda: Reply(200, CIMultiDict(), Body([b"one", Refused(Reason.AGENT_FAILED)])),
    "a stream of known length that breaks": lambda: Reply(
        200, CIMultiDict(), Body([b"one", Refused(Reason.AGENT_FAILED)]), 6
    ),
}
ASKED = {
    "1.1": b"GET /a HTTP/1.1\r\nHost: x\r\n",
    "1.1 close": b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
    "1.0": b"GET /a HTTP/1.0\r\n",
    "1.0 keep-alive": b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n",
    "HEAD": b"HEAD /a HTTP/1.1\r\nHost: x\r\n",
    "HEAD 1.0": b"HEAD /a HTTP/1.0\r\n",
}


@pytest.mark.parametrize(
    ("reply", "asked"),
    [
        pytest.param(REPLIES[reply], ASKED[asked], id=f"{reply}-{asked}")
        for reply, asked in product(REPLIES, ASKED)
        # An agent's reply to HEAD has no body; the next test looks at that.
        if "HEAD" not in asked or ("stream" not in reply and reply != "an empty 204")
    ],
)
async def test_one_framing_of_replies(reply: Callable[[], Reply], asked: bytes) -> None:
    got = []
    for edge in (HttpServer, LeanServer):
        listener = Listener(lambda _: reply())
        wire = connect(edge, listener)
        await wire.hear(*[asked + b"X-Request-Id: r-1\r\n\r\n"] * 2)
        lines = sorted(undated(b"".join(wire.sent)).split(b"\r\n"))  # fields may come in any order
        got.append((lines, wire.closing, wire.aborted, len(listener.told)))
        await wire.hang_up()
    assert got[1] == got[0]


@pytest.mark.parametrize("length", [None, 6])
async def test_a_streamed_reply_to_head_has_the_declared_length_and_no_body(length: int | None) -> None:
    got = []
    for edge in (HttpServer, LeanServer):
        wire = connect(edge, Listener(lambda _: Reply(200, CIMultiDict(), Body([]), length)))
        await wire.hear(ASKED["HEAD"] + b"\r\n")
        got.append((undated(b"".join(wire.sent)), wire.closing))
        await wire.hang_up()
    assert got[1] == got[0]
    assert (b"Content-Length: 6\r\n" in got[1][0]) is (length == 6)
    assert not got[1][1]
