"""A client that proves possession of its key (RFC 9449), honestly unless told otherwise.

Owns: making a key, its JWK and thumbprint, and proofs with any member replaced or left out.
Never: talks to anybody.

    key = ProofKey()
    token = idp.mint(cnf={"jkt": key.thumbprint})
    headers = {"Authorization": f"DPoP {token}", "DPoP": key.proof("POST", url, token)}
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from hashlib import sha256
from typing import Any

from tests.issuer import b64, jwk, private_key, sign

NUMBERS = itertools.count(1_000_000)  # past those of the issuers: a client has none of their keys


class ProofKey:
    """A client's key. With the same `number` the same key comes back, since RSA keys are slow to make."""

    def __init__(self, alg: str = "ES256", number: int | None = None) -> None:
        self.alg = alg
        self.private = private_key(alg, next(NUMBERS) if number is None else 2_000_000 + number)
        self.jwk: dict[str, Any] = jwk(self.private)

    @property
    def thumbprint(self) -> str:
        """What a token bound to this key has in `cnf.jkt` (RFC 7638)."""
        names = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}
        members = {name: self.jwk[name] for name in names[self.jwk["kty"]]}
        return b64(sha256(json.dumps(members, separators=(",", ":")).encode()).digest())

    def claims(self, method: str, url: str, token: str, **claims: Any) -> dict[str, Any]:
        """The claims of an honest proof, with `claims` over them; `...` leaves one out."""
        usual = {
            "jti": str(uuid.uuid4()),
            "htm": method,
            "htu": url,
            "iat": int(time.time()),
            "ath": b64(sha256(token.encode()).digest()),
        }
        return {name: value for name, value in (usual | claims).items() if value is not ...}

    def header(self, **members: Any) -> dict[str, Any]:
        """The header of an honest proof, with `members` over it; `...` leaves one out."""
        usual = {"typ": "dpop+jwt", "alg": self.alg, "jwk": self.jwk}
        return {name: value for name, value in (usual | members).items() if value is not ...}

    def proof(
        self, method: str, url: str, token: str, *, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """The value of the DPoP header."""
        payload = self.claims(method, url, token, **claims)
        return sign(payload, self.private, self.alg, self.header(**(header or {})))
