"""One HTTP/1.1 reply, read from bytes as they come.

Owns: where a reply begins and ends (RFC 9112 §6), and refusing what two readers could take for different replies.
Never: touches a socket, reads a second reply, passes on what llhttp's strict mode or the checks here did not accept.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict, CIMultiDictProxy, istr

LONGEST_FIELD: Final = 64 * 1024  # bytes of one line of the head
LONGEST_HEAD: Final = 256 * 1024  # bytes of all heads of a reply, interim ones included
MOST_FIELDS: Final = 128
MOST_INTERIM: Final = 8  # 1xx replies before the final one
LONGEST_FRAMING: Final = 64 * 1024  # bytes of chunk sizes, extensions and trailers without a byte of body

_END_OF_HEAD: Final = b"\r\n\r\n"
_VERSIONS: Final = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_LENGTH: Final = istr("Content-Length")
_CODING: Final = istr("Transfer-Encoding")
_CONNECTION: Final = istr("Connection")


class BadReply(Exception):
    """What arrived is no reply, or not a whole one. The text says why and quotes nothing."""


class ReplyReader:
    """Feed it what arrives; read `status`, `headers` and `length` once `begun`, `body` as it grows.

    `complete` says that the reply has ended, `reusable` that another may follow it on its connection. `length` is what
    the agent declared, also where no body follows it.
    """

    # Here and not in `__init__`: one of these is made for each call, and few need more than a few of them.
    status = 0
    headers: CIMultiDictProxy[str]
    length: int | None = None
    begun = complete = reusable = False
    _before: bytearray | None = None  # of a head whose end is still to come
    _seen = 0  # bytes of heads
    _interim = 0
    _framing = 0
    _chunked = False
    _left = -1  # bytes of the body still to come; -1 where something else ends it

    def __init__(self, *, bodiless: bool) -> None:
        """`bodiless` for the reply to a HEAD."""
        self.body: list[bytes] = []
        self._bodiless = bodiless
        # A parser for each head: nothing of one reply can change how another is read.
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Take what arrived; what belongs to the body is in `body` even if this raises. Raises BadReply, once."""
        try:
            while data and not self.begun:
                data = self._feed_head(data)
            if not data:
                return
            if self.complete:
                self.reusable = False
            elif self._chunked:
                self._feed_chunks(data)
            else:
                self._feed_plain(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            raise BadReply(_named(problem)) from None

    def end(self) -> None:
        """The connection was ended properly. Raises BadReply if the reply was not."""
        if not self.begun or self._chunked or self._left >= 0:
            raise BadReply("the connection ended within the reply")
        self.complete = True

    def let_go(self) -> None:
        """Nothing more will be fed."""
        del self._parser  # it holds us as we hold it

    # --- head ---------------------------------------------------------------------------------

    def _feed_head(self, data: bytes) -> bytes:
        """What of `data` stands behind the head; a head in pieces is refused as early as its first wrong byte."""
        before = self._before
        start = 0
        whole: bytes | bytearray = data
        if before is not None:
            start = len(before)
            before += data
            whole = before
        end = whole.find(_END_OF_HEAD, max(0, start - 3)) + len(_END_OF_HEAD)
        if end < len(_END_OF_HEAD):
            if before is None:
                self._before = bytearray(data)
            if self._seen + len(whole) > LONGEST_HEAD:
                raise BadReply("its head is too long")
            self._parser.feed_data(data)
            return b""
        self._seen += end
        if self._seen > LONGEST_HEAD:
            raise BadReply("its head is too long")
        head = bytes(whole[:end])
        # llhttp would skip blank lines before a reply and read RTSP and other versions too (RFC 9112 §2.3).
        if not head.startswith(_VERSIONS):
            raise BadReply("not HTTP/1.1 or 1.0")
        self._parser.feed_data(head[start:])
        self._before = None
        self._take_head(head)
        return data[end - start :]

    def _take_head(self, head: bytes) -> None:
        """`head` is what llhttp's strict mode accepted: CRLF only, nothing folded, names that are tokens."""
        status = self._parser.get_status_code()
        try:
            lines = head.decode().split("\r\n")
        except UnicodeDecodeError:  # each byte goes on as it is
            lines = head.decode("utf-8", "surrogateescape").split("\r\n")
        if len(lines) > MOST_FIELDS + 3 or (
            len(head) > LONGEST_FIELD and max(map(len, lines)) > LONGEST_FIELD
        ):
            raise BadReply("a header field too long, or too many")
        if "\0" in lines[0]:  # in the phrase; elsewhere llhttp sees it
            raise BadReply("a NUL in its head")
        headers: CIMultiDict[str] = CIMultiDict()
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers.add(name, value.strip(" \t"))
        declared, coding = headers.get(_LENGTH), headers.get(_CODING)
        if status < 200:
            self._skip_interim(status, declared or coding)
            return
        self.status, self.headers = status, CIMultiDictProxy(headers)
        self.begun = True
        one_one = head.startswith(_VERSIONS[0])
        self.reusable = one_one if _CONNECTION not in headers else _persists(headers, one_one)
        if declared is not None:
            self.length = self._left = _length(headers, declared)
        if coding is not None:
            self._chunked = _is_chunked(headers, declared)
            # RFC 9112 §6.1: whoever speaks 1.0 does not know what `chunked` means.
            self.reusable = self.reusable and one_one
        if self._bodiless or status in (204, 304) or self._left == 0:  # RFC 9112 §6.3, rule 1
            self.complete = True
            # An agent that sends a body all the same may not have sent it yet, and it would begin the next reply.
            self.reusable = self.reusable and self._left <= 0 and not self._chunked
        elif self._left < 0 and not self._chunked:
            self.reusable = False

    def _skip_interim(self, status: int, framed: str | None) -> None:
        self._interim += 1
        if status < 100 or status == 101:  # an upgrade nobody asked for
            raise BadReply(f"status {status}")
        if self._interim > MOST_INTERIM:
            raise BadReply("too many interim replies")
        if framed is not None:  # RFC 9110 §8.6, RFC 9112 §6.1
            raise BadReply("an interim reply with a body")
        self._parser = HttpResponseParser(self)

    # --- body ---------------------------------------------------------------------------------

    def _feed_plain(self, data: bytes) -> None:
        if self._left >= 0:
            if len(data) > self._left:
                data = data[: self._left]
                self.reusable = False
            self._left -= len(data)
            self.complete = self._left == 0
        self.body.append(data)

    def _feed_chunks(self, data: bytes) -> None:
        pieces = len(self.body)
        try:
            if data.endswith(b"\n"):
                # The last byte of a reply is a line feed; fed apart, it tells whether something follows it.
                self._parser.feed_data(memoryview(data)[:-1])
                surplus = self.complete
                if not surplus:
                    self._parser.feed_data(b"\n")
            else:
                self._parser.feed_data(data)
                surplus = self.complete
        except (HttpParserError, HttpParserUpgrade):
            if not self.complete:
                raise
            surplus = True  # and no HTTP
        self.reusable = self.reusable and not surplus
        self._framing = 0 if len(self.body) > pieces else self._framing + len(data)
        if self._framing > LONGEST_FRAMING and not self.complete:
            raise BadReply("framing without end")

    # --- what llhttp says of a chunked body ------------------------------------------------------

    def on_body(self, piece: bytes) -> None:
        if self.complete or not self._chunked:
            raise BadReply("a second reply")
        self.body.append(piece)

    def on_message_complete(self) -> None:
        if self._chunked:  # of other replies it is for us to say
            self.complete = True


def _length(headers: CIMultiDict[str], declared: str) -> int:
    # RFC 9112 §6.3, rule 5; llhttp refuses all of this too.
    if len(headers.getall(_LENGTH)) > 1 or not (declared.isascii() and declared.isdecimal()):
        raise BadReply("its length is not one number")
    return int(declared)


def _is_chunked(headers: CIMultiDict[str], declared: str | None) -> bool:
    """RFC 9112 §6.3, rules 3 and 4; any coding but `chunked` alone was not asked for."""
    codings = headers.getall(_CODING)
    if declared is not None or len(codings) > 1 or codings[0].lower() != "chunked":
        raise BadReply("its framing is ambiguous")
    return True


def _persists(headers: CIMultiDict[str], one_one: bool) -> bool:
    """RFC 9112 §9.3."""
    options = {o.strip().lower() for value in headers.getall(_CONNECTION) for o in value.split(",")}
    return "close" not in options and (one_one or "keep-alive" in options)


def _named(problem: HttpParserError | HttpParserUpgrade) -> str:
    cause = problem.__context__
    return str(cause if isinstance(cause, BadReply) else problem) or type(problem).__name__
