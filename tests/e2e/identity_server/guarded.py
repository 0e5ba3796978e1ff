"""A sidecar before a real agent, and a caller who says exactly what it is told to.

Owns: starting a sidecar of a test's own, and sending requests to it with any credential.
Never: gets a token, or decides what an answer should be.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.dpop import ProofKey
from tests.e2e.deployment import TRIES, Deployment, DidNotStart, Sidecar, free_port, running
from tests.e2e.recorder import Recorder
from tests.e2e.wire import JSONRPC_1, TIMEOUT, Answer, Request, answer
from tests.e2e.wire import request as a2a

AGENT: Final = "a2a-js-1"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A sidecar before the agent. `context` is how a caller without a certificate connects, if by TLS."""

    sidecar: Sidecar
    context: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        """The address every request of this file goes to."""
        return f"{self.sidecar.url}/"

    def send(
        self, sent: Request, authorization: str, context: ssl.SSLContext | None = None, **headers: str
    ) -> Answer:
        place = urlsplit(self.url)
        assert place.hostname is not None
        context = context or self.context
        connection = (
            HTTPConnection(place.hostname, place.port, timeout=TIMEOUT)
            if context is None
            else HTTPSConnection(place.hostname, place.port, timeout=TIMEOUT, context=context)
        )
        try:
            connection.request(
                sent.method, sent.path, sent.body, {**sent.headers, "Authorization": authorization, **headers}
            )
            return answer(connection.getresponse())
        finally:
            connection.close()

    def submit(self, token: str) -> Answer:
        """Send a message with a bearer token."""
        return self.send(a2a(JSONRPC_1, "send"), f"Bearer {token}")

    def get(self, task: str, token: str) -> Answer:
        return self.send(a2a(JSONRPC_1, "get", task=task), f"Bearer {token}")

    def prove(self, sent: Request, token: str, key: ProofKey, **claims: Any) -> Answer:
        """Send with a key-bound token and a proof, with `claims` over what it should say."""
        return self.send(sent, f"DPoP {token}", DPoP=key.proof("POST", self.url, token, **claims))

    @property
    def heard(self) -> int:
        """How many requests have reached the agent."""
        return len(self.sidecar.recorder.calls())


@contextmanager
def guarded(
    name: str, folder: Path, deployment: Deployment, identity: dict[str, Any], **sections: Any
) -> Iterator[Sidecar]:
    """A sidecar of its own before the agent, with these sections in its policy."""
    port = int(deployment.agent(AGENT).rpartition(":")[2])
    scheme = "https" if "tls" in sections else "http"
    with Recorder("127.0.0.1", port) as recorder, ExitStack() as stack:
        for left in reversed(range(TRIES)):
            listen, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
            made = Sidecar(f"{scheme}://{listen}", f"http://{admin}", recorder)
            policy = folder / f"{name}.yaml"
            document = {
                "version": 1,
                "listen": listen,
                "admin": admin,
                "agents": [{"name": AGENT, "upstream": recorder.url, "public_url": made.url}],
                "identity": identity,
                "ledger": {"url": f"sqlite:///{folder / name}.db"},
            }
            policy.write_text(json.dumps(document | sections))
            try:
                stack.enter_context(running(policy, made, folder, name))
                break
            except DidNotStart:
                if not left:
                    raise
        yield made
