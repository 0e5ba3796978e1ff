"""An agent that answers without having read the body takes the rest for the next request."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.edge.agent import CARD, a_task
from tests.edge.conftest import Sidecar, Start


class Naive(http.server.BaseHTTPRequestHandler):
    """Python's own server leaves it to the handler whether a body is read."""

    protocol_version = "HTTP/1.1"
    cancelled: ClassVar[list[str]] = []

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""

    def say(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.say(*((200, CARD) if "agent-card" in self.path else (404, {})))

    def do_POST(self) -> None:
        if self.path != "/":
            self.say(404, {})  # and the body stays where it is
            return
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        task = asked["params"].get("id", "t-alice")
        if asked["method"] == "CancelTask":
            self.cancelled.append(task)
        self.say(200, {"jsonrpc": "2.0", "id": asked["id"], "result": {"task": a_task(task)}})


@pytest.fixture
def naive() -> Iterator[str]:
    Naive.cancelled = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Naive)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
async def test_bob_cannot_hide_a_request_in_a_body_nobody_judged(
    start: Start, naive: str, method: str
) -> None:
    running: Sidecar = await start(
        agents=[{"name": "review", "upstream": naive, "public_url": "https://agents.test/review"}]
    )
    sent = await running.submit()
    assert sent.status == 200, sent
    cancel = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": "t-alice"}}
    ).encode()
    hidden = b"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n%b" % (
        len(cancel),
        cancel,
    )
    await running.send(method, "/upload", who="bob", data=hidden, headers={"Content-Type": "text/plain"})
    for _ in range(3):
        await running.call("GetTask", {"id": "t-alice"})
    assert Naive.cancelled == []
