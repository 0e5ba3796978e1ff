"""Field cases of kind 3: who is calling.

One credential in one form (FC-041) is in `test_headers.py`, what the agent receives of it (FC-042, FC-050) in
`test_kind_3_onward.py`, and what single checks make of single claims in `tests/unit/identity/`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sidecar.config import PolicyError, load
from tests.edge.agent import Agent, a_task, answers
from tests.edge.conftest import Answer, Sidecar, Start, a_message, eventually
from tests.field_cases.conftest import C_M, T_M, N, Scene, envelope
from tests.issuer import METHODS, Issuer, b64, sign

Json = dict[str, Any]
INVALID = 'Bearer error="invalid_token", error_description="the access token is invalid"'
MALFORMED = 'Bearer error="invalid_token", error_description="the access token is malformed"'
EXPIRED = 'Bearer error="invalid_token", error_description="the access token expired"'
GET = json.dumps(envelope("GetTask", {"id": T_M})).encode()


async def get(scene: Scene, *authorization: str, target: str = "/", more: tuple[str, ...] = ()) -> Answer:
    """A GetTask of mallory's own task under these credentials."""
    headers = [f"Authorization: {value}" for value in authorization]
    said = ("A2A-Version: 1.0", "Content-Type: application/json", *headers, *more)
    return await scene.ask(f"POST {target}", *said, body=GET, who=None)


def require_401(answer: Answer, *challenges: str | None) -> None:
    """Refused as who, in the form of the dialect, with one of these challenges."""
    assert answer.status == 401, answer.body
    assert answer.json["error"]["code"] == -32000 or answer.json["error"]["message"]
    assert answer.json["id"] == 1
    assert answer.header("WWW-Authenticate") in (challenges or (INVALID,))


def forged(issuer: Issuer, alg: Any, secret: bytes = b"", method: str = "HS256") -> str:
    """A token under a symmetric algorithm, or none."""
    header = {"typ": "at+jwt", "kid": issuer.signers[-1].kid} | ({} if alg is ... else {"alg": alg})
    parts = [json.dumps(part).encode() for part in (header, issuer.claims(sub="mallory", scope="w r"))]
    signed = ".".join(b64(part) for part in parts)
    signature = METHODS[method].sign(signed.encode(), secret) if secret is not None else b"x"
    return f"{signed}.{b64(signature)}"


def public(issuer: Issuer) -> Any:
    return issuer.signers[-1].key.public_key()


FORGERIES: dict[str, Callable[[Issuer], str]] = {
    **{f"alg {alg!r}": (lambda i, alg=alg: forged(i, alg)) for alg in ("none", "None", "nOnE", "", ..., 1)},
    "HS256 with the key's PEM": lambda i: forged(
        i, "HS256", public(i).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    ),
    "HS256 with the key's DER": lambda i: forged(
        i, "HS256", public(i).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ),
    "HS256 with the JWKS": lambda i: forged(i, "HS256", json.dumps({"keys": i.published}).encode()),
    "HS256 with an empty secret": lambda i: forged(i, "HS256", b""),
    "an RS256 header over another key": lambda i: sign(
        i.claims(sub="mallory", scope="w r"),
        METHODS["RS256"].from_jwk(RSA_PRIVATE),
        "RS256",
        {"alg": "RS256", "kid": i.signers[-1].kid, "typ": "at+jwt"},
    ),
}


def _rsa_private() -> Json:
    from cryptography.hazmat.primitives.asymmetric import rsa

    made: Json = METHODS["RS256"].to_jwk(rsa.generate_private_key(65537, 2048), as_dict=True)
    return made


RSA_PRIVATE = _rsa_private()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("forgery", FORGERIES)
async def test_fc_033_the_algorithm_is_the_policys_choice(scene: Scene, forgery: str) -> None:
    answer = await get(scene, f"Bearer {FORGERIES[forgery](scene.running.issuer)}")
    require_401(answer, INVALID, MALFORMED)
    assert scene.untouched


