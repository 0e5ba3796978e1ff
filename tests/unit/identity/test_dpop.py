"""DPoP proofs: the right one passes, and every single deviation from it fails."""

from __future__ import annotations

import hmac
import json
import os
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from jwt.algorithms import get_default_algorithms
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.identity.dpop import LONGEST_JTI, LONGEST_PROOF, SKEW, Proofs
from sidecar.identity.dpop_nonces import CLOCKS_DIFFER, LIFETIME
from sidecar.identity.invalid import InvalidProof, ProofFault
from sidecar.ledger import LedgerUnavailable
from sidecar.model import Head, Reason
from tests.dpop import ProofKey
from tests.issuer import b64, jwk, sign

NOW = 1_800_000_000
MAX_AGE = 60.0
URL = "https://agents.example.com/code-review/v1/message:send"
TOKEN = "aGVhZGVy.Y2xhaW1z.c2lnbmF0dXJl"
KEY = ProofKey("ES256", 0)
OTHER = ProofKey("ES256", 1)
RSA = ProofKey("RS256", 0)
ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA")


@dataclass
class Bench:
    """Proofs with a clock moved by hand, and what they ask of a ledger."""

    settings: config.Dpop = field(default_factory=lambda: config.Dpop(max_age=MAX_AGE, algorithms=ALGORITHMS))
    now: float = NOW
    used: dict[bytes, float] = field(default_factory=dict)
    secrets: tuple[bytes, ...] = field(default_factory=lambda: (os.urandom(32),))
    asked_secrets: int = 0
    first_uses: int = 0
    proofs: Proofs = field(init=False)

    def __post_init__(self) -> None:
        self.proofs = Proofs(
            self.settings, now=lambda: self.now, first_use=self._first_use, secrets=self._secrets
        )

    async def _first_use(self, name: bytes, until: float) -> bool:
        assert len(name) == 32
        self.first_uses += 1
        return self.used.setdefault(name, until) is until

    async def _secrets(self) -> tuple[bytes, ...]:
        self.asked_secrets += 1
        return self.secrets

    async def check(
        self,
        *sent: str,
        method: str = "POST",
        url: str = URL,
        token: str = TOKEN,
        thumbprint: str = KEY.thumbprint,
    ) -> None:
        headers = CIMultiDict([("DPoP", value) for value in sent])
        await self.proofs.check(Head(method, "/", CIMultiDictProxy(headers)), token, thumbprint, url)

    async def refused(self, *sent: str, **request: Any) -> InvalidProof:
        with pytest.raises(InvalidProof) as refusal:
            await self.check(*sent, **request)
        return refusal.value


@pytest.fixture
def bench() -> Bench:
    return Bench()


