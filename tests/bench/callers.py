"""Several callers, ledgers filled beforehand, and sidecars in front of one agent that counts.

Owns: what the benches of promises (uniformity, listing) stand on: tokens, the agent's card, the rows of
a ledger, and the policy, which is the default but for what it says here.
Never: measures.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Entry, Fact, Kind, Owner, Resource
from tests.bench import witness
from tests.bench.machine import CHECKOUT
from tests.bench.processes import CannotMeasure, asked, free_port, pinned, process, until_answering
from tests.bench.scene import AUDIENCE, KID, compact, written
from tests.issuer import jwk, private_key, sign

AGENT: Final = "bench"
SCOPES: Final = ("a2a.tasks:read", "a2a.tasks:write")
AT_ONCE: Final = 250  # tasks a transaction
COMMAND: Final = ("-m", "sidecar")
DIALECTS: Final = tuple(
    f"{binding}/{version}" for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")
)
HOOKS: Final = "https://hooks.example.com"


@dataclass(frozen=True, slots=True)
class Stage:
    """`folder` is scratch space; `agent` is the port of the agent, which is the issuer as well."""

    folder: Path
    agent: int

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.agent}"

    def owner(self, subject: str) -> Owner:
        return Owner("", self.issuer, subject)

    def token(self, subject: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "sub": subject, "aud": AUDIENCE, "iat": now, "exp": now + 86400}
        claims |= {"client_id": "planner", "scope": " ".join(SCOPES)}
        return sign(claims, private_key("RS256"), header={"alg": "RS256", "typ": "at+jwt", "kid": KID})

    def operations(self) -> int:
        """How many operations have reached the agent so far."""
        return int(asked(self.agent, "GET", witness.COUNT)[1])


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One that answers."""

    port: int
    pid: int


def set_stage(folder: Path, core: int, stack: ExitStack) -> Stage:
    """Start the agent."""
    stage = Stage(folder, free_port())
    written(folder / witness.CARD, compact(_card(stage.issuer)))
    key = jwk(private_key("RS256"), kid=KID, use="sig", alg="RS256")
    written(folder / witness.KEYS, compact({"keys": [key]}))
    command = [sys.executable, "-m", "tests.bench.witness", str(stage.agent), str(folder)]
    started = stack.enter_context(process("witness", pinned(core, command), folder, directory=CHECKOUT))
    until_answering("witness", started, folder, stage.agent)
    return stage


def task_ids(count: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(count)]


def fill(stage: Stage, ledger: str, tasks: Mapping[str, Sequence[str]]) -> Path:
    """A ledger called `ledger` in which each subject owns their `tasks`, each task with a context of its own."""
    path = stage.folder / f"{ledger}.db"
    asyncio.run(_fill(path, {stage.owner(subject): theirs for subject, theirs in tasks.items()}))
    return path


async def _fill(path: Path, tasks: Mapping[Owner, Sequence[str]]) -> None:
    ledger = await SqliteLedger.open(path, now=time.time, timeout=60.0)
    try:
        for owner, theirs in tasks.items():
            for start in range(0, len(theirs), AT_ONCE):
                entries = [e for task in theirs[start : start + AT_ONCE] for e in _entries(task)]
                if await ledger.record(owner, entries):
                    raise CannotMeasure("a task in the ledger was given to two owners")
    finally:
        await ledger.close()


def _entries(task: str) -> Iterable[Entry]:
    yield Entry(Resource(AGENT, Kind.TASK, task), witness.fact(task))
    yield Entry(Resource(AGENT, Kind.CONTEXT, witness.context_of(task)), Fact())


def start_sidecar(
    stage: Stage,
    name: str,
    ledger: Path,
    core: int,
    stack: ExitStack,
    *,
    program: Sequence[str] = COMMAND,
    **sections: Any,
) -> Sidecar:
    """The sidecar on `core`, with the real command unless `program` says otherwise."""
    port, admin = free_port(), free_port()
    policy: dict[str, Any] = {
        "version": 1,
        "listen": f"127.0.0.1:{port}",
        "admin": f"127.0.0.1:{admin}",
        "agents": [{"name": AGENT, "upstream": stage.issuer, "public_url": f"http://127.0.0.1:{port}"}],
        "identity": {
            "issuers": [{"issuer": stage.issuer, "audiences": [AUDIENCE], "jwks_uri": f"{stage.issuer}/keys"}]
        },
        "scopes": {"lifecycle": {"get": [SCOPES[0]], "send": [SCOPES[1]]}},
        "push": {"allow": [HOOKS]},
        "ledger": {"url": f"sqlite:///{ledger}"},
        **sections,
    }
    file = written(stage.folder / f"{name}.yaml", compact(policy))  # JSON is YAML
    command = [sys.executable, *program, "run", "--policy", str(file)]
    audit = stack.enter_context((stage.folder / f"{name}-audit.jsonl").open("wb"))
    started = stack.enter_context(
        process(name, pinned(core, command), stage.folder, audit, directory=CHECKOUT)
    )
    until_answering(name, started, stage.folder, admin, "/readyz")
    return Sidecar(port, started.pid)


@dataclass(frozen=True, slots=True)
class Told:
    """A reply as a caller can compare it. `ns`: from before the request's first byte until after the reply's last."""

    head: bytes  # without Date
    body: bytes
    ns: int

    @property
    def shown(self) -> tuple[bytes, bytes]:
        return self.head, self.body


class Line:
    """One kept-alive connection to a sidecar, on which one request waits for its reply."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> Told:
        """Send `request` and read what comes by its Content-Length. Raises CannotMeasure if nothing whole comes."""
        recv, clock = self._socket.recv, time.perf_counter_ns
        began = clock()
        self._socket.sendall(request)
        got = recv(65536)
        at = got.find(b"\r\n\r\n")
        while at < 0:
            got += _some(recv(65536))
            at = got.find(b"\r\n\r\n")
        whole = at + 4 + _length(got[:at])
        while len(got) < whole:
            got += _some(recv(65536))
        ns = clock() - began
        head = b"\r\n".join(x for x in got[:at].split(b"\r\n") if not x.startswith(b"Date: "))
        return Told(head, got[at + 4 :], ns)

    def close(self) -> None:
        self._socket.close()


def _some(data: bytes) -> bytes:
    if not data:
        raise CannotMeasure("the sidecar closed the connection")
    return data


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    if not found:
        raise CannotMeasure(f"a reply without a length: {head.decode(errors='replace')}")
    return int(rest.partition(b"\r\n")[0])


def request_bytes(
    method: str, target: str, headers: Mapping[str, str], body: bytes | None, token: str
) -> bytes:
    """A request as it goes onto a Line."""
    lines = [f"{method} {target} HTTP/1.1", "Host: agents.test", f"Authorization: Bearer {token}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None or method == "POST":
        lines.append(f"Content-Length: {len(body or b'')}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def _card(url: str) -> dict[str, Any]:
    interfaces = [
        {"url": f"{url}/", "protocolBinding": binding, "protocolVersion": version}
        for binding, _, version in (dialect.rpartition("/") for dialect in DIALECTS)
    ]
    return {
        "name": AGENT,
        "description": "answers at once",
        "version": "1",
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": True, "pushNotifications": True},
        "securitySchemes": {"o": {"oauth2SecurityScheme": {"flows": {}}}},
        "securityRequirements": [{"schemes": {"o": {"list": [*SCOPES]}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "review", "name": "review", "description": "reviews", "tags": []}],
    }
