"""Header hygiene: field case FC-027 of kind 2, FC-041 and FC-042 of kind 3, and what belongs to them.

What a caller writes beside its credential decides nothing, and what another party could take for a decision of ours
never reaches the agent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.edge.agent import Received, a_task, answers
from tests.edge.conftest import Answer
from tests.field_cases.conftest import (
    T_A,
    T_M,
    N,
    Scene,
    Scenes,
    envelope,
    http,
    read_answers,
    require_equal_to_nf,
    require_not_found,
    saying,
    speak,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

V1 = "A2A-Version: 1.0"
JSON = "Content-Type: application/json"


def get(task: str) -> bytes:
    return json.dumps(envelope("GetTask", {"id": task})).encode()


def named(received: Received, *names: str) -> list[tuple[str, str]]:
    """Headers the agent got under any of these names, `_` read as `-` and blanks left out, as CGI would."""
    wanted = {name.lower().replace("_", "-").strip() for name in names}
    return [(k, v) for k, v in received.headers if k.lower().replace("_", "-").strip() in wanted]


async def written(scene: Scene, line: str, headers: Sequence[str | bytes], body: bytes = b"") -> Answer:
    """One request with exactly these headers, a host and a length."""
    framing = (f"Content-Length: {len(body)}", "Connection: close")
    sent = http(f"{line} HTTP/1.1", "Host: agents.test", *headers, *framing, body=body)
    (answer,) = read_answers(await speak(scene.port, sent))
    return answer


# --- FC-027 --------------------------------------------------------------------------------------

REROUTING = [
    "X-Forwarded-Uri: /healthz",
    "X-Forwarded-URI: /.well-known/agent-card.json",
    "X-Original-URL: /.well-known/agent-card.json",
    "X-Original-URI: /healthz",
    "X-Original-Path: /healthz",
    "X-Original-Method: HEAD",
    "X-Original-Host: evil.example",
    "X-Rewrite-URL: /healthz",
    "X-Rewrite-Uri: /healthz",
    "X-Envoy-Original-Path: /healthz",
    "X-Envoy-Original-Method: GET",
    "X-Forwarded-Prefix: /x",
    "X-Forwarded-Path: /healthz",
    "X-Forwarded-Method: GET",
    "X-Forwarded-Host: evil.example",
    "X-Forwarded-Proto: https",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Port: 1",
    "X-Forwarded-Server: evil.example",
    "X-Forwarded: for=1",
    "Forwarded: for=127.0.0.1;host=evil.example;proto=https",
    "X-Host: evil.example",
    "X-HTTP-Host-Override: evil.example",
    "X-HTTP-Method-Override: GET",
    "X-HTTP-Method: DELETE",
    "X-Method-Override: DELETE",
    "X-HTTP-Path-Override: /healthz",
    "X-HTTP-DestinationURL: http://evil.example/",
    "X_HTTP_Method_Override: DELETE",
    "x_forwarded_uri: /healthz",
    "X-Original_URL: /healthz",
    "X-Real-IP: 127.0.0.1",
    "X-Script-Name: /x",
    "X-Waws-Unencoded-Url: /healthz",
]
REROUTINGS = pytest.mark.parametrize("header", REROUTING, ids=lambda h: h.partition(":")[0])


@REROUTINGS
async def test_fc_027_a_header_names_no_other_path_or_verb(scene: Scene, header: str) -> None:
    """With mallory's token and with none, the answer is that without the header."""
    for line, body in (
        (f"GET /tasks/{T_A}", None),
        (f"POST /tasks/{T_A}:cancel", b"{}"),
        (f"GET /v1/tasks/{T_A}", None),
        ("POST /", get(T_A)),
        ("GET /elsewhere", None),
    ):
        version = "X-Other: 1" if "/v1/" in line else V1
        if "/elsewhere" not in line:
            foreign = await scene.ask(line, version, header, body=body)
            require_not_found(foreign)
            assert foreign.shown == (await scene.ask(line, version, body=body)).shown
            absent = body.replace(T_A.encode(), N.encode()) if body else None
            require_equal_to_nf(foreign, await scene.ask(line.replace(T_A, N), version, header, body=absent))
        nobody = await scene.ask(line, version, header, body=body, who=None)
        assert nobody.status == 401
        assert nobody.shown == (await scene.ask(line, version, body=body, who=None)).shown
    assert scene.untouched


