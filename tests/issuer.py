"""A real token issuer on loopback: discovery, keys, tokens, introspection, and every way to misbehave.

Owns: an HTTP(S) server on a free port that publishes keys and tells of tokens, and minting of tokens, honest and forged.
Never: leaves the machine; knows nothing of the sidecar.

    async with Issuer() as idp:
        token = idp.mint(sub="alice", scope="tasks:read tasks:write")
        settings = {"issuer": idp.url, "audiences": ["agent"]}
"""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import time
from base64 import b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote_plus
from uuid import uuid4

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

METHODS = get_default_algorithms()
TAKEN: set[int] = set()  # slots of live issuers: no two of them share a key
METADATA = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")


@functools.cache
def private_key(alg: str, number: int = 0) -> Any:
    """A private key for `alg`. The same number gives the same key, since RSA keys are slow to make."""
    if alg.startswith("ES"):
        return ec.generate_private_key(
            {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}[alg]
        )
    if alg.startswith("Ed"):
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def b64(raw: bytes) -> str:
    """Unpadded base64url."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def jwk(key: Any, **members: Any) -> dict[str, Any]:
    """The public JWK of a private key, with `members` added (`kid`, `use`, …)."""
    kind = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "EdDSA"
    kind = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else kind
    public = METHODS[kind].to_jwk(key.public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {**public, **members}


def sign(
    payload: dict[str, Any] | bytes,
    key: Any,
    alg: str = "RS256",
    header: dict[str, Any] | bytes | None = None,
) -> str:
    """A compact JWS of exactly this header and payload, valid or not. Bytes go in as they are."""
    head = {"alg": alg} if header is None else header
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (head, payload)]
    signed = ".".join(b64(part) for part in parts)
    return f"{signed}.{b64(METHODS[alg].sign(signed.encode(), key))}"


@dataclass
class Signer:
    """A key the issuer signs with."""

    kid: str
    alg: str
    key: Any


class Issuer:
    """An issuer that listens. `behaviour` tells how key and metadata requests are answered:

    `ok`, `500`, `html`, `empty` (no keys), `invalid` (not a set), `twins` (a repeated JSON key),
    `redirect` (to where the keys are), `huge` (past 1 MiB), `drop` (the connection is closed).
    `introspecting` does the same for introspection, and may be `drop once`, or any other status or JSON text to answer.
    `tls` makes it an https issuer; `host` is what it calls itself, wherever that leads.
    """

    def __init__(
        self,
        *,
        path: str = "",
        audience: str = "agent",
        alg: str = "RS256",
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.path = path
        self.audience = audience
        self.behaviour = "ok"
        self.introspecting = "ok"
        self.clients = {"sidecar": "its secret"}  # who may ask about tokens
        self.opaque: dict[str, dict[str, Any]] = {}  # what is told of opaque tokens
        self.questions: list[str] = []  # tokens asked about, in order of arrival
        self.headers: list[dict[str, str]] = []  # of all requests
        self.requests: list[str] = []  # paths, in order of arrival
        self.metadata_at = METADATA  # which of the two well-known documents exist
        self.metadata: dict[str, Any] = {}  # overrides of members
        self.open = asyncio.Event()  # cleared: requests wait, as at a slow issuer
        self.open.set()
        self.signers: list[Signer] = []
        self.published: list[dict[str, Any]] = []
        self._slot = next(slot for slot in range(1000) if slot not in TAKEN)
        TAKEN.add(self._slot)
        self._port = 0
        self._tls = tls
        self._host = host
        self._runner: web.AppRunner | None = None
        self.rotate(alg=alg)

    # --- serving -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        TAKEN.discard(self._slot)
        await self.down()

    async def up(self) -> None:
        """Listen, on the same port as before if there was one."""
        app = web.Application()
        app.router.add_get("/{anything:.*}", self._answer)
        app.router.add_post("/introspect", self._introspect)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True, ssl_context=self._tls)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def down(self) -> None:
        """Stop listening: connections are refused."""
        if self._runner is not None:
            self.open.set()
            await self._runner.cleanup()
            self._runner = None

    @property
    def origin(self) -> str:
        return f"http{'s' if self._tls else ''}://{self._host}:{self._port}"

    @property
    def url(self) -> str:
        """The issuer identifier, `iss`."""
        return self.origin + self.path

    @property
    def jwks_uri(self) -> str:
        return f"{self.origin}/keys"

    @property
    def introspection_endpoint(self) -> str:
        return f"{self.origin}/introspect"

    @property
    def fetches(self) -> int:
        """How often the keys were asked for."""
        return self.requests.count("/keys")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        self.headers.append(dict(request.headers))
        await self.open.wait()
        return self._misbehave(request, self.behaviour) or self._document(request.path)

    def _misbehave(self, request: web.Request, behaviour: str) -> web.Response | None:
        match behaviour:
            case "500":
                return web.Response(status=500)
            case "html":
                return web.Response(text="<html>sign in</html>", content_type="text/html")
            case "huge":
                return web.json_response({"keys": self.published, "padding": "x" * 2**20})
            case "drop":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case "redirect" if request.path != "/moved":
                return web.Response(status=302, headers={"Location": "/moved"})
        return None

    async def _introspect(self, request: web.Request) -> web.StreamResponse:
        """RFC 7662 §2."""
        self.requests.append(request.path)
        self.headers.append(dict(request.headers))
        form = await request.post()
        token = str(form["token"])
        self.questions.append(token)
        await self.open.wait()
        if self.introspecting == "drop once":
            self.introspecting = "ok"
            return self._misbehave(request, "drop") or web.Response()
        if self.introspecting.isdecimal():
            return web.Response(status=int(self.introspecting))
        if wrong := self._misbehave(request, self.introspecting):
            return wrong
        if self.introspecting != "ok":
            return web.Response(text=self.introspecting, content_type="application/json")
        scheme, _, credentials = request.headers["Authorization"].partition(" ")
        name, _, secret = b64decode(credentials).decode().partition(":")
        if scheme != "Basic" or self.clients.get(unquote_plus(name)) != unquote_plus(secret):
            return web.json_response({"error": "invalid_client"}, status=401)
        return web.json_response(self.opaque.get(token, {"active": False}))

    def _document(self, path: str) -> web.Response:
        if path in ("/keys", "/moved"):
            match self.behaviour:
                case "empty":
                    return web.json_response({"keys": []})
                case "invalid":
                    return web.json_response(["keys"])
                case "twins":
                    return web.Response(text=f'{{"keys": [], "keys": {json.dumps(self.published)}}}')
            return web.json_response({"keys": self.published})
        bare = self.path.removesuffix("/")
        # OpenID Connect Discovery §4.1 appends to the issuer's path, RFC 8414 §3.1 puts it last.
        places = dict(zip(METADATA, (bare + METADATA[0], METADATA[1] + bare), strict=True))
        if path in {places[name] for name in self.metadata_at}:
            usual = {"jwks_uri": self.jwks_uri, "introspection_endpoint": self.introspection_endpoint}
            return web.json_response({"issuer": self.url, **usual, **self.metadata})
        return web.Response(status=404)

    # --- keys --------------------------------------------------------------------------------

    def rotate(self, alg: str = "RS256", *, publish: bool = True, kid: str | None = None) -> str:
        """Sign with a new key from now on; the old ones stay published. Returns its `kid`."""
        number = len(self.signers)  # kids repeat between issuers on purpose, keys never do
        signer = Signer(kid or f"key-{number}", alg, private_key(alg, 100 * self._slot + number))
        self.signers.append(signer)
        if publish:
            self.publish(signer.kid)
        return signer.kid

    def publish(self, kid: str, **members: Any) -> None:
        """Publish the key `kid`, with `members` added to its JWK."""
        signer = self._signer(kid)
        self.published.append(jwk(signer.key, kid=kid, use="sig", **members))

    def withdraw(self, kid: str) -> None:
        """Publish the key `kid` no longer."""
        self.published = [key for key in self.published if key.get("kid") != kid]

    def _signer(self, kid: str | None) -> Signer:
        return next((signer for signer in self.signers if signer.kid == kid), self.signers[-1])

    # --- tokens ------------------------------------------------------------------------------

    def claims(self, **claims: Any) -> dict[str, Any]:
        """The claims of an ordinary access token, with `claims` over them; `...` leaves one out."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "alice", "aud": self.audience, "iat": now, "exp": now + 600}
        return {name: value for name, value in (usual | claims).items() if value is not ...}

    def mint(self, *, kid: str | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """An access token, signed by the key `kid` or the newest; `...` leaves out a member or claim."""
        signer = self._signer(kid)
        head = {"alg": signer.alg, "typ": "at+jwt", "kid": kid or signer.kid} | (header or {})
        head = {name: value for name, value in head.items() if value is not ...}
        return sign(self.claims(**claims), signer.key, signer.alg, head)

    def mint_opaque(self, **claims: Any) -> str:
        """An access token that only introspection tells of; `...` leaves out a member of the answer."""
        token = f"opaque-{uuid4().hex}"
        self.opaque[token] = self.claims(**{"active": True} | claims)
        return token

    def revoke(self, token: str) -> None:
        """Tell of an opaque token that it is not active."""
        del self.opaque[token]
