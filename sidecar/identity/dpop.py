"""Proofs of possession for tokens that are bound to a key (RFC 9449).

Owns: every check of §4.3 on a request's DPoP proof, and that no proof counts twice (§11.1).
Never: keeps a proof, or has one remembered whose key is not the token's.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

import orjson

from sidecar import config
from sidecar.identity import tokens
from sidecar.identity.algorithms import verifies
from sidecar.identity.dpop_nonces import Nonces, Secrets
from sidecar.identity.invalid import InvalidProof, InvalidToken, ProofFault
from sidecar.identity.jwks import PUBLIC_MEMBERS, read_key
from sidecar.identity.same_url import comparable
from sidecar.identity.tokens import Token
from sidecar.model import Head

# Ledger.first_use: a name (32 bytes) and until when it counts as used (seconds since the epoch); True the first time.
FirstUse: TypeAlias = Callable[[bytes, float], Awaitable[bool]]

LONGEST_PROOF: Final = 8192  # characters; one with the longest RSA key there may be has some 4000
LONGEST_JTI: Final = 256  # characters
SKEW: Final = 5.0  # seconds a caller's clock may be ahead of ours

# RFC 7518 §6.2.2, §6.3.2, §6.4.1, RFC 8037 §2.
PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")


class Proofs:
    """What a DPoP proof must be under this policy. `now` is seconds since the epoch."""

    def __init__(
        self, settings: config.Dpop, *, now: Callable[[], float], first_use: FirstUse, secrets: Secrets
    ) -> None:
        self._algorithms = settings.algorithms
        self._max_age = settings.max_age
        self._now = now
        self._first_use = first_use
        self._nonces = Nonces(secrets, now) if settings.nonce == "required" else None

    async def check(self, head: Head, token: str, thumbprint: str, url: str) -> None:
        """Accept the one DPoP proof of a request, or raise InvalidProof.

        `token` is the access token as sent, `thumbprint` that of the key it is bound to (`cnf.jkt`, RFC 7638), `url`
        the public URL of the request. Raises also what `first_use` and `secrets` raise.
        """
        try:
            await self._check(head, token, thumbprint, url)
        except InvalidProof as error:
            error.algorithms = self._algorithms
            raise

    async def _check(self, head: Head, token: str, thumbprint: str, url: str) -> None:
        now = self._now()
        proof = _read(head)
        # From cheap to expensive: what stands before the signature can only refuse.
        jwk = self._bound_key(proof, thumbprint)
        target = _check_request(proof.claims, head.method, url)
        _check_token(proof.claims, token)
        jti = _jti(proof.claims)
        expires_at = _check_age(proof.claims, self._max_age, now)
        self._check_signature(proof, jwk)
        if self._nonces is not None and not await self._nonces.accepts(proof.claims.get("nonce")):
            fresh = await self._nonces.fresh()
            raise InvalidProof("without a nonce of ours that is fresh", ProofFault.NONCE, nonce=fresh)
        # Invariant: here the caller has the token and its key; nobody else can fill the ledger.
        if not await self._first_use(_name(thumbprint, jti, target), expires_at + SKEW):
            raise InvalidProof("used before", ProofFault.REPLAYED)

    def _bound_key(self, proof: Token, thumbprint: str) -> Mapping[str, Any]:
        """The proof's key as its public JWK, the one the token is bound to."""
        if proof.type != "dpop+jwt":
            raise InvalidProof("`typ` is not `dpop+jwt`", ProofFault.MALFORMED)
        if proof.algorithm not in self._algorithms:
            raise InvalidProof("an algorithm that is not allowed", ProofFault.INVALID)
        jwk = proof.jwk
        if not isinstance(jwk, dict) or not jwk.keys().isdisjoint(PRIVATE_MEMBERS):
            raise InvalidProof("`jwk` is missing or no public key", ProofFault.MALFORMED)
        if not hmac.compare_digest(_thumbprint(jwk), thumbprint.encode()):
            raise InvalidProof("by another key than the token's", ProofFault.OTHER)
        return jwk

    def _check_signature(self, proof: Token, jwk: Mapping[str, Any]) -> None:
        key = read_key(jwk, frozenset({proof.algorithm}))
        # None: of another kind than the algorithm, too short or too long, off its curve, for another use.
        if key is None:
            raise InvalidProof("`jwk` is no key for its algorithm", ProofFault.INVALID)
        if not verifies(proof.algorithm, key.public, proof.signed, proof.signature):
            raise InvalidProof("the signature is wrong", ProofFault.INVALID)


