"""The recorder reads requests off any split of bytes, and what passes it is unchanged."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.e2e.recorder import Received, Recorder, RequestReader

WIRE = (
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
    b"GET /b HTTP/1.1\r\nA:  b \r\n\r\n"
    b"POST /c HTTP/1.1\r\nContent-Length: 4\r\n\r\nwxyz"
)
REQUESTS = [
    Received("POST", "/a", (("Host", "x"), ("Transfer-Encoding", "chunked")), b"abcde"),
    Received("GET", "/b", (("A", "b"),), b""),
    Received("POST", "/c", (("Content-Length", "4"),), b"wxyz"),
]


@pytest.mark.parametrize("cut", range(len(WIRE) + 1))
def test_the_split_does_not_matter(cut: int) -> None:
    reader = RequestReader()
    assert reader.feed(WIRE[:cut]) + reader.feed(WIRE[cut:]) == REQUESTS


def test_bytes_pass_unchanged_both_ways_and_are_remembered_before_the_answer() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    got = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                while len(got) < len(WIRE):
                    got.extend(connection.recv(7))
                connection.sendall(answer)

        agent = threading.Thread(target=serve)
        agent.start()
        with Recorder(*listening.getsockname()) as recorder:
            port = int(recorder.url.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
                caller.sendall(WIRE)
                back = b""
                while part := caller.recv(3):
                    back += part
            assert back == answer
            assert recorder.received == REQUESTS
        agent.join()
    assert bytes(got) == WIRE
