"""From headers to a principal, with a real issuer: the credential, the answer, and what is remembered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.identity import ANONYMOUS_ISSUER, Identity, authenticate, tokens
from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Head, Owner, Principal, Reason, Refusal
from tests.issuer import Issuer, b64, private_key, sign
from tests.unit.identity.conftest import Clock

Eventually = Callable[[Callable[[], object]], Awaitable[None]]
LIMIT = 4096
ALICE = config.AnonymousPrincipal(subject="dev", scopes=("r", "w"))


class Wall(Clock):
    """Seconds since the epoch: the present, moved by hand."""


@pytest.fixture
def wall() -> Wall:
    return Wall(time.time())


def issuer_at(idp: Issuer, **settings: Any) -> config.Issuer:
    return config.Issuer(issuer=idp.url, audiences=(idp.audience,), **settings)


@pytest.fixture
async def identity(idp: Issuer, wall: Wall, clock: Clock) -> AsyncIterator[Identity]:
    made = identity_of(config.Identity(issuers=(issuer_at(idp),)), now=wall, clock=clock)
    yield made
    await made.close()


def asking(*credentials: str, **others: str) -> Head:
    pairs = [("Authorization", credential) for credential in credentials]
    pairs += [(name.replace("_", "-"), value) for name, value in others.items()]
    return Head("GET", "/tasks/t-1", CIMultiDictProxy(CIMultiDict(pairs)))


def identity_of(
    settings: config.Identity, *owner_claims: str, now: Callable[[], float], **more: Any
) -> Identity:
    return Identity(settings, owner_claims, LIMIT, memory=MemoryLedger(now=now), now=now, **more)


async def outcome(identity: Identity, token: str, audiences: tuple[str, ...] | None = None) -> Any:
    """The subject, or the reason of the refusal."""
    found = await identity.authenticate(asking(f"Bearer {token}"), audiences)
    return found.owner.subject if isinstance(found, Principal) else found.reason


async def test_a_good_token_is_its_principal(identity: Identity, idp: Issuer, wall: Wall) -> None:
    exp = int(wall()) + 60
    who = await identity.authenticate(asking(f"Bearer {idp.mint(scope='r w', azp='planner', exp=exp)}"), None)
    assert isinstance(who, Principal)
    assert who.owner == Owner("", idp.url, "alice")
    assert (who.scopes, who.presented_by, who.expires_at) == ({"r", "w"}, "planner", exp)


MALFORMED = 'Bearer error="invalid_token", error_description="the access token is malformed"'
INVALID = 'Bearer error="invalid_token", error_description="the access token is invalid"'
DPOP = INVALID.replace("Bearer", "DPoP")
EXPIRED = 'Bearer error="invalid_token", error_description="the access token expired"'

CREDENTIALS: list[Any] = [
    pytest.param(lambda t: [f"Bearer {t}"], None, id="FC-041 Bearer"),
    pytest.param(lambda t: [f"bearer {t}"], None, id="FC-041 bearer"),
    pytest.param(lambda t: [f"BEARER {t}"], None, id="FC-041 BEARER"),
    pytest.param(lambda t: [], "Bearer", id="no credential: a challenge without an error code"),
    pytest.param(lambda t: ["Basic YTpi"], "Bearer", id="FC-041 Basic"),
    pytest.param(lambda t: [f"DPoP {t}"], DPOP, id="FC-041 DPoP, though the token is bound to no key"),
    pytest.param(lambda t: [t], "Bearer", id="FC-041 a token without a scheme"),
    pytest.param(lambda t: [""], "Bearer", id="FC-041 an empty header"),
    pytest.param(lambda t: [f"Bearer\t{t}"], "Bearer", id="FC-041 a tab"),
    pytest.param(lambda t: [f"Bearer\xa0{t}"], "Bearer", id="FC-041 a space that is none"),
    pytest.param(lambda t: [f" Bearer {t}"], "Bearer", id="FC-041 a space in front"),
    pytest.param(lambda t: ["Bearer"], MALFORMED, id="FC-041 Bearer with nothing"),
    pytest.param(lambda t: ["Bearer "], MALFORMED, id="FC-041 Bearer with a space"),
    pytest.param(lambda t: [f"Bearer  {t}"], MALFORMED, id="FC-041 two spaces"),
    pytest.param(lambda t: [f"Bearer {t} "], MALFORMED, id="FC-041 a space behind"),
    pytest.param(lambda t: [f"Bearer {t}, Bearer {t}"], MALFORMED, id="FC-041 two joined by a comma"),
    pytest.param(lambda t: [f"Bearer {t},{t}"], MALFORMED, id="FC-041 two tokens"),
    pytest.param(lambda t: [f"Bearer {t}"] * 2, MALFORMED, id="FC-041 the same header twice"),
    pytest.param(lambda t: [f"Bearer {t}", "Basic YTpi"], MALFORMED, id="FC-041 two headers"),
    pytest.param(lambda t: ["Basic YTpi", f"Bearer {t}"], MALFORMED, id="FC-041 two headers, reversed"),
    pytest.param(lambda t: [f"Bearer {t}", ""], MALFORMED, id="FC-041 two headers, one empty"),
    pytest.param(lambda t: [f"Bearer {t}%0a"], MALFORMED, id="FC-041 an escaped newline"),
    pytest.param(lambda t: [f"Bearer {t}\udce9"], MALFORMED, id="a byte that is no text"),
    pytest.param(lambda t: [f"Bearer {t}=="], MALFORMED, id="FC-049 padding"),
    pytest.param(lambda t: ["Bearer opaque"], MALFORMED, id="an opaque token"),
    pytest.param(lambda t: ["Bearer " + "A" * 50_000], MALFORMED, id="too long"),
]


@pytest.mark.parametrize(("credentials", "challenge"), CREDENTIALS)
async def test_one_credential_in_one_form(
    identity: Identity, idp: Issuer, credentials: Callable[[str], list[str]], challenge: str | None
) -> None:
    sent = asking(*credentials(idp.mint()), Cookie="access_token=x", Proxy_Authorization="Bearer x")
    found = await identity.authenticate(sent, None)
    if challenge is None:
        assert isinstance(found, Principal)
    else:
        assert isinstance(found, Refusal)
        assert (found.reason, found.challenge) == (Reason.UNAUTHENTICATED, challenge)


async def test_the_size_is_capped_to_the_byte(identity: Identity, idp: Issuer) -> None:
    short = idp.mint(pad="")
    fit = idp.mint(pad="x" * ((LIMIT - len(short)) * 3 // 4))
    assert len(fit) <= LIMIT
    assert await outcome(identity, fit) == "alice"
    assert await outcome(identity, idp.mint(pad="x" * LIMIT)) is Reason.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("claims", "header", "challenge"),
    [
        pytest.param({"exp": 1000}, {}, EXPIRED, id="expired"),
        pytest.param({"aud": "sibling"}, {}, INVALID, id="FC-037 another audience"),
        pytest.param({"cnf": {"jkt": "x"}}, {}, INVALID, id="sender-constrained"),
        pytest.param({"nonce": "n"}, {"typ": "JWT"}, INVALID, id="FC-037 an ID token"),
        pytest.param({"scope": ["w r"]}, {}, INVALID, id="FC-056 an ambiguous scope"),
        pytest.param({"sub": ""}, {}, INVALID, id="FC-036 an empty subject"),
        pytest.param({"act": "x"}, {}, INVALID, id="a malformed actor"),
        *(
            pytest.param({"iss": iss}, {}, INVALID, id=f"FC-035 iss {iss!r}")
            for iss in (["x"], {}, 5, None, "", ..., "https://other.example", True)
        ),
        *(
            pytest.param({}, {"alg": alg}, INVALID, id=f"FC-033 alg {alg}")
            for alg in ("none", "HS256", "PS256", "")
        ),
        pytest.param({}, {"crit": ["x"]}, MALFORMED, id="a critical extension"),
    ],
)
async def test_a_refusal_says_little_and_nothing_of_the_token(
    identity: Identity, idp: Issuer, claims: dict[str, Any], header: dict[str, Any], challenge: str
) -> None:
    # The header is signed as it stands: only what it says is wrong.
    token = idp.mint(header=header, **claims)
    found = await identity.authenticate(asking(f"Bearer {token}"), None)
    assert isinstance(found, Refusal)
    assert (found.reason, found.challenge) == (Reason.UNAUTHENTICATED, challenge)
    assert f'"{found.detail}"' in challenge
    assert found.internal
    assert found.internal != found.detail


async def test_fc035_a_part_or_a_variant_of_the_issuer_is_another(wall: Wall, clock: Clock) -> None:
    async with Issuer(path="/realms/a") as idp:
        settings = config.Identity(issuers=(issuer_at(idp),))
        identity = identity_of(settings, now=wall, clock=clock)
        variants = [idp.origin, idp.url + "/", idp.url + "b", idp.url.replace("http", "HTTP"), idp.url[:-1]]
        assert {await outcome(identity, idp.mint(iss=iss)) for iss in variants} == {Reason.UNAUTHENTICATED}
        assert idp.requests == []
        assert await outcome(identity, idp.mint()) == "alice"
        await identity.close()


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(lambda idp: idp.mint(iss="https://stranger.example"), id="an issuer nobody trusts"),
        pytest.param(lambda idp: idp.mint(header={"alg": "none"}), id="alg none"),
        pytest.param(lambda idp: idp.mint(header={"alg": "HS256"}), id="alg HS256"),
        pytest.param(lambda idp: idp.mint() + "=", id="a malformed token"),
    ],
)
async def test_what_cannot_be_good_costs_the_issuer_nothing(
    identity: Identity, idp: Issuer, token: Any
) -> None:
    assert await outcome(identity, token(idp)) is Reason.UNAUTHENTICATED
    assert idp.requests == []


async def test_the_same_subject_of_another_issuer_is_somebody_else(
    idp: Issuer, wall: Wall, clock: Clock
) -> None:
    async with Issuer() as other:
        settings = config.Identity(issuers=(issuer_at(idp), issuer_at(other)))
        identity = identity_of(settings, now=wall, clock=clock)
        found = [await identity.authenticate(asking(f"Bearer {i.mint()}"), None) for i in (idp, other)]
        assert isinstance(found[0], Principal)
        assert isinstance(found[1], Principal)
        assert found[0].owner != found[1].owner
        assert found[0].pseudonym != found[1].pseudonym
        # Signed by the other, and by a key of the same name, it is nobody's.
        assert other.signers[0].kid == idp.signers[0].kid
        assert await outcome(identity, other.mint(iss=idp.url)) is Reason.UNAUTHENTICATED
        await identity.close()


@pytest.mark.parametrize(
    ("audiences", "aud", "fine"),
    [
        pytest.param(None, "agent", True, id="the issuer's audience by default"),
        pytest.param(("mine",), "mine", True, id="an agent's own audience"),
        pytest.param(("mine",), "agent", False, id="FC-037 which replaces the issuer's"),
        pytest.param(None, "mine", False, id="FC-037 and is no other agent's"),
        pytest.param((), "agent", False, id="no audience accepts nothing"),
        pytest.param(("mine", "also"), ["other", "also"], True, id="any of several"),
    ],
)
async def test_audiences(identity: Identity, idp: Issuer, audiences: Any, aud: Any, fine: bool) -> None:
    assert await outcome(identity, idp.mint(aud=aud), audiences) == (
        "alice" if fine else Reason.UNAUTHENTICATED
    )


async def test_fc037_a_token_remembered_for_one_agent_is_not_good_for_its_sibling(
    identity: Identity, idp: Issuer
) -> None:
    token = idp.mint(aud="mine")
    assert await outcome(identity, token, ("mine",)) == "alice"
    assert await outcome(identity, token, ("other",)) is Reason.UNAUTHENTICATED
    assert await outcome(identity, token, None) is Reason.UNAUTHENTICATED
    assert await outcome(identity, token, ("mine",)) == "alice"


# --- without a credential ------------------------------------------------------------------------


async def test_a_caller_without_a_credential_is_the_anonymous_principal(wall: Wall) -> None:
    identity = identity_of(config.Identity(anonymous=ALICE), "azp", now=wall)
    who = await identity.authenticate(asking(), None)
    assert isinstance(who, Principal)
    assert who.owner == Owner("", ANONYMOUS_ISSUER, "dev", ("",))
    assert who.scopes == {"r", "w"}
    assert who.pseudonym
    assert identity.ready()


@pytest.mark.parametrize("credential", ["Bearer x", "Basic YTpi", "", "Bearer "])
async def test_a_bad_credential_is_not_anonymous(wall: Wall, credential: str) -> None:
    identity = identity_of(config.Identity(anonymous=ALICE), now=wall)
    found = await identity.authenticate(asking(credential), None)
    assert isinstance(found, Refusal)
    assert found.reason is Reason.UNAUTHENTICATED


async def test_owner_claims_reach_the_owner(idp: Issuer, wall: Wall) -> None:
    settings = config.Identity(issuers=(issuer_at(idp, claims=config.Claims(tenant="tid")),))
    identity = identity_of(settings, "azp", "act", now=wall)
    token = idp.mint(tid="t1", azp="planner", act={"sub": "executor"})
    who = await identity.authenticate(asking(f"Bearer {token}"), None)
    assert isinstance(who, Principal)
    assert who.owner == Owner("t1", idp.url, "alice", ("planner", '["executor"]'))
    assert await outcome(identity, idp.mint(azp="planner")) is Reason.UNAUTHENTICATED
    await identity.close()


# --- keys ---------------------------------------------------------------------------------------


async def test_fc046_without_keys_the_answer_is_neither_yes_nor_no(identity: Identity, idp: Issuer) -> None:
    await idp.down()
    found = await identity.authenticate(asking(f"Bearer {idp.mint()}"), None)
    assert isinstance(found, Refusal)
    assert (found.reason, found.challenge) == (Reason.KEYS_UNAVAILABLE, None)
    assert idp.url not in found.detail
    assert idp.url in found.internal
    assert not identity.ready()
    assert identity.key_status()[0].failures == 1


async def test_starting_neither_waits_nor_fails(
    idp: Issuer, identity: Identity, eventually: Eventually
) -> None:
    idp.open.clear()
    await identity.start()
    assert not identity.ready()
    idp.open.set()
    await eventually(identity.ready)


async def test_a_token_of_a_new_key_is_good_at_once(identity: Identity, idp: Issuer) -> None:
    assert await outcome(identity, idp.mint()) == "alice"
    idp.rotate("ES256")
    assert await outcome(identity, idp.mint()) == "alice"


async def test_fc045_valid_callers_are_served_during_a_flood(identity: Identity, idp: Issuer,
                                                            eventually: Eventually) -> None:  # fmt: skip
    assert await outcome(identity, idp.mint()) == "alice"
    idp.open.clear()
    before = len(idp.requests)
    bad = [idp.mint(header={"kid": f"random-{n}"}) for n in range(100)]
    flood = [asyncio.create_task(outcome(identity, token)) for token in bad]
    await eventually(lambda: len(idp.requests) > before)
    good = [idp.mint(sub=f"user-{n}") for n in range(50)]
    assert await asyncio.gather(*(outcome(identity, token) for token in good)) == [
        f"user-{n}" for n in range(50)
    ]
    assert not any(task.done() for task in flood)
    idp.open.set()
    assert set(await asyncio.gather(*flood)) == {Reason.UNAUTHENTICATED}
    assert idp.fetches == 2


# --- what is remembered ------------------------------------------------------------------------------


@pytest.fixture
def verifications(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """One entry for each token that is verified, and not remembered."""
    seen: list[float] = []
    real = tokens.verify

    def counting(*arguments: Any) -> float:
        seen.append(1)
        return real(*arguments)

    monkeypatch.setattr(tokens, "verify", counting)
    return seen


async def test_a_verified_token_is_remembered(
    identity: Identity, idp: Issuer, verifications: list[float]
) -> None:
    token = idp.mint()
    assert [await outcome(identity, token) for _ in range(5)] == ["alice"] * 5
    assert len(verifications) == 1


async def test_a_refused_token_is_not(identity: Identity, idp: Issuer, verifications: list[float]) -> None:
    token = idp.mint(aud="sibling")
    assert [await outcome(identity, token) for _ in range(3)] == [Reason.UNAUTHENTICATED] * 3
    assert len(verifications) == 3


async def test_a_remembered_token_ends_with_its_leeway(identity: Identity, idp: Issuer, wall: Wall) -> None:
    end = int(wall()) + 100
    token = idp.mint(exp=end)
    assert await outcome(identity, token) == "alice"
    wall.at = end + 4.5
    assert await outcome(identity, token) == "alice"
    wall.at = end + 5
    assert await outcome(identity, token) is Reason.UNAUTHENTICATED


async def test_a_remembered_token_ends_with_its_key(
    identity: Identity, idp: Issuer, clock: Clock, eventually: Eventually
) -> None:
    token = idp.mint()
    assert await outcome(identity, token) == "alice"
    idp.rotate()
    idp.withdraw("key-0")
    clock.at += 300
    assert await outcome(identity, token) == "alice"  # the refresh begins behind it
    await eventually(lambda: idp.fetches == 2)
    async with asyncio.timeout(10):
        while await outcome(identity, token) != Reason.UNAUTHENTICATED:
            await asyncio.sleep(0.005)


async def test_fc046_a_remembered_token_is_not_good_past_the_stale_bound(
    identity: Identity, idp: Issuer, clock: Clock
) -> None:
    token = idp.mint()
    assert await outcome(identity, token) == "alice"
    await idp.down()
    clock.at += 3601
    assert await outcome(identity, token) is Reason.KEYS_UNAVAILABLE


async def test_fc049_another_spelling_of_a_remembered_token_is_refused(
    identity: Identity, idp: Issuer
) -> None:
    token = idp.mint()
    assert await outcome(identity, token) == "alice"
    spellings = [token + "=", token + "==", token.replace(".", "=.", 1), token + " ", token[:-1] + "_"]
    found = {await outcome(identity, other) for other in spellings if other != token}
    assert found == {Reason.UNAUTHENTICATED}


async def test_memory_is_bounded(idp: Issuer, wall: Wall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticate, "REMEMBERED", 3)
    identity = identity_of(config.Identity(issuers=(issuer_at(idp),)), now=wall)
    for number in range(5):
        assert await outcome(identity, idp.mint(jti=str(number))) == "alice"
    assert len(identity._verified) == 3
    await identity.close()


# --- what stops the start --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issuers", "problems"),
    [
        *(
            pytest.param([{"algorithms": (alg,)}], [alg], id=f"FC-033 the policy allows {alg}")
            for alg in ("HS256", "HS384", "HS512", "none", "None", "", "RS1")
        ),
        pytest.param([{"algorithms": ()}], ["no algorithms"], id="no algorithm"),
        pytest.param([{}, {}], ["more than once"], id="one issuer twice"),
        pytest.param([{"issuer": "http://idp.example"}], ["https"], id="http beyond loopback"),
        pytest.param([{"jwks_uri": "http://idp.example/k"}], ["https"], id="keys over http beyond loopback"),
        pytest.param(
            [{"issuer": "tokens"}], ["`tokens`"], id="an issuer without an address and without keys"
        ),
        pytest.param(
            [{"issuer": ANONYMOUS_ISSUER, "jwks_uri": "https://a.example"}],
            ["reserved"],
            id="a reserved name",
        ),
        pytest.param(
            [{"algorithms": ("HS256",)}, {"issuer": "http://b.example"}],
            ["HS256", "b.example"],
            id="all at once",
        ),
    ],
)
def test_a_policy_that_would_be_unsafe_stops_the_start(
    issuers: list[dict[str, Any]], problems: list[str]
) -> None:
    made = tuple(
        config.Issuer.model_construct(**({"issuer": "https://a.example", "audiences": ("a",)} | issuer))
        for issuer in issuers
    )
    with pytest.raises(ValueError) as refused:
        identity_of(config.Identity.model_construct(issuers=made), now=time.time)
    assert all(problem in str(refused.value) for problem in problems)


async def test_a_kid_from_one_issuer_does_not_help_at_another(idp: Issuer, wall: Wall) -> None:
    async with Issuer() as other:
        other.signers.clear()
        other.published.clear()
        other.rotate("ES256", kid="theirs")
        identity = identity_of(config.Identity(issuers=(issuer_at(idp), issuer_at(other))), now=wall)
        assert await outcome(identity, other.mint()) == "alice"
        assert await outcome(identity, other.mint(iss=idp.url)) is Reason.UNAUTHENTICATED
        await identity.close()


async def test_a_token_signed_by_a_stranger_under_a_known_kid(identity: Identity, idp: Issuer) -> None:
    forged = sign(idp.claims(), private_key("RS256", 7), header={"alg": "RS256", "kid": "key-0"})
    assert await outcome(identity, forged) is Reason.UNAUTHENTICATED
    unsigned = f"{b64(b'{}')}.{b64(json.dumps(idp.claims()).encode())}.{b64(b'x')}"
    assert await outcome(identity, unsigned) is Reason.UNAUTHENTICATED
