"""What an agent answered: bytes → Seen.

Owns: reading a whole reply, one event of a stream, and a reply too large to keep.
Never: awaits, changes a byte, or judges whether an id may be seen.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import DecimalException
from typing import Any, Final

import ijson  # type: ignore[import-untyped]  # it ships no annotations
import jiter

from sidecar.bindings.shapes import TERMINAL, Json, Seen, Shape, Unclear, see
from sidecar.bindings.sse import SseParser, is_event_stream
from sidecar.model import Call

__all__ = [
    "TERMINAL",
    "LongReply",
    "Seen",
    "Shape",
    "Unclear",
    "read_event",
    "read_failed_stream",
    "read_reply",
]


def read_reply(body: bytes, http_status: int, call: Call) -> Seen:
    """What a whole reply to `call` is. Raises Unclear.

    An HTTP status outside 2xx with a body that is no JSON (a framework's HTML page) is an ERROR.
    """
    if not body.strip():
        return Seen(Shape.ERROR if _failed(http_status) else Shape.NOTHING)
    if _failed(http_status) and not _looks_like_json(body):
        return Seen(Shape.ERROR)
    return see(_parse(body), call, http_status)


def read_event(data: bytes, call: Call) -> Seen:
    """What the data of one event of the stream that answers `call` is. Raises Unclear."""
    return see(_parse(data), call, None) if data.strip() else Seen(Shape.NOTHING)


def read_failed_stream(body: bytes, call: Call) -> Seen:
    """What an event stream under an HTTP status of failure is: errors only, or nothing. Raises Unclear."""
    parser = SseParser(len(body) + 2)
    seen = Seen(Shape.ERROR)
    for event in parser.feed(body + b"\n\n"):
        if not is_event_stream(event.raw, first=True):
            raise Unclear("a line that is none of an event stream")
        if event.data is not None:
            seen = read_event(event.data, call)
            if seen.shape is not Shape.ERROR:
                raise Unclear("an event under an HTTP status of failure")
    return seen


_SKIPPED: Final = b" \t\r\n\x0b\x0c\xef\xbb\xbf\xfe\xff"  # blanks and byte order marks
_GUARDS: Final = (b"for(;;)", b"while(1)", b")]}'", b"data:", b"/*")


def _failed(http_status: int) -> bool:
    return not 200 <= http_status < 300


def _looks_like_json(body: bytes) -> bool:
    """Whether some client could read it as JSON, in whatever Unicode encoding, or after a guard against script tags."""
    bare = body[:4096].translate(None, b"\0").lstrip(_SKIPPED)
    return bare[:1] in (b"{", b"[") or bare.startswith(_GUARDS)


def _parse(text: bytes) -> Json:
    """Duplicate keys are refused: the agent's client may keep the other one. NaN is let pass, as in the wild."""
    try:
        value: Json = jiter.from_json(text, catch_duplicate_keys=True, allow_inf_nan=True, cache_mode="keys")
    except ValueError:  # its message quotes the name that is there twice, and this text is audited
        raise Unclear("unreadable JSON, or a member given twice") from None
    return value


# --- a reply too large to keep ---------------------------------------------------------------

_LONGEST_STRING: Final = 4096  # bytes as written; no id is longer
_LONGEST_NUMBER: Final = 4300  # digits; what int() takes
_DEEPEST: Final = 200
_MOST_VALUES: Final = 10_000

# Members of which `see` only asks whether they are there; what is inside is skipped.
_HOLLOW: Final = frozenset(
    {"history", "artifacts", "artifact", "parts", "content", "role", "messageId", "message_id"}
)
# All members `see` looks at.
_KEPT: Final = _HOLLOW.union(
    ("jsonrpc", "result", "error", "code", "data", "details", "reason", "domain"),
    ("task", "message", "statusUpdate", "status_update", "artifactUpdate", "artifact_update", "kind"),
    ("id", "taskId", "task_id", "contextId", "context_id", "sessionId", "session_id"),
    ("status", "state", "timestamp", "name", "configs", "pushNotificationConfig", "push_notification_config"),
)

# Stands for a string that is too long or not exact. Not a str, so an id of this kind is Unclear.
_UNKNOWN_TEXT: Final = b'"\\u0000"'


class LongReply:
    """A reply past the size limit: fed in chunks, finds what it is about without keeping it.

    Memory is bounded whatever the reply; `feed` takes time linear in the chunk. Both methods raise
    Unclear, and keep raising it. Stricter than `read_reply` in one point: NaN and Infinity are Unclear.
    """

    def __init__(self, http_status: int, call: Call) -> None:
        self._http_status = http_status
        self._call = call
        self._prose = False  # a failure told in something that is no JSON
        self._short = _Shortened()
        self._outline = _Outline()
        self._events = ijson.sendable_list()
        self._parser: Any = None  # made for the first byte: without any, ijson's parsers complain
        self._unclear: Unclear | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""
        self._raise_again()
        if self._parser is None:
            chunk = chunk.lstrip()
            self._prose |= bool(chunk) and _failed(self._http_status) and not _looks_like_json(chunk)
        if self._prose or not chunk:
            return
        if self._parser is None:
            self._parser = ijson.basic_parse_coro(self._events)
        try:
            if text := self._short.feed(chunk):  # nothing would mean the end to the parser
                self._parser.send(text)
                self._read_events()
        except Unclear as error:
            raise self._given_up(error) from None
        except (ijson.JSONError, ValueError, DecimalException) as error:
            raise self._given_up(Unclear(f"unreadable JSON: {type(error).__name__}")) from None

    def close(self) -> Seen:
        """The body has ended: what it was. A body that broke off is Unclear."""
        self._raise_again()
        if self._parser is None:
            return read_reply(b"", self._http_status, self._call)
        try:
            self._parser.close()
        except (ijson.JSONError, ValueError, DecimalException):
            raise Unclear("the reply broke off") from None
        self._read_events()
        return see(self._outline.value, self._call, self._http_status)

    def _read_events(self) -> None:
        for event, value in self._events:
            self._outline.take(event, value)
        del self._events[:]

    def _given_up(self, error: Unclear) -> Unclear:
        self._unclear = error
        with suppress(ijson.JSONError, ValueError, DecimalException):
            self._parser.close()  # else ijson's parser in Python complains when it is collected
        return error

    def _raise_again(self) -> None:
        if self._unclear is not None:
            raise self._unclear


class _Outline:
    """Builds the JSON value with only the members `see` looks at."""

    def __init__(self) -> None:
        self.value: Json = None
        self._open: list[
            tuple[dict[str, Json] | list[Json], str | None]
        ] = []  # with the name it stands under
        self._name: str | None = None  # of the member whose value comes next; None for one nobody looks at
        self._skipping = 0  # containers open below the one that is skipped
        self._values = 0

    def take(self, event: str, value: Json) -> None:
        """One event of the parser. Raises Unclear."""
        starts, ends = event.startswith("start_"), event.startswith("end_")
        if self._skipping:
            self._skipping += starts - ends
        elif event == "map_key":
            self._take_name(value)
        elif ends:
            self._open.pop()
        elif starts:
            self._take_container({} if event == "start_map" else [])
        else:
            self._put(object() if value == "\x00" else value)
        if len(self._open) + self._skipping > _DEEPEST:
            raise Unclear("the reply is nested too deeply")

    def _take_name(self, name: Json) -> None:
        members, under = self._open[-1]
        # The name of a message to read, not of a wrapper, where it stands under a status.
        kept = name in _KEPT and not (under == "status" and name == "message")
        self._name = name if isinstance(name, str) and kept else None
        if isinstance(members, dict):
            if self._name is None:
                members[""] = None  # something is there that nobody looks at
            elif self._name in members:
                raise Unclear(f"duplicate key `{self._name}`")

    def _take_container(self, container: dict[str, Json] | list[Json]) -> None:
        inside = not self._open or isinstance(self._open[-1][0], list) or self._name is not None
        name = self._name
        if inside:
            self._put(container)
        if not inside or name in _HOLLOW:
            self._skipping = 1
        else:
            self._open.append((container, name))
            self._name = None

    def _put(self, value: Json) -> None:
        parent = self._open[-1][0] if self._open else None
        if parent is None:
            self.value = value
        elif isinstance(parent, list):
            parent.append(value)
        elif self._name is None:
            return
        else:
            parent[self._name] = value
            self._name = None
        self._values += 1
        if self._values > _MOST_VALUES:
            raise Unclear("the reply holds too many values")


# --- no token longer than needed -------------------------------------------------------------

_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_NUMBER_BYTES: Final = b"0123456789+-.eE"
_LONG_NUMBER: Final = re.compile(rb"[0-9+\-.eE]{%d}" % (_LONGEST_NUMBER + 1))
_QUOTE: Final = 0x22


class _Shortened:
    """JSON text with every long string replaced by a mark.

    The parser keeps an unfinished token and reads it again from its start with every chunk: a file of
    many megabytes in one string would cost its whole size in memory, and its square in time.
    """

    def __init__(self) -> None:
        self._held: bytearray | None = None  # the string being read, with its opening quote
        self._drop = False  # it is too long already
        self._escaped = False  # the last chunk ended in a backslash
        self._digits = 0  # of the number the last chunk ended in

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes; return what the parser is to see of them. Raises Unclear."""
        out = bytearray()
        at = 0
        while at < len(chunk):
            if self._held is None:
                quote = chunk.find(b'"', at)
                stop = len(chunk) if quote < 0 else quote
                self._count_digits(chunk[at:stop])
                out += chunk[at:stop]
                at = stop
                if quote >= 0:
                    self._held, self._drop, self._digits = bytearray(b'"'), False, 0
                    at += 1
                continue
            at = self._read_string(self._held, chunk, at)
            if at < len(chunk) and chunk[at] == _QUOTE:
                inexact = self._drop or _SURROGATE.search(
                    self._held
                )  # a lone surrogate would come out as `?`
                out += _UNKNOWN_TEXT if inexact else self._held + b'"'
                self._held = None
                at += 1
        return bytes(out)

    def _read_string(self, held: bytearray, chunk: bytes, at: int) -> int:
        """Hold what belongs to the string from `at`; return where its closing quote or the chunk's end is."""
        start = at
        if self._escaped:
            at += 1
        match = _INSIDE.match(chunk, at)
        at = match.end() if match else at
        self._escaped = at == len(chunk) - 1 and chunk[at] != _QUOTE
        at += self._escaped
        if not self._drop:
            held += chunk[start:at]
            self._drop = len(held) > _LONGEST_STRING
        if self._drop:
            held.clear()
        return at

    def _count_digits(self, text: bytes) -> None:
        leading = len(text) - len(text.lstrip(_NUMBER_BYTES))
        if self._digits + leading > _LONGEST_NUMBER or _LONG_NUMBER.search(text):
            raise Unclear("the reply holds a number that is too long")
        if leading == len(text):
            self._digits += leading
        else:
            self._digits = len(text) - len(text.rstrip(_NUMBER_BYTES))