@REROUTINGS
async def test_fc_027_nor_does_one_reach_the_agent(scene: Scene, header: str) -> None:
    scene.agent.script = saying(a_task(T_M))
    name = header.partition(":")[0]
    for line in (f"GET /tasks/{T_M}", "GET /elsewhere"):
        await scene.ask(line, V1, header)
        assert named(scene.agent.received[-1], name) == []
    await scene.ask(f"POST /tasks/{T_M}:cancel", V1, header, body=b"{}")
    assert named(scene.agent.received[-1], name) == []
    assert [(r.method, r.target) for r in scene.agent.received] == [
        ("GET", f"/tasks/{T_M}"),
        ("GET", "/elsewhere"),
        ("POST", f"/tasks/{T_M}:cancel"),
    ]


@pytest.mark.parametrize(
    "query",
    ["_method=DELETE", "_METHOD=delete", "%5Fmethod=GET", "x=1&_method=PUT", "X-HTTP-Method-Override=PUT"],
)
async def test_fc_027_nor_does_the_query(scene: Scene, query: str) -> None:
    """Frameworks that take the verb from the query would run another operation than the one judged: refused."""
    for line in (
        f"GET /tasks/{T_A}",
        f"POST /tasks/{T_A}:cancel",
        f"POST /tasks/{T_M}/pushNotificationConfigs",
        "POST /message:send",
    ):
        for who in ("mallory", None):
            answer = await scene.ask(
                f"{line}?{query}", V1, body=b"{}" if line.startswith("POST") else None, who=who
            )
            assert answer.status == (400 if who else 401)
    assert scene.untouched


# --- FC-041 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [f"GET /tasks/{T_A}", f"GET /v1/tasks/{T_A}", "POST /", "GET /elsewhere"])
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(
            ["Authorization: Bearer {m}", "Authorization: Bearer {a}"], id="mallory's, then alice's"
        ),
        pytest.param(
            ["Authorization: Bearer {a}", "Authorization: Bearer {m}"], id="alice's, then mallory's"
        ),
        pytest.param(["Authorization: Bearer {a}", "authorization: Bearer {a}"], id="the same twice"),
        pytest.param(
            ["Authorization: Bearer {m}", "X-Between: 1", "Authorization: Basic YTph"], id="two schemes"
        ),
        pytest.param(["Authorization: Basic YTph", "Authorization: Bearer {m}"], id="two schemes, swapped"),
        pytest.param(["Authorization: Bearer {m}", "Authorization:"], id="one of them empty"),
        pytest.param(["Authorization: Bearer {m}, Bearer {a}"], id="two in one"),
        pytest.param(["Authorization: Bearer {m},{a}"], id="joined by a comma"),
        pytest.param(["Authorization: Bearer {m} {a}"], id="joined by a blank"),
        pytest.param(["Authorization: Bearer {m};{a}"], id="joined by a semicolon"),
        pytest.param(["Authorization: Bearer  {a}"], id="two blanks"),
        pytest.param(["Authorization: Bearer\t{a}"], id="a tab"),
        pytest.param(["Authorization: Bearer \t{a}"], id="a blank and a tab"),
        pytest.param(["Authorization: Bearer"], id="nothing after Bearer"),
        pytest.param(["Authorization: Bearer "], id="a blank after Bearer"),
        pytest.param(["Authorization:"], id="empty"),
        pytest.param(["Authorization: {a}"], id="no scheme"),
        pytest.param(["Authorization: Bearer={a}"], id="an equals sign"),
        pytest.param(["Authorization: Bearer:{a}"], id="a colon"),
        pytest.param(["Authorization: Basic {a}"], id="Basic"),
        pytest.param(["Authorization: Basic YWxpY2U6YWxpY2U="], id="Basic, well-formed"),
        pytest.param(["Authorization: DPoP {a}"], id="DPoP"),
        pytest.param(["Authorization: Token {a}"], id="Token"),
        pytest.param(["Authorization: Bearer {a}%0a"], id="a line end, escaped"),
        pytest.param(["Authorization: Bearer %0a{a}"], id="a line end before it, escaped"),
        pytest.param(['Authorization: Bearer "{a}"'], id="quoted"),
        pytest.param(["Authorization: Bearer {a}="], id="padded"),
        pytest.param(["Authorization_: Bearer {a}"], id="an underscore after the name"),
        pytest.param(["Proxy-Authorization: Bearer {a}"], id="Proxy-Authorization"),
        pytest.param(["Cookie: access_token={a}; Authorization={a}"], id="a cookie"),
        pytest.param(["X-Authorization: Bearer {a}"], id="X-Authorization"),
        pytest.param(["X-Forwarded-Access-Token: {a}"], id="X-Forwarded-Access-Token"),
        pytest.param(["X-Api-Key: {a}"], id="an API key"),
    ],
)
async def test_fc_041_one_credential_in_one_form(scene: Scene, line: str, headers: list[str]) -> None:
    """Anything else is none: 401 or 400, and nothing of it reaches the agent."""
    said = [h.replace("{a}", scene.token("alice")).replace("{m}", scene.token("mallory")) for h in headers]
    answer = await written(
        scene,
        line,
        [*said, V1 if "/v1/" not in line else "X-Other: 1", JSON],
        get(T_A) if "POST" in line else b"",
    )
    assert answer.status in (400, 401)
    if answer.status == 401:
        assert (answer.header("WWW-Authenticate") or "").startswith(("Bearer", "DPoP"))
    assert scene.untouched


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
async def test_fc_041_the_name_of_the_scheme_has_no_case(scene: Scene, scheme: str) -> None:
    scene.agent.script = answers(a_task(T_M))
    said = f"Authorization: {scheme} {scene.token('mallory')}"
    assert (await written(scene, "POST /", [said, V1, JSON], get(T_M))).json["result"]["id"] == T_M
    assert [r.values("Authorization") for r in scene.agent.received] == [[said.partition(": ")[2]]]
    scene.forget()
    require_not_found(await written(scene, "POST /", [said, V1, JSON], get(T_A)))
    assert scene.untouched


