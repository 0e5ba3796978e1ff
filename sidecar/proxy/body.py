"""Reading request bodies: whole and bounded where they are judged, streamed where they need not be.

Owns: the choice between the two (design §2.2), inflating, and the body's limits and deadline.
Never: parses.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from multidict import CIMultiDictProxy

from sidecar.config import Limits
from sidecar.model import Exchange, Reason, Refused

_SNIFF = 1024  # bytes in which the first non-blank one must appear (design §2.2)
_FOR_FORM = 64 * 1024  # bytes read for a caller without a valid credential
_RATIO, _RATIO_FREE = 100, 2**20  # a body may inflate a hundredfold, or to a MiB
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BLANK = b" \t\r\n"
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_OVERLAPPING = frozenset(
    {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "latin-1", "windows-1252"}
)
_GZIP = frozenset({"gzip", "x-gzip"})


class Body(NamedTuple):
    """`whole` is what was judged; None where the body is streamed uninspected from `rest`."""

    whole: bytes | None
    rest: AsyncIterator[bytes] | None = None
    inflated: bool = False


NO_BODY = Body(b"")


async def read_body(exchange: Exchange, limits: Limits) -> Body:
    """The body of a request that may go on. Raises Refused (too large, too slow, encoding)."""
    if not exchange.has_body:
        return NO_BODY
    headers = exchange.head.headers
    coding = _coding(headers) if "Content-Encoding" in headers else None
    _check_charset(headers)
    _check_length(headers, limits.body)
    whole = exchange.arrived()
    if whole is None:
        chunks = exchange.chunks()
        try:
            async with asyncio.timeout(limits.body_timeout):
                start, ended = await _start(chunks)
                if coding is None and not _may_be_json(start):
                    return Body(None, _chain(start, chunks, ended, limits.body_timeout))
                whole = await _whole(start, chunks, ended, limits.body)
        except TimeoutError:
            raise Refused(Reason.BODY_TOO_SLOW) from None
    elif coding is None and not _may_be_json(whole):
        return Body(None, _once(whole))
    elif len(whole) > limits.body:
        raise Refused(Reason.BODY_TOO_LARGE)
    if coding is not None:
        whole = inflate(whole, coding, min(limits.body, max(_RATIO_FREE, _RATIO * len(whole))))
    _check_values(whole, limits.values)
    return Body(whole, inflated=coding is not None)


async def read_for_form(exchange: Exchange, limits: Limits) -> Body:
    """What little is read of a body that goes nowhere, so that its refusal can take the request's form."""
    headers = exchange.head.headers
    declared = headers.get("Content-Length", "0")
    if not exchange.has_body or "Expect" in headers or not declared.isdecimal() or int(declared) > _FOR_FORM:
        return NO_BODY
    try:
        body = await read_body(exchange, limits.model_copy(update={"body": min(limits.body, _FOR_FORM)}))
    except Refused:
        return NO_BODY
    return body if body.whole is not None else NO_BODY


def inflate(data: bytes, coding: str, limit: int) -> bytes:
    """One layer of gzip or deflate, whole and bounded. Raises Refused."""
    wbits = 16 + zlib.MAX_WBITS if coding in _GZIP else zlib.MAX_WBITS
    engine = zlib.decompressobj(wbits)
    try:
        out = engine.decompress(data, limit + 1)
    except zlib.error:
        raise Refused(Reason.ENCODING_REFUSED, "the body is not what Content-Encoding says") from None
    if len(out) > limit:
        raise Refused(Reason.BODY_TOO_LARGE)
    if not engine.eof or engine.unused_data:
        raise Refused(Reason.ENCODING_REFUSED, "the compressed body is incomplete, or something follows it")
    return out


def _coding(headers: CIMultiDictProxy[str]) -> str | None:
    codings = [
        c.strip().lower() for value in headers.getall("Content-Encoding", ()) for c in value.split(",")
    ]
    codings = [c for c in codings if c not in ("", "identity")]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in _GZIP | {"deflate"}:
        raise Refused(Reason.ENCODING_REFUSED, "one layer of gzip or deflate at most")
    return codings[0]


def _check_charset(headers: CIMultiDictProxy[str]) -> None:
    """UTF-7 and UTF-16 can hide JSON from whoever looks at bytes; an agent may honour what the header says."""
    for value in headers.getall("Content-Type", ()):
        if ";" not in value:
            continue
        for parameter in value.split(";")[1:]:
            name, _, charset = parameter.partition("=")
            if name.strip().lower() == "charset" and charset.strip(" \t\"'").lower() not in _OVERLAPPING:
                raise Refused(Reason.ENCODING_REFUSED, "charset must be UTF-8")


def _check_length(headers: CIMultiDictProxy[str], limit: int) -> None:
    """Say no before the caller is told to go on. What is not JSON may be longer: it is streamed."""
    declared = headers.get("Content-Length", "0")
    may_be_json = "json" in headers.get("Content-Type", "json").lower()
    if may_be_json and declared.isdecimal() and int(declared) > limit:
        raise Refused(Reason.BODY_TOO_LARGE)


async def _start(chunks: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Bytes up to the first non-blank one and a little more, and whether the body ended."""
    start = b""
    async for chunk in chunks:
        start += chunk
        if len(start) >= _SNIFF or len(_bare(start)) >= 4:
            return start, False
    return start, True


def _may_be_json(start: bytes) -> bool:
    """Whether some parser could read this as JSON: UTF-8, UTF-16 or UTF-32, with or without BOM, or still blank."""
    if start[:1] in (b"{", b"["):
        return True
    bare = _bare(start[:_SNIFF])
    return not bare or bare.startswith(_MARKS) or bare[:1] in (b"{", b"[")


def _bare(start: bytes) -> bytes:
    """Without NULs, which are half of UTF-16 and three quarters of UTF-32, and without leading blanks."""
    return start.translate(None, b"\0").lstrip(_BLANK)


def _check_values(whole: bytes, limit: int) -> None:
    """Bound what parsing costs: a small compressed body may hold millions of values. Text is cheap, whatever is in it.

    Objects and lists up to `limit`, strings (names of members included) twice, all values four times as many.
    """
    if len(whole) <= limit or _within(whole, limit):
        return
    # Perhaps it is only text that holds so many marks: count again with each string cut down to one quote.
    if whole.count(b'"') > 16 * limit or not _within(_STRING.sub(b'"', whole), limit):
        raise Refused(Reason.BODY_TOO_LARGE, "the body holds more values than limits.values")


def _within(marks: bytes, limit: int) -> bool:
    containers = marks.count(b"{") + marks.count(b"[")
    return containers <= limit and marks.count(b'"') <= 2 * limit and marks.count(b",") <= 4 * limit


async def _whole(start: bytes, chunks: AsyncIterator[bytes], ended: bool, limit: int) -> bytes:
    parts, size = [start], len(start)
    if not ended:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                break
            parts.append(chunk)
    if size > limit:
        raise Refused(Reason.BODY_TOO_LARGE)
    return b"".join(parts) if len(parts) > 1 else start


async def _once(whole: bytes) -> AsyncIterator[bytes]:
    yield whole


async def _chain(
    start: bytes, chunks: AsyncIterator[bytes], ended: bool, idle: float
) -> AsyncIterator[bytes]:
    """The streamed body. A caller who stalls for `idle` seconds gives the agent's connection back."""
    if start:
        yield start
    while not ended:
        async with asyncio.timeout(idle):
            chunk = await anext(chunks, b"")
        if not chunk:
            return
        yield chunk