@pytest.mark.asyncio(loop_scope="session")
async def test_fc_033_a_key_of_another_kind_does_not_serve(scene: Scene) -> None:
    """RS256 in the header, the `kid` of an ES256 key."""
    issuer = scene.running.issuer
    kid = issuer.rotate("ES256")
    try:
        token = sign(
            issuer.claims(sub="mallory", scope="w r"),
            issuer.signers[0].key,
            "RS256",
            {"alg": "RS256", "kid": kid, "typ": "at+jwt"},
        )
        require_401(await get(scene, f"Bearer {token}"))
        assert scene.untouched
    finally:
        issuer.signers.pop()
        issuer.withdraw(kid)


# --- claims ----------------------------------------------------------------------------------------


@pytest.fixture
async def realm() -> AsyncIterator[Issuer]:
    async with Issuer(path="/realms/a") as issuer:
        yield issuer


def trusting(*issuers: Issuer, **settings: Any) -> Json:
    return {"issuers": [{"issuer": i.url, "audiences": ["agent"], **settings} for i in issuers]}


def get_with(sidecar: Sidecar, token: str, task: str = "t-1") -> Any:
    return sidecar.send(
        "POST",
        "/",
        who=None,
        json=envelope("GetTask", {"id": task}),
        headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"},
    )


async def test_fc_035_an_issuer_is_its_exact_name(start: Start, agent: Agent, realm: Issuer) -> None:
    sidecar = await start(identity=trusting(realm))
    url = realm.url
    for iss in (
        *(realm.origin, url + "/", url + "b", url.replace("http", "HTTP"), url[:-1], url.upper(), ""),
        *([url], {}, 5, None, ..., {"iss": url}, True, url + "\x00", url + " "),
    ):
        answer = await get_with(sidecar, realm.mint(iss=iss))
        require_401(answer, INVALID)
    assert agent.received == []
    assert (await get_with(sidecar, realm.mint())).json["error"]["code"] == -32001


NOW = int(time.time())
CLAIMS: list[tuple[str, Json, str]] = [
    ("no exp", {"exp": ...}, INVALID),
    ("no sub", {"sub": ...}, INVALID),
    *((f"sub {sub!r:.10}", {"sub": sub}, INVALID) for sub in ("", " ", 5, None, "x" * 4096, ["alice"])),
    ("no aud", {"aud": ...}, INVALID),
    *((f"aud {aud!r}", {"aud": aud}, INVALID) for aud in ([], {}, [5], None, ["agent", 5])),
    *((f"exp {exp!r}", {"exp": exp}, INVALID) for exp in (10**30, "1796071025", -1, None, True, [])),
    ("exp 1.5", {"exp": 1.5}, EXPIRED),
    ("exp before the leeway", {"exp": NOW - 3600}, EXPIRED),
    ("nbf in an hour", {"nbf": NOW + 3600}, INVALID),
    ("iat in an hour", {"iat": NOW + 3600}, INVALID),
    ("nbf no number", {"nbf": "soon"}, INVALID),
]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("claims", "challenge"), [pytest.param(c, w, id=n) for n, c, w in CLAIMS])
async def test_fc_036_claims_that_are_missing_or_absurd(scene: Scene, claims: Json, challenge: str) -> None:
    token = scene.running.issuer.mint(**{"sub": "mallory", "scope": "w r", **claims})
    require_401(await get(scene, f"Bearer {token}"), challenge)
    assert scene.untouched


async def test_fc_036_clocks_may_differ_by_the_leeway(start: Start, agent: Agent, issuer: Issuer) -> None:
    sidecar = await start(identity=trusting(issuer, leeway="10m"))
    now = int(time.time())
    for claims in ({"exp": now}, {"exp": now - 60}, {"nbf": now + 60}, {"iat": now + 60, "exp": now + 120}):
        assert (await get_with(sidecar, issuer.mint(**claims))).status == 200
    require_401(await get_with(sidecar, issuer.mint(exp=now - 601)), EXPIRED)


async def test_fc_036_a_lifetime_may_be_bounded(start: Start, issuer: Issuer) -> None:
    sidecar = await start(identity=trusting(issuer, max_lifetime="1h"))
    now = int(time.time())
    assert (await get_with(sidecar, issuer.mint(iat=now, exp=now + 3600))).status == 200
    for claims in (
        {"iat": now, "exp": now + 7200},
        {"iat": ..., "exp": now + 7200},
        {"iat": now - 7200, "exp": now + 60},  # issued for longer, though little is left
        {"iat": 0, "exp": now + 60},
    ):
        require_401(await get_with(sidecar, issuer.mint(**claims)))


