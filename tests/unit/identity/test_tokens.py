"""Form, signature, audience and times of tokens, one rule a row."""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar import config
from sidecar.identity import tokens
from sidecar.identity.invalid import Fault, InvalidToken
from sidecar.identity.jwks import read_key_set
from sidecar.identity.tokens import LATEST, read, verify
from tests.issuer import b64, jwk, private_key, sign

NOW = 1_800_000_000
ISS = "https://idp.example/realms/a"
ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA")
ISSUER = config.Issuer(issuer=ISS, audiences=("ours",), algorithms=ALGORITHMS, leeway=5.0)
CLAIMS: dict[str, Any] = {"iss": ISS, "sub": "alice", "aud": "ours", "exp": NOW + 60}
KIDS = {"rsa": "RS256", "p256": "ES256", "p384": "ES384", "p521": "ES512", "ed": "EdDSA"}


@functools.cache
def key_set():
    document = {"keys": [jwk(private_key(alg), kid=kid) for kid, alg in KIDS.items()]}
    return read_key_set(document, frozenset(ALGORITHMS))


def accepted(text: str, issuer: config.Issuer = ISSUER, now: float = NOW) -> float:
    token = read(text)
    return verify(token, key_set().fitting(token.kid, token.algorithm), issuer, issuer.audiences, now)