def honest(key: ProofKey = KEY, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    return key.proof("POST", URL, TOKEN, header=header, **({"iat": NOW} | claims))


def raw(header: str | None = None, payload: str | None = None) -> str:
    """A proof of exactly these bytes, signed by KEY."""
    return sign(
        (payload or json.dumps(KEY.claims("POST", URL, TOKEN, iat=NOW))).encode(),
        KEY.private,
        "ES256",
        (header or json.dumps(KEY.header())).encode(),
    )


def with_twin(members: dict[str, Any], name: str, first: Any = None) -> str:
    """`members` as JSON with `name` twice, the honest one last."""
    return f'{{"{name}":{json.dumps(first or members[name])},{json.dumps(members)[1:]}'


# --- what passes -----------------------------------------------------------------------------


@pytest.mark.parametrize("alg", ALGORITHMS)
async def test_a_right_proof_of_each_algorithm_passes(bench: Bench, alg: str) -> None:
    key = ProofKey(alg, 0)
    await bench.check(honest(key), thumbprint=key.thumbprint)
    assert list(bench.used.values()) == [NOW + MAX_AGE + SKEW], "it is remembered for as long as it is good"


RIGHT = {
    "htu has a query": honest(htu=f"{URL}?a=1"),
    "htu has a fragment": honest(htu=f"{URL}#part"),
    "htu has a query and a fragment": honest(htu=f"{URL}?a=1#part?"),
    "htu has its scheme and host in capitals": honest(
        htu="HTTPS://AGENTS.Example.com/code-review/v1/message:send"
    ),
    "htu has the default port": honest(htu="https://agents.example.com:443/code-review/v1/message:send"),
    "htu has an empty port": honest(htu="https://agents.example.com:/code-review/v1/message:send"),
    "htu escapes unreserved characters": honest(
        htu="https://agents.example.com/%63ode%2Dreview/v1/message:send"
    ),
    "as old as may be": honest(iat=NOW - int(MAX_AGE)),
    "as far ahead as may be": honest(iat=NOW + int(SKEW)),
    "iat with a fraction": honest(iat=NOW - 0.5),
    "the type in capitals": honest(header={"typ": "DPoP+JWT"}),
    "a key id in the header": honest(header={"kid": "k-1"}),
    "a jwk that says what it is for": honest(
        header={"jwk": KEY.jwk | {"use": "sig", "key_ops": ["verify"], "alg": "ES256", "kid": "k-1"}}
    ),
    "the longest jti": honest(jti="j" * LONGEST_JTI),
    "a nonce nobody asked for": honest(nonce="abc"),
    "claims we do not know": honest(iss="client", sub="client", aud=["x"]),
}


@pytest.mark.parametrize("proof", RIGHT.values(), ids=RIGHT)
async def test_right_proofs_in_other_words_pass(bench: Bench, proof: str) -> None:
    await bench.check(proof)
    assert bench.first_uses == 1


SAME_URL = [
    pytest.param("http://a.example:80", "http://a.example/", id="an empty path and http's port"),
    pytest.param("https://a.example/%e2%82%ac", "https://a.example/%E2%82%AC", id="escapes in small letters"),
    pytest.param("https://a.example:8443/x", "https://A.EXAMPLE:8443/%78", id="another port"),
    pytest.param("https://[2001:DB8::1]/x", "https://[2001:db8::1]:443/x", id="an IPv6 address"),
    pytest.param("http://127.0.0.1:9000/a%2Fb", "http://127.0.0.1:9000/a%2fb", id="an escaped slash"),
]


@pytest.mark.parametrize(("url", "htu"), SAME_URL)
async def test_one_url_in_two_spellings(bench: Bench, url: str, htu: str) -> None:
    await bench.check(honest(htu=htu), url=url)
    await bench.check(honest(htu=url), url=htu)


TWO_URLS = [
    pytest.param("http://a.example:443/", "http://a.example/", id="https's port on http"),
    pytest.param("https://a.example:80/", "https://a.example/", id="http's port on https"),
    pytest.param("https://a.example/%2F", "https://a.example//", id="an escaped slash"),
    pytest.param("https://a.example/%25%34%31", "https://a.example/A", id="an escape of an escape"),
    pytest.param("https://a.example/a", "https://a.example/A", id="another case of the path"),
]


@pytest.mark.parametrize(("url", "htu"), TWO_URLS)
async def test_two_urls_that_look_alike(bench: Bench, url: str, htu: str) -> None:
    await bench.refused(honest(htu=htu), url=url)
    await bench.refused(honest(htu=url), url=htu)


# --- what does not ---------------------------------------------------------------------------

OTHER_URLS = {
    "another path": "https://agents.example.com/code-review/v1/message:stream",
    "a longer path": f"{URL}/",
    "a shorter path": "https://agents.example.com/code-review/v1",
    "no path": "https://agents.example.com",
    "the path in capitals": "https://agents.example.com/CODE-REVIEW/v1/message:send",
    "http": "http://agents.example.com/code-review/v1/message:send",
    "https's port on http": "http://agents.example.com:443/code-review/v1/message:send",
    "another port": "https://agents.example.com:8443/code-review/v1/message:send",
    "the port with a zero before it": "https://agents.example.com:0443/code-review/v1/message:send",
    "a port in other digits": "https://agents.example.com:４４３/code-review/v1/message:send",
    "another host": "https://agents.example.org/code-review/v1/message:send",
    "a host with a dot at its end": "https://agents.example.com./code-review/v1/message:send",
    "a host with an escape": "https://%61gents.example.com/code-review/v1/message:send",
    "a user": "https://agents.example.com@evil.example/code-review/v1/message:send",
    "an empty user": "https://@agents.example.com/code-review/v1/message:send",
    "no host": "https:///code-review/v1/message:send",
    "a relative reference": "/code-review/v1/message:send",
    "no scheme": "//agents.example.com/code-review/v1/message:send",
    "dot segments": "https://agents.example.com/code-review/../code-review/v1/message:send",
    "escaped dot segments": "https://agents.example.com/code-review/%2e/v1/message:send",
    "two slashes": "https://agents.example.com//code-review/v1/message:send",
    "an escaped slash": "https://agents.example.com/code-review%2Fv1/message:send",
    "an escaped colon": "https://agents.example.com/code-review/v1/message%3Asend",
    "an escape of an escape": "https://agents.example.com/%2563ode-review/v1/message:send",
    "half an escape": "https://agents.example.com/code-review/v1/message:send%2",
    "a backslash": "https:\\\\agents.example.com/code-review/v1/message:send",
    "a space before it": f" {URL}",
    "a line break behind it": f"{URL}\n",
    "a NUL": f"{URL}\x00",
    "letters beyond ASCII": "https://agents.example.com/code-réview/v1/message:send",
    "a space in its query": f"{URL}?a b",
    "a scheme that folds to https": "http\u017f://agents.example.com/code-review/v1/message:send",
    "another scheme": "wss://agents.example.com/code-review/v1/message:send",
    "the empty string": "",
}
CLAIMS: dict[str, tuple[Any, ...]] = {
    "jti": ("", "j" * (LONGEST_JTI + 1), 7, None, ["j"], {"j": 1}, True),
    "htm": ("GET", "post", "POST ", "", 7, None, ["POST"], {}),
    "htu": (7, None, [URL], {}, True),
    "iat": (str(NOW), None, True, [NOW], {}, -1, 0, 10**400, -(10**400), NOW - MAX_AGE - 1, NOW + SKEW + 1),
    "ath": ("", 7, None, b64(sha256(b"another").digest()), sha256(TOKEN.encode()).hexdigest(), [1]),
}
JWK: dict[str, Any] = {
    "no jwk": ...,
    "null": None,
    "a string": "key",
    "a list of keys": [KEY.jwk],
    "empty": {},
    "another key": OTHER.jwk,
    "a private key": jwk(KEY.private) | {"d": b64(b"d" * 32)},
    "a private member that is empty": KEY.jwk | {"d": None},
    "a symmetric member": KEY.jwk | {"k": b64(b"k" * 32)},
    "primes": KEY.jwk | {"oth": []},
    "a symmetric key": {"kty": "oct", "k": b64(b"k" * 32)},
    "a type nobody knows": KEY.jwk | {"kty": "ec"},
    "a type that is no string": KEY.jwk | {"kty": ["EC"]},
    "no type": {name: value for name, value in KEY.jwk.items() if name != "kty"},
    "no x": {name: value for name, value in KEY.jwk.items() if name != "x"},
    "x is no string": KEY.jwk | {"x": 7},
    "x is padded": KEY.jwk | {"x": KEY.jwk["x"] + "="},
    "another curve": KEY.jwk | {"crv": "P-384"},
    "a curve nobody knows": KEY.jwk | {"crv": "secp256k1"},
    "for encryption": KEY.jwk | {"use": "enc"},
    "to sign with": KEY.jwk | {"key_ops": ["sign"]},
    "for another algorithm": KEY.jwk | {"alg": "ES384"},
}
HEADERS: dict[str, dict[str, Any]] = {
    "no typ": {"typ": ...},
    "typ JWT": {"typ": "JWT"},
    "typ of an access token": {"typ": "at+jwt"},
    "typ with something behind it": {"typ": "dpop+jwt;v=1"},
    "typ in a list": {"typ": ["dpop+jwt"]},
    "typ null": {"typ": None},
    "no alg": {"alg": ...},
    "alg none": {"alg": "none"},
    "alg None": {"alg": "None"},
    "alg in small letters": {"alg": "es256"},
    "alg of another curve": {"alg": "ES384"},
    "alg of another type of key": {"alg": "RS256"},
    "alg nobody knows": {"alg": "ES999"},
    "alg null": {"alg": None},
    "alg in a list": {"alg": ["ES256"]},
    "critical extensions": {"crit": ["exp"], "exp": NOW + 60},
    "no critical extensions, but the word": {"crit": []},
    "a key id that is no string": {"kid": 7},
}


def hmacked(secret: bytes) -> str:
    """HMAC with something the other side knows too (RFC 8725 §2.1)."""
    head, claims = KEY.header(alg="HS256"), KEY.claims("POST", URL, TOKEN, iat=NOW)
    signed = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{signed}.{b64(hmac.digest(secret, signed.encode(), 'sha256'))}"


def respelled(proof: str, part: int) -> str:
    """The same bytes in another base64url: a bit set past the last byte, or padding where there is none."""
    parts = proof.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    if len(parts[part]) % 4:
        parts[part] = parts[part][:-1] + alphabet[alphabet.index(parts[part][-1]) + 1]
    else:
        parts[part] += "===="
    return ".".join(parts)


def unlike(part: int) -> str:
    """An honest proof with one part of another honest proof."""
    parts, others = honest().split("."), honest().split(".")
    parts[part] = others[part] if part else b64(json.dumps(KEY.header(kid="k")).encode())
    return ".".join(parts)


def der(proof: str) -> bytes:
    """The signature of an ES256 proof as TLS would write it; JWS wants the two numbers alone (RFC 7518 §3.4)."""
    signature = urlsafe_b64decode(proof.rpartition(".")[2] + "==")
    return encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))


