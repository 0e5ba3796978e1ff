"""The sidecar before a real agent, with tokens of a real identity server: `oidc-provider`.

Two sidecars stand before one agent and trust the same provider. `plain` asks rarely and remembers long; `strict` has TLS,
wants a nonce in each proof, and believes what it was told for half a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.certificates import put
from tests.dpop import ProofKey
from tests.e2e.deployment import Deployment
from tests.e2e.identity_server.guarded import Guarded, guarded
from tests.e2e.identity_server.provider import APP, BOUND_APP, SIDECAR, Provider, Refused, Shown, running
from tests.e2e.wire import JSONRPC_1, Answer
from tests.e2e.wire import request as a2a
from tests.issuer import b64

# The resource indicator of JWTs; with a query that of other tokens, see provider.mjs.
AUDIENCE: Final = "https://agent.test/"
OPAQUE: Final = f"{AUDIENCE}?format=opaque"
KINDS: Final = [pytest.param(AUDIENCE, id="a JWT"), pytest.param(OPAQUE, id="an opaque token")]

INVALID: Final = 'error="invalid_token"'
NO_PROOF: Final = 'error="invalid_dpop_proof"'
PATIENCE: Final = 20.0  # seconds; what is waited for takes one or two


# --- what runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identity-server")


@pytest.fixture(scope="module")
def provider(folder: Path) -> Iterator[Provider]:
    with running(folder) as made:
        yield made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """Another provider of the same kind, which no sidecar trusts."""
    with running(tmp_path_factory.mktemp("stranger")) as made:
        yield made


@pytest.fixture(scope="module")
def plain(folder: Path, provider: Provider, deployment: Deployment) -> Iterator[Guarded]:
    settings = {"issuers": [trusted(provider, folder, cache="300s")], "keys_cooldown": "100ms"}
    with guarded("plain", folder, deployment, settings) as made:
        yield Guarded(made)


@pytest.fixture(scope="module")
def strict(folder: Path, provider: Provider, deployment: Deployment) -> Iterator[Guarded]:
    issuer = trusted(provider, folder, cache="500ms", cache_inactive="500ms")
    settings = {
        # The query tells its key fetches from those of `plain`.
        "issuers": [issuer | {"require_at_jwt": True, "jwks_uri": f"{provider.issuer}/jwks?strict"}],
        "dpop": {"nonce": "required"},
        "keys_refresh": "500ms",
        "keys_cooldown": "100ms",
    }
    certificate_file, key_file = provider.authority.server().write(folder, "sidecar")
    tls = {
        "certificate_file": certificate_file,
        "key_file": key_file,
        "client_ca_file": provider.authority.write(folder / "callers.pem"),
    }
    with guarded("strict", folder, deployment, settings, tls=tls) as made:
        yield Guarded(made, provider.authority.trusting())


def trusted(provider: Provider, folder: Path, **introspection: str) -> dict[str, Any]:
    """The provider as an issuer of the policy: nothing but what its documentation gives away."""
    secret = put(folder / "secret", SIDECAR.secret.encode())
    return {
        "issuer": provider.issuer,
        # An app may be client and API at once, and its id an audience: an ID token must then show elsewhere.
        "audiences": [AUDIENCE, APP.id],
        "ca_file": provider.authority.write(folder / "provider.pem"),
        "leeway": "0s",
        "introspection": {"client_id": SIDECAR.id, "client_secret_file": secret, **introspection},
    }


def eventually(holds: Callable[[], bool]) -> None:
    """Ask again and again until it holds; a test that waits in vain fails."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def challenge(reply: Answer) -> str:
    """What a 401 asks for; fails if it is no 401."""
    assert reply.status == 401, reply
    return ", ".join(value for name, value in reply.headers if name.lower() == "www-authenticate")


def header(reply: Answer, name: str) -> str | None:
    return next((value for key, value in reply.headers if key.lower() == name.lower()), None)


