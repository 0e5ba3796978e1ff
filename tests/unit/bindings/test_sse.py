"""Where events end, at every cut of the input, and in time that grows with the input only."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.bindings.sse import EventTooLarge, SseEvent, SseParser

LIMIT = 1 << 16

STREAMS = [
    pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], b"", id="line feeds"),
    pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], b"", id="carriage return and line feed"),
    pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], b"", id="carriage returns"),
    pytest.param(b"data: a\n\r\ndata: b\r\n\n", [b"a", b"b"], b"", id="mixed line ends"),
    pytest.param(
        b"data: a\r\n\rdata: b\n\n", [b"a", b"b"], b"", id="a blank line that ends in CR after CR LF"
    ),
    pytest.param(b"data: a\r\r\ndata: b\n\n", [b"a", b"b"], b"", id="an LF after CR CR opens the next event"),
    pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], b"", id="a BOM at the very start is no content"),
    pytest.param(
        b"\xef\xbb\xbf\r\ndata: a\n\n", [None, b"a"], b"", id="a BOM alone on a line is a blank line"
    ),
    pytest.param(
        b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a", None], b"", id="a BOM later on is part of a field name"
    ),
    pytest.param(
        b"data:a\ndata: b\ndata:  c\n\n", [b"a\nb\n c"], b"", id="data lines are joined, one space is cut"
    ),
    pytest.param(b'data: {\r\ndata:   "x": 1\r\ndata: }\r\n\r\n', [b'{\n  "x": 1\n}'], b"", id="spread JSON"),
    pytest.param(b": ping\n\ndata: a\n\n", [None, b"a"], b"", id="a comment alone is a block of its own"),
    pytest.param(b": ping\r\n\r\n: ping\r\n\r\n", [None, None], b"", id="comments with CR LF"),
    pytest.param(
        b"id: 7\nevent: error\nretry: 10\ndata: a\n: c\n\nretry: 5\n\n", [b"a", None], b"", id="other fields"
    ),
    pytest.param(b"data\n\ndata:\n\n", [b"", b""], b"", id="empty data is data"),
    pytest.param(b"datax: a\nDATA: b\n data: c\n\n", [None], b"", id="names are exact"),
    pytest.param(b"\n\n\r\n", [None, None, None], b"", id="blank lines alone"),
    pytest.param("data: ü\n\n".encode(), ["ü".encode()], b"", id="a character of two bytes"),
    pytest.param(b"data: a\n\ndata: b\n", [b"a"], b"data: b\n", id="an event that was not ended is the rest"),
    pytest.param(b"data: a\r\n\r\ndata: b", [b"a"], b"data: b", id="a line that was not ended is the rest"),
    pytest.param(b"data: a\r\r\n", [b"a"], b"\n", id="an LF after CR CR at the end is no event"),
    pytest.param(b"data: a\n\r", [], b"data: a\n\r", id="an event whose last LF may be missing is the rest"),
    pytest.param(b"", [], b"", id="nothing"),
]


def parse(chunks: list[bytes]) -> tuple[list[SseEvent], bytes]:
    parser = SseParser(LIMIT)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events, parser.close()


@pytest.mark.parametrize(("stream", "data", "rest"), STREAMS)
def test_events_and_rest(stream: bytes, data: list[bytes | None], rest: bytes) -> None:
    events, left = parse([stream])
    assert [event.data for event in events] == data
    assert left == rest
    assert b"".join(event.raw for event in events) + left == stream


@pytest.mark.parametrize(("stream", "data", "rest"), STREAMS)
def test_no_cut_changes_events_or_bytes(stream: bytes, data: list[bytes | None], rest: bytes) -> None:
    whole = parse([stream])
    for first, second in itertools.combinations_with_replacement(range(len(stream) + 1), 2):
        chunks = [stream[:first], stream[first:second], stream[second:]]
        assert parse(chunks) == whole, chunks
    assert parse([stream[at : at + 1] for at in range(len(stream))]) == whole


FRAGMENTS = [b"\n", b"\r", b"\r\n", b"data: a", b"data", b"data:", b":", b"id: 1", b"\xef\xbb\xbf", b" "]


def data_by_the_book(stream: bytes) -> list[bytes | None]:
    """The algorithm of WHATWG HTML 9.2.6, on a whole stream at once."""
    lines = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events: list[bytes | None] = []
    data: bytes | None = None
    for line in lines[:-1]:
        if not line:
            events.append(data)
            data = None
        elif line == b"data" or line.startswith(b"data:"):
            value = line[5:]
            value = value[1:] if value.startswith(b" ") else value
            data = value if data is None else data + b"\n" + value
    return events


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(b"".join), st.data())
def test_any_mixture_reads_as_the_standard_says(fragments: bytes, drawn: st.DataObject) -> None:
    stream = fragments + b"x"  # no line end left open
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    edges = [0, *cuts, len(stream)]
    events, rest = parse([stream[a:b] for a, b in itertools.pairwise(edges)])
    assert [event.data for event in events] == data_by_the_book(stream)
    assert b"".join(event.raw for event in events) + rest == stream


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(b"data: a\n\n", id="LF LF"),
        pytest.param(b"data: a\r\n\r\n", id="CR LF CR LF"),
        pytest.param(b"data: a\r\r", id="CR CR, without waiting for an LF"),
        pytest.param(b": ping\r\n\r\n", id="a comment"),
        pytest.param(b"\n", id="a blank line"),
    ],
)
def test_an_event_is_given_out_with_its_last_byte(event: bytes) -> None:
    parser = SseParser(LIMIT)
    parser.feed(b"data: before\n\n")
    assert parser.feed(event[:-1]) == []
    assert [given.raw for given in parser.feed(event[-1:])] == [event]
    assert parser.close() == b""


def test_an_event_as_large_as_the_limit_passes() -> None:
    event = b"data: aaaa\n\n"
    assert [given.raw for given in SseParser(len(event)).feed(event)] == [event]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"data: aaaaa\n\n"], id="whole"),
        pytest.param([b"data: aaaaaaaaaaaaaaaaaa"], id="not ended yet"),
        pytest.param([b"data: aaa", b"aa\n\n"], id="in two chunks"),
    ],
)
def test_a_larger_event_is_refused_for_good(chunks: list[bytes]) -> None:
    parser = SseParser(12)
    for chunk in chunks[:-1]:
        assert parser.feed(chunk) == []
    with pytest.raises(EventTooLarge):
        parser.feed(chunks[-1])
    with pytest.raises(EventTooLarge):
        parser.feed(b"data: b\n\n")
    with pytest.raises(EventTooLarge):
        parser.close()


def test_events_before_the_one_that_is_too_large_are_given_out() -> None:
    parser = SseParser(12)
    assert [event.data for event in parser.feed(b"data: a\n\ndata: too large\n\ndata: c\n\n")] == [b"a"]
    with pytest.raises(EventTooLarge):
        parser.feed(b"")


def test_the_limit_counts_one_event_not_the_stream() -> None:
    parser = SseParser(12)
    assert len(parser.feed(b"data: a\n\n" * 100)) == 100


def test_a_large_event_byte_by_byte_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        parser = SseParser(2 * size)
        event = b"data: " + b"x" * size + b"\n\n"
        began = time.process_time()
        events = [given for at in range(len(event)) for given in parser.feed(event[at : at + 1])]
        assert [given.raw for given in events] == [event]
        return time.process_time() - began

    # Four times the bytes: about 4 if linear, 16 if quadratic.
    assert seconds(1 << 19) < 9 * min(seconds(1 << 17) for _ in range(3))
