"""Single steps of the line, in this process, without a network.

Owns: decode and decide per dialect, the stream parser, credentials, the ledger's answers.
Never: stands for the whole; the load does that.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import uvloop
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.bindings.decode import decode
from sidecar.bindings.dialect import DIALECTS
from sidecar.bindings.replies import read_event, read_reply
from sidecar.bindings.sse import SseParser
from sidecar.bindings.surface import Surface
from sidecar.bindings.target import read_target
from sidecar.identity import Identity
from sidecar.ledger.memory import MemoryLedger
from sidecar.ledger.sqlite import SqliteLedger
from sidecar.model import Call, Entry, Fact, Facts, Head, Kind, Owner, Permit, Refusal, Resource
from sidecar.policy.decide import Known, decide, look_ups
from tests.bench.load import Quartiles
from tests.bench.scene import ANSWER_TO_GET, TASK, compact
from tests.builders import ALICE, a_card, a_policy, a_principal
from tests.dpop import ProofKey
from tests.issuer import Issuer

REPEATS: Final = 25  # batches; the quartiles are those of their means
BATCH_SECONDS: Final = 0.02
URL: Final = "http://agent.example/"
_SPEC: Final = Path(__file__).parents[1] / "wire" / "requests" / "spec.json"
_OPERATIONS: Final = ("get", "send")


@dataclass(frozen=True, slots=True)
class Step:
    """One measured step: microseconds each, as quartiles. `clock` is `cpu`, or `wall` where the step waits."""

    name: str
    us: Quartiles
    note: str = ""
    clock: str = "cpu"


def steps(folder: Path) -> Iterator[Step]:
    """Measure every step. `folder` is where the ledger's file goes."""
    yield from _decisions()
    yield from _replies()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield from runner.run(_credentials())
        yield from runner.run(_ledger(folder))


# --- decode and decide ---------------------------------------------------------------------------


def _decisions() -> Iterator[Step]:
    for case in json.loads(_SPEC.read_text()):
        expected = case["expect"]
        if expected["operation"] in _OPERATIONS and "answered" not in case["name"]:
            yield _decision(case, f"{expected['operation']} {expected['dialect']}")


def _decision(case: dict[str, Any], name: str) -> Step:
    """Target, body, look-ups and decision of one request that is permitted, as `enforce` does them."""
    surface = Surface(
        frozenset({DIALECTS[case["expect"]["dialect"]]}), ((),), frozenset({"acme"}), ("metadata:skillId",)
    )
    tenant = case["expect"].get("tenant", "")
    policy = a_policy(a_card({"o": frozenset({"w"})}, tenant=tenant))
    policy = replace(policy, tenants=frozenset({tenant}))
    head = Head(case["method"], case["target"], CIMultiDictProxy(CIMultiDict(case["headers"])))
    body = b"" if case["body"] is None else compact(case["body"]).encode()
    who = a_principal()
    facts: Facts = {}

    def run() -> Permit | Refusal:
        call = decode(head, read_target(head.target), body, surface)
        look_ups(call, who, policy)
        return decide(call, who, policy, Known(facts))

    call = decode(head, read_target(head.target), body, surface)
    context = case["expect"].get("context")
    facts = dict.fromkeys(look_ups(call, who, policy).resources, Fact(tenant, context))
    decision = run()
    if not isinstance(decision, Permit):
        raise AssertionError(f"{case['name']} is not permitted: {decision}")
    return Step(f"decode + decide: {name}", _timed(run), f"{len(body)} bytes")


# --- replies and streams -------------------------------------------------------------------------


def _replies() -> Iterator[Step]:
    call = _a_get()
    reply = ANSWER_TO_GET.encode()
    yield Step("read a reply", _timed(lambda: read_reply(reply, 200, call)), f"{len(reply)} bytes")
    update = {"taskId": TASK["id"], "contextId": TASK["contextId"], "status": {"state": "TASK_STATE_WORKING"}}
    data = compact({"jsonrpc": "2.0", "id": 1, "result": {"statusUpdate": update}}).encode()
    yield Step("read an event", _timed(lambda: read_event(data, call)), f"{len(data)} bytes")
    for size, count in ((len(data), 1000), (64 * 1024, 50)):
        yield _stream(b"data: " + data.ljust(size) + b"\n\n", count)


def _stream(event: bytes, count: int) -> Step:
    """The parser alone, fed in pieces of 16 KiB."""
    wire = event * count
    pieces = [wire[at : at + 16384] for at in range(0, len(wire), 16384)]

    def run() -> int:
        parser = SseParser(limit=2**24)
        return sum(len(parser.feed(piece)) for piece in pieces)

    us = _timed(run, per=count)
    return Step("cut a stream, an event", us, f"{len(event)} bytes, {len(event) / us.median:.0f} MB/s")