HONEST = honest()
HEADER, PAYLOAD = KEY.header(), KEY.claims("POST", URL, TOKEN, iat=NOW)
DEEP = '{"x":' + "[" * 1500 + "]" * 1500 + ","
FORMS = {
    "empty": "",
    "one part": "abc",
    "two parts": HONEST.rpartition(".")[0],
    "no signature": HONEST.rpartition(".")[0] + ".",
    "four parts": f"{HONEST}.abc",
    "five parts, as if encrypted": "a.b.c.d.e",
    "two proofs joined by a comma": f"{HONEST},{honest()}",
    "two proofs joined by comma and space": f"{HONEST}, {honest()}",
    "one and an empty one": f"{HONEST},",
    "in quotes": f'"{HONEST}"',
    "with a scheme": f"DPoP {HONEST}",
    "a space behind it": f"{HONEST} ",
    "a line break behind it": f"{HONEST}\n",
    "not ASCII": f"{HONEST}é",
    "padded": f"{HONEST}=",
    "standard base64": ".".join(part + "/+" for part in HONEST.split(".")),
    "the header in another base64": respelled(honest(header={"k": "12"}), 0),
    "the payload in another base64": respelled(honest(x="1"), 1),
    "the signature in another base64": respelled(HONEST, 2),
    "the header of another": unlike(0),
    "the payload of another": unlike(1),
    "the signature of another": unlike(2),
    "a signature too short": HONEST[:-4],
    "a signature in DER": HONEST.rpartition(".")[0] + "." + b64(der(HONEST)),
    "alg none without a signature": f"{b64(json.dumps(KEY.header(alg='none')).encode())}.{b64(json.dumps(PAYLOAD).encode())}.",
    "alg none with an empty one": f"{b64(json.dumps(KEY.header(alg='none')).encode())}.{b64(json.dumps(PAYLOAD).encode())}.AA",
    "HMAC with the public key": hmacked(json.dumps(KEY.jwk).encode()),
    "HMAC with the token": hmacked(TOKEN.encode()),
    "HMAC with nothing": hmacked(b""),
    "a giant header": honest(header={"x": "x" * LONGEST_PROOF}),
    "a giant claim": honest(x="x" * LONGEST_PROOF),
    "a deep header": raw(header=DEEP + json.dumps(HEADER)[1:]),
    "a deep payload": raw(payload=DEEP + json.dumps(PAYLOAD)[1:]),
    "a header that is no JSON": raw(header="{"),
    "a header that is a list": raw(header=json.dumps([HEADER])),
    "a payload that is a list": raw(payload=json.dumps([PAYLOAD])),
    "a payload that is a string": raw(payload='"x"'),
    "a payload with something behind it": raw(payload=json.dumps(PAYLOAD) + "{}"),
    "a payload with NaN": raw(payload=f'{{"x":NaN,{json.dumps(PAYLOAD)[1:]}'),
    "a payload in UTF-16": sign(json.dumps(PAYLOAD).encode("utf-16"), KEY.private, "ES256", HEADER),
    "a jti with half a character": raw(payload=json.dumps(PAYLOAD | {"jti": "j"}).replace('"j"', '"\\ud800"')),
    "an iat without end": raw(payload=json.dumps(PAYLOAD | {"iat": 1}).replace('"iat": 1', '"iat": 1e400')),
    "jwk with a member twice": raw(
        header=json.dumps(KEY.header(jwk="J")).replace('"J"', with_twin(KEY.jwk, "x", OTHER.jwk["x"]))
    ),
    **{f"{name} twice in the header": raw(header=with_twin(HEADER, name)) for name in HEADER},
    **{f"{name} twice in the payload": raw(payload=with_twin(PAYLOAD, name)) for name in PAYLOAD},
}  # fmt: skip
WRONG: dict[str, str] = {
    **FORMS,
    **{f"{name} is missing": honest(**{name: ...}) for name in CLAIMS},
    **{
        f"{name} is {str(value)[:40]!r} ({type(value).__name__})": honest(**{name: value})
        for name, values in CLAIMS.items()
        for value in values
    },
    **{f"htu: {name}": honest(htu=url) for name, url in OTHER_URLS.items()},
    **{f"jwk: {name}": honest(header={"jwk": value}) for name, value in JWK.items()},
    **{f"header: {name}": honest(header=members) for name, members in HEADERS.items()},
    "another key in all": honest(OTHER),
    "the right jwk, signed by another key": sign(PAYLOAD, OTHER.private, "ES256", HEADER),
    "of another token": KEY.proof("POST", URL, f"{TOKEN}x", iat=NOW),
}