def minted(header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A token signed by the RSA key; `...` leaves a claim or header member out."""
    head = {"alg": "RS256", "kid": "rsa", "typ": "at+jwt"} | (header or {})
    return sign(
        {k: v for k, v in (CLAIMS | claims).items() if v is not ...},
        private_key("RS256"),
        header={k: v for k, v in head.items() if v is not ...},
    )


def raw(payload: bytes, header: bytes = b'{"alg":"RS256","kid":"rsa"}') -> str:
    return sign(payload, private_key("RS256"), header=header)


def payload(**members: str) -> bytes:
    """A payload with `members` written as given: what no JSON writer of ours would write."""
    usual = {name: json.dumps(value) for name, value in CLAIMS.items()} | members
    return ("{" + ",".join(f'"{name}":{value}' for name, value in usual.items()) + "}").encode()


def hmacked(secret: bytes, alg: str = "HS256", kid: str = "rsa") -> str:
    signed = f"{b64(json.dumps({'alg': alg, 'kid': kid}).encode())}.{b64(json.dumps(CLAIMS).encode())}"
    return f"{signed}.{b64(hmac.digest(secret, signed.encode(), sha256))}"


def public(form: Encoding) -> bytes:
    return private_key("RS256").public_key().public_bytes(form, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("alg", "kid"), [("RS256", "rsa"), ("PS256", "rsa"), ("ES256", "p256"), ("ES384", "p384"),
                     ("ES512", "p521"), ("EdDSA", "ed")]
)  # fmt: skip
def test_each_algorithm_verifies_with_its_own_kind_of_key(alg: str, kid: str) -> None:
    key = private_key(KIDS[kid])
    assert accepted(sign(CLAIMS, key, alg, {"alg": alg, "kid": kid})) == NOW + 60


@pytest.mark.parametrize("other", [kid for kid in KIDS if kid != "p256"])
def test_a_key_of_another_kind_verifies_nothing_fc033(other: str) -> None:
    with pytest.raises(InvalidToken):
        accepted(sign(CLAIMS, private_key("ES256"), "ES256", {"alg": "ES256", "kid": other}))


def test_a_key_that_does_not_fit_is_not_even_tried() -> None:
    token = read(sign(CLAIMS, private_key("ES256"), "ES256", {"alg": "ES256", "kid": "p256"}))
    with pytest.raises(InvalidToken):
        verify(token, tuple(key for key in key_set().keys if key.kid == "rsa"), ISSUER, ("ours",), NOW)


def fc(number: int, sentence: str, *values: Any) -> Any:
    return pytest.param(*values, id=f"FC-{number:03} {sentence}")


@pytest.mark.parametrize("make", [
    *(fc(33, f"alg {alg!r} with {what}", lambda alg=alg, signature=signature: ".".join(
        [b64(json.dumps({"alg": alg, "kid": "rsa"}).encode()), b64(json.dumps(CLAIMS).encode()), signature]))
      for alg in ("none", "None", "nOnE", "", "HS256", "RS255", "rs256", "ES256K")
      for what, signature in (("no signature", ""), ("some signature", "AAAA"))),
    fc(33, "no alg at all", lambda: minted({"alg": ...})),
    fc(33, "alg is a list", lambda: minted({"alg": ["RS256"]})),
    fc(33, "an HMAC with the public key's PEM", lambda: hmacked(public(Encoding.PEM))),
    fc(33, "an HMAC with the public key's DER", lambda: hmacked(public(Encoding.DER))),
    fc(33, "an HMAC with the public key's JWK", lambda: hmacked(json.dumps(jwk(private_key("RS256"))).encode())),
    fc(33, "an HMAC with an empty secret", lambda: hmacked(b"")),
    fc(33, "an HMAC that says RS256", lambda: hmacked(public(Encoding.PEM), alg="RS256")),
    fc(33, "an RS256 header over an EC key's kid", lambda: minted({"kid": "p256"})),
    fc(33, "an algorithm the key could do but the issuer is not allowed",
       lambda: sign(CLAIMS, private_key("RS256"), "RS512", {"alg": "RS512", "kid": "rsa"})),
    pytest.param(lambda: sign(CLAIMS, private_key("RS256", 1), header={"alg": "RS256", "kid": "rsa"}),
                 id="somebody else's key under our kid"),
    pytest.param(lambda: sign(CLAIMS, private_key("RS256", 1), header={
        "alg": "RS256", "kid": "rsa", "jwk": jwk(private_key("RS256", 1)), "jku": "http://127.0.0.1/"}),
                 id="a key the token brings along"),
    pytest.param(lambda: minted()[:-8] + "AAAAAAAA", id="a changed signature"),
    pytest.param(lambda: minted({"kid": ["rsa"]}), id="kid is a list"),
    pytest.param(lambda: minted({"kid": None}), id="kid is null"),
    pytest.param(lambda: minted({"kid": "unknown"}), id="a kid nobody has"),
    pytest.param(lambda: minted({"crit": ["exp"]}), id="an unknown critical extension"),
    pytest.param(lambda: minted({"crit": [], "b64": False}), id="even an empty list of critical extensions"),
])  # fmt: skip
def test_a_signature_that_proves_nothing_is_refused(make: Any) -> None:
    with pytest.raises(InvalidToken):
        accepted(make())


def test_without_a_kid_the_only_key_that_fits_is_used() -> None:
    key = private_key("ES256")
    assert accepted(sign(CLAIMS, key, "ES256", {"alg": "ES256"})) == NOW + 60


ACCEPTED: list[Any] = [
    pytest.param({}, {}, id="an ordinary access token"),
    fc(37, "an audience list with ours in it", {"aud": ["sibling", "ours"], "azp": "stranger"}, {}),
    fc(37, "typ in capitals", {}, {"typ": "AT+JWT"}),
    fc(37, "typ as a whole media type", {}, {"typ": "application/at+jwt"}),
    pytest.param({}, {"typ": "JWT"}, id="typ JWT, as most issuers write"),
    pytest.param({}, {"typ": "jwt"}, id="typ jwt in small letters"),
    pytest.param({}, {"typ": ...}, id="no typ"),
    pytest.param({"typ": "Bearer", "nonce": "n"}, {"typ": "JWT"}, id="Keycloak's access token with a nonce"),
    pytest.param({"token_use": "access"}, {"typ": ...}, id="Cognito's access token"),
    pytest.param({"nonce": "n"}, {}, id="a nonce, where typ says access token"),
    fc(36, "expired, but within the leeway", {"exp": NOW - 4}, {}),
    fc(36, "not yet valid, but within the leeway", {"nbf": NOW + 5, "iat": NOW + 5}, {}),
    pytest.param({"exp": NOW + 0.5}, {}, id="exp with a fraction"),
    pytest.param({"exp": 253_402_300_799}, {}, id="exp in the last second of the year 9999"),
]  # fmt: skip


@pytest.mark.parametrize(("claims", "header"), ACCEPTED)
def test_accepted(claims: dict[str, Any], header: dict[str, Any]) -> None:
    assert accepted(minted(header, **claims)) == (CLAIMS | claims)["exp"]


REFUSED: list[Any] = [
    *(fc(35, f"iss is {iss!r}", {"iss": iss}) for iss in (
        "https://idp.example", ISS + "/", ISS + "b", "https://IDP.example/realms/a", "", [ISS], {}, 5, None)),
    fc(35, "no iss", {"iss": ...}),
    fc(36, "no exp", {"exp": ...}),
    *(fc(36, f"exp is {exp!r}", {"exp": exp}) for exp in (
        10**30, 10**4000, str(NOW + 60), -1, 1.5, None, True, [NOW + 60], 253_402_300_800)),
    fc(36, "exp is past and so is the leeway", {"exp": NOW - 10}),
    fc(36, "exp and leeway end now", {"exp": NOW - 5}),
    *(fc(36, f"{name} is an hour ahead", {name: NOW + 3600}) for name in ("nbf", "iat")),
    *(fc(36, f"{name} is {value!r}", {name: value})
      for name in ("nbf", "iat") for value in (None, True, "1", [], -1, 10**30)),
    fc(36, "no aud", {"aud": ...}),
    *(fc(36, f"aud is {aud!r}", {"aud": aud}) for aud in ([], {}, {"ours": 1}, None, 5, "", ["ours", 5])),
    *(fc(37, f"aud is {aud!r}", {"aud": aud}) for aud in (
        "sibling", "ours.evil", "our", "OURS", "ours ", ["sibling"], ["our", "ours.evil"], "ours sibling")),
]  # fmt: skip


@pytest.mark.parametrize("claims", REFUSED)
def test_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        accepted(minted(**claims))


@pytest.mark.parametrize(("claims", "header"), [
    *(fc(37, f"typ is {typ!r}", {}, {"typ": typ}) for typ in (
        "id+jwt", "dpop+jwt", "logout+jwt", "secevent+jwt", "at+jwt ", "", "JOSE", None, ["at+jwt"])),
    *(fc(37, f"an ID token by its {name}", {name: "x"}, {"typ": "JWT"}) for name in ("nonce", "at_hash", "c_hash")),
    fc(37, "an ID token by its auth_time, and nothing of an access token", {"auth_time": NOW, "azp": "app"}, {"typ": "JWT"}),
    fc(37, "an ID token by its nonce, without typ", {"nonce": "x"}, {"typ": ...}),
    *(fc(37, f"the claim typ says {typ}", {"typ": typ}, {"typ": "JWT"})
      for typ in ("ID", "Refresh", "Offline", "Logout")),
    fc(37, "token_use says id, whatever typ says", {"token_use": "id"}, {"typ": "at+jwt"}),
    fc(37, "token_use says id and typ says Bearer", {"token_use": "id", "typ": "Bearer"}, {"typ": "JWT"}),
    fc(37, "a logout token of the old kind", {"events": {}}, {"typ": "JWT"}),
])  # fmt: skip
def test_what_is_no_access_token_is_refused(claims: dict[str, Any], header: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        accepted(minted(header, **claims))


@pytest.mark.parametrize("claims", [
    {"auth_time": NOW, "scope": "r"}, {"auth_time": NOW, "scp": ["r"]}, {"auth_time": NOW, "client_id": "app"},
    {"auth_time": NOW, "cid": "app"}, {"auth_time": NOW, "token_use": "access"}, {"auth_time": NOW, "typ": "Bearer"},
    {"nonce": "x", "typ": "Bearer"}, {},
])  # fmt: skip
def test_what_issuers_write_into_access_tokens_of_type_jwt(claims: dict[str, Any]) -> None:
    assert accepted(minted({"typ": "JWT"}, **claims))


ASKED = config.Introspection(client_id="s", client_secret_env="S")
OPAQUE = ISSUER.model_copy(update={"introspection": ASKED})
TRUSTING = ISSUER.model_copy(
    update={"introspection": ASKED.model_copy(update={"missing_audience": "accept"})}
)
SAID = {"active": True, "sub": "alice", "aud": "ours", "exp": NOW + 60, "token_type": "Bearer"}


@pytest.mark.parametrize(("issuer", "said", "expires"), [
    pytest.param(OPAQUE, {}, NOW + 60, id="an ordinary answer"),
    pytest.param(OPAQUE, {"exp": ...}, None, id="without an end"),
    pytest.param(OPAQUE, {"token_type": ...}, NOW + 60, id="of no kind, for us"),
    pytest.param(OPAQUE, {"token_type": "DPoP"}, NOW + 60, id="bound to a key"),
    pytest.param(TRUSTING, {"aud": ...}, NOW + 60, id="for nobody, which is trusted"),
    pytest.param(TRUSTING, {"aud": []}, NOW + 60, id="for an empty list, which is trusted"),
])  # fmt: skip
def test_an_answer_that_is_accepted(issuer: Any, said: dict[str, Any], expires: float | None) -> None:
    assert tokens.accept(told(said), issuer, ("ours",), NOW) == expires


@pytest.mark.parametrize(("issuer", "said"), [
    pytest.param(OPAQUE, {"aud": ...}, id="for nobody"),
    pytest.param(OPAQUE, {"aud": []}, id="for an empty list"),
    pytest.param(OPAQUE, {"aud": "theirs"}, id="for somebody else"),
    pytest.param(TRUSTING, {"aud": "theirs"}, id="for somebody else, also where silence is trusted"),
    pytest.param(TRUSTING, {"aud": None}, id="for null"),
    pytest.param(TRUSTING, {"aud": ..., "token_type": ...}, id="for nobody and of no kind: refresh tokens are said so"),
    pytest.param(TRUSTING, {"aud": ..., "token_type": "N_A"}, id="of another kind"),
    pytest.param(OPAQUE, {"token_type": "refresh_token"}, id="a refresh token"),
    pytest.param(OPAQUE, {"token_use": "refresh_token"}, id="a refresh token, as Hydra says it"),
    pytest.param(OPAQUE, {"typ": "Refresh"}, id="a refresh token, as Keycloak says it"),
    pytest.param(OPAQUE, {"exp": NOW - 60}, id="expired"),
    pytest.param(OPAQUE, {"exp": "soon"}, id="an end that is none"),
    pytest.param(OPAQUE, {"nbf": NOW + 60}, id="not yet begun"),
    pytest.param(OPAQUE, {"exp": ..., "iat": NOW + 60}, id="issued in the future, without an end"),
    pytest.param(OPAQUE.model_copy(update={"max_lifetime": 30.0}), {}, id="too long"),
    pytest.param(OPAQUE.model_copy(update={"max_lifetime": 30.0}), {"exp": ...}, id="without an end, where one is asked for"),
    pytest.param(OPAQUE.model_copy(update={"single_audience": True}), {"aud": ["ours", "theirs"]}, id="for others too"),
])  # fmt: skip
def test_an_answer_that_is_refused(issuer: Any, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        tokens.accept(told(said), issuer, ("ours",), NOW)


def told(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (SAID | said).items() if value is not ...}


@pytest.mark.parametrize(("exp", "leeway", "fine"), [
    fc(36, "exp equal to now has passed", NOW, 0.0, False),
    fc(36, "exp a second ahead has not", NOW + 1, 0.0, True),
    fc(36, "leeway is counted to the second", NOW - 4, 5.0, True),
    fc(36, "the end of the leeway is the end", NOW - 5, 5.0, False),
])  # fmt: skip
def test_the_end_of_a_token(exp: int, leeway: float, fine: bool) -> None:
    issuer = ISSUER.model_copy(update={"leeway": leeway})
    if fine:
        assert accepted(minted(exp=exp), issuer) == exp
    else:
        with pytest.raises(InvalidToken) as refused:
            accepted(minted(exp=exp), issuer)
        assert refused.value.fault is Fault.EXPIRED


def test_only_a_verified_token_is_told_that_it_expired() -> None:
    forged = sign(CLAIMS | {"exp": 1}, private_key("RS256", 1), header={"alg": "RS256", "kid": "rsa"})
    with pytest.raises(InvalidToken) as refused:
        accepted(forged)
    assert refused.value.fault is Fault.INVALID


@pytest.mark.parametrize("text", [
    pytest.param(lambda: raw(payload(sub='"alice","sub":"mallory"')), id="a claim twice"),
    pytest.param(lambda: raw(payload(sub='"alice","s\\u0075b":"mallory"')), id="a claim twice, once escaped"),
    pytest.param(lambda: raw(payload(x='{"a":1,"a":2}')), id="a member twice, deep down"),
    pytest.param(lambda: raw(payload(), b'{"alg":"none","alg":"RS256","kid":"rsa"}'), id="alg twice"),
    pytest.param(lambda: raw(payload(exp="NaN")), id="exp NaN"),
    pytest.param(lambda: raw(payload(exp="Infinity")), id="exp Infinity"),
    pytest.param(lambda: raw(payload(exp="1e400")), id="exp past what a double holds"),
    pytest.param(lambda: raw(payload(nbf="-1e400")), id="nbf below what a double holds"),
    pytest.param(lambda: raw(payload(exp="9" * 5000)), id="exp of five thousand digits"),
    pytest.param(lambda: raw(payload(sub='"\\ud800"')), id="half a surrogate pair"),
    pytest.param(lambda: raw(b"\xef\xbb\xbf" + payload()), id="a BOM"),
    pytest.param(lambda: raw(payload() + b" {}"), id="something after the end"),
    pytest.param(lambda: raw(payload(x="[" * 5000 + "]" * 5000)), id="depth without end"),
    pytest.param(lambda: raw(payload(sub='"\xff"').replace("ÿ".encode(), b"\xff")), id="not UTF-8"),
    pytest.param(lambda: raw(b"[]"), id="claims are a list"),
    pytest.param(lambda: raw(b'"x"'), id="claims are a string"),
    pytest.param(lambda: raw(payload(), b"[]"), id="the header is a list"),
    pytest.param(lambda: raw(payload(), b"RS256"), id="the header is no JSON"),
])  # fmt: skip
def test_json_that_two_readers_could_read_differently_is_refused(text: Any) -> None:
    with pytest.raises(InvalidToken):
        accepted(text())


def last_bits(part: str) -> str:
    """The same bytes in another spelling: the unused bits of the last character set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(part) % 4 in (2, 3)
    return part[:-1] + alphabet[alphabet.index(part[-1]) | 1]


# Header, payload and signature are padded to lengths that leave unused bits in every last character.
HEAD = b'{"alg":"RS256", "kid":"rsa"}'
SPELLED = sign(json.dumps(CLAIMS).encode() + b"  ", private_key("RS256"), header=HEAD)
PARTS = SPELLED.split(".")


def test_the_token_of_the_spelling_table_is_good() -> None:
    assert accepted(SPELLED) == NOW + 60
    assert all(len(part) % 4 in (2, 3) for part in PARTS)


@pytest.mark.parametrize("text", [
    *(fc(49, f"{mark!r} after part {i}", ".".join(p + mark * (i == n) for n, p in enumerate(PARTS)))
      for i in range(3) for mark in ("=", "==", "\n", " ", "%0a", "é")),
    *(fc(49, f"unused bits set in part {i}",
         ".".join(last_bits(p) if i == n else p for n, p in enumerate(PARTS))) for i in range(3)),
    *(fc(49, f"space before part {i}", ".".join(" " * (i == n) + p for n, p in enumerate(PARTS)))
      for i in range(3)),
    fc(49, "the other base64 alphabet", SPELLED.replace("-", "+").replace("_", "/") + "+"),
    fc(49, "a percent-escape", SPELLED.replace("e", "%65", 1)),
    fc(49, "a length no bytes have", ".".join([*PARTS[:2], "AAAAA"])),
    fc(49, "a fourth part", SPELLED + ".AAAA"),
    fc(49, "two parts", ".".join(PARTS[:2])),
    fc(49, "five parts, as an encrypted token has", SPELLED + ".AAAA.AAAA"),
    fc(49, "an empty signature", ".".join([*PARTS[:2], ""])),
    fc(49, "nothing", ""),
    fc(49, "only dots", ".."),
])  # fmt: skip
def test_a_token_has_one_spelling(text: str) -> None:
    with pytest.raises(InvalidToken) as refused:
        accepted(text)
    assert refused.value.fault is Fault.MALFORMED


WORDS = st.text("abc=. \n\x00é", max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit"]), JSON)
BODIES = st.dictionaries(st.sampled_from(["iss", "exp", "aud", "nbf", "iat", "typ", "cnf"]), JSON)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(HEADERS, BODIES)
def test_nothing_but_invalid_token_is_ever_raised(header: dict[str, Any], claims: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidToken):
        assert 0 < accepted(minted(header, **claims)) < LATEST