AUDIENCES: list[tuple[str, Json, Json]] = [
    ("a sibling's token", {"aud": "sibling"}, {}),
    ("a longer name", {"aud": "agent.evil"}, {}),
    ("a shorter name", {"aud": "agen"}, {}),
    ("another case", {"aud": "Agent"}, {}),
    ("a blank behind", {"aud": "agent "}, {}),
    ("an ID token", {"nonce": "n", "at_hash": "x"}, {"typ": "JWT"}),
    ("an ID token without a nonce", {"at_hash": "x"}, {"typ": ...}),
    ("a refresh token", {"typ": "Refresh"}, {"typ": "JWT"}),
    ("an offline token", {"typ": "Offline"}, {"typ": "JWT"}),
    ("a token for ID by its use", {"token_use": "id"}, {"typ": "JWT"}),
    ("a logout token", {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}, {}),
    ("a logout token by its type", {}, {"typ": "logout+jwt"}),
    ("a proof", {}, {"typ": "dpop+jwt"}),
]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("claims", "header"), [pytest.param(c, h, id=n) for n, c, h in AUDIENCES])
async def test_fc_037_a_token_for_another_purpose(scene: Scene, claims: Json, header: Json) -> None:
    token = scene.running.issuer.mint(header=header, **{"sub": "mallory", "scope": "w r", **claims})
    require_401(await get(scene, f"Bearer {token}"))
    assert scene.untouched


@pytest.mark.parametrize("strictly", [False, True])
async def test_fc_037_what_the_policy_may_ask_for(start: Start, issuer: Issuer, strictly: bool) -> None:
    """An audience among others, and `typ: JWT`, are accepted unless the policy says otherwise."""
    sidecar = await start(identity=trusting(issuer, single_audience=strictly, require_at_jwt=strictly))
    for typ in ("at+jwt", "AT+JWT", "application/at+jwt"):
        assert (await get_with(sidecar, issuer.mint(header={"typ": typ}))).status == 200
    assert (await get_with(sidecar, issuer.mint(aud=["agent"]))).status == 200
    expected = 401 if strictly else 200
    for token in (
        issuer.mint(aud=["sibling", "agent"], azp="unknown"),
        issuer.mint(header={"typ": "JWT"}),
        issuer.mint(header={"typ": ...}),
    ):
        assert (await get_with(sidecar, token)).status == expected


# --- one caller, several tokens, several issuers -----------------------------------------------------


OPERATIONS: list[tuple[str, Callable[[str], Json]]] = [
    ("GetTask", lambda t: {"id": t}),
    ("CancelTask", lambda t: {"id": t}),
    ("SubscribeToTask", lambda t: {"id": t}),
    ("SendMessage", lambda t: {"message": a_message(taskId=t)}),
    ("SendStreamingMessage", lambda t: {"message": a_message(taskId=t)}),
    ("CreateTaskPushNotificationConfig", lambda t: {"taskId": t, "url": "https://hooks.example.com/x"}),
    ("GetTaskPushNotificationConfig", lambda t: {"taskId": t, "id": "c"}),
    ("ListTaskPushNotificationConfigs", lambda t: {"taskId": t}),
    ("DeleteTaskPushNotificationConfig", lambda t: {"taskId": t, "id": "c"}),
]


async def test_fc_038_one_subject_at_two_issuers_is_two_people(
    start: Start, agent: Agent, issuer: Issuer
) -> None:
    async with Issuer() as other:
        sidecar = await start(
            identity=trusting(issuer, other), push={"allow": ["https://hooks.example.com"], "resolve": False}
        )
        agent.script = answers({"task": a_task("t-1", "c-1")})
        assert (await sidecar.submit()).json["result"]["task"]["id"] == "t-1"
        agent.received.clear()
        token = other.mint(sub="alice", scope="w r")

        async def ask(method: str, params: Json) -> Answer:
            return await sidecar.send(
                "POST",
                "/",
                who=None,
                json=envelope(method, params),
                headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"},
            )

        for method, params in OPERATIONS:
            foreign, absent = await ask(method, params("t-1")), await ask(method, params(N))
            assert foreign.shown == absent.shown, method
            assert foreign.json["error"]["code"] == -32001, method
        assert (await ask("ListTasks", {})).json["result"]["totalSize"] == 0
        assert agent.received == []