@pytest.mark.parametrize(
    ("query", "more"),
    [
        pytest.param("?Authorization=Bearer%20{a}", [], id="a header in the query"),
        pytest.param("?token={a}&api_key={a}", [], id="two more in the query"),
        pytest.param("", ["Cookie: access_token={a}"], id="a cookie"),
        pytest.param("", ["Proxy-Authorization: Bearer {a}"], id="for a proxy"),
        pytest.param("", ["X-Authorization: Bearer {a}"], id="another header"),
        pytest.param("", ["X-Forwarded-Access-Token: {a}"], id="as a proxy would pass it on"),
    ],
)
async def test_fc_041_beside_mallorys_token_another_counts_for_nothing(
    scene: Scene, query: str, more: list[str]
) -> None:
    query, *said = [text.replace("{a}", scene.token("alice")) for text in (query, *more)]
    foreign = await scene.ask(f"GET /tasks/{T_A}{query}", V1, *said)
    require_not_found(foreign)
    require_equal_to_nf(foreign, await scene.ask(f"GET /tasks/{N}{query}", V1, *said))
    assert (await scene.ask(f"GET /tasks/{T_A}{query}", V1, *said, who=None)).status == 401
    require_not_found(await scene.ask(f"POST /{query}", V1, JSON, *said, body=get(T_A)))
    assert scene.untouched


@pytest.mark.parametrize(
    "query", ["access_token={a}", "x=1&access%5Ftoken={a}", "access_token=", "access_token={m}"]
)
async def test_fc_041_a_second_token_in_the_query_is_one_too_many(scene: Scene, query: str) -> None:
    """RFC 6750 §2: the agent could take the other one."""
    query = query.replace("{a}", scene.token("alice")).replace("{m}", scene.token("mallory"))
    for line, body in ((f"GET /tasks/{T_M}?{query}", b""), (f"POST /?{query}", get(T_M))):
        answer = await scene.ask(line, V1, JSON, body=body)
        assert answer.status == 401
        assert "malformed" in (answer.header("WWW-Authenticate") or "")
    assert scene.untouched


async def test_fc_041_what_is_of_this_hop_ends_here(scene: Scene) -> None:
    scene.agent.script = saying({})
    await scene.ask("GET /elsewhere", f"Proxy-Authorization: Bearer {scene.token('alice')}", "Cookie: a=b")
    (got,) = scene.agent.received
    assert got.values("Proxy-Authorization") == []
    assert got.values("Authorization") == [f"Bearer {scene.token('mallory')}"]
    assert got.values("Cookie") == ["a=b"]


