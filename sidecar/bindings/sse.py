"""Event streams, fed with bytes.

Owns: where an event of a `text/event-stream` ends, and which bytes of it are data.
Never: awaits, changes a byte, or looks into the data.

Source: WHATWG HTML, section 9.2.5 and 9.2.6 (line ends LF, CR LF and CR, also mixed; one BOM at the
very start; one space after the colon belongs to the syntax).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_BOM: Final = b"\xef\xbb\xbf"
_OTHER_LINE_ENDS: Final = re.compile(rb"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")  # str.splitlines()
_DATA: Final = b"data:"
_FIELDS: Final = frozenset({b"event", b"id", b"retry"})
_CR: Final = 0x0D
_LF: Final = 0x0A


class EventTooLarge(ValueError):
    """An event is larger than the limit; nothing after it can be read."""


class SseEvent(NamedTuple):
    """One block of a stream.

    `raw` is exactly the bytes received, up to and including the blank line that ended it.
    `data` is the data lines joined by LF, None for a block that has none (comments, retry).
    """

    raw: bytes
    data: bytes | None


def is_event_stream(raw: bytes, *, first: bool) -> bool:
    """Whether what is no data in `raw` can carry none to anybody, however lax.

    Lines of unknown fields are to be ignored (WHATWG), so they may stand as long as nobody could take them for JSON;
    no line but data may hold what some languages take for the end of a line.
    """
    # Of bytes, `splitlines` takes LF, CR LF and CR for line ends, and nothing else.
    for line in (raw.removeprefix(_BOM) if first else raw).splitlines():
        if line and not line.startswith(_DATA) and line != b"data" and not _carries_nothing(line):
            return False
    return True


def _carries_nothing(line: bytes) -> bool:
    if _OTHER_LINE_ENDS.search(line):
        return False
    known = line[:1] in (b"", b":") or line.partition(b":")[0] in _FIELDS
    return known or not (b"{" in line or b"[" in line)


class SseParser:
    """Cuts a stream into events. All `raw` in order, then `close()`, are the input again, byte for byte.

    An event is given out with its last byte. Whether a CR is the first half of CR LF shows only in the
    next byte: where the line before ended in a CR, so does the blank one, the event leaves at once, and an
    LF that follows opens the next `raw` (or is what `close` returns); anywhere else the byte is waited for.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is the largest event in bytes, line ends included."""
        self._limit = limit
        self._block = bytearray()  # the unfinished event
        self._searched = 0  # no line end before this place of the block, except those already counted
        self._line = 0  # where the current line of the block starts
        self._after_cr = False  # the last line end was a CR, which an LF here would complete
        self._first_line = self._first_block = True  # a BOM at the very start of a stream is no content
        self._failed = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes; return the events they completed.

        Raises EventTooLarge. Events completed before the one that is too large are given out first:
        then the next call raises, so that the cut of the stream into chunks makes no difference.
        """
        if self._failed:
            raise self._too_large()
        self._block += chunk
        events: list[SseEvent] = []
        while end := self._end_of_block():
            if end > self._limit:
                break
            events.append(self._take(end))
        self._failed = len(self._block) > self._limit or bool(end)
        if self._failed and not events:
            raise self._too_large()
        return events

    def close(self) -> bytes:
        """The bytes of an unfinished event, empty where the stream ended cleanly. Raises EventTooLarge."""
        if self._failed:
            raise self._too_large()
        return bytes(self._block)

    def _end_of_block(self) -> int:
        """Where the first complete event in the block ends, 0 for nowhere yet."""
        block = self._block
        while (at := _line_end(block, self._searched)) >= 0:
            line = len(_BOM) if self._first_line and block.startswith(_BOM) else self._line
            if block[at] == _LF:
                completes_cr = self._after_cr and at == self._line
                blank, end = at == line and not completes_cr, at + 1
                self._after_cr = False
            else:
                blank, end = at == line, at + 1
                if blank and not self._after_cr:
                    if end == len(block):
                        self._searched = at
                        return 0
                    end += block[end] == _LF
                self._after_cr = end == at + 1
            self._searched = self._line = end
            self._first_line = False
            if blank:
                return end
        self._searched = len(block)
        return 0

    def _take(self, end: int) -> SseEvent:
        raw = bytes(self._block[:end])
        del self._block[:end]
        self._searched = self._line = 0
        first, self._first_block = self._first_block, False
        return SseEvent(raw, _data(raw.removeprefix(_BOM) if first else raw))

    def _too_large(self) -> EventTooLarge:
        return EventTooLarge(f"an event of the stream is larger than {self._limit} bytes")


def _line_end(block: bytearray, start: int) -> int:
    """Where the next CR or LF is, -1 for nowhere. Two searches for one byte are many times faster than one for either."""
    lf = block.find(b"\n", start)
    cr = block.find(b"\r", start, lf if lf >= 0 else len(block))
    return cr if cr >= 0 else lf


def _data(block: bytes) -> bytes | None:
    values: list[bytes] = []
    for line in block.splitlines():
        name, _, value = line.partition(b":")
        if name == b"data":
            values.append(value.removeprefix(b" "))
    return b"\n".join(values) if values else None
