"""Whether a flood of tokens with made-up key ids costs the issuer, or a well-behaved caller, more than any other flood.

Owns: the floods, the issuer that counts, and what a caller with a good token sees meanwhile.
Never: compares times of different moments: slices alternate.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from tests.bench import machine, report
from tests.bench.callers import Line, Stage, fill, request_bytes, set_stage, start_sidecar, task_ids
from tests.bench.load import CONNECTIONS, Cores
from tests.bench.machine import CHECKOUT
from tests.bench.processes import CannotMeasure, free_port, pinned, require
from tests.bench.scene import AUDIENCE, KID, compact, written
from tests.issuer import b64, jwk, private_key, sign

RATIO: Final = 1.5  # of the p99s of the well-behaved caller, unknown ids to bad signatures
COOLDOWN: Final = 10.0  # seconds, the policy's default
REFRESH: Final = 270.0  # seconds: nine tenths of the default, when keys are fetched anew in any case
ASKED: Final = ("unknown ids", "bad signatures")

say = Console(stderr=True).print


@dataclass(slots=True)
class Flood:
    """One kind of flood: what its senders were answered, and what the caller beside them waited."""

    answers: Counter[str] = field(default_factory=Counter)
    us: list[float] = field(default_factory=list)
    seconds: float = 0.0
    asked: int = 0  # requests to the issuer meanwhile

    def at(self, share: float) -> float:
        return sorted(self.us)[min(len(self.us) - 1, math.ceil(len(self.us) * share) - 1)]


class Issuer:
    """Serves keys and answers about opaque tokens, slowly, and counts."""

    def __init__(self, port: int, delay: float) -> None:
        self.asked = 0
        self.url = f"http://127.0.0.1:{port}"
        keys = compact({"keys": [jwk(private_key("RS256"), kid=KID, use="sig", alg="RS256")]}).encode()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._tell(keys)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._tell(b'{"active":false}')

            def _tell(self, body: bytes) -> None:
                issuer.asked += 1
                time.sleep(delay)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True

    @contextmanager
    def running(self) -> Iterator[Issuer]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()


def floods(
    requests: Annotated[int, typer.Option(min=100, help="Requests of each kind of flood.")] = 10_000,
    slices: Annotated[int, typer.Option(min=2, help="Slices each kind is cut into.")] = 10,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds the issuer takes for an answer.")] = 0.2,
    planted: Annotated[
        bool, typer.Option(help="Let every unknown id cost a fetch: the bench must fail.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes.")] = None,
) -> None:
    """Flood with made-up key ids and with bad signatures, in turn. Exit code 1 if the first costs more."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    require(["taskset", "setpriv"])
    began = datetime.now(UTC)
    cores = Cores.of(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores.load})
    with tempfile.TemporaryDirectory(prefix="a2a-sidecar-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        document: dict[str, object] = {
            "began": began.isoformat(timespec="seconds"),
            "machine": machine.facts(folder, {}),
            "settings": {"requests": requests, "slices": slices, "delay": delay, "planted": planted},
        }
        stage = set_stage(folder, cores.load, stack)
        issuer = stack.enter_context(Issuer(free_port(), delay).running())
        measured = _measure(stage, issuer, cores, stack, requests, slices, planted=planted)
    unknown, known, _ = measured.values()
    ratio = unknown.at(0.99) / known.at(0.99)
    bound = (
        1
        + math.floor((unknown.seconds + known.seconds) / COOLDOWN)
        + math.ceil((unknown.seconds + known.seconds) / REFRESH)
    )
    fetches = unknown.asked + known.asked
    report.show(table(measured))
    say(f"p99 ratio {ratio:.2f} (at most {RATIO}); {fetches} key fetches (at most {bound})")
    document["floods"] = {
        kind: {
            "answers": dict(flood.answers),
            "p50_us": flood.at(0.5),
            "p99_us": flood.at(0.99),
            "polls": len(flood.us),
            "seconds": flood.seconds,
            "asked": flood.asked,
        }
        for kind, flood in measured.items()
    }
    document |= {"p99_ratio": round(ratio, 3), "key_fetches": fetches, "bound": bound}
    say(f"written to {report.write(document, began, out, 'floods-')}")
    passed = (
        ratio <= RATIO
        and fetches <= bound
        and set(unknown.answers) <= {"401", "503"}
        and set(known.answers) == {"401"}
    )
    if not passed:
        say("failed")
        raise typer.Exit(1)


