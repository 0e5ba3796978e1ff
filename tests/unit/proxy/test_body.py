"""Which bodies are read whole, which stream, and what is refused on the way."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.config import Limits
from sidecar.model import Head, Reason, Refused
from sidecar.proxy.body import inflate, read_body, read_for_form

LIMITS = Limits(body=100_000)


class Sent:
    """A request body in chunks, as an Exchange."""

    id = "x"

    def __init__(self, *chunks: bytes, **headers: str) -> None:
        named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
        self.head = Head("POST", "/", CIMultiDictProxy(named))
        self.has_body = bool(chunks)
        self.read = 0
        self.here = False
        self._chunks = chunks

    def arrived(self) -> bytes | None:
        return b"".join(self._chunks) if self.here else None

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self.read += len(chunk)
            yield chunk


@pytest.fixture(params=[False, True], ids=["in pieces", "all here"])
def here(request: pytest.FixtureRequest) -> bool:
    """How a body comes: some of it is still on its way, or it all came with its head."""
    return bool(request.param)


@pytest.mark.parametrize(
    ("chunks", "whole"),
    [
        pytest.param([b'{"a":1}'], True, id="an object"),
        pytest.param([b" \r\n\t", b"", b"[", b"1]"], True, id="an array after blanks, in pieces"),
        pytest.param([b" " * 5000, b"{}"], True, id="nothing but blanks in the first KiB"),
        pytest.param([b"\xef\xbb\xbf{}"], True, id="a UTF-8 BOM"),
        pytest.param(["{}".encode("utf-16")], True, id="UTF-16 with BOM"),
        pytest.param(["{ }".encode("utf-16-le")], True, id="UTF-16 without"),
        pytest.param(["[ ]".encode("utf-16-be")], True, id="UTF-16 big-endian"),
        pytest.param(["{}".encode("utf-32-le")], True, id="UTF-32"),
        pytest.param(["{}".encode("utf-32-be")], True, id="UTF-32 big-endian"),
        pytest.param([b"a=1&b={}"], False, id="a form"),
        pytest.param([b"\x89PNG\r\n\x1a\n{"], False, id="a picture"),
        pytest.param([b"\0\0\0\x20ftypmp42"], False, id="a film begins with NULs and is no JSON"),
        pytest.param([b'"{"'], False, id="a JSON string"),
    ],
)
async def test_what_might_be_json_is_read_whole(chunks: list[bytes], whole: bool, here: bool) -> None:
    sent = Sent(*chunks)
    sent.here = here
    body = await read_body(sent, LIMITS)
    rest = b"".join([chunk async for chunk in body.rest]) if body.rest is not None else body.whole
    assert (body.whole is not None) == whole
    assert rest == b"".join(chunks)


@pytest.mark.parametrize("cut", range(12))
async def test_the_split_does_not_matter(cut: int) -> None:
    wire = b'   {"a": 1} '
    body = await read_body(Sent(wire[:cut], wire[cut:]), LIMITS)
    assert body.whole == wire


async def test_what_streams_is_not_kept() -> None:
    sent = Sent(b"binary", *[b"x" * 1000] * 500)
    body = await read_body(sent, LIMITS)
    assert body.whole is None
    assert sent.read < 2000


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(Sent(b"{" + b" " * 100_001), Reason.BODY_TOO_LARGE, id="too large, found while reading"),
        pytest.param(Sent(b"{", Content_Length="100001"), Reason.BODY_TOO_LARGE, id="too large, as declared"),
        pytest.param(
            Sent(b"{}", Content_Encoding="br"), Reason.ENCODING_REFUSED, id="a coding we do not inflate"
        ),
        pytest.param(Sent(b"{}", Content_Encoding="gzip, gzip"), Reason.ENCODING_REFUSED, id="two layers"),
        pytest.param(
            Sent(b"{}", Content_Encoding="gzip"), Reason.ENCODING_REFUSED, id="a coding that is a lie"
        ),
        pytest.param(Sent(b"+AHs-", Content_Type="a/b; charset=utf-7"), Reason.ENCODING_REFUSED, id="UTF-7"),
        pytest.param(
            Sent(b"x", Content_Type='a/b; Charset="UTF-16"'), Reason.ENCODING_REFUSED, id="quoted, upper case"
        ),
    ],
)
async def test_refused(sent: Sent, reason: Reason, here: bool) -> None:
    sent.here = here
    with pytest.raises(Refused) as raised:
        await read_body(sent, LIMITS)
    assert raised.value.refusal.reason is reason


async def test_a_long_upload_that_is_no_json_may_exceed_the_limit() -> None:
    sent = Sent(b"x" * 10, Content_Length="100001", Content_Type="application/octet-stream")
    assert (await read_body(sent, LIMITS)).rest is not None


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate"])
async def test_one_layer_is_inflated(coding: str, here: bool) -> None:
    sent = Sent(
        zlib.compress(b"{}") if coding == "deflate" else gzip.compress(b"{}"), Content_Encoding=coding
    )
    sent.here = here
    body = await read_body(sent, LIMITS)
    assert (body.whole, body.inflated) == (b"{}", True)


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        pytest.param(gzip.compress(b"x" * 101), Reason.BODY_TOO_LARGE, id="a bomb"),
        pytest.param(gzip.compress(b"x")[:-4], Reason.ENCODING_REFUSED, id="cut short"),
        pytest.param(gzip.compress(b"x") + b"{}", Reason.ENCODING_REFUSED, id="something follows"),
        pytest.param(
            gzip.compress(b"x") + gzip.compress(b"y"), Reason.ENCODING_REFUSED, id="a second member"
        ),
    ],
)
def test_inflating_is_bounded_and_exact(packed: bytes, reason: Reason) -> None:
    with pytest.raises(Refused) as raised:
        inflate(packed, "gzip", 100)
    assert raised.value.refusal.reason is reason


@pytest.mark.parametrize(
    ("sent", "whole"),
    [
        pytest.param(Sent(b'{"id":1}'), b'{"id":1}', id="a small body is read for the form of the refusal"),
        pytest.param(Sent(b"{" + b" " * 70_000), b"", id="a large one is not"),
        pytest.param(Sent(b"{", Content_Length="70000"), b"", id="nor one declared so"),
        pytest.param(
            Sent(b"{}", Expect="100-continue", Content_Length="2"), b"", id="nobody is told to go on"
        ),
        pytest.param(
            Sent(gzip.compress(b"{}"), Content_Encoding="br"), b"", id="what cannot be read is nothing"
        ),
        pytest.param(Sent(b"binary"), b"", id="what would stream is nothing"),
    ],
)
async def test_of_a_body_that_goes_nowhere_little_is_read(sent: Sent, whole: bytes, here: bool) -> None:
    sent.here = here
    assert (await read_for_form(sent, LIMITS)).whole == whole