def _read(head: Head) -> Token:
    sent = head.headers.getall("DPoP", ())
    if len(sent) != 1:
        raise InvalidProof("no DPoP header, or more than one", ProofFault.MISSING)
    if len(sent[0]) > LONGEST_PROOF:
        raise InvalidProof("too long", ProofFault.MALFORMED)
    try:
        return tokens.read(sent[0])
    except InvalidToken as error:
        raise InvalidProof(str(error), ProofFault.MALFORMED) from None


def _thumbprint(jwk: Mapping[str, Any]) -> bytes:
    """RFC 7638 §3, with SHA-256 in base64url. Of the members as written: another spelling is another key."""
    kty = jwk.get("kty")
    if not isinstance(kty, str) or kty not in PUBLIC_MEMBERS:
        raise InvalidProof("`jwk` is of a type we do not know", ProofFault.MALFORMED)
    members = {"kty": kty, **{name: jwk.get(name) for name in PUBLIC_MEMBERS[kty]}}
    # Characters that JSON could write in two ways are in no key's members.
    if not all(isinstance(value, str) and _BASE64URL.fullmatch(value) for value in members.values()):
        raise InvalidProof("a member of `jwk` is missing or no base64url", ProofFault.MALFORMED)
    return _base64url(sha256(orjson.dumps(members, option=orjson.OPT_SORT_KEYS)).digest())


def _check_request(claims: Mapping[str, Any], method: str, url: str) -> str:
    """Returns the request's URL in the spelling that is compared."""
    if claims.get("htm") != method:
        raise InvalidProof("`htm` is another method", ProofFault.OTHER)
    htu = claims.get("htu")
    if not isinstance(htu, str):
        raise InvalidProof("`htu` is missing or not a string", ProofFault.MALFORMED)
    target = comparable(url)
    if target is None or comparable(htu) != target:
        raise InvalidProof("`htu` is another URL", ProofFault.OTHER)
    return target


def _check_token(claims: Mapping[str, Any], token: str) -> None:
    if claims.get("ath") != _base64url(sha256(token.encode()).digest()).decode():
        raise InvalidProof("`ath` is that of another token", ProofFault.OTHER)


def _jti(claims: Mapping[str, Any]) -> str:
    jti = claims.get("jti")
    if not isinstance(jti, str) or not 0 < len(jti) <= LONGEST_JTI:
        raise InvalidProof("`jti` is missing, too long or not a string", ProofFault.MALFORMED)
    return jti


def _check_age(claims: Mapping[str, Any], max_age: float, now: float) -> float:
    """Returns when the proof will be too old."""
    iat = claims.get("iat")
    if isinstance(iat, bool) or not isinstance(iat, int | float):
        raise InvalidProof("`iat` is missing or not a number", ProofFault.MALFORMED)
    # Compared before any conversion: an int may be too large to become a float.
    if not now - max_age <= iat <= now + SKEW:
        raise InvalidProof("`iat` is too long ago or in the future", ProofFault.AGE)
    return float(iat) + max_age


def _name(thumbprint: str, jti: str, target: str) -> bytes:
    """What a proof is remembered by: its `jti`, unique for its key and target (RFC 9449 §11.1)."""
    digests = (sha256(part.encode()).digest() for part in ("DPoP proof", thumbprint, jti, target))
    return sha256(b"".join(digests)).digest()


def _base64url(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