# --- FC-042 --------------------------------------------------------------------------------------

FORGED = [
    "X-A2A-Principal", "X_A2A_Principal", "X-a2a_principal", "x-a2a-principal", "X-A2A-Sidecar-Subject", "X-A2A-Tenant",
    "X-Forwarded-User", "X_Forwarded_User", "X-Forwarded_User", "X-Forwarded-Email", "X-Forwarded-Groups",
    "X-Forwarded-Preferred-Username", "X-Forwarded-Client-Cert", "X_Forwarded_Client_Cert", "X-Forwarded-Access-Token",
    "X-Tenant-Id", "X_Tenant_Id", "X-Tenant-ID", "X-Auth-Request-User", "X-Auth-Request-Email", "X_Auth_Request_User",
    "X-Envoy-Peer", "X-Envoy-Peer-Metadata", "X-Envoy-External-Address", "X-Envoy-Internal", "Forwarded", "FORWARDED",
    "X-Remote-User", "Remote-User", "Remote_User", "Remote-Groups", "Remote-Email", "X-Remote-Group", "X-Remote-Extra-Scopes",
    "X-User", "X-User-Id", "X-User-Email", "X-Authenticated-User", "X-Authenticated-Userid", "X-Client-Cert", "X-SSL-Client-Cert",
    "X-SSL-Client-S-Dn", "SSL-Client-Cert", "X-Amzn-Oidc-Identity", "X-Amzn-Oidc-Data", "X-Goog-Authenticated-User-Email",
    "X-Goog-Iap-Jwt-Assertion", "X-Ms-Client-Principal", "X-Ms-Client-Principal-Name", "Cf-Access-Authenticated-User-Email",
    "Cf-Access-Jwt-Assertion", "X-Pomerium-Jwt-Assertion", "X-Pomerium-Claim-Email", "X-Authentik-Username", "X-Webauth-User",
    "Tailscale-User-Login", "Client-Cert", "Client-Cert-Chain", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP",
]  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
async def test_fc_042_an_identity_a_caller_wrote_stays_here(scene: Scene, name: str) -> None:
    """Once, twice, and in the spelling that CGI-style frameworks fold to the same variable."""
    foreign = await scene.ask("POST /", V1, JSON, f"{name}: alice", f"{name}: by=alice", body=get(T_A))
    require_not_found(foreign)
    assert foreign.shown == (await scene.ask("POST /", V1, JSON, body=get(T_A))).shown
    assert scene.untouched
    scene.agent.script = answers(a_task(T_M))
    for spelt in dict.fromkeys(
        (name, name.replace("-", "_"), name.replace("_", "-"), name.upper(), name.lower())
    ):
        for line, body in (("POST /", get(T_M)), ("GET /elsewhere", None)):
            scene.forget()
            await scene.ask(line, V1, JSON, f"{spelt}: alice", f"{name}: alice", body=body)
            (got,) = scene.agent.received
            assert named(got, name) == []
            assert got.values("Authorization") == [f"Bearer {scene.token('mallory')}"]


@pytest.mark.parametrize(
    "name",
    ["X-A2A-Principal ", "X-Forwarded-User\t", "X-A2A-Principal\x0b", "X-A2A-Principal\xa0", " X-Tenant-Id"],
)
async def test_fc_042_names_with_blanks_are_no_names(scene: Scene, name: str) -> None:
    """Or, for a line that begins with a blank, the continuation of the one before (RFC 9112 §5.2): never a header."""
    answer = await scene.ask("GET /elsewhere", "X-Other: 1", f"{name}: alice")
    if answer.status == 400:
        assert scene.untouched
        return
    assert name.startswith(" ")
    assert named(scene.agent.received[0], name) == []


