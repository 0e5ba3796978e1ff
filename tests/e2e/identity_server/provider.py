"""A real identity server: the npm package `oidc-provider`, over TLS on loopback.

Owns: starting and stopping it, steering it, and getting tokens from it as clients and people do.
Never: makes a token itself.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPSHandler, ProxyHandler, build_opener

from tests.certificates import Authority
from tests.dpop import ProofKey
from tests.e2e.deployment import READ, SCRIPTS, WRITE, environment, line_of, process
from tests.e2e.wire import Request
from tests.issuer import b64

Shown: TypeAlias = tuple[str, str]  # the paths of a client certificate and its key

TIMEOUT: Final = 20.0  # seconds for one answer of the provider
SCOPES: Final = f"{WRITE} {READ}"


@dataclass(frozen=True, slots=True)
class Client:
    """A confidential client. Its id and secret are written as RFC 6749 §2.3.1 asks for: form-encoded, then in Basic."""

    id: str
    secret: str

    @property
    def authorization(self) -> str:
        pair = f"{quote(self.id, safe='')}:{quote(self.secret, safe='')}"
        return f"Basic {b64encode(pair.encode()).decode()}"


# People log in through it; it calls in its own name, too.
APP: Final = Client("planner", "a secret of planner")
BOUND_APP: Final = Client("planner-with-certificate", "a secret of that one")
# What has to be encoded in Basic: an id that is a URL, a secret with every sign that means something.
SIDECAR: Final = Client("https://agents.test/sidecar", "50% + a:b&c=d/~")

CODE_GRANTS: Final = ["client_credentials", "authorization_code", "refresh_token"]


class Refused(Exception):
    """The provider refused a request. The message is its answer."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A running provider. `issuer` is its `iss`, `authority` vouches for its server."""

    issuer: str
    control: str
    authority: Authority

    def asked(self, path: str) -> int:
        """How often `path`, query included, was asked for."""
        return int(self.order("asked").get(path, 0))

    def order(self, what: str, **more: str) -> Any:
        """`rotate`: sign with a new key, the old ones stay published. `withdraw`: publish the newest only.

        `down`, `up`: stop and begin to listen. `asked`: how often each address was asked for.
        `secret`: the client `id` has the secret `secret` from now on.
        """
        with _opener().open(f"{self.control}/{what}?{urlencode(more)}", timeout=TIMEOUT) as reply:
            return json.load(reply)

    def client_token(self, resource: str, client: Client = APP, **how: Any) -> str:
        """An access token a client gets in its own name (RFC 6749 §4.4, RFC 8707)."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": SCOPES}
        return str(self.tokens(form, client, **how)["access_token"])

    def login(
        self, subject: str, resource: str | None, client: Client = APP, scope: str = SCOPES, **how: Any
    ) -> dict[str, Any]:
        """`subject` logs in and agrees (OpenID Connect Core §3.1, with PKCE): the tokens the client then has."""
        verifier = b64(bytes(32))
        asked = {
            "client_id": client.id,
            "response_type": "code",
            "redirect_uri": f"{self.control}/callback",
            "scope": f"openid offline_access {scope}".strip(),
            "prompt": "login consent",
            "login_hint": subject,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        } | ({} if resource is None else {"resource": resource})
        browser = _opener(self.authority.trusting())
        with browser.open(f"{self.issuer}/auth?{urlencode(asked)}", timeout=TIMEOUT) as page:
            came_back = parse_qs(urlsplit(page.geturl()).query)
        if "code" not in came_back:
            raise Refused(str(came_back))
        form = {
            "grant_type": "authorization_code",
            "code": came_back["code"][0],
            "redirect_uri": asked["redirect_uri"],
            "code_verifier": verifier,
        }
        return self.tokens(form, client, **how)

    def refresh(self, tokens: Mapping[str, Any], client: Client = APP, **how: Any) -> dict[str, Any]:
        """New tokens for the refresh token of earlier ones (RFC 6749 §6)."""
        form = {"grant_type": "refresh_token", "refresh_token": str(tokens["refresh_token"])}
        return self.tokens(form, client, **how)

    def revoke(self, token: str, client: Client = APP) -> None:
        """RFC 7009."""
        self._post("/token/revocation", {"token": token}, client)

    def introspect(self, token: str) -> dict[str, Any]:
        """What the provider says of a token, as the sidecar hears it (RFC 7662)."""
        return json.loads(self._post("/token/introspection", {"token": token}, SIDECAR))  # type: ignore[no-any-return]

    def userinfo(self, token: str) -> str:
        """The signed answer of the userinfo endpoint, a JWT (OpenID Connect Core §5.3.2)."""
        return self._ask("GET", "/me", {"Authorization": f"Bearer {token}"}).decode()

    def independent_client(self, folder: Path, resource: str, url: str, requests: Sequence[Request]) -> Any:
        """What a client on `oauth4webapi` saw that proves its key, see `dpop_client.mjs`."""
        order = {
            "issuer": self.issuer,
            "client_id": APP.id,
            "client_secret": APP.secret,
            "resource": resource,
            "scope": SCOPES,
            "url": url,
            "headers": dict(requests[0].headers),
            "bodies": [each.body.decode() for each in requests],
        }
        trusted = self.authority.write(folder / "client-trusts.pem")
        log = folder / "client.log"
        environ = {"ORDER": json.dumps(order), "NODE_EXTRA_CA_CERTS": trusted}
        with process(_script("dpop_client.mjs"), log, **environ) as started:
            return json.loads(line_of(started, log))

    def tokens(
        self,
        form: Mapping[str, str],
        client: Client,
        *,
        key: ProofKey | None = None,
        certificate: Shown | None = None,
    ) -> dict[str, Any]:
        """An answer of the token endpoint; bound to a DPoP key or a client certificate where one is given."""
        proved = {} if key is None else {"DPoP": key.proof("POST", f"{self.issuer}/token", "", ath=...)}
        return json.loads(self._post("/token", form, client, proved, certificate))  # type: ignore[no-any-return]

    def _post(
        self,
        path: str,
        form: Mapping[str, str],
        client: Client,
        headers: Mapping[str, str] | None = None,
        certificate: Shown | None = None,
    ) -> bytes:
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": client.authorization,
        } | dict(headers or {})
        return self._ask("POST", path, headers, urlencode(form), certificate)

    def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: str | None = None,
        certificate: Shown | None = None,
    ) -> bytes:
        connection = HTTPSConnection(
            self.issuer.removeprefix("https://"),
            timeout=TIMEOUT,
            context=self.authority.trusting(certificate),
        )
        try:
            connection.request(method, path, body, dict(headers))
            reply = connection.getresponse()
            said = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            raise Refused(f"{method} {path}: {reply.status} {said.decode()}")
        return said


@contextmanager
def running(folder: Path) -> Iterator[Provider]:
    """A provider that listens; gone when left. Skips the test, or fails it in CI, where Node is missing."""
    authority = Authority()
    server = authority.server()
    tls = {
        "cert": server.chain_pem.decode(),
        "key": server.key_pem().decode(),
        "ca": authority.issued.pem.decode(),
    }
    settings = folder / "provider.json"
    settings.write_text(json.dumps({"tls": tls, "clients": _clients(), "scopes": SCOPES}))
    log = folder / "provider.log"
    with process(_script("provider.mjs"), log, SETTINGS=str(settings)) as started:
        said = json.loads(line_of(started, log))
        yield Provider(said["issuer"], said["control"], authority)


def _script(name: str) -> list[str]:
    return environment("oidc-provider").command(SCRIPTS / "identity_server" / name)


def _clients() -> list[dict[str, Any]]:
    basic = {"token_endpoint_auth_method": "client_secret_basic"}
    app = basic | {
        "application_type": "native",  # so that it may come back to loopback (RFC 8252 §7.3)
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": CODE_GRANTS,
        "response_types": ["code"],
        "userinfo_signed_response_alg": "RS256",
    }
    bound = {"tls_client_certificate_bound_access_tokens": True}
    asks: dict[str, Any] = basic | {"grant_types": [], "redirect_uris": [], "response_types": []}
    return [
        {"client_id": client.id, "client_secret": client.secret, **metadata}
        for client, metadata in ((APP, app), (BOUND_APP, app | bound), (SIDECAR, asks))
    ]


def _opener(context: ssl.SSLContext | None = None) -> Any:
    """What follows redirects and keeps cookies, as a browser does; never by way of a proxy."""
    return build_opener(ProxyHandler({}), HTTPSHandler(context=context), HTTPCookieProcessor())


def _challenge(verifier: str) -> str:
    return b64(sha256(verifier.encode()).digest())
