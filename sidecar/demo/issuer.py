"""The token issuer of the demo: a key made at start, its JWKS over HTTP, and tokens.

Owns: the key, the discovery document, who gets which claims.
Never: writes a key or a token to disk, listens beyond loopback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

ALGORITHM: Final = "ES256"
KEY_ID: Final = "demo-1"
LIFETIME: Final = timedelta(minutes=10)


class Issuer:
    """An OAuth issuer at `url`, as far as a resource server sees one (RFC 8414, RFC 7517)."""

    def __init__(self, url: str, audience: str) -> None:
        self.url = url
        self.jwks_uri = f"{url}/jwks"
        self._audience = audience
        self._key = ec.generate_private_key(ec.SECP256R1())

    def mint(self, subject: str, chain: tuple[str, ...], scopes: tuple[str, ...]) -> str:
        """An access token (RFC 9068) for `subject`, used by the last of `chain` (RFC 8693 §4.1: `act`).

        `chain` names the agents the delegation went through, first to last; it is not empty.
        """
        now = datetime.now(UTC)
        claims: dict[str, Any] = {"iss": self.url, "aud": self._audience, "sub": subject}
        claims |= {"iat": now, "exp": now + LIFETIME, "scope": " ".join(scopes)}
        claims |= {"azp": chain[-1], "client_id": chain[-1]}
        act: dict[str, Any] = {}
        for actor in chain:  # the current actor is the outermost
            act = {"sub": actor} | ({"act": act} if act else {})
        return jwt.encode(claims | {"act": act}, self._key, ALGORITHM, {"kid": KEY_ID, "typ": "at+jwt"})

    def documents(self) -> dict[str, dict[str, Any]]:
        """What is published, by path."""
        public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        metadata = {"issuer": self.url, "jwks_uri": self.jwks_uri}
        return {
            "/.well-known/openid-configuration": metadata,
            "/jwks": {"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": ALGORITHM}]},
        }


@contextmanager
def listening(audience: str) -> Iterator[Issuer]:
    """An issuer on a free loopback port."""
    published: dict[str, dict[str, Any]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = published.get(self.path)
            body = orjson.dumps(document)
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:  # the story is the only output
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}", audience)
        published |= issuer.documents()
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