def _measure(
    stage: Stage, issuer: Issuer, cores: Cores, stack: ExitStack, requests: int, slices: int, *, planted: bool
) -> dict[str, Flood]:
    own = task_ids(1)[0][:-1] + "f"
    secret = written(stage.folder / "secret", "s")
    trusted: dict[str, Any] = {
        "issuer": issuer.url,
        "audiences": [AUDIENCE],
        "jwks_uri": f"{issuer.url}/keys",
        "introspection": {
            "client_id": "s",
            "client_secret_file": str(secret),
            "url": f"{issuer.url}/introspect",
        },
    }
    identity: dict[str, Any] = {"issuers": [trusted]} | ({"keys_cooldown": "1ms"} if planted else {})
    mine = Stage(stage.folder, stage.agent)
    ledger = fill(mine, "floods", {})
    sidecar = start_sidecar(
        mine, "floods", ledger, cores.proxy, stack, identity=identity, ownership={"mode": "disabled"}
    )
    line = Line(sidecar.port)
    stack.callback(line.close)
    good = request_bytes(
        "POST",
        "/",
        {"A2A-Version": "1.0", "Content-Type": "application/json"},
        compact({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": own}}).encode(),
        _token(issuer, {"kid": KID}),
    )
    if b'"result"' not in line.ask(good).body:
        raise CannotMeasure("the well-behaved caller is refused")
    kinds: Mapping[str, Callable[[int], str]] = {
        "unknown ids": lambda n: _forged(issuer, f"made-up-{secrets.token_hex(8)}", n),
        "bad signatures": lambda n: _forged(issuer, KID, n),
        "opaque tokens": lambda n: secrets.token_urlsafe(32),
    }
    each = requests // slices
    measured = {kind: Flood() for kind in kinds}
    for number in range(slices + 1):
        order = list(ASKED) if number % 2 else list(reversed(ASKED))
        for kind in (*order, *(["opaque tokens"] if number % 5 == 1 else [])):
            tokens = [kinds[kind](n) for n in range(each)]
            flood = Flood() if number == 0 else measured[kind]  # the first warms up
            _slice(flood, tokens, sidecar.port, line, good, issuer, stage, cores)
    return measured


def _slice(
    flood: Flood,
    tokens: Sequence[str],
    port: int,
    line: Line,
    good: bytes,
    issuer: Issuer,
    stage: Stage,
    cores: Cores,
) -> None:
    file = written(stage.folder / "tokens", "\n".join(tokens))
    command = [sys.executable, "-m", "tests.bench.flooder", str(port), str(file), str(CONNECTIONS)]
    asked, began = issuer.asked, time.monotonic()
    with subprocess.Popen(pinned(cores.load, command), cwd=CHECKOUT, stdout=subprocess.PIPE) as sender:
        while sender.poll() is None:
            told = line.ask(good)
            if b'"result"' not in told.body:
                raise CannotMeasure("the well-behaved caller is refused")
            flood.us.append(told.ns / 1e3)
            time.sleep(0.002)  # a caller that polls, and leaves the core to the flood
        output = sender.stdout.read() if sender.stdout is not None else b""
    if sender.returncode != 0:
        raise CannotMeasure("the flood broke off")
    flood.seconds += time.monotonic() - began
    flood.asked += issuer.asked - asked
    flood.answers.update(json.loads(output))


def _claims(issuer: Issuer, number: int = 0) -> dict[str, Any]:
    now = int(time.time())
    scope = "a2a.tasks:read a2a.tasks:write"
    return {
        "iss": issuer.url, "sub": "alice", "aud": AUDIENCE, "iat": now, "exp": now + 86400,
        "jti": f"{number}-{secrets.token_hex(4)}", "client_id": "planner", "scope": scope,
    }  # fmt: skip


def _token(issuer: Issuer, header: Mapping[str, str]) -> str:
    return sign(_claims(issuer), private_key("RS256"), header={"alg": "RS256", "typ": "at+jwt", **header})


def _forged(issuer: Issuer, kid: str, number: int) -> str:
    """A token nobody has sent yet, with a signature of the right length that is none."""
    head = compact({"alg": "RS256", "typ": "at+jwt", "kid": kid}).encode()
    return f"{b64(head)}.{b64(compact(_claims(issuer, number)).encode())}.{b64(secrets.token_bytes(256))}"


def table(measured: Mapping[str, Flood]) -> Table:
    shown = Table(title="a well-behaved caller during floods: µs")
    for name in ("flood", "answers", "p50", "p99", "polls", "asked of the issuer"):
        shown.add_column(name, justify="left" if name in ("flood", "answers") else "right")
    for kind, flood in measured.items():
        answers = ", ".join(f"{status}: {count}" for status, count in sorted(flood.answers.items()))
        row = (f"{flood.at(0.5):.0f}", f"{flood.at(0.99):.0f}", str(len(flood.us)), str(flood.asked))
        shown.add_row(kind, answers, *row)
    return shown
