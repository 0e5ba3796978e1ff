"""What the agent receives of who is calling: on every kind of request that goes to it for a caller."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web
from multidict import CIMultiDict

from sidecar.ledger import LedgerUnavailable
from sidecar.ledger.memory import MemoryLedger
from sidecar.proxy import from_files
from sidecar.starting import CannotStart
from tests.edge.agent import CARD, Agent, Received, a_task, answers, event_stream, result
from tests.edge.conftest import Answer, Sidecar, Start, a_message, eventually
from tests.issuer import Issuer

EXTENDED = copy.deepcopy(CARD)
EXTENDED["capabilities"]["extendedAgentCard"] = True
KEY = "k-1234567890"
CREDENTIALS = ("Authorization", "Cookie", "DPoP", "X-API-Key")
PREFIX = "x-a2a-sidecar-"
TELLS = ["subject", "issuer", "tenant", "scopes", "actor", "presented-by"]

Headers = Mapping[str, str]


class Forgetful(MemoryLedger):
    """A ledger that cannot store once it is `full`."""

    full = False

    async def record(self, owner: Any, entries: Any) -> Any:
        if self.full:
            raise LedgerUnavailable("disk full")
        return await super().record(owner, entries)


@dataclass
class Scene:
    running: Sidecar
    agent: Agent
    ledger: Forgetful

    async def rpc(self, headers: Headers, method: str, **params: Any) -> Answer:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        sent = {**headers, "A2A-Version": "1.0"}
        return await self.running.send("POST", "/", who=None, json=body, headers=sent)

    def credentials(self, kind: str, who: str = "alice") -> dict[str, str]:
        """All a caller could show of this kind, and what they would like to be taken for."""
        if kind == "key":
            shown = {"X-API-Key": KEY, "X_API_Key": "another"}
        else:
            act = {"sub": "executor", "act": {"sub": "planner"}}
            shown = {
                "Authorization": f"Bearer {self.running.token(who, tid='t-1', act=act)}",
                "DPoP": "proof",
            }
        forged = {"X-A2A-Sidecar-Subject": "bob", "x_a2a_sidecar_subject": "bob", "X-A2A-Sidecar_Scopes": "*"}
        return shown | {"Cookie": "a=b"} | forged


async def scripted(request: web.Request, body: bytes) -> web.StreamResponse:
    """An agent that knows one task, has an extended card and speaks WebSocket."""
    if "Upgrade" in request.headers:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        return socket
    if not body:
        return web.Response(body=b"a page")
    method = json.loads(body)["method"]
    if method == "GetExtendedAgentCard":
        return result(body, EXTENDED)
    if method == "SendStreamingMessage":
        stream = await event_stream(request)
        event = {"jsonrpc": "2.0", "id": 1, "result": {"task": a_task("t-1", state="TASK_STATE_COMPLETED")}}
        await stream.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        return stream
    return result(body, {"task": a_task("t-1")} if method == "SendMessage" else a_task("t-1"))


@pytest.fixture
async def scene(
    start: Start, agent: Agent, issuer: Issuer, tmp_path: Path
) -> Callable[..., Awaitable[Scene]]:
    """The scene of a policy for this agent. `replace` finds its token in `token` below `tmp_path`."""

    async def made(card: dict[str, Any] = EXTENDED, **of_agent: Any) -> Scene:
        agent.card, agent.script = card, scripted
        guarded: dict[str, Any] = {"name": "review", "upstream": agent.url, "public_url": "https://p.test"}
        if of_agent.get("authorization") == "replace":
            guarded["authorization_file"] = str(tmp_path / "token")
        trusted = {"issuer": issuer.url, "audiences": ["agent"], "claims": {"tenant": "tid"}}
        key = {"subject": "ci", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
        ledger = Forgetful(now=time.time)
        running = await start(
            ledger,
            agents=[guarded | of_agent],
            identity={"issuers": [trusted], "api_keys": {"keys": [key]}},
            other_paths={"upgrades": ["/ws"], "anonymous": ["/open"]},
        )
        return Scene(running, agent, ledger)

    return made


Make = Callable[..., Awaitable[Scene]]


# --- every way to the agent ----------------------------------------------------------------------


async def sends(scene: Scene, headers: Headers) -> None:
    assert "result" in (await scene.rpc(headers, "SendMessage", message=a_message())).json


async def streams(scene: Scene, headers: Headers) -> None:
    assert b"t-1" in (await scene.rpc(headers, "SendStreamingMessage", message=a_message())).body


async def gets(scene: Scene, headers: Headers) -> None:
    assert (await scene.rpc(headers, "GetTask", id="t-1")).json["result"]["id"] == "t-1"


async def lists(scene: Scene, headers: Headers) -> None:
    assert len((await scene.rpc(headers, "ListTasks")).json["result"]["tasks"]) == 1
    assert scene.agent.received[-1].json["method"] == "GetTask"


async def asks_for_the_extended_card(scene: Scene, headers: Headers) -> None:
    assert "result" in (await scene.rpc(headers, "GetExtendedAgentCard")).json


async def loses_a_task(scene: Scene, headers: Headers) -> None:
    scene.ledger.full = True
    scene.agent.received.clear()
    assert (await scene.rpc(headers, "SendMessage", message=a_message())).status == 500
    await eventually(lambda: scene.agent.received[-1].json["method"] == "CancelTask")


async def passes_through(scene: Scene, headers: Headers) -> None:
    assert (await scene.running.send("GET", "/page", who=None, headers=headers)).body == b"a page"


async def switches(scene: Scene, headers: Headers) -> None:
    async with scene.running.session.ws_connect(scene.running.url + "/ws", headers=headers):
        pass


DOORS = [sends, streams, gets, lists, asks_for_the_extended_card, loses_a_task, passes_through, switches]
EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: str(door.__name__).replace("_", " "))
Door = Callable[[Scene, Headers], Awaitable[None]]


def shown(got: Received) -> dict[str, list[str]]:
    """Everything credential-like the agent got, its `_` twins included."""
    found: dict[str, list[str]] = {}
    for name, value in got.headers:
        folded = name.lower().replace("_", "-")
        if folded in {c.lower() for c in CREDENTIALS}:
            found.setdefault(name, []).append(value)
    return found


def told(got: Received) -> list[tuple[str, str]]:
    """What the agent is told of the caller, in every spelling a framework could read as that."""
    folded = [(name.lower().replace("_", "-"), value) for name, value in got.headers]
    return sorted((name.removeprefix(PREFIX), value) for name, value in folded if name.startswith(PREFIX))


def own_question(got: Received) -> bool:
    """Whether this is the sidecar's own question for the extended card: that one carries no proof."""
    return b'"id":"a2a-sidecar"' in got.body and b"GetExtendedAgentCard" in got.body