def task_of(reply: Answer) -> str:
    """The id of the task a message made; fails if it made none."""
    assert reply.status == 200, reply
    assert reply.state == "completed", reply
    return str(reply.resource["id"])


# --- which tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_who_logged_in_may_call(provider: Provider, plain: Guarded, resource: str) -> None:
    token = provider.login("alice", resource)["access_token"]
    task = task_of(plain.submit(token))
    assert plain.get(task, token).state == "completed"


def test_a_client_may_call_in_its_own_name(provider: Provider, plain: Guarded) -> None:
    token = provider.client_token(AUDIENCE)
    task = task_of(plain.submit(token))
    assert plain.get(task, provider.client_token(AUDIENCE)).state == "completed"


def refresh_token(provider: Provider) -> str:
    return str(provider.login("alice", OPAQUE)["refresh_token"])


def for_userinfo(provider: Provider) -> str:
    return str(provider.login("alice", None, scope="")["access_token"])


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda p: p.client_token("https://other.test/"), id="a JWT for another audience"),
        pytest.param(
            lambda p: p.client_token("https://other.test/?format=opaque"),
            id="an opaque token for another audience",
        ),
        # The provider says of these what it says of an access token, but for `aud` and `token_type`.
        pytest.param(refresh_token, id="a refresh token"),
        pytest.param(for_userinfo, id="a token for the userinfo endpoint, which has no audience"),
        # RFC 9068 §2.2 wants a `sub` of a JWT; of an opaque token the provider tells `client_id` alone.
        pytest.param(lambda p: p.client_token(OPAQUE), id="an opaque token that names no subject"),
        pytest.param(lambda _: "x" * 43, id="a token the provider does not know"),
    ],
)
def test_a_token_that_is_not_for_us(
    provider: Provider, plain: Guarded, made: Callable[[Provider], str]
) -> None:
    heard = plain.heard
    assert INVALID in challenge(plain.submit(made(provider)))
    assert plain.heard == heard


def test_a_token_of_another_issuer(stranger: Provider, plain: Guarded) -> None:
    heard = plain.heard
    for token in (stranger.client_token(AUDIENCE), stranger.login("alice", OPAQUE)["access_token"]):
        assert INVALID in challenge(plain.submit(token))
    assert plain.heard == heard


def test_what_only_looks_like_an_access_token(provider: Provider, strict: Guarded) -> None:
    """An ID token, and the signed answer of the userinfo endpoint: both without `typ`, for the client's own id."""
    heard = strict.heard
    id_token = provider.login("alice", AUDIENCE)["id_token"]
    userinfo = provider.userinfo(for_userinfo(provider))
    for token in (id_token, userinfo):
        assert INVALID in challenge(strict.submit(token))
    assert strict.heard == heard


def test_an_id_token_is_told_by_its_claims(provider: Provider, plain: Guarded) -> None:
    """Also where the policy does not ask for `at+jwt`; of userinfo, see `policies/README.md`."""
    assert INVALID in challenge(plain.submit(provider.login("alice", AUDIENCE)["id_token"]))


def test_a_token_expires(provider: Provider, plain: Guarded) -> None:
    """Accepted and remembered, and refused from the second on that it names."""
    jwt = provider.client_token(f"{AUDIENCE}?ttl=4")
    task_of(plain.submit(jwt))
    opaque = provider.login("alice", f"{OPAQUE}&ttl=4")["access_token"]
    task_of(plain.submit(opaque))
    eventually(lambda: plain.submit(jwt).status == plain.submit(opaque).status == 401)
    assert 'error_description="the access token expired"' in challenge(plain.submit(jwt))
    assert INVALID in challenge(plain.submit(opaque))


# --- keys ------------------------------------------------------------------------------------------