async def test_fc_040_a_new_token_keeps_what_the_old_one_made(
    start: Start, agent: Agent, issuer: Issuer
) -> None:
    sidecar = await start(identity=trusting(issuer, leeway="0s"))
    agent.script = answers({"task": a_task("t-1", "c-1")})
    first = issuer.mint(scope="w r", jti="1", exp=int(time.time()) + 2)
    created = await sidecar.send(
        "POST",
        "/",
        who=None,
        json=envelope("SendMessage", {"message": a_message()}),
        headers={"Authorization": f"Bearer {first}", "A2A-Version": "1.0"},
    )
    assert created.json["result"]["task"]["id"] == "t-1"
    kid = issuer.rotate()
    agent.script = answers(a_task("t-1", "c-1"))
    second = issuer.mint(kid=kid, scope="r w", jti="2", iat=int(time.time()) - 1)
    assert (await get_with(sidecar, second)).json["result"]["id"] == "t-1"

    refused: list[Answer] = []
    async with asyncio.timeout(10):
        while not refused or refused[-1].status != 401:
            refused.append(await get_with(sidecar, first))
    require_401(refused[-1], EXPIRED)
    assert (await get_with(sidecar, second)).json["result"]["id"] == "t-1"


# --- one spelling --------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="session")
async def test_fc_049_one_token_has_one_spelling(scene: Scene) -> None:
    token = scene.token("mallory")
    head, payload, signature = token.split(".")
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spare = last[(last.index(signature[-1]) // 4) * 4 + (last.index(signature[-1]) + 1) % 4]
    assert len(signature) % 4 in (2, 3), "the last character of this signature has bits to spare"
    for other in (
        *(token + "=", token + "==", f"{head}=.{payload}.{signature}", f"{head}.{payload}==.{signature}"),
        f"{head}.{payload}.{signature[:-1]}{spare}",
        token.replace("-", "+").replace("_", "/") if {"-", "_"} & set(token) else token + "+",
        *(f"{head} .{payload}.{signature}", f"{head}.{payload}.%{ord(signature[0]):02x}{signature[1:]}"),
        *(token + ".", token + "." + signature, "." + token, f"{head}.{payload}.", f"{head}..{signature}"),
    ):
        assert other != token
        require_401(await get(scene, f"Bearer {other}"), MALFORMED)
    assert scene.untouched
    scene.agent.script = answers(a_task(T_M, C_M))
    assert (await get(scene, f"Bearer {token}")).status == 200


# --- keys ------------------------------------------------------------------------------------------------


def asked_for_keys(issuer: Issuer) -> int:
    return issuer.requests.count("/keys")


async def test_fc_045_unknown_keys_cost_one_fetch_and_nobody_waits(start: Start, issuer: Issuer) -> None:
    sidecar = await start(identity=trusting(issuer))
    assert (await get_with(sidecar, issuer.mint())).status == 200
    issuer.open.clear()  # from now on the issuer does not answer
    before = asked_for_keys(issuer)
    flood = [
        asyncio.create_task(get_with(sidecar, issuer.mint(header={"kid": f"made-up-{n}"})))
        for n in range(200)
    ]
    await eventually(lambda: len(issuer.requests) > 2)
    for answer in await asyncio.gather(*(get_with(sidecar, issuer.mint(jti=str(n))) for n in range(50))):
        assert answer.status == 200
    assert not any(waiting.done() and waiting.result().status < 400 for waiting in flood)
    issuer.open.set()
    # 503 where the issuer was slower than the time it has: nobody can say that the key does not exist.
    assert {answer.status for answer in await asyncio.gather(*flood)} <= {401, 503}
    assert asked_for_keys(issuer) - before <= 1


async def test_fc_045_a_cold_cache_is_one_fetch_for_all(start: Start, issuer: Issuer) -> None:
    issuer.open.clear()
    sidecar = await start(identity=trusting(issuer))
    token = issuer.mint()
    waiting = [asyncio.create_task(get_with(sidecar, token)) for _ in range(200)]
    await eventually(lambda: issuer.requests)
    issuer.open.set()
    assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}
    assert asked_for_keys(issuer) == 1


@pytest.mark.parametrize(
    "behaviour", ["500", "html", "empty", "invalid", "twins", "huge", "drop", "redirect"]
)
async def test_fc_046_a_failing_issuer_takes_no_keys_away(
    start: Start, issuer: Issuer, behaviour: str
) -> None:
    settings = {"keys_refresh": "50ms", "keys_max_stale": "1h", "keys_cooldown": "50ms"}
    sidecar = await start(identity=trusting(issuer) | settings)
    assert (await get_with(sidecar, issuer.mint())).status == 200
    issuer.behaviour = behaviour
    before = asked_for_keys(issuer)
    bad = await get_with(sidecar, issuer.mint(header={"kid": "made-up"}))
    assert bad.status in (401, 503)
    await eventually(lambda: len(issuer.requests) > before + 2)
    assert (await get_with(sidecar, issuer.mint(jti="2"))).status == 200
    async with sidecar.session.get(f"{sidecar.admin_url}/metrics") as metrics:
        told = await metrics.text()
    assert f'a2a_sidecar_keys_usable{{issuer="{issuer.url}"}} 1.0' in told
    (failures,) = [line for line in told.splitlines() if line.startswith("a2a_sidecar_issuer_failures{")]
    assert float(failures.rpartition(" ")[2]) >= 1


async def test_fc_046_old_keys_serve_for_a_bounded_time(start: Start, agent: Agent, issuer: Issuer) -> None:
    settings = {"keys_refresh": "50ms", "keys_max_stale": "300ms", "keys_cooldown": "50ms"}
    sidecar = await start(identity=trusting(issuer) | settings)
    assert (await get_with(sidecar, issuer.mint())).status == 200
    await issuer.down()
    async with asyncio.timeout(10):
        while (answer := await get_with(sidecar, issuer.mint())).status == 200:
            pass
    assert (answer.status, answer.header("Retry-After")) == (503, "1")
    async with sidecar.session.get(f"{sidecar.admin_url}/readyz") as ready:
        assert ready.status == 503
        assert issuer.url in await ready.text()
    await issuer.up()
    async with asyncio.timeout(10):
        while (await get_with(sidecar, issuer.mint())).status != 200:
            pass


async def test_fc_046_a_dead_issuer_at_the_start(start: Start, agent: Agent, issuer: Issuer) -> None:
    await issuer.down()
    sidecar = await start()
    answer = await get_with(sidecar, issuer.mint())
    assert (answer.status, answer.header("Retry-After")) == (503, "1")
    assert agent.received == []
    await issuer.up()
    async with asyncio.timeout(10):
        while (await get_with(sidecar, issuer.mint())).status != 200:
            pass


async def test_a_withdrawn_key_is_refused_within_the_refresh(start: Start, issuer: Issuer) -> None:
    sidecar = await start(identity=trusting(issuer) | {"keys_refresh": "50ms", "keys_cooldown": "50ms"})
    old, token = issuer.signers[-1].kid, issuer.mint()
    assert (await get_with(sidecar, token)).status == 200
    issuer.rotate()
    assert (await get_with(sidecar, issuer.mint())).status == 200  # an unknown key is asked for at once
    issuer.withdraw(old)
    async with asyncio.timeout(10):
        while (await get_with(sidecar, token)).status == 200:
            pass
    require_401(await get_with(sidecar, token))
    assert (await get_with(sidecar, issuer.mint())).status == 200


# --- claims that change hands ----------------------------------------------------------------------------


@pytest.mark.parametrize("claim", ["email", "preferred_username", "upn", "name", "phone_number", "login"])
def test_fc_052_nobody_is_known_by_what_may_change(tmp_path: Any, claim: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        json.dumps(
            {
                "version": 1,
                "upstream": "http://127.0.0.1:9000",
                "public_url": "https://agents.test/review",
                "identity": {
                    "issuers": [
                        {
                            "issuer": "https://idp.example",
                            "audiences": ["agent"],
                            "claims": {"subject": claim},
                        }
                    ]
                },
            }
        )
    )
    with pytest.raises(PolicyError, match=f"claims.subject: `{claim}` may change, be given to somebody else"):
        load([policy])
