"""Kind 3, what the agent receives of who is calling: FC-042 (identity headers of our own) and FC-050.

The rest of FC-042, what a caller writes of that kind, is in `test_headers.py`. FC-050 asks that credentials stay here
by default and that a list of allowed headers cannot bring them back; the design decides that they go on by default
(`authorization: forward`), and there is no such list: `Authorization` has one setting.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.edge.agent import Received, a_task, answers
from tests.field_cases.conftest import (
    T_A,
    T_M,
    N,
    Scene,
    Scenes,
    envelope,
    require_equal_to_nf,
    require_not_found,
    saying,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

V1 = "A2A-Version: 1.0"
OURS = "eyJ-ours.of.the-sidecar"
API_KEY = "an-api-key-of-mallorys"
PREFIX = "x-a2a-sidecar-"

# Whatever could be replayed elsewhere, in the spellings a framework may read as one.
BESIDE = [
    "Cookie: session=1",
    "COOKIE: session=2",
    "DPoP: eyJ.proof.x",
    "dpop: eyJ.proof.y",
    "Proxy-Authorization: Basic YTpi",
    "Proxy_Authorization: Basic YTpi",
    "Authorization_: Bearer x",
    "X_Api_Key: k",
    "X-Forwarded-Access-Token: x",
    "X-Forwarded-Client-Cert: By=spiffe://a/b",
]
CREDENTIALS = {
    "authorization",
    "cookie",
    "dpop",
    "proxy-authorization",
    "x-api-key",
    "x-forwarded-access-token",
}

Mode = Callable[[str], Awaitable[Scene]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mode(scenes: Scenes, tmp_path_factory: pytest.TempPathFactory) -> Mode:
    """The scene of one way to deal with credentials; mallory has an API key besides."""
    token: Path = tmp_path_factory.mktemp("ours") / "token"
    token.write_text(f"{OURS}\n")

    async def made(authorization: str) -> Scene:
        of_agent: dict[str, Any] = {"authorization": authorization}
        if authorization == "replace":
            of_agent["authorization_file"] = str(token)
        return await scenes(of_agent=of_agent)

    return made


def credentials(received: Received) -> list[tuple[str, str]]:
    """Every header the agent got that is a credential, `_` read as `-`."""
    folded = [(name.lower().replace("_", "-").strip(), value) for name, value in received.headers]
    return [(name, value) for name, value in folded if name in CREDENTIALS]


def get(task: str) -> bytes:
    return json.dumps(envelope("GetTask", {"id": task})).encode()


# --- FC-050 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", [f"GET /tasks/{T_M}", f"GET /v1/tasks/{T_M}", "POST /", "GET /elsewhere", "GET /tasks"]
)
@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        pytest.param("strip", [], id="strip: nothing that could be replayed"),
        pytest.param("replace", [("authorization", f"Bearer {OURS}")], id="replace: our token, and it alone"),
    ],
)
async def test_fc_050_no_credential_of_the_callers_reaches_the_agent(
    mode: Mode, authorization: str, expected: list[tuple[str, str]], line: str
) -> None:
    scene = await mode(authorization)
    scene.agent.script = saying(a_task(T_M)) if line.startswith("GET") else answers(a_task(T_M))
    beside = [header for header in BESIDE if not header.startswith("X_Api")]
    version = "X-Other: 1" if "/v1/" in line else V1
    body = get(T_M) if line.startswith("POST") else None
    assert (await scene.ask(line, version, *beside, body=body)).status == 200
    assert scene.agent.received
    token = scene.token("mallory")
    for received in scene.agent.received:
        assert credentials(received) == expected
        assert not any(token in value for _, value in received.headers)
        assert token.encode() not in received.body


@pytest.mark.parametrize("line", [f"GET /tasks/{T_M}", "POST /", "GET /elsewhere", "GET /tasks"])
async def test_fc_050_forwarding_forwards_what_was_verified_and_not_another(mode: Mode, line: str) -> None:
    scene = await mode("forward")
    scene.agent.script = saying(a_task(T_M)) if line.startswith("GET") else answers(a_task(T_M))
    body = get(T_M) if line.startswith("POST") else None
    beside = [
        header for header in BESIDE if "roxy" in header or "Forwarded" in header or header.startswith("Auth")
    ]
    assert (await scene.ask(line, V1, *beside, "Cookie: a=b", body=body)).status == 200
    for received in scene.agent.received:
        assert credentials(received) == [
            ("authorization", f"Bearer {scene.token('mallory')}"),
            ("cookie", "a=b"),
        ]


@pytest.mark.parametrize("authorization", ["forward", "strip", "replace"])
@pytest.mark.parametrize("who", ["mallory", None])
async def test_fc_050_only_after_validation(mode: Mode, authorization: str, who: str | None) -> None:
    """Whatever is put in its place: a foreign task is absent, and who is nobody stays outside."""
    scene = await mode(authorization)
    headers = [V1] if who else [V1, "Authorization: Bearer eyJ.forged.x"]
    for line in (f"GET /tasks/{T_A}", f"POST /tasks/{T_A}:cancel"):
        body = b"{}" if line.startswith("POST") else None
        foreign = await scene.ask(line, *headers, body=body, who=who)
        absent = await scene.ask(line.replace(T_A, N), *headers, body=body, who=who)
        if who is None:
            assert foreign.status == absent.status == 401
        else:
            require_not_found(foreign)
            require_equal_to_nf(foreign, absent)
    assert scene.untouched


async def test_fc_050_what_nobody_verified_gets_no_token_of_ours(mode: Mode) -> None:
    scene = await mode("replace")
    scene.agent.script = saying({})
    for headers in ((), ("Authorization: Bearer eyJ.forged.x",), ("Authorization: Basic YTpi", *BESIDE[:4])):
        await scene.ask("GET /healthz", *headers, who=None)
    assert [credentials(received) for received in scene.agent.received] == [[], [], []]


async def test_fc_050_an_api_key_is_a_credential_like_the_others(scenes: Scenes) -> None:
    key = {"subject": "mallory", "sha256": hashlib.sha256(API_KEY.encode()).hexdigest()}
    trusted = {"issuer": (await scenes()).running.issuer.url, "audiences": ["agent"]}
    for authorization, expected in (("forward", [("x-api-key", API_KEY)]), ("strip", [])):
        scene = await scenes(
            of_agent={"authorization": authorization},
            identity={"issuers": [trusted], "api_keys": {"keys": [key]}},
        )
        scene.agent.script = saying({})
        for spelt in ("X-API-Key", "x-api-key", "X-API-KEY"):
            scene.forget()
            sent = (f"{spelt}: {API_KEY}", "X_API_Key: another", "x-api_key: another")
            assert (await scene.ask("GET /elsewhere", *sent, who=None)).status == 200
            (received,) = scene.agent.received
            assert credentials(received) == expected
        scene.forget()
        listed = await scene.ask("GET /elsewhere", f"X-API-Key: {API_KEY}", "Connection: X-API-Key", who=None)
        assert listed.status == 400
        assert scene.untouched


# --- FC-042 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelt", [str.lower, str.upper, str.title, str.swapcase])
@pytest.mark.parametrize("separator", ["-", "_"])
@pytest.mark.parametrize("name", ["subject", "tenant", "scopes", "actor", "anything"])
async def test_fc_042_of_the_sidecars_own_headers_the_agent_sees_only_the_sidecars(
    scenes: Scenes, name: str, separator: str, spelt: Callable[[str], str]
) -> None:
    """In any case and spelling, mixed ones too, one or two of them, before the credential or after it."""
    scene = await scenes(of_agent={"identity_headers": ["subject", "scopes", "tenant"]})
    scene.agent.script = saying(a_task(T_M))
    written = spelt(f"x-a2a-sidecar-{name}".replace("-", separator))
    mixed = written.replace(separator, "_" if separator == "-" else "-", 1)
    for line in (f"GET /tasks/{T_M}", "GET /elsewhere", "GET /tasks"):
        scene.forget()
        assert (
            await scene.ask(line, V1, f"{written}: alice", f"{mixed}: alice", f"{written}: a, b")
        ).status == 200
        assert scene.agent.received
        for received in scene.agent.received:
            assert told(received) == [("scopes", "r w"), ("subject", "mallory")]


async def test_fc_042_nobody_is_nobody_to_the_agent_too(scenes: Scenes) -> None:
    scene = await scenes(of_agent={"identity_headers": ["subject", "scopes", "tenant"]})
    scene.agent.script = saying({})
    forged = ("X-A2A-Sidecar-Subject: alice", "x_a2a_sidecar_subject: alice")
    await scene.ask("GET /healthz", *forged, who=None)
    (received,) = scene.agent.received
    assert told(received) == []


def told(received: Received) -> list[tuple[str, str]]:
    """What the agent is told of the caller, in every spelling a framework could read as that."""
    folded = [(name.lower().replace("_", "-").strip(), value) for name, value in received.headers]
    return sorted((name.removeprefix(PREFIX), value) for name, value in folded if name.startswith(PREFIX))
