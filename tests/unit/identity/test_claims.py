"""What each claim means, and every way it may not be written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar import config
from sidecar.identity.claims import Confirmation, confirmation, principal, pseudonym
from sidecar.identity.invalid import InvalidToken
from sidecar.model import Owner, Principal

ISS = "https://idp.example"
WITH_TENANT = config.Claims(tenant="tid")


def who(
    claims: dict[str, Any], *, names: config.Claims | None = None, owner_claims: tuple[str, ...] = ()
) -> Principal:
    issuer = config.Issuer(issuer=ISS, audiences=("a",), claims=names or config.Claims())
    return principal({"sub": "alice", **claims}, issuer, owner_claims, 17.0)


def test_an_ordinary_token_names_its_owner() -> None:
    found = who({"scope": "r w", "azp": "planner"})
    assert found == Principal(
        Owner("", ISS, "alice"),
        frozenset({"r", "w"}),
        presented_by="planner",
        expires_at=17.0,
        pseudonym=pseudonym(Owner("", ISS, "alice")),
    )


BAD_TEXTS = [
    pytest.param("", id="empty"),
    pytest.param(" ", id="only a space"),
    pytest.param(5, id="a number"),
    pytest.param(True, id="a boolean"),
    pytest.param(None, id="null"),
    pytest.param(["alice"], id="a list"),
    pytest.param({}, id="an object"),
    pytest.param("x" * 1025, id="too long"),
    pytest.param("x" * 4096, id="four kilobytes"),
    *(pytest.param(f"al{mark}ice", id=f"with {mark!r}") for mark in "\x00\n\r\t\x1b\x7f\x85\u2028"),
]


@pytest.mark.parametrize("value", BAD_TEXTS)
def test_fc036_a_subject_is_a_plain_non_empty_string(value: object) -> None:
    with pytest.raises(InvalidToken, match="`sub`"):
        who({"sub": value})


@pytest.mark.parametrize("value", BAD_TEXTS)
def test_a_configured_tenant_is_a_plain_non_empty_string(value: object) -> None:
    with pytest.raises(InvalidToken, match="`tid`"):
        who({"tid": value}, names=WITH_TENANT)


def test_a_configured_tenant_that_is_missing_is_refused() -> None:
    with pytest.raises(InvalidToken, match="`tid`"):
        who({}, names=WITH_TENANT)


@pytest.mark.parametrize("subject", ["x" * 1024, "alice smith", " alice", "älïce", "日本", "a,b|c", "😀"])
def test_a_subject_is_kept_exactly(subject: str) -> None:
    assert who({"sub": subject}).owner.subject == subject


def test_another_claim_may_be_the_subject() -> None:
    found = who({"oid": "o-1", "tid": "t-1"}, names=config.Claims(subject="oid", tenant="tid"))
    assert found.owner == Owner("t-1", ISS, "o-1")


SCOPES: list[Any] = [
    pytest.param({"scope": "w r"}, {"w", "r"}, id="FC-056 a string is split on spaces"),
    pytest.param({"scope": "w  r "}, {"w", "r"}, id="FC-056 further spaces mean nothing"),
    pytest.param({"scope": "r w w"}, {"w", "r"}, id="FC-056 twice is once"),
    pytest.param({"scope": ["w", "r"]}, {"w", "r"}, id="FC-056 a list holds one scope an element"),
    pytest.param({"scope": "w\tr\ns"}, {"w\tr\ns"}, id="FC-056 tab and newline separate nothing"),
    pytest.param({"scope": ""}, set(), id="an empty string holds none"),
    pytest.param({"scope": []}, set(), id="an empty list holds none"),
    pytest.param({"scope": [""]}, set(), id="an empty element is no scope"),
    pytest.param({}, set(), id="FC-056 absent"),
    pytest.param({"scp": "w r"}, {"w", "r"}, id="FC-056 the second claim, where the first is absent"),
    pytest.param({"scp": ["w", "r"]}, {"w", "r"}, id="FC-056 the second claim as a list"),
    pytest.param({"scope": "r", "scp": "w"}, {"r"}, id="FC-056 the first claim wins, no union"),
    pytest.param({"scope": "", "scp": "w"}, set(), id="FC-056 the first claim wins even when empty"),
    pytest.param({"permissions": ["w"], "roles": ["r"]}, set(), id="FC-056 other claims are no scopes"),
]  # fmt: skip


@pytest.mark.parametrize(("claims", "scopes"), SCOPES)
def test_scopes(claims: dict[str, Any], scopes: set[str]) -> None:
    assert who(claims).scopes == scopes


@pytest.mark.parametrize(
    "value",
    [["w r"], ["w", 5], ["w", None], [["w"]], {"w": True}, {}, 5, 1.5, True, False, None],
    ids=lambda value: f"FC-056 {value!r}",
)
@pytest.mark.parametrize("name", ["scope", "scp"])
def test_scopes_written_otherwise_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidToken, match=f"`{name}`"):
        who({name: value})


def test_the_configured_claims_are_the_scopes() -> None:
    names = config.Claims(scopes=("permissions", "scope"))
    assert who({"permissions": ["w"], "scope": "r"}, names=names).scopes == {"w"}
    assert who({"scope": "r"}, names=names).scopes == {"r"}


def chain(depth: int) -> dict[str, Any]:
    act: dict[str, Any] = {}
    for number in range(depth, 0, -1):
        act = {"act": {"sub": f"agent-{number}", **act}}
    return act


@pytest.mark.parametrize("depth", [0, 1, 2, 10])
def test_the_actor_chain_is_read_current_actor_first(depth: int) -> None:
    assert who(chain(depth)).actors == tuple(f"agent-{n}" for n in range(1, depth + 1))


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(chain(11)["act"], id="deeper than ten"),
        pytest.param(chain(150)["act"], id="very deep"),
        pytest.param("planner", id="a string"),
        pytest.param([{"sub": "planner"}], id="a list"),
        pytest.param(None, id="null"),
        pytest.param({}, id="no subject"),
        pytest.param({"sub": ""}, id="an empty subject"),
        pytest.param({"sub": 5}, id="a subject that is a number"),
        pytest.param({"sub": "a", "iss": 5}, id="an issuer that is a number"),
        pytest.param({"sub": "a", "act": None}, id="an inner actor that is null"),
        pytest.param({"sub": "a", "act": {"sub": ["b"]}}, id="an inner subject that is a list"),
    ],
)
def test_a_malformed_actor_chain_is_refused(act: object) -> None:
    with pytest.raises(InvalidToken):
        who({"act": act})


@pytest.mark.parametrize(
    ("claims", "hop"),
    [
        pytest.param({"azp": "a", "client_id": "c", **chain(2)}, "a", id="azp first"),
        pytest.param({"client_id": "c", **chain(2)}, "c", id="then client_id"),
        pytest.param(chain(2), "agent-1", id="then the current actor"),
        pytest.param({}, "", id="else nobody"),
        pytest.param({"azp": ["a"], "client_id": "c"}, "c", id="an unusable one is passed over"),
        pytest.param({"azp": "a\nb"}, "", id="so is one that would forge a line"),
    ],
)
def test_who_presented_the_token(claims: dict[str, Any], hop: str) -> None:
    assert who(claims).presented_by == hop


def test_owner_claims_are_kept_one_by_one_in_order() -> None:
    claims = {"azp": "a", "client_id": "c", **chain(2)}
    assert who(claims, owner_claims=("act", "azp", "client_id")).owner.further == (
        '["agent-1","agent-2"]',
        "a",
        "c",
    )


@pytest.mark.parametrize("name", ["azp", "client_id"])
@pytest.mark.parametrize("value", [..., "", None, 5, ["a"]], ids=repr)
def test_an_owner_claim_that_is_unusable_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidToken, match=f"`{name}`"):
        who({} if value is ... else {name: value}, owner_claims=(name,))


CHAINS = [
    {},
    {"act": {"sub": "a"}},
    {"act": {"sub": "a", "iss": "https://one"}},
    {"act": {"sub": "a", "iss": "https://two"}},
    {"act": {"sub": "a", "act": {"sub": "b"}}},
    {"act": {"sub": "b", "act": {"sub": "a"}}},
    {"act": {"sub": 'a","b'}},
    {"act": {"sub": '["a","b"]'}},
    {"act": {"sub": "https://one", "act": {"sub": "a"}}},
]


def test_no_two_chains_make_the_same_owner() -> None:
    owners = {who(claims, owner_claims=("act",)).owner for claims in CHAINS}
    assert len(owners) == len(CHAINS)
    assert [json.loads(who(claims, owner_claims=("act",)).owner.further[0]) for claims in CHAINS[:2]] == [
        [],
        ["a"],
    ]


OWNERS = [
    Owner("", "i", "ab"),
    Owner("", "ia", "b"),
    Owner("i", "", "ab"),
    Owner("", "i", "a", ("b",)),
    Owner("", "i", "ab", ("",)),
    Owner("", "i", "ab", ("", "")),
]


def test_no_two_owners_share_a_pseudonym_by_gluing() -> None:
    names = {pseudonym(owner) for owner in OWNERS}
    assert len(names) == len(OWNERS)
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in names)


# --- who may act ---------------------------------------------------------------------------------------

PLANNER = config.Actor(subject="planner")
ELSEWHERE = config.Actor(subject="planner", issuer="https://other.example")


@pytest.mark.parametrize(
    ("actors", "act", "accepted"),
    [
        pytest.param(None, {"sub": "anybody"}, True, id="no list, any actor"),
        pytest.param((), ..., True, id="nobody may act, and nobody does"),
        pytest.param((), {"sub": "planner"}, False, id="nobody may act"),
        pytest.param((PLANNER,), {"sub": "planner"}, True, id="the one who may"),
        pytest.param((PLANNER,), {"sub": "planner", "iss": ISS}, True, id="and says whose it is"),
        pytest.param((PLANNER,), {"sub": "Planner"}, False, id="another spelling"),
        pytest.param((PLANNER,), {"sub": "planner", "iss": "https://other.example"}, False, id="a namesake"),
        pytest.param((ELSEWHERE,), {"sub": "planner"}, False, id="the namesake's namesake"),
        pytest.param(
            (ELSEWHERE,), {"sub": "planner", "iss": "https://other.example"}, True, id="of another issuer"
        ),
        pytest.param((PLANNER,), {"sub": "planner", "act": {"sub": "mallory"}}, True, id="who came before"),
        pytest.param((PLANNER,), {"sub": "mallory", "act": {"sub": "planner"}}, False, id="comes no longer"),
    ],
)
def test_only_the_current_actor_is_asked_about(actors: Any, act: Any, accepted: bool) -> None:
    """RFC 8693 §4.1: prior actors decide nothing."""
    issuer = config.Issuer(issuer=ISS, audiences=("a",), actors=actors)
    claims = {"sub": "alice"} | ({} if act is ... else {"act": act})
    if accepted:
        assert principal(claims, issuer, (), 17.0).owner.subject == "alice"
    else:
        with pytest.raises(InvalidToken, match="may not act"):
            principal(claims, issuer, (), 17.0)


# --- to what a token is bound --------------------------------------------------------------------------

T = "a" * 43


@pytest.mark.parametrize(
    ("claims", "bound"),
    [
        pytest.param({}, None, id="a bearer token"),
        pytest.param({"cnf": {"jkt": T}}, Confirmation(T, None), id="to a key"),
        pytest.param({"cnf": {"x5t#S256": T}}, Confirmation(None, T), id="to a certificate"),
        pytest.param({"cnf": {"x5t#S256": T, "jkt": T}}, Confirmation(T, T), id="to both"),
    ],
)
def test_what_a_token_is_bound_to(claims: dict[str, Any], bound: Confirmation | None) -> None:
    assert confirmation(claims) == bound


@pytest.mark.parametrize(
    "cnf",
    [
        *(None, {}, [], "jkt", True, {"jkt": None}, {"jkt": ""}, {"jkt": "a" * 42}, {"jkt": "a" * 44}),
        *({"jkt": "=" * 43}, {"kid": T}, {"jwk": {}}, {"jkt": T, "kid": T}, {"JKT": T}, {"x5t": T}),
    ],
    ids=repr,
)
def test_a_token_bound_to_what_cannot_be_proved_is_refused(cnf: object) -> None:
    with pytest.raises(InvalidToken, match="cnf"):
        confirmation({"cnf": cnf})


@pytest.mark.parametrize("said", [{"token_type": "DPoP"}, {"typ": "dpop"}])
def test_a_token_that_says_it_is_bound_and_not_to_what_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken, match="does not say"):
        confirmation(said)
    assert confirmation(said | {"cnf": {"jkt": T}}) == Confirmation(T, None)
