"""Signature algorithms.

Owns: which JWS algorithms exist for us, and which kind of key each one needs.
Never: symmetric algorithms or `none`; there is no row for them, so no setting can allow them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import Algorithm as Method
from jwt.algorithms import get_default_algorithms

PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

_METHODS = get_default_algorithms()


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One JWS algorithm: the `kty` and, where it matters, the curves its keys have."""

    method: Method
    kty: str
    curves: frozenset[str] = frozenset()


# RFC 7518 §3.1, RFC 8037 §3.1, RFC 9864 §2.2. An EC algorithm belongs to exactly one curve.
ALGORITHMS: Mapping[str, Algorithm] = {
    "RS256": Algorithm(_METHODS["RS256"], "RSA"),
    "RS384": Algorithm(_METHODS["RS384"], "RSA"),
    "RS512": Algorithm(_METHODS["RS512"], "RSA"),
    "PS256": Algorithm(_METHODS["PS256"], "RSA"),
    "PS384": Algorithm(_METHODS["PS384"], "RSA"),
    "PS512": Algorithm(_METHODS["PS512"], "RSA"),
    "ES256": Algorithm(_METHODS["ES256"], "EC", frozenset({"P-256"})),
    "ES384": Algorithm(_METHODS["ES384"], "EC", frozenset({"P-384"})),
    "ES512": Algorithm(_METHODS["ES512"], "EC", frozenset({"P-521"})),
    "EdDSA": Algorithm(_METHODS["EdDSA"], "OKP", frozenset({"Ed25519", "Ed448"})),
    "Ed25519": Algorithm(_METHODS["EdDSA"], "OKP", frozenset({"Ed25519"})),
    "Ed448": Algorithm(_METHODS["EdDSA"], "OKP", frozenset({"Ed448"})),
}


def algorithms_for(kty: object, curve: object) -> frozenset[str]:
    """The algorithms a key of this type and curve can verify; empty for one we do not know."""
    return frozenset(
        name
        for name, algorithm in ALGORITHMS.items()
        if algorithm.kty == kty and (not algorithm.curves or str(curve) in algorithm.curves)
    )


def read_public_key(kty: str, members: Mapping[str, str]) -> PublicKey:
    """The key of a JWK's public members. Raises ValueError, PyJWTError or UnsupportedAlgorithm."""
    method = next(algorithm.method for algorithm in ALGORITHMS.values() if algorithm.kty == kty)
    return cast(PublicKey, method.from_jwk({"kty": kty, **members}))


def verifies(algorithm: str, key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is one of `message` by `key`. `algorithm` must fit the key."""
    return ALGORITHMS[algorithm].method.verify(message, key, signature)