def test_a_new_key_is_asked_for_once(provider: Provider, plain: Guarded) -> None:
    old = provider.client_token(AUDIENCE)
    task_of(plain.submit(old))
    provider.order("rotate")
    asked = provider.asked("/jwks")
    for subject in ("alice", "bob", "carol"):
        task_of(plain.submit(provider.login(subject, AUDIENCE)["access_token"]))
    task_of(plain.submit(old))
    assert provider.asked("/jwks") == asked + 1


def test_a_withdrawn_key_ends_its_tokens(provider: Provider, plain: Guarded, strict: Guarded) -> None:
    old = provider.client_token(AUDIENCE)
    task_of(strict.submit(old))
    provider.order("rotate")
    task_of(strict.submit(old))
    provider.order("withdraw")
    eventually(lambda: strict.submit(old).status == 401)
    assert INVALID in challenge(strict.submit(old))
    new = provider.client_token(AUDIENCE)
    task_of(strict.submit(new))
    eventually(lambda: plain.submit(new).status == 200)


# --- opaque tokens ---------------------------------------------------------------------------------


def test_an_opaque_token_is_asked_about_once(provider: Provider, plain: Guarded) -> None:
    token = provider.login("alice", OPAQUE)["access_token"]
    asked = provider.asked("/token/introspection")
    task = task_of(plain.submit(token))
    for _ in range(5):
        assert plain.get(task, token).state == "completed"
    assert provider.asked("/token/introspection") == asked + 1


def test_an_unknown_token_is_asked_about_once(provider: Provider, plain: Guarded) -> None:
    asked = provider.asked("/token/introspection")
    for _ in range(3):
        assert INVALID in challenge(plain.submit("never-issued"))
    assert provider.asked("/token/introspection") == asked + 1


def test_a_token_that_is_not_for_us_is_asked_about_once(provider: Provider, plain: Guarded) -> None:
    token = provider.client_token("https://other.test/?format=opaque")
    asked = provider.asked("/token/introspection")
    for _ in range(3):
        assert INVALID in challenge(plain.submit(token))
    assert provider.asked("/token/introspection") == asked + 1


def test_many_with_one_token_ask_once(provider: Provider, plain: Guarded) -> None:
    with ThreadPoolExecutor(8) as callers:
        for _ in range(5):
            token, asked = (
                provider.login("alice", OPAQUE)["access_token"],
                provider.asked("/token/introspection"),
            )
            for reply in callers.map(plain.submit, [token] * 8):
                task_of(reply)
            assert provider.asked("/token/introspection") == asked + 1


def test_an_encrypted_token_is_no_token(provider: Provider, plain: Guarded) -> None:
    """Which the provider refuses to look at: that is no failure of the provider's."""
    parts = (b'{"alg":"dir","enc":"A256GCM"}', b"", bytes(12), bytes(30), bytes(16))
    assert INVALID in challenge(plain.submit(".".join(map(b64, parts))))


def test_a_jwt_is_never_asked_about(provider: Provider, plain: Guarded) -> None:
    """The provider itself refuses to be asked about one."""
    token = provider.client_token(AUDIENCE)
    with pytest.raises(Refused, match="unsupported_token_type"):
        provider.introspect(token)
    asked = provider.asked("/token/introspection")
    task_of(plain.submit(token))
    assert provider.asked("/token/introspection") == asked


def test_a_revoked_token_is_refused_once_it_is_asked_about_again(provider: Provider, strict: Guarded) -> None:
    token = provider.login("alice", OPAQUE)["access_token"]
    task_of(strict.submit(token))
    provider.revoke(token)
    eventually(lambda: strict.submit(token).status == 401)
    assert INVALID in challenge(strict.submit(token))