@EVERY_DOOR
@pytest.mark.parametrize("kind", ["token", "key"])
@pytest.mark.parametrize("mode", ["forward", "strip", "replace"])
async def test_every_way_to_the_agent_shows_it_the_same(
    scene: Make, tmp_path: Path, mode: str, kind: str, door: Door
) -> None:
    (tmp_path / "token").write_text("ours\n")
    there = await scene(authorization=mode, identity_headers=TELLS)
    headers = there.credentials(kind)
    if door in (gets, lists):
        await sends(there, headers)
        there.agent.received.clear()
    await door(there, headers)
    of_theirs = {name: [headers[name]] for name in CREDENTIALS if name in headers}
    expected = {"forward": of_theirs, "strip": {}, "replace": {"Authorization": ["Bearer ours"]}}[mode]
    known = {
        "token": [
            ("actor", "executor"),
            ("issuer", there.running.issuer.url),
            ("presented-by", "planner"),
            ("scopes", "r w"),
            ("subject", "alice"),
            ("tenant", "t-1"),
        ],
        "key": [("issuer", "urn:a2a-sidecar:api-key"), ("presented-by", "ci"), ("subject", "ci")],
    }[kind]
    assert there.agent.received
    for got in there.agent.received:
        assert shown(got) == {k: v for k, v in expected.items() if k != "DPoP" or not own_question(got)}
        assert told(got) == known


async def test_by_default_the_agent_is_told_nothing(scene: Make) -> None:
    there = await scene()
    await sends(there, there.credentials("token"))
    assert [told(got) for got in there.agent.received] == [[], []]


