"""Which keys of a published set are used, and for what."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from sidecar.identity.algorithms import ALGORITHMS
from sidecar.identity.jwks import MAX_KEYS, KeySet, read_key_set
from tests.issuer import jwk, private_key

ALL = frozenset(ALGORITHMS)
RS256 = frozenset({"RS256"})


def entry(kind: str = "RS256", number: int = 0, **members: Any) -> dict[str, Any]:
    members = {"kid": "k", **members}
    made = {**jwk(private_key(kind, number)), **members}
    return {name: value for name, value in made.items() if value is not ...}


@functools.cache
def rsa_of(bits: int) -> Any:
    return jwk(rsa.generate_private_key(65537, bits), kid="k")


def read(*entries: Any, algorithms: frozenset[str] = ALL) -> KeySet:
    return read_key_set({"keys": list(entries)}, algorithms)


RSA_FAMILY = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        pytest.param(lambda: entry(), RSA_FAMILY, id="an RSA key does all of RSA"),
        pytest.param(lambda: entry(alg="RS512"), {"RS512"}, id="a key that names its alg does that alone"),
        pytest.param(lambda: entry("ES256"), {"ES256"}, id="P-256"),
        pytest.param(lambda: entry("ES384"), {"ES384"}, id="P-384"),
        pytest.param(lambda: entry("ES512"), {"ES512"}, id="P-521"),
        pytest.param(lambda: entry("EdDSA"), {"EdDSA", "Ed25519"}, id="Ed25519"),
        pytest.param(
            lambda: entry(use="sig", key_ops=["verify"]), RSA_FAMILY, id="said to be for signatures"
        ),
        pytest.param(
            lambda: entry(x5c=["nonsense"], x5t="n"), RSA_FAMILY, id="certificates are not looked at"
        ),
        pytest.param(lambda: entry(d="AQAB", p="AQAB"), RSA_FAMILY, id="private members are left behind"),
    ],
)
def test_what_a_key_can_verify(key: Any, algorithms: set[str]) -> None:
    [found] = read(key()).keys
    assert found.algorithms == algorithms
    assert "private" not in type(found.public).__name__.lower()


SKIPPED: list[Any] = [
    pytest.param(lambda: entry(use="enc"), id="for encryption"),
    pytest.param(lambda: entry(use=None), id="a use that is null"),
    pytest.param(lambda: entry(key_ops=["encrypt"]), id="for other operations"),
    pytest.param(lambda: entry(key_ops="verify"), id="operations that are no list"),
    pytest.param(lambda: entry(alg="RSA-OAEP"), id="for an algorithm that signs nothing"),
    pytest.param(lambda: entry(alg="ES256"), id="FC-033 an alg that disagrees with the type"),
    pytest.param(lambda: entry(alg=["RS256"]), id="an alg that is a list"),
    pytest.param(lambda: entry(alg="HS256"), id="FC-033 an RSA key for HMAC"),
    pytest.param(lambda: {"kty": "oct", "kid": "k", "k": "c2VjcmV0"}, id="FC-033 a symmetric key"),
    pytest.param(
        lambda: {"kty": "oct", "kid": "k", "k": "c2VjcmV0", "alg": "RS256"}, id="FC-033 one in disguise"
    ),
    pytest.param(lambda: entry(kty="EC"), id="a type that is not the key's"),
    pytest.param(lambda: entry(kty=["RSA"]), id="a type that is a list"),
    pytest.param(lambda: entry(kid=5), id="a kid that is a number"),
    pytest.param(lambda: entry(n=...), id="no modulus"),
    pytest.param(lambda: entry(n=5), id="a modulus that is a number"),
    pytest.param(lambda: entry(n="A" * 100_000), id="a modulus without end"),
    pytest.param(lambda: entry(n="é"), id="a modulus that is no base64"),
    pytest.param(lambda: entry(e="AQ"), id="exponent one"),
    pytest.param(lambda: entry(e="A" * 300 + "B"), id="an exponent as long as a modulus"),
    pytest.param(lambda: rsa_of(1024), id="RSA of 1024 bits"),
    pytest.param(lambda: entry(n="_" * 1370 + "w"), id="RSA of more than 8192 bits"),
    pytest.param(lambda: entry("ES256", crv="P-384"), id="another curve's point"),
    pytest.param(lambda: entry("ES256", x="A" * 43), id="a point off the curve"),
    pytest.param(lambda: entry("ES256", crv="secp256k1"), id="a curve we do not know"),
    pytest.param(lambda: entry("ES256", crv=["P-256"]), id="a curve that is a list"),
    pytest.param(lambda: entry("EdDSA", x="AA"), id="an Edwards key that is too short"),
    pytest.param(lambda: entry("EdDSA", crv="X25519"), id="a key for agreement"),
    pytest.param(lambda: "key", id="a string"),
    pytest.param(lambda: None, id="null"),
]


@pytest.mark.parametrize("key", SKIPPED)
def test_a_key_that_cannot_be_used_is_skipped_and_spoils_nothing(key: Any) -> None:
    found = read(key(), entry("ES256", kid="good"))
    assert [one.kid for one in found.keys] == ["good"]
    with pytest.raises(ValueError):
        read(key())


@pytest.mark.parametrize(
    "document",
    [None, [], "keys", 5, {}, {"keys": None}, {"keys": {}}, {"keys": []}, {"Keys": [entry()]}],
    ids=lambda document: f"FC-046 {document!r:.20}",
)
def test_what_is_no_set_is_an_error(document: object) -> None:
    with pytest.raises(ValueError):
        read_key_set(document, ALL)


def test_a_set_without_a_key_for_the_allowed_algorithms_is_an_error() -> None:
    with pytest.raises(ValueError, match="RS256"):
        read(entry("ES256"), algorithms=RS256)


def test_a_set_may_not_be_endless() -> None:
    with pytest.raises(ValueError, match=str(MAX_KEYS)):
        read(*([entry()] * (MAX_KEYS + 1)))


def test_a_key_is_used_only_for_what_the_issuer_is_allowed() -> None:
    [found] = read(entry(), algorithms=RS256).keys
    assert found.algorithms == RS256


TWO_RSA = read(entry(kid="a"), entry(number=1, kid="b"), entry("ES256", kid="c"))


@pytest.mark.parametrize(
    ("keys", "kid", "alg", "found"),
    [
        pytest.param(TWO_RSA, "a", "RS256", ["a"], id="the key of that name"),
        pytest.param(TWO_RSA, "a", "ES256", [], id="FC-033 not for another algorithm"),
        pytest.param(TWO_RSA, "x", "RS256", [], id="not for another name"),
        pytest.param(TWO_RSA, "", "RS256", [], id="the empty name is a name"),
        pytest.param(TWO_RSA, None, "ES256", ["c"], id="without a name, the only one that fits"),
        pytest.param(TWO_RSA, None, "RS256", [], id="without a name, none where two fit"),
        pytest.param(read(entry(kid=...)), "a", "RS256", [], id="a nameless key is no named one"),
        pytest.param(read(entry(kid="k"), entry(number=1, kid="k")), "k", "RS256", ["k", "k"],
                     id="both, where an issuer uses a name twice"),
    ],
)  # fmt: skip
def test_which_keys_fit_a_token(keys: KeySet, kid: str | None, alg: str, found: list[str]) -> None:
    assert [key.kid for key in keys.fitting(kid, alg)] == found


def test_one_key_published_under_two_names_is_one_for_a_token_without() -> None:
    assert len(read(entry(kid="a"), entry(kid="b")).fitting(None, "RS256")) == 1


def test_sets_are_the_same_whatever_their_order() -> None:
    first, second = entry(kid="a"), entry("ES256", kid="b")
    assert read(first, second).keys == read(second, first).keys
    assert read(first).keys != read(entry(number=1, kid="a")).keys