def test_a_new_secret_of_ours_is_read_when_the_old_one_is_refused(
    provider: Provider, folder: Path, plain: Guarded
) -> None:
    """That we are refused is not the caller's fault: neither accepted nor called invalid."""
    file, token = folder / "secret", provider.login("alice", OPAQUE)["access_token"]
    provider.order("secret", id=SIDECAR.id, secret="another one")
    try:
        assert plain.submit(token).status == 503
        put(file, b"another one\n")
        eventually(lambda: plain.submit(token).status == 200)
    finally:
        provider.order("secret", id=SIDECAR.id, secret=SIDECAR.secret)
        put(file, SIDECAR.secret.encode())


def test_a_provider_that_is_down(provider: Provider, plain: Guarded) -> None:
    """What is known still works; what would have to be asked is neither accepted nor called invalid."""
    opaque, new_opaque = (provider.login("alice", OPAQUE)["access_token"] for _ in range(2))
    jwt, new_jwt = (provider.client_token(AUDIENCE) for _ in range(2))
    for token in (opaque, jwt):
        task_of(plain.submit(token))
    provider.order("down")
    try:
        for token in (opaque, jwt, new_jwt):
            task_of(plain.submit(token))
        heard = plain.heard
        refused = plain.submit(new_opaque)
        assert refused.status == 503, refused
        assert int(header(refused, "Retry-After") or 0) > 0
        assert plain.heard == heard
    finally:
        provider.order("up")
    eventually(lambda: plain.submit(new_opaque).status == 200)


# --- ownership -------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_a_task_belongs_to_a_subject_whatever_the_token(
    provider: Provider, plain: Guarded, resource: str
) -> None:
    first = provider.login("alice", resource)
    task = task_of(plain.submit(first["access_token"]))
    later = [provider.login("alice", each)["access_token"] for each in (AUDIENCE, OPAQUE)]
    for token in (provider.refresh(first)["access_token"], *later):
        assert plain.get(task, token).resource["id"] == task

    heard = plain.heard
    strangers = [provider.login("bob", each)["access_token"] for each in (AUDIENCE, OPAQUE)]
    for token in (*strangers, provider.client_token(AUDIENCE)):
        foreign, absent = plain.get(task, token), plain.get(str(uuid4()), token)
        assert foreign.documents[0]["error"]["code"] == -32001
        assert foreign.but_date == absent.but_date
    assert plain.heard == heard


# --- tokens bound to a key -------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_a_key_bound_token_needs_a_proof(provider: Provider, plain: Guarded, resource: str) -> None:
    key = ProofKey()
    tokens = provider.login("alice", resource, key=key)
    token, sent = tokens["access_token"], a2a(JSONRPC_1, "send")
    assert tokens["token_type"] == "DPoP"
    task = task_of(plain.prove(sent, token, key))
    assert plain.prove(a2a(JSONRPC_1, "get", task=task), token, key).state == "completed"

    unbound = provider.login("alice", resource)["access_token"]
    used = str(uuid4())
    plain.prove(a2a(JSONRPC_1, "get", task=task), token, key, jti=used)
    heard = plain.heard
    stolen = key.proof("POST", plain.url, token)
    refused = {
        "as a bearer token": (plain.submit(token), INVALID),
        "as a bearer token, with a proof": (plain.send(sent, f"Bearer {token}", DPoP=stolen), INVALID),
        "not bound, as if it were": (plain.prove(sent, unbound, key), INVALID),
        "without a proof": (plain.send(sent, f"DPoP {token}"), NO_PROOF),
        "with another key's proof": (plain.prove(sent, token, ProofKey()), NO_PROOF),
        "with a proof for another URL": (plain.prove(sent, token, key, htu="https://other.test/"), NO_PROOF),
        "with a proof for another method": (plain.prove(sent, token, key, htm="GET"), NO_PROOF),
        "with a proof for another token": (plain.prove(sent, token, key, ath="x" * 43), NO_PROOF),
        "with an old proof": (plain.prove(sent, token, key, iat=int(time.time()) - 3600), NO_PROOF),
        "with a proof used before": (plain.prove(sent, token, key, jti=used), NO_PROOF),
    }
    assert {how for how, (reply, error) in refused.items() if error not in challenge(reply)} == set()
    assert plain.heard == heard