@pytest.mark.parametrize("proof", WRONG.values(), ids=WRONG)
async def test_each_deviation_is_refused_and_nothing_is_remembered(bench: Bench, proof: str) -> None:
    error = await bench.refused(proof)
    assert error.refusal.challenge is not None
    assert error.refusal.challenge.startswith('DPoP error="invalid_dpop_proof", error_description="')
    assert not bench.first_uses, "what is wrong never reaches the ledger"
    assert not bench.asked_secrets


async def test_the_proof_the_deviations_deviate_from_is_right(bench: Bench) -> None:
    await bench.check(HONEST)
    await bench.check(raw())


REQUESTS: dict[str, dict[str, Any]] = {
    "another method": {"method": "GET"},
    "the method in small letters": {"method": "post"},
    "another token": {"token": f"{TOKEN}x"},
    "a token bound to another key": {"thumbprint": OTHER.thumbprint},
    "a token bound to nothing": {"thumbprint": ""},
    "another host": {"url": "https://other.example.com/code-review/v1/message:send"},
    "a URL that is none": {"url": "agents"},
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_right_proof_on_another_request_is_refused(bench: Bench, request_: dict[str, Any]) -> None:
    await bench.refused(HONEST, **request_)
    assert not bench.first_uses


async def test_two_urls_that_are_none_are_not_one_url(bench: Bench) -> None:
    await bench.refused(honest(htu="https://user@a.example/"), url="https://user@a.example/")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((), id="no header"),
        pytest.param((honest(), honest()), id="two proofs"),
        pytest.param((HONEST, HONEST), id="one proof twice"),
        pytest.param((HONEST, ""), id="one and an empty one"),
    ],
)
async def test_exactly_one_proof(bench: Bench, sent: tuple[str, ...]) -> None:
    assert (await bench.refused(*sent)).told is ProofFault.MISSING


