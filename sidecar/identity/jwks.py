"""JSON Web Key Sets.

Owns: a fetched document → the keys of it that can verify an issuer's tokens.
Never: awaits, or keeps private and symmetric members of a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.exceptions import PyJWTError

from sidecar.identity.algorithms import PublicKey, algorithms_for, read_public_key

MAX_KEYS = 256
RSA_BITS = range(2048, 8193)  # below: forgeable (RFC 7518 §3.3); above: a verification costs milliseconds

# RFC 7518 §6, RFC 8037 §2: the public members of each key type, and how long each may be.
# An RSA exponent past 64 bits makes every verification slow and nobody has one.
PUBLIC_MEMBERS: Mapping[str, Mapping[str, int]] = {
    "RSA": {"n": 1400, "e": 12},
    "EC": {"crv": 16, "x": 100, "y": 100},
    "OKP": {"crv": 16, "x": 100},
}


@dataclass(frozen=True, slots=True)
class Key:
    """One public key. `algorithms` are those it may verify for its issuer; `material` is DER (SPKI)."""

    kid: str | None
    algorithms: frozenset[str]
    material: bytes = field(repr=False)
    public: PublicKey = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """What an issuer published at one time. Two sets are compared by `keys`; an instance stands for its time."""

    keys: frozenset[Key]

    def fitting(self, kid: str | None, algorithm: str) -> tuple[Key, ...]:
        """The keys a token may have been signed with; without a `kid`, only where there is no choice."""
        fit = [key for key in self.keys if algorithm in key.algorithms]
        if kid is None:
            return tuple(fit[:1]) if len({key.material for key in fit}) == 1 else ()
        return tuple(key for key in fit if key.kid == kid)


def read_key_set(document: object, algorithms: frozenset[str]) -> KeySet:
    """The usable keys of a JWK Set (RFC 7517 §5); unusable ones are skipped, as §5 asks.

    Raises ValueError if the document is no set, or no key of it is usable with `algorithms`.
    """
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a JSON Web Key Set")
    if len(entries) > MAX_KEYS:
        raise ValueError(f"more than {MAX_KEYS} keys in one set")
    keys = frozenset(key for entry in entries if (key := read_key(entry, algorithms)))
    if not keys:
        raise ValueError(f"no key for {', '.join(sorted(algorithms))} in the set")
    return KeySet(keys)


def read_key(entry: object, allowed: frozenset[str]) -> Key | None:
    """The public key of one JWK, for those of `allowed` it can verify; None where it is of no use."""
    if not isinstance(entry, dict) or not _meant_for_signatures(entry):
        return None
    kid, kty = entry.get("kid"), entry.get("kty")
    fit = algorithms_for(kty, entry.get("crv")) & allowed
    if "alg" in entry:  # RFC 7517 §4.4: then the key is for that algorithm alone
        fit &= {entry["alg"]} if isinstance(entry["alg"], str) else frozenset()
    if not fit or not isinstance(kid, str | None):
        return None
    public = _public_key(str(kty), entry)
    if public is None:
        return None
    return Key(kid, fit, public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), public)


def _meant_for_signatures(entry: Mapping[str, object]) -> bool:
    """RFC 7517 §4.2 and §4.3."""
    operations = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _public_key(kty: str, entry: Mapping[str, object]) -> PublicKey | None:
    members: dict[str, str] = {}
    for name, longest in PUBLIC_MEMBERS[kty].items():
        value = entry.get(name)
        if not isinstance(value, str) or len(value) > longest:
            return None
        members[name] = value
    try:
        public = read_public_key(kty, members)
    except (ValueError, PyJWTError, UnsupportedAlgorithm):
        return None
    if isinstance(public, RSAPublicKey) and public.key_size not in RSA_BITS:
        return None
    return public