async def test_of_a_caller_nobody_verified_nothing_is_told_and_nothing_lent(
    scene: Make, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("ours")
    there = await scene(authorization="replace", identity_headers=TELLS)
    forged = {"X-A2A-Sidecar-Subject": "alice", "Cookie": "a=b", "Authorization": "Bearer nonsense"}
    for headers in ({}, forged, there.credentials("token")):
        await there.running.send("GET", "/open", who=None, headers=headers)
    none, bad, alice = there.agent.received
    assert shown(none) == shown(bad) == {}
    assert told(none) == told(bad) == []
    assert shown(alice) == {"Authorization": ["Bearer ours"]}
    assert ("subject", "alice") in told(alice)


async def test_the_public_card_is_asked_for_by_nobody(scene: Make, agent: Agent, tmp_path: Path) -> None:
    """So it is the same for all, and needs no token of ours."""
    (tmp_path / "token").write_text("ours")
    asked: list[Any] = []
    handle = agent._handle

    async def noting(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("agent-card.json"):
            asked.append(request.headers.copy())
        return await handle(request)

    agent._handle = noting  # type: ignore[method-assign]
    await agent.down()
    await agent.up()
    there = await scene(authorization="replace", identity_headers=TELLS)
    await there.running.send(
        "GET", "/.well-known/agent-card.json", who=None, headers=there.credentials("token")
    )
    assert asked
    for headers in asked:
        assert not any(name in headers for name in CREDENTIALS)
        assert not any(name.lower().startswith(PREFIX) for name in headers)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Alice B", "Alice%20B"),
        ("Zo\u00eb \u738b", "Zo%C3%AB%20%E7%8E%8B"),
        ("100%25", "100%2525"),
        ("a,b;c=d", "a%2Cb%3Bc%3Dd"),
        ("alice@corp.test", "alice@corp.test"),
    ],
)
async def test_a_subject_arrives_as_exactly_one_text(scene: Make, subject: str, text: str) -> None:
    there = await scene(identity_headers=["subject"])
    await passes_through(there, there.credentials("token", subject))
    (got,) = there.agent.received
    assert told(got) == [("subject", text)]


@pytest.mark.parametrize("subject", ["a\r\nX-Evil: 1", "a\nb", "a\0", "a\x7f", "a\u2028b"])
async def test_a_subject_that_could_end_a_line_is_nobody(scene: Make, subject: str) -> None:
    there = await scene(identity_headers=["subject"])
    headers = there.credentials("token", subject)
    assert (await there.running.send("GET", "/page", who=None, headers=headers)).status == 401
    assert there.agent.received == []


async def test_what_a_caller_says_twice_and_in_twins_counts_for_nothing(scene: Make) -> None:
    there = await scene(identity_headers=["subject"])
    headers = CIMultiDict({"Authorization": f"Bearer {there.running.token('alice', tid='t-1')}"})
    for name in (
        "X-A2A-Sidecar-Subject",
        "x-a2a-sidecar-subject",
        "X_A2A_SIDECAR_SUBJECT",
        "x-a2a_sidecar-tenant",
    ):
        headers.add(name, "bob")
        headers.add(name, "carol")
    async with there.running.session.get(there.running.url + "/page", headers=headers) as reply:
        assert reply.status == 200
    (got,) = there.agent.received
    assert told(got) == [("subject", "alice")]


# --- the extended card: one for each whom the agent can tell apart --------------------------------