@pytest.mark.parametrize(
    "twin",
    [
        "A2A_Version",
        "a2a_version",
        "A2A_Extensions",
        "X_A2A_Extensions",
        "Content_Type",
        "Content_Length",
        "Content_Encoding",
        "Transfer_Encoding",
    ],
)
async def test_fc_042_nor_has_what_was_judged_by_a_twin(scene: Scene, twin: str) -> None:
    scene.agent.script = answers(a_task(T_M))
    for line, body in (("POST /", get(T_M)), ("GET /elsewhere", None)):
        scene.forget()
        await scene.ask(line, V1, JSON, f"{twin}: 7", body=body)
        (got,) = scene.agent.received
        assert twin not in [name for name, _ in got.headers]
        assert got.values("A2A-Version") == ["1.0"]


async def test_fc_042_what_is_nobodys_identity_goes_on(scene: Scene) -> None:
    """Transparent otherwise: trace context, extensions, and headers of an application's own."""
    scene.agent.script = saying({})
    kept = [
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "X-A2A-Extensions: urn:x",
        "A2A-Extensions: urn:y",
        "X-Custom: 1",
        "x_custom: 2",
        "X-Request-Id: abc",
        "User-Agent: me",
        "Accept: */*",
        "Origin: https://a.test",
        "X-Userland: 3",
        "X-Original: 4",
        "X-HTTPS: 5",
    ]
    await scene.ask("GET /elsewhere", *kept)
    (got,) = scene.agent.received
    arrived = [f"{name}: {value}".lower() for name, value in got.headers]
    assert [line for line in arrived if line in {k.lower() for k in kept}] == [k.lower() for k in kept]


# --- what `Connection` lists ----------------------------------------------------------------------

JUDGED_BY = [
    "Authorization",
    "A2A-Version",
    "a2a-version",
    "Content-Type",
    "Content-Encoding",
    "Cookie",
    "A2A-Extensions",
]


@pytest.mark.parametrize(
    "listed", [*JUDGED_BY, "close, Authorization", "keep-alive,A2A-Version", "x ,\tauthorization"]
)
@pytest.mark.parametrize("line", [f"GET /tasks/{T_M}", "POST /", "GET /elsewhere", "POST /message:send"])
async def test_connection_takes_nothing_away_that_was_judged_by(scene: Scene, line: str, listed: str) -> None:
    """RFC 9110 §7.6.1 has a proxy remove what `Connection` lists; then the agent would decide by other headers."""
    body = {"POST /": get(T_M), "POST /message:send": b'{"message":{"messageId":"m","parts":[]}}'}.get(
        line, b""
    )
    said = [f"Connection: {listed}", *scene.bearer(), V1, JSON, "Cookie: a=b", "A2A-Extensions: urn:x"]
    framing = f"Content-Length: {len(body)}"
    sent = http(f"{line} HTTP/1.1", "Host: agents.test", *said, framing, "Connection: close", body=body)
    (answer,) = read_answers(await speak(scene.port, sent))
    assert answer.status == 400 or answer.json["error"]["code"] == -32600
    assert scene.untouched


async def test_nor_does_it_take_away_the_skill_a_caller_named(scenes: Scenes) -> None:
    """By whichever header the policy reads the skill from."""
    scene = await scenes(scopes={"skill_from": ["header:X-Skill"]})
    scene.agent.script = answers({"task": a_task("t-skill", "c-skill")})
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    send = json.dumps(envelope("SendMessage", {"message": message})).encode()
    answer = await scene.ask("POST /", V1, "X-Skill: review", "Connection: X-Skill", body=send, who="alice")
    assert answer.status == 400 or answer.json["error"]["code"] == -32600
    assert scene.untouched
    await scene.ask("POST /", V1, "X-Skill: review", body=send, who="alice")
    assert [r.values("X-Skill") for r in scene.agent.received] == [["review"]]


async def test_what_connection_may_list_is_of_one_hop(scene: Scene) -> None:
    scene.agent.script = saying({})
    await scene.ask("GET /elsewhere", "Connection: X-Hop, X-Forwarded-For", "X-Hop: 1", "X-Stays: 2")
    (got,) = scene.agent.received
    assert got.values("X-Hop") == got.values("Connection") == got.values("X-Forwarded-For") == []
    assert got.values("X-Stays") == ["2"]


async def test_the_agent_hears_one_host_and_it_is_its_own(scene: Scene) -> None:
    scene.agent.script = saying({})
    await scene.ask("GET /elsewhere", "X-Forwarded-Host: evil.example")
    (got,) = scene.agent.received
    assert got.values("Host") == [scene.agent.url.removeprefix("http://")]