@pytest.mark.parametrize("bits", [1024, 8200, 16384])
async def test_rsa_keys_too_short_or_too_long(bench: Bench, bits: int) -> None:
    # Of the right form for its size; whether it could sign does not matter before its size does.
    if bits < 2048:
        public = jwk(rsa.generate_private_key(65537, bits))
    else:
        public = {"kty": "RSA", "e": "AQAB", "n": b64(b"\xff" * (bits // 8))}
    key = ProofKey("RS256", 0)
    key.jwk = public
    assert "jwk" in str(await bench.refused(honest(key), thumbprint=key.thumbprint))


async def test_a_member_that_json_could_write_in_two_ways(bench: Bench) -> None:
    key = ProofKey("ES256", 0)
    key.jwk = key.jwk | {"x": key.jwk["x"] + "="}
    assert "base64url" in str(await bench.refused(honest(key), thumbprint=key.thumbprint))


async def test_a_truth_value_is_no_date(bench: Bench) -> None:
    bench.now = 1.0
    assert (await bench.refused(honest(iat=True))).told is ProofFault.MALFORMED


async def test_a_key_off_its_curve(bench: Bench) -> None:
    key = ProofKey("ES256", 0)
    key.jwk = key.jwk | {"y": key.jwk["x"]}
    assert "jwk" in str(await bench.refused(honest(key), thumbprint=key.thumbprint))


async def test_algorithms_that_are_not_allowed_are_refused() -> None:
    bench = Bench(config.Dpop(algorithms=("ES256",)))
    error = await bench.refused(honest(RSA), thumbprint=RSA.thumbprint)
    assert error.refusal.challenge == (
        'DPoP error="invalid_dpop_proof", error_description="the DPoP proof is invalid", algs="ES256"'
    )
    await bench.check(HONEST)


async def test_pss_is_not_pkcs1(bench: Bench) -> None:
    signed = honest(RSA).rpartition(".")[0]
    other = get_default_algorithms()["PS256"].sign(signed.encode(), RSA.private)
    await bench.refused(f"{signed}.{b64(other)}", thumbprint=RSA.thumbprint)


async def test_the_thumbprint_of_the_specification(bench: Bench) -> None:
    """RFC 7638 §3.1's own example."""
    key = ProofKey("RS256", 0)
    key.jwk = {
        "kty": "RSA",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRX"
        "jBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZ"
        "gnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw"
        "0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        "e": "AQAB",
        "alg": "RS256",
        "kid": "2011-04-29",
    }
    thumbprint = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    assert key.thumbprint == thumbprint
    error = await bench.refused(honest(key), thumbprint=thumbprint)
    assert "signature" in str(error), "the key is the token's; only its owner could sign"


# --- replay ----------------------------------------------------------------------------------


async def test_a_proof_counts_once(bench: Bench) -> None:
    await bench.check(HONEST)
    assert (await bench.refused(HONEST)).told is ProofFault.REPLAYED
    await bench.check(honest())


async def test_another_spelling_of_the_target_is_the_same_use(bench: Bench) -> None:
    await bench.check(honest(jti="j-1"))
    error = await bench.refused(honest(jti="j-1", htu=URL.replace("https", "HTTPS") + "?again", iat=NOW - 1))
    assert error.told is ProofFault.REPLAYED


async def test_a_jti_is_unique_for_its_key_and_target_only(bench: Bench) -> None:
    await bench.check(honest(jti="j-1"))
    await bench.check(honest(OTHER, jti="j-1"), thumbprint=OTHER.thumbprint)
    await bench.check(honest(jti="j-1", htu=f"{URL}2"), url=f"{URL}2")
    await bench.check(honest(jti="j-2"))
    assert len(bench.used) == 4


async def test_a_proof_is_too_old_before_it_is_forgotten(bench: Bench) -> None:
    await bench.check(HONEST)
    (until,) = bench.used.values()
    bench.now = until - SKEW
    assert (await bench.refused(HONEST)).told is ProofFault.REPLAYED
    bench.now += 0.001
    assert (await bench.refused(HONEST)).told is ProofFault.AGE


async def test_a_ledger_that_does_not_answer_is_not_a_yes(bench: Bench) -> None:
    async def down(_: bytes, __: float) -> bool:
        raise LedgerUnavailable("down")

    bench.proofs._first_use = down
    with pytest.raises(LedgerUnavailable):
        await bench.check(HONEST)


# --- nonces ----------------------------------------------------------------------------------


@pytest.fixture
def strict() -> Bench:
    return Bench(config.Dpop(max_age=3600, nonce="required"))


async def nonce_of(bench: Bench) -> str:
    nonce = (await bench.refused(honest())).refusal.nonce
    assert nonce
    return nonce


async def test_a_client_is_told_a_nonce_and_passes_with_it(strict: Bench) -> None:
    refusal = (await strict.refused(honest())).refusal
    assert refusal.reason is Reason.UNAUTHENTICATED
    assert refusal.challenge == (
        'DPoP error="use_dpop_nonce", error_description="a new nonce is required in the DPoP proof",'
        ' algs="ES256 RS256 PS256 EdDSA"'
    )
    assert not strict.first_uses
    for _ in range(2):  # a nonce is good for more than one proof
        await strict.check(honest(nonce=refusal.nonce))


async def test_a_nonce_does_not_save_a_wrong_proof(strict: Bench) -> None:
    proof = honest(nonce=await nonce_of(strict))
    await strict.check(proof)
    assert (await strict.refused(proof)).told is ProofFault.REPLAYED
    error = await strict.refused(honest(OTHER, nonce=await nonce_of(strict)))
    assert error.told is ProofFault.OTHER


async def test_whoever_has_no_right_proof_is_told_no_nonce(strict: Bench) -> None:
    for sent in ((), (honest(OTHER),), (honest(htm="GET"),), (HONEST[:-4],)):
        assert not (await strict.refused(*sent)).refusal.nonce
    assert not strict.asked_secrets


def forged(made: int, mac: bytes) -> str:
    return b64(made.to_bytes(8, "big") + mac)


NO_NONCES: dict[str, Callable[[str, tuple[bytes, ...]], object]] = {
    "empty": lambda nonce, _: "",
    "null": lambda nonce, _: None,
    "a number": lambda nonce, _: 7,
    "in a list": lambda nonce, _: [nonce],
    "cut": lambda nonce, _: nonce[:-1],
    "with something behind it": lambda nonce, _: f"{nonce}A",
    "padded": lambda nonce, _: f"{nonce}=",
    "with a line break": lambda nonce, _: f"{nonce}\n",
    "in capitals": lambda nonce, _: nonce.upper(),
    "of characters that are not base64url": lambda nonce, _: "!" * 32,
    "of one character of base64 and others": lambda nonce, _: "A" + "!" * 31,
    "not ASCII": lambda nonce, _: "é" * 32,
    "one character changed": lambda nonce, _: nonce[:-1] + ("A" if nonce[-1] != "A" else "B"),
    "another time": lambda nonce, _: forged(NOW + 1, b"\x00" * 16),
    "all zeros": lambda nonce, _: "A" * 32,
    "the end of time": lambda nonce, _: forged(2**64 - 1, b"\x00" * 16),
    "made with the secret but without the label": lambda nonce, secrets: forged(
        NOW, hmac.digest(secrets[0], NOW.to_bytes(8, "big"), "sha256")[:16]
    ),
}


@pytest.mark.parametrize("spoil", NO_NONCES.values(), ids=NO_NONCES)
async def test_what_is_no_nonce_of_ours_gets_a_new_one(
    strict: Bench, spoil: Callable[[str, tuple[bytes, ...]], object]
) -> None:
    error = await strict.refused(honest(nonce=spoil(await nonce_of(strict), strict.secrets)))
    assert error.told is ProofFault.NONCE
    assert not strict.first_uses
    await strict.check(honest(nonce=error.refusal.nonce))


async def test_a_nonce_expires(strict: Bench) -> None:
    nonce = await nonce_of(strict)
    strict.now = NOW + LIFETIME
    await strict.check(honest(nonce=nonce))
    strict.now += 1
    error = await strict.refused(honest(nonce=nonce))
    assert error.told is ProofFault.NONCE
    assert error.refusal.nonce != nonce


async def test_clocks_of_workers_may_differ_a_little(strict: Bench) -> None:
    strict.now = NOW + CLOCKS_DIFFER
    ahead = await nonce_of(strict)
    strict.now = NOW + CLOCKS_DIFFER + 1
    too_far = await nonce_of(strict)
    strict.now = NOW
    await strict.check(honest(nonce=ahead))
    await strict.refused(honest(nonce=too_far))


async def test_a_nonce_outlives_the_key_it_was_made_with(strict: Bench) -> None:
    nonce = await nonce_of(strict)
    first = strict.secrets
    strict.secrets = (os.urandom(32), *first)
    await strict.check(honest(nonce=nonce))
    await strict.check(honest(nonce=await nonce_of(strict)))
    strict.secrets = strict.secrets[:1]
    await strict.refused(honest(nonce=nonce))


async def test_workers_on_one_ledger_know_each_others_nonces(strict: Bench) -> None:
    other = Bench(strict.settings, secrets=strict.secrets)
    await other.check(honest(nonce=await nonce_of(strict)))
    stranger = Bench(strict.settings)
    await stranger.refused(honest(nonce=await nonce_of(strict)))


# --- what is told ----------------------------------------------------------------------------


async def test_nothing_of_a_proof_is_told_to_anybody(bench: Bench) -> None:
    canary = "canary-7f3a"
    key = ProofKey("ES256", 0)
    for claims in ({"htu": canary}, {"htm": canary}, {"ath": canary}, {"iat": canary}, {"jti": [canary]}):
        error = await bench.refused(honest(**claims))
        assert canary not in repr((error.refusal, str(error)))
    for header in ({"typ": canary}, {"alg": canary}, {"kid": [canary]}, {"jwk": key.jwk | {"kty": canary}}):
        error = await bench.refused(honest(header=header))
        assert canary not in repr((error.refusal, str(error)))
