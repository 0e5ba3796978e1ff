"""Every way to be somebody, through the whole sidecar: keys, certificates, bound tokens, actors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from sidecar.starting import CannotStart
from tests.certificates import Authority, Issued
from tests.dpop import ProofKey
from tests.edge.agent import Agent, a_task, answers
from tests.edge.conftest import Answer, Sidecar, Start, a_message
from tests.issuer import Issuer

Json = dict[str, Any]
KEY, OTHER_KEY = "k" * 64, "o" * 64
PLANNER, MALLORY = "spiffe://example.org/sa/planner", "spiffe://example.org/sa/mallory"
INGRESS = "spiffe://example.org/ingress"
PUBLIC = "https://agents.test/review/"
NOT_FOUND = -32001


def hashed(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def api_keys(**subjects: str) -> Json:
    return {"keys": [{"subject": name, "sha256": hashed(key)} for name, key in subjects.items()]}


async def ask(sidecar: Sidecar, method: str, params: Json, tls: Any = None, **headers: str) -> Answer:
    """A JSON-RPC 1.0 call under these headers; `_` is written `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | {"A2A-Version": "1.0"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    url = sidecar.url.replace("http:", "https:") if tls is not None else sidecar.url
    async with sidecar.session.post(url + "/", json=body, headers=sent, ssl=tls or True) as reply:
        got = [(k.decode(), v.decode()) for k, v in reply.raw_headers]
        return Answer(reply.status, got, await reply.read())


async def send(sidecar: Sidecar, tls: Any = None, **headers: str) -> Answer:
    return await ask(sidecar, "SendMessage", {"message": a_message()}, tls, **headers)


async def get(sidecar: Sidecar, task: str = "t-1", tls: Any = None, **headers: str) -> Answer:
    return await ask(sidecar, "GetTask", {"id": task}, tls, **headers)


# --- API keys ------------------------------------------------------------------------------------------


async def test_a_key_owns_what_it_made_and_needs_no_scopes(
    start: Start, agent: Agent, issuer: Issuer
) -> None:
    sidecar = await start(
        identity={
            "issuers": [{"issuer": issuer.url, "audiences": ["agent"]}],
            "api_keys": api_keys(ci=KEY, cron=OTHER_KEY),
        }
    )
    agent.script = answers({"task": a_task("t-1", "c-1")})
    assert (await send(sidecar, X_API_Key=KEY)).json["result"]["task"]["id"] == "t-1"
    agent.script = answers(a_task("t-1", "c-1"))
    assert (await get(sidecar, X_API_Key=KEY)).json["result"]["id"] == "t-1"
    agent.received.clear()
    for other in (
        {"X_API_Key": OTHER_KEY},
        {"Authorization": f"Bearer {issuer.mint(sub='ci', scope='w r')}"},
    ):
        foreign, absent = await get(sidecar, **other), await get(sidecar, "t-2", **other)
        assert foreign.shown == absent.shown
        assert foreign.json["error"]["code"] == NOT_FOUND
    assert agent.received == []
    records = await sidecar.records(lambda r: len([x for x in r if x["event"] == "decision"]) >= 6)
    assert {r["issuer"] for r in records if r.get("issuer")} == {"urn:a2a-sidecar:api-key", issuer.url}
    assert KEY not in sidecar.audit_file.read_text()


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        pytest.param({"X_API_Key": "x"}, "ApiKey", id="nobody's key"),
        pytest.param({"X_API_Key": ""}, "ApiKey", id="an empty key"),
        pytest.param({"X_API_Key": hashed(KEY)}, "ApiKey", id="the hash of a key"),
        pytest.param({}, "Bearer, ApiKey", id="no credential"),
        pytest.param({"Authorization": f"Bearer {KEY}"}, None, id="a key as a token"),
        pytest.param({"Authorization": f"ApiKey {KEY}"}, "Bearer, ApiKey", id="a key under a scheme"),
        pytest.param({"Authorization": "Bearer x", "X_API_Key": KEY}, None, id="a key and a token"),
        pytest.param({"Cookie": f"X-API-Key={KEY}"}, "Bearer, ApiKey", id="a key in a cookie"),
    ],
)
async def test_what_is_no_key(
    start: Start, agent: Agent, issuer: Issuer, headers: dict[str, str], challenge: str | None
) -> None:
    issuers = [{"issuer": issuer.url, "audiences": ["agent"]}]
    sidecar = await start(identity={"issuers": issuers, "api_keys": api_keys(ci=KEY)})
    answer = await get(sidecar, **headers)
    malformed = 'Bearer error="invalid_token", error_description="the access token is malformed"'
    assert (answer.status, answer.header("WWW-Authenticate")) == (401, challenge or malformed)
    assert agent.received == []


# --- certificates --------------------------------------------------------------------------------------


class Callers:
    """An authority for clients, one for servers, and the TLS sections of a policy that knows both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers, self.clients = Authority("servers"), Authority("clients")
        certificate, key = self.servers.server().write(folder, "server")
        ca = self.clients.write(folder / "clients.pem")
        self.tls = {"certificate_file": certificate, "key_file": key, "client_ca_file": ca}
        self._made: dict[str, Issued] = {}

    def issued(self, name: str) -> Issued:
        if name not in self._made:
            self._made[name] = self.clients.client(name)
        return self._made[name]

    def shown(self, name: str | None) -> Any:
        """A caller's TLS context that shows the certificate of this name."""
        if name is None:
            return self.servers.trusting()
        return self.servers.trusting(self.issued(name).write(self.folder, sha256(name.encode()).hexdigest()))


@pytest.fixture
def callers(tmp_path: Path) -> Callers:
    return Callers(tmp_path)


async def test_a_certificate_owns_what_it_made(
    start: Start, agent: Agent, issuer: Issuer, callers: Callers
) -> None:
    identity = {
        "issuers": [{"issuer": issuer.url, "audiences": ["agent"]}],
        "certificates": {"principals": ["spiffe://example.org/sa/*"]},
    }
    sidecar = await start(tls=callers.tls, identity=identity)
    planner, mallory = callers.shown(PLANNER), callers.shown(MALLORY)
    agent.script = answers({"task": a_task("t-1", "c-1")})
    assert (await send(sidecar, planner)).json["result"]["task"]["id"] == "t-1"
    agent.script = answers(a_task("t-1", "c-1"))
    assert (await get(sidecar, tls=planner)).json["result"]["id"] == "t-1"
    agent.received.clear()
    foreign, absent = await get(sidecar, tls=mallory), await get(sidecar, "t-2", tls=mallory)
    assert foreign.shown == absent.shown
    assert foreign.json["error"]["code"] == NOT_FOUND
    # A token is who calls, whatever certificate its connection has.
    token = f"Bearer {issuer.mint(sub=PLANNER, scope='w r')}"
    assert (await get(sidecar, tls=planner, Authorization=token)).json["error"]["code"] == NOT_FOUND
    for nobody in (callers.shown(None), callers.shown("spiffe://example.org/other")):
        answer = await get(sidecar, tls=nobody)
        assert (answer.status, answer.header("WWW-Authenticate")) == (401, "Bearer, Certificate")
    forged = f"Hash={'ab' * 32};URI={PLANNER}"
    assert (await get(sidecar, tls=callers.shown(None), X_Forwarded_Client_Cert=forged)).status == 401
    assert agent.received == []


async def test_a_proxy_tells_of_its_callers(
    start: Start, agent: Agent, issuer: Issuer, callers: Callers
) -> None:
    certificates = {"principals": ["spiffe://example.org/sa/*"], "forwarded_by": [INGRESS]}
    sidecar = await start(tls=callers.tls, identity={"certificates": certificates})
    ingress, mallory = callers.shown(INGRESS), callers.shown(MALLORY)
    of_planner = f"Hash={'ab' * 32};URI={PLANNER}"
    agent.script = answers({"task": a_task("t-1", "c-1")})
    made = await send(sidecar, ingress, X_Forwarded_Client_Cert=of_planner)
    assert made.json["result"]["task"]["id"] == "t-1"
    (request,) = agent.received
    assert "x-forwarded-client-cert" not in {name.lower() for name, _ in request.headers}
    agent.script = answers(a_task("t-1", "c-1"))
    assert (await get(sidecar, tls=callers.shown(PLANNER))).json["result"]["id"] == "t-1"
    agent.received.clear()
    # Another caller in front of the real one; a caller who says so without the proxy; the proxy alone.
    appended = f"{of_planner},Hash={'cd' * 32};URI={MALLORY}"
    for tls, told in ((ingress, appended), (mallory, of_planner)):
        assert (await get(sidecar, tls=tls, X_Forwarded_Client_Cert=told)).json["error"]["code"] == NOT_FOUND
    assert (await get(sidecar, tls=ingress)).status == 401
    assert (await get(sidecar, tls=ingress, X_Forwarded_Client_Cert="x")).status == 401
    assert agent.received == []


# --- bound tokens --------------------------------------------------------------------------------------


async def test_a_token_bound_to_a_certificate(
    start: Start, agent: Agent, issuer: Issuer, callers: Callers
) -> None:
    identity = {
        "issuers": [{"issuer": issuer.url, "audiences": ["agent"]}],
        "certificates": {"forwarded_by": [INGRESS]},
    }
    sidecar = await start(tls=callers.tls, identity=identity)
    der = callers.issued(PLANNER).der
    bound = issuer.mint(scope="w r", cnf={"x5t#S256": thumbprint(der)})
    agent.script = answers({"task": a_task("t-1", "c-1")})
    token = {"Authorization": f"Bearer {bound}"}
    assert (await send(sidecar, callers.shown(PLANNER), **token)).status == 200
    told = f"Hash={sha256(der).hexdigest()}"
    assert (await send(sidecar, callers.shown(INGRESS), X_Forwarded_Client_Cert=told, **token)).status == 200
    agent.received.clear()
    refused = [
        (callers.shown(None), {}),
        (callers.shown(MALLORY), {}),
        (callers.shown(MALLORY), {"X_Forwarded_Client_Cert": told}),
        (callers.shown(INGRESS), {}),
        (callers.shown(INGRESS), {"X_Forwarded_Client_Cert": f"Hash={'ab' * 32}"}),
        (callers.shown(INGRESS), {"X_Forwarded_Client_Cert": f"{told},Hash={'ab' * 32}"}),
    ]
    for tls, more in refused:
        answer = await send(sidecar, tls, **token, **more)
        assert answer.status == 401
        assert answer.header("WWW-Authenticate") == (
            'Bearer error="invalid_token", error_description="the access token is invalid"'
        )
    assert agent.received == []


def thumbprint(der: bytes) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(sha256(der).digest()).rstrip(b"=").decode()


async def test_a_token_bound_to_a_key(start: Start, agent: Agent, issuer: Issuer) -> None:
    sidecar = await start()
    holder, other = ProofKey(), ProofKey()
    token = issuer.mint(scope="w r", cnf={"jkt": holder.thumbprint})
    agent.script = answers({"task": a_task("t-1", "c-1")})

    def proved(by: ProofKey = holder, of: str = token, **over: Any) -> dict[str, str]:
        proof = by.proof("POST", PUBLIC, of, **over)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}

    first = proved()
    assert (await send(sidecar, **first)).json["result"]["task"]["id"] == "t-1"
    agent.received.clear()
    plain = issuer.mint(scope="w r")
    deviations: list[tuple[str, dict[str, str], str]] = [
        ("the same proof again", first, "invalid_dpop_proof"),
        ("as a bearer token", {"Authorization": f"Bearer {token}"}, "invalid_token"),
        ("as one, with its proof", proved() | {"Authorization": f"Bearer {token}"}, "invalid_token"),
        ("without a proof", {"Authorization": f"DPoP {token}"}, "invalid_dpop_proof"),
        ("another key", proved(other), "invalid_dpop_proof"),
        ("another method", proved(htm="GET"), "invalid_dpop_proof"),
        ("another place", proved(htu="https://agents.test/other/"), "invalid_dpop_proof"),
        ("the inner address", proved(htu=sidecar.url + "/"), "invalid_dpop_proof"),
        ("another token", proved(of=plain), "invalid_dpop_proof"),
        ("long ago", proved(iat=int(time.time()) - 3600), "invalid_dpop_proof"),
        ("a token bound to nothing", proved(of=plain) | {"Authorization": f"DPoP {plain}"}, "invalid_token"),
    ]
    for what, headers, error in deviations:
        answer = await send(sidecar, **headers)
        assert answer.status == 401, what
        assert f'error="{error}"' in (answer.header("WWW-Authenticate") or ""), what
    assert agent.received == []


async def test_two_racing_with_one_proof(start: Start, agent: Agent, issuer: Issuer) -> None:
    import asyncio

    sidecar = await start()
    holder = ProofKey()
    token = issuer.mint(scope="w r", cnf={"jkt": holder.thumbprint})
    agent.script = answers({"task": a_task("t-1", "c-1")})
    headers = {
        "Authorization": f"DPoP {token}",
        "DPoP": holder.proof("POST", PUBLIC, token),
    }
    statuses = [a.status for a in await asyncio.gather(*(send(sidecar, **headers) for _ in range(20)))]
    assert sorted(statuses) == [200] + [401] * 19
    assert len(agent.received) == 1


async def test_a_nonce_is_given_and_taken(start: Start, agent: Agent, issuer: Issuer) -> None:
    identity = {"issuers": [{"issuer": issuer.url, "audiences": ["agent"]}], "dpop": {"nonce": "required"}}
    sidecar = await start(identity=identity)
    holder = ProofKey()
    token = issuer.mint(scope="w r", cnf={"jkt": holder.thumbprint})
    agent.script = answers({"task": a_task("t-1", "c-1")})

    def proved(**more: Any) -> dict[str, str]:
        proof = holder.proof("POST", PUBLIC, token, **more)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}

    asked = await send(sidecar, **proved())
    assert asked.status == 401
    assert 'error="use_dpop_nonce"' in (asked.header("WWW-Authenticate") or "")
    nonce = asked.header("DPoP-Nonce")
    assert nonce
    assert agent.received == []
    assert (await send(sidecar, **proved(nonce=nonce))).status == 200
    assert (await send(sidecar, **proved(nonce=nonce))).status == 200
    assert (
        await send(sidecar, **proved(nonce=nonce[:-1] + ("A" if nonce[-1] != "A" else "B")))
    ).status == 401


# --- delegation ----------------------------------------------------------------------------------------


async def test_who_acted_is_on_record_and_who_presented_is_named(
    start: Start, agent: Agent, issuer: Issuer
) -> None:
    sidecar = await start()
    chain = {"sub": "executor", "act": {"sub": "planner"}}
    token = issuer.mint(scope="w", act=chain)
    refused = await send(sidecar, Authorization=f"Bearer {token}")
    assert "the token presented by executor holds w" in refused.json["error"]["message"]
    named = await send(sidecar, Authorization=f"Bearer {issuer.mint(scope='w', act=chain, azp='planner-7')}")
    assert "the token presented by planner-7 holds w" in named.json["error"]["message"]
    records = await sidecar.records(lambda r: len([x for x in r if x["event"] == "decision"]) == 2)
    assert records[0]["actors"] == ["executor", "planner"]
    assert (records[0]["presented_by"], records[1]["presented_by"]) == ("executor", "planner-7")
    assert agent.received == []


async def test_who_may_act_is_the_policys_to_say(start: Start, agent: Agent, issuer: Issuer) -> None:
    issuers = [{"issuer": issuer.url, "audiences": ["agent"], "actors": ["planner"]}]
    sidecar = await start(identity={"issuers": issuers})
    agent.script = answers({"task": a_task("t-1", "c-1")})
    for act, status in (
        (..., 200),
        ({"sub": "planner"}, 200),
        ({"sub": "mallory", "act": {"sub": "planner"}}, 401),
    ):
        token = issuer.mint(scope="w r", act=act)
        assert (await send(sidecar, Authorization=f"Bearer {token}")).status == status


@pytest.mark.parametrize(("claims", "same"), [(["azp"], False), (["act"], False), ([], True)])
async def test_an_owner_may_include_who_acts(
    start: Start, agent: Agent, issuer: Issuer, claims: list[str], same: bool
) -> None:
    sidecar = await start(ownership={"owner_claims": claims})
    agent.script = answers({"task": a_task("t-1", "c-1")})

    def token(hop: str, **more: Any) -> dict[str, str]:
        minted = issuer.mint(scope="w r", azp=hop, act={"sub": hop}, **more)
        return {"Authorization": f"Bearer {minted}"}

    assert (await send(sidecar, **token("planner"))).status == 200
    agent.script = answers(a_task("t-1", "c-1"))
    assert (await get(sidecar, **token("planner", jti="refreshed"))).json["result"]["id"] == "t-1"
    answer = await get(sidecar, **token("other"))
    assert ("result" in answer.json) is same


# --- what stops the start --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        pytest.param(
            lambda i, at: {"identity": {"issuers": [i | {"ca_file": at("none")}]}},
            "none",
            id="no authorities",
        ),
        pytest.param(
            lambda i, at: {"identity": {"issuers": [i | {"ca_file": at("junk")}]}},
            "junk",
            id="authorities that are none",
        ),
        pytest.param(
            lambda i, at: {"tls": {"certificate_file": at("none"), "key_file": at("junk")}},
            "tls.certificate_file",
            id="no certificate",
        ),
        pytest.param(
            lambda i, at: {"tls": {"certificate_file": at("junk"), "key_file": at("junk")}},
            "tls.",
            id="a certificate that is none",
        ),
    ],
)
async def test_a_file_that_cannot_be_used_stops_the_start(
    start: Start, issuer: Issuer, tmp_path: Path, sections: Callable[..., Json], message: str
) -> None:
    (tmp_path / "junk").write_text("junk")
    trusted = {"issuer": issuer.url, "audiences": ["agent"]}
    with pytest.raises(CannotStart) as refused:
        await start(**json.loads(json.dumps(sections(trusted, lambda name: str(tmp_path / name)))))
    assert message in str(refused.value)
    assert "junk" not in str(refused.value).replace(f"{tmp_path}/junk", "")


@pytest.mark.parametrize("mount", ["/", "/a/b"])
@pytest.mark.parametrize(
    "path", ["/rest/tasks/urn%3Auuid%3A1", "/rest/tasks/a%2Bb", "/rest/tasks/t-1?historyLength=1"]
)
async def test_a_proof_names_the_address_as_its_caller_wrote_it(
    start: Start, agent: Agent, issuer: Issuer, mount: str, path: str
) -> None:
    agents = [{"name": "review", "upstream": agent.url, "public_url": PUBLIC, "mount": mount}]
    sidecar = await start(agents=agents)
    holder = ProofKey()
    token = issuer.mint(scope="w r", cnf={"jkt": holder.thumbprint})
    proof = holder.proof("GET", PUBLIC.rstrip("/") + path.partition("?")[0], token)
    headers = {"Authorization": f"DPoP {token}", "DPoP": proof, "A2A-Version": "1.0"}
    url = URL(sidecar.url + mount.rstrip("/") + path, encoded=True)
    async with sidecar.session.get(url, headers=headers) as reply:
        assert reply.status == 404, await reply.text()