def _a_get() -> Call:
    case = next(c for c in json.loads(_SPEC.read_text()) if c["name"] == "v1.0-jsonrpc-get")
    head = Head(case["method"], case["target"], CIMultiDictProxy(CIMultiDict(case["headers"])))
    surface = Surface(frozenset({DIALECTS["JSONRPC/1.0"]}))
    call = decode(head, read_target(head.target), compact(case["body"]).encode(), surface)
    assert isinstance(call, Call)
    return call


# --- credentials ---------------------------------------------------------------------------------


async def _credentials() -> list[Step]:
    """One caller per kind of credential; a proof is new for each request, so every one of them is verified."""
    async with Issuer() as idp:
        kids = {alg: idp.rotate(alg=alg) for alg in ("ES256", "RS256")}
        issuer = config.Issuer(issuer=idp.url, audiences=("agent",))
        api_key = secrets.token_urlsafe(32)
        keys = config.ApiKeys(
            keys=(config.ApiKey(subject="ci", sha256=sha256(api_key.encode()).hexdigest()),)
        )
        settings = config.Identity(issuers=(issuer,), api_keys=keys)
        memory = MemoryLedger(now=time.time)
        identity = Identity(settings, (), 16384, memory=memory, now=time.time)
        await identity.start()

        async def ask(head: Head) -> None:
            told = await identity.authenticate(head, url=URL)
            if isinstance(told, Refusal):
                raise AssertionError(told)

        try:
            known = _head(Authorization=f"Bearer {idp.mint()}")
            await ask(known)
            found = [Step("authenticate, token seen before", await _awaited(lambda: ask(known)))]
            by_key = _head(**{"X-API-Key": api_key})
            found.append(Step("authenticate, API key", await _awaited(lambda: ask(by_key))))
            for alg, kid in kids.items():
                fresh = [_head(Authorization=f"Bearer {idp.mint(kid=kid, jti=str(n))}") for n in range(200)]
                found.append(Step(f"authenticate, new token ({alg})", await _each(fresh, ask), clock="wall"))
            key = ProofKey()
            bound = idp.mint(cnf={"jkt": key.thumbprint})
            proofs = [
                _head(Authorization=f"DPoP {bound}", DPoP=key.proof("POST", URL, bound)) for _ in range(200)
            ]
            found.append(Step("authenticate, new DPoP proof (ES256)", await _each(proofs, ask), clock="wall"))
            return found
        finally:
            await identity.close()


def _head(**headers: str) -> Head:
    return Head("POST", "/", CIMultiDictProxy(CIMultiDict(headers)))


# --- the ledger ----------------------------------------------------------------------------------


async def _ledger(folder: Path) -> list[Step]:
    ledger = await SqliteLedger.open(folder / "micro.db", now=time.time)
    try:
        numbers = itertools.count()
        owned = _task(next(numbers))
        await ledger.record(ALICE, [Entry(owned)])
        bob = Owner("", ALICE.issuer, "bob")

        async def record(resource: Resource) -> None:
            await ledger.record(ALICE, [Entry(resource)])

        async def together(resources: list[Resource]) -> None:
            await asyncio.gather(*map(record, resources))

        single = await _each([_task(next(numbers)) for _ in range(200)], record)
        batches = [[_task(next(numbers)) for _ in range(32)] for _ in range(30)]
        return [
            Step("ledger: a row it remembers", await _awaited(lambda: ledger.facts(ALICE, [owned]))),
            Step(
                "ledger: a row it must look up, foreign",
                await _each([owned] * 500, lambda r: ledger.facts(bob, [r])),
                clock="wall",
            ),
            Step("ledger: record, durable", single, "fsync each", "wall"),
            Step(
                "ledger: record, 32 at once",
                await _each(batches, together, per=32),
                "each of 32, committed together",
                "wall",
            ),
        ]
    finally:
        await ledger.close()


def _task(number: int) -> Resource:
    return Resource("bench", Kind.TASK, f"t-{number}")


# --- timing --------------------------------------------------------------------------------------


def _timed(run: Callable[[], object], per: int = 1) -> Quartiles:
    """Processor microseconds of one of the `per` things `run` does, over batches long enough for the clock."""
    began = time.thread_time()
    run()
    number = max(1, int(BATCH_SECONDS / max(time.thread_time() - began, 1e-6)))
    means = []
    for _ in range(REPEATS):
        began = time.thread_time()
        for _ in range(number):
            run()
        means.append((time.thread_time() - began) / number / per * 1e6)
    return Quartiles.of(means)


async def _awaited(run: Callable[[], Awaitable[object]]) -> Quartiles:
    """As `_timed`, for what does not leave the loop."""
    means = []
    for _ in range(REPEATS):
        began = time.thread_time()
        for _ in range(1000):
            await run()
        means.append((time.thread_time() - began) / 1000 * 1e6)
    return Quartiles.of(means)


async def _each(inputs: list[Any], run: Callable[[Any], Awaitable[object]], per: int = 1) -> Quartiles:
    """Microseconds that pass during `run`, each input once and timed alone."""
    took = []
    for value in inputs:
        began = time.perf_counter()
        await run(value)
        took.append((time.perf_counter() - began) / per * 1e6)
    return Quartiles.of(took)