@pytest.mark.parametrize(
    ("of_agent", "asked"),
    [
        pytest.param({}, 2, id="forward: each has their own"),
        pytest.param({"identity_headers": ["subject"]}, 2, id="forward, and told"),
        pytest.param(
            {"authorization": "strip", "identity_headers": ["subject"]}, 2, id="strip: it is told who asks"
        ),
        pytest.param(
            {"authorization": "replace", "identity_headers": ["subject"]},
            2,
            id="replace: it is told who asks",
        ),
        pytest.param(
            {"authorization": "strip"}, 1, id="strip: it cannot tell them apart, so one card is both's"
        ),
        pytest.param({"authorization": "replace"}, 1, id="replace: nor here"),
        pytest.param(
            {"authorization": "strip", "identity_headers": ["tenant"]},
            1,
            id="both of one tenant, and no more is told",
        ),
    ],
)
async def test_two_callers_share_an_extended_card_only_where_it_cannot_differ(
    scene: Make, tmp_path: Path, of_agent: dict[str, Any], asked: int
) -> None:
    (tmp_path / "token").write_text("ours")
    there = await scene(**of_agent)
    bobs = copy.deepcopy(EXTENDED)
    bobs["securityRequirements"] = [{"schemes": {"o": {"list": ["more"]}}}]

    async def by_caller(request: web.Request, body: bytes) -> web.StreamResponse:
        if json.loads(body)["method"] != "GetExtendedAgentCard":
            return await scripted(request, body)
        bob = (
            request.headers.get("Authorization") == bobs_token
            or request.headers.get(PREFIX + "subject") == "bob"
        )
        return result(body, bobs if bob else EXTENDED)

    there.agent.script = by_caller
    callers = {
        who: {"Authorization": f"Bearer {there.running.token(who, tid='t-1')}"} for who in ("alice", "bob")
    }
    bobs_token = callers["bob"]["Authorization"]
    for who in ("alice", "bob", "alice", "bob"):
        reply = await there.rpc(callers[who], "SendMessage", message=a_message())
        if who == "alice":
            assert "result" in reply.json
        else:
            assert ("CapabilityScopeDivergence" in reply.json.get("error", {}).get("message", "")) == (
                asked == 2
            )
    assert sum(map(own_question, there.agent.received)) == asked


# --- the token of `replace` ----------------------------------------------------------------------