def test_a_refreshed_key_bound_token_keeps_the_tasks(provider: Provider, plain: Guarded) -> None:
    key = ProofKey()
    first = provider.login("alice", AUDIENCE, key=key)
    task = task_of(plain.prove(a2a(JSONRPC_1, "send"), first["access_token"], key))
    second = provider.refresh(first, key=key)["access_token"]
    assert plain.prove(a2a(JSONRPC_1, "get", task=task), second, key).state == "completed"


@pytest.mark.parametrize("resource", KINDS)
def test_a_nonce_is_asked_for_and_then_used(provider: Provider, strict: Guarded, resource: str) -> None:
    key = ProofKey()
    token = provider.login("alice", resource, key=key)["access_token"]
    sent, heard = a2a(JSONRPC_1, "send"), strict.heard
    for claims in ({}, {"nonce": "made up"}):
        asked = strict.prove(sent, token, key, **claims)
        assert 'error="use_dpop_nonce"' in challenge(asked)
    assert strict.heard == heard
    nonce = header(asked, "DPoP-Nonce")
    assert nonce
    task_of(strict.prove(sent, token, key, nonce=nonce))
    assert strict.prove(sent, token, ProofKey(), nonce=nonce).status == 401
    task_of(strict.prove(sent, token, key, nonce=nonce))  # a nonce serves more than one proof


@pytest.mark.parametrize(("name", "asked"), [("plain", 0), ("strict", 1)], ids=["no nonce", "with a nonce"])
def test_an_independent_client_proves_its_key(
    provider: Provider, folder: Path, request: pytest.FixtureRequest, name: str, asked: int
) -> None:
    """`oauth4webapi` reads our challenge, repeats with the nonce, and uses it again."""
    called: Guarded = request.getfixturevalue(name)
    sent = [a2a(JSONRPC_1, "send") for _ in range(2)]
    saw = provider.independent_client(folder, AUDIENCE, called.url, sent)
    assert [each["status"] for each in saw["answers"]] == [200, 200]
    assert all("task" in each["body"]["result"] for each in saw["answers"])
    shown = [(each["scheme"], each["parameters"]["error"]) for each in saw["challenges"]]
    assert shown == [("dpop", "use_dpop_nonce")] * asked


# --- tokens bound to a certificate -----------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(provider: Provider, folder: Path) -> tuple[Shown, Shown]:
    """Two that the provider's authority vouches for."""
    one, other = (provider.authority.client().write(folder, name) for name in ("one", "other"))
    return one, other


@pytest.mark.parametrize("resource", KINDS)
def test_a_certificate_bound_token_needs_its_certificate(
    provider: Provider, strict: Guarded, certificates: tuple[Shown, Shown], resource: str
) -> None:
    own, other = (provider.authority.trusting(each) for each in certificates)
    tokens = provider.login("alice", resource, BOUND_APP, certificate=certificates[0])
    bound, sent = f"Bearer {tokens['access_token']}", a2a(JSONRPC_1, "send")
    task_of(strict.send(sent, bound, own))
    heard = strict.heard
    for context in (other, None):
        assert INVALID in challenge(strict.send(sent, bound, context))
    assert strict.heard == heard
    unbound = provider.login("alice", resource)["access_token"]
    for context in (own, None):  # who shows a certificate may still have an ordinary token
        task_of(strict.send(sent, f"Bearer {unbound}", context))


def test_a_certificate_bound_token_is_refused_where_no_certificate_is_asked_for(
    provider: Provider, plain: Guarded, certificates: tuple[Shown, Shown]
) -> None:
    token = provider.client_token(AUDIENCE, BOUND_APP, certificate=certificates[0])
    heard = plain.heard
    assert INVALID in challenge(plain.submit(token))
    assert plain.heard == heard