async def test_a_token_rotated_by_a_link_is_the_next_one_sent(
    scene: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a projected volume changes: `token` leads through `..data`, which is turned to another directory."""
    monkeypatch.setattr(from_files, "INTERVAL", 0.005)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "token").symlink_to("..data/token")
    there = await scene(authorization="replace")
    headers = there.credentials("token")

    async def sent() -> str:
        await passes_through(there, headers)
        (value,) = there.agent.received[-1].values("Authorization")
        return value

    with structlog.testing.capture_logs() as logs:
        assert await sent() == "Bearer one"
        (tmp_path / "..new").symlink_to("two")
        (tmp_path / "..new").replace(tmp_path / "..data")
        await eventually(lambda: "changed files were read" in str(logs))
        assert await sent() == "Bearer two"
        (tmp_path / "two" / "token").unlink()
        await eventually(lambda: "No such file" in str(logs))
        assert await sent() == "Bearer two"


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file or directory"), ("", "is empty"), ("Bearer x", "holds no token")],
)
async def test_a_token_that_cannot_be_read_stops_the_start(
    scene: Make, tmp_path: Path, content: str | None, why: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CannotStart, match=rf"agents\[0\]\.authorization_file: .*`{path}`:? {why}"):
        await scene(authorization="replace")


# --- whose credential the agent refuses -----------------------------------------------------------


def refusing(
    status: int, challenge: str | None
) -> Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]:
    async def script(request: web.Request, body: bytes) -> web.StreamResponse:
        headers = {"WWW-Authenticate": challenge} if challenge else {}
        return web.Response(status=status, headers=headers, body=b'{"told": "SECRET"}')

    return script


CHALLENGE = 'Bearer realm="agent", error="invalid_token"'


@pytest.mark.parametrize("mode", ["forward", "strip"])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_of_the_caller_passes(scene: Make, mode: str, status: int) -> None:
    there = await scene(CARD, authorization=mode)
    there.agent.script = refusing(status, CHALLENGE)
    for reply in (
        await there.running.send("GET", "/page", who=None, headers=there.credentials("token")),
        await there.rpc(there.credentials("token"), "SendMessage", message=a_message()),
    ):
        assert reply.status == status
        assert reply.header("WWW-Authenticate") == CHALLENGE


@pytest.mark.parametrize(("status", "challenge"), [(401, CHALLENGE), (401, None), (403, CHALLENGE)])
@pytest.mark.parametrize("line", ["a page", "a send", "a stream", "a get", "a list", "an extended card"])
async def test_a_refusal_of_our_token_is_a_failure_of_ours(
    scene: Make, tmp_path: Path, line: str, status: int, challenge: str | None
) -> None:
    (tmp_path / "token").write_text("ours-1")
    there = await scene(CARD, authorization="replace")
    headers = there.credentials("token")
    await sends(there, headers)
    there.agent.script = refusing(status, challenge)
    reply = await {
        "a page": lambda: there.running.send("GET", "/page", who=None, headers=headers),
        "a send": lambda: there.rpc(
            headers, "SendMessage", message=a_message(messageId="m-2", contextId="mine")
        ),
        "a stream": lambda: there.rpc(headers, "SendStreamingMessage", message=a_message(messageId="m-2")),
        "a get": lambda: there.rpc(headers, "GetTask", id="t-1"),
        "a list": lambda: there.rpc(headers, "ListTasks"),
        "an extended card": lambda: there.rpc(headers, "GetExtendedAgentCard"),
    }[line]()
    assert reply.status == 500
    assert reply.header("Retry-After") is None
    assert reply.header("WWW-Authenticate") is None
    assert b"SECRET" not in reply.body
    records = await there.running.records(lambda all_: any("internal" in record for record in all_))
    assert any(
        record.get("internal")
        == f"the agent answered {status} to the token of `agents[0].authorization_file`"
        for record in records
    )
    assert "ours-1" not in there.running.audit_file.read_text()


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_where_our_token_was_refused_an_id_the_caller_picked_is_free_again(
    scene: Make, tmp_path: Path, method: str
) -> None:
    (tmp_path / "token").write_text("ours")
    there = await scene(CARD, authorization="replace")
    alice, bob = (there.credentials("token", who) for who in ("alice", "bob"))
    there.agent.script = refusing(401, CHALLENGE)
    assert (await there.rpc(alice, method, message=a_message(contextId="mine"))).status == 500
    there.agent.script = answers({"task": a_task("t-1", "mine")})
    assert "result" in (await there.rpc(bob, "SendMessage", message=a_message(contextId="mine"))).json
    assert (await there.rpc(alice, "SendMessage", message=a_message(contextId="mine"))).json["error"][
        "code"
    ] == -32001


async def test_without_the_callers_own_extended_card_nothing_is_submitted(
    scene: Make, tmp_path: Path
) -> None:
    """Our token refused is not the same as a caller to whom the agent gives none."""
    (tmp_path / "token").write_text("ours")
    there = await scene(authorization="replace")
    there.agent.script = refusing(401, CHALLENGE)
    headers = there.credentials("token")
    for _ in range(2):
        reply = await there.rpc(headers, "SendMessage", message=a_message())
        assert reply.status == 503
        assert reply.header("Retry-After")
    assert all(own_question(got) for got in there.agent.received)
    there.agent.script = scripted  # nothing of it was kept
    await sends(there, headers)


async def test_a_cancel_our_token_could_not_make_is_recorded(scene: Make, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ours")
    there = await scene(CARD, authorization="replace")
    there.ledger.full = True

    async def never_cancels(request: web.Request, body: bytes) -> web.StreamResponse:
        script = refusing(401, None) if json.loads(body)["method"] == "CancelTask" else scripted
        return await script(request, body)

    there.agent.script = never_cancels
    await there.rpc(there.credentials("token"), "SendMessage", message=a_message())
    records = await there.running.records(lambda all_: any(r["outcome"] == "cancel_failed" for r in all_))
    assert [r["detail"] for r in records if r["outcome"] == "cancel_failed"] == ["agent_failed"]


async def test_a_plain_403_is_about_the_caller_and_passes(scene: Make, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ours")
    there = await scene(authorization="replace", identity_headers=["subject"])
    there.agent.script = refusing(403, None)
    reply = await there.running.send("GET", "/page", who=None, headers=there.credentials("token"))
    assert (reply.status, reply.body) == (403, b'{"told": "SECRET"}')


async def test_an_upgrade_refused_to_our_token_is_a_failure_too(scene: Make, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ours")
    for mode, status in (("replace", 500), ("strip", 400)):
        there = await scene(authorization=mode)
        there.agent.script = refusing(401, CHALLENGE)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await switches(there, there.credentials("token"))
        assert refused.value.status == status
        assert "WWW-Authenticate" not in (refused.value.headers or {})
