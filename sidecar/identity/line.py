"""The line to one issuer: how it may be asked anything.

Owns: which addresses may be asked, whose certificates count there, the way through a proxy, and the limits on an answer.
Never: keeps an answer, follows a redirect, or takes a credential from `~/.netrc`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import jiter
from yarl import URL

from sidecar import config
from sidecar.identity.proxies import is_loopback, proxy_for
from sidecar.identity.watched import WatchedFile

ANSWER_LIMIT: Final = 2**20  # bytes, decompressed
ERROR_LIMIT: Final = 4096  # bytes of an error that are looked at
TIME_LIMIT: Final = 5.0  # seconds, for discovery and what it led to together
KEEP_ALIVE: Final = 4.0  # seconds; below the 5 after which Node's and uvicorn's servers hang up


class Unobtainable(Exception):
    """An issuer did not answer as it should; says why, for operators."""


class Answered(ValueError):
    """An answer without a document. `error` is OAuth's word for why, where there is one (RFC 6749 §5.2)."""

    def __init__(self, status: int, error: str = "") -> None:
        super().__init__(f"answered {status}")
        self.status = status
        self.error = error


@asynccontextmanager
async def within_limits() -> AsyncIterator[None]:
    """Bound what is done inside by TIME_LIMIT, and turn its failures into Unobtainable."""
    try:
        async with asyncio.timeout(TIME_LIMIT):
            yield
    except TimeoutError:
        raise Unobtainable(f"no answer within {TIME_LIMIT:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # Without its cause: what aiohttp raises holds the request's headers, our secret among them.
        raise Unobtainable(f"{type(error).__name__}: {error}") from None


def open_session(kept: int = 0) -> aiohttp.ClientSession:
    """A session for `Line`. Up to `kept` connections are opened and kept alive; with 0 each is closed."""
    connector = (
        aiohttp.TCPConnector(limit=kept, keepalive_timeout=KEEP_ALIVE)
        if kept
        else aiohttp.TCPConnector(force_close=True)
    )
    # `trust_env` would read `~/.netrc` as well; proxies are found by `proxy_for`.
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


class Line:
    """Asks one issuer. Failures are aiohttp's, OSError or ValueError: see `within_limits`."""

    def __init__(self, issuer: config.Issuer, session: Callable[[], aiohttp.ClientSession]) -> None:
        self.issuer = issuer
        self._session = session
        self._authorities = None if issuer.ca_file is None else authorities(issuer.ca_file)

    async def get(self, url: URL) -> object:
        """The JSON document at `url`. Raises Answered for any status but 200."""
        return await self._ask("GET", url, {})

    async def post(self, url: URL, form: Mapping[str, str], authorization: str) -> object:
        """The JSON document `url` answers a form with. Raises Answered for any status but 200."""
        headers = {
            "Authorization": authorization,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return await self._ask("POST", url, headers, urlencode(form).encode())

    async def _ask(self, method: str, url: URL, headers: dict[str, str], body: bytes | None = None) -> object:
        # The system's authorities unless the policy names others, and then these alone.
        trust = True if self._authorities is None else self._authorities.standing()
        headers = {"Accept": "application/json", **headers}
        options = _by_proxy(url, headers)
        async with self._session().request(
            method, url, headers=headers, data=body, ssl=trust, allow_redirects=False, **options
        ) as response:
            if response.status != 200:
                raise Answered(response.status, _oauth_error(await response.content.read(ERROR_LIMIT)))
            raw = bytearray()
            async for chunk in response.content.iter_chunked(2**16):
                raw += chunk
                if len(raw) > ANSWER_LIMIT:
                    raise ValueError(f"answered more than {ANSWER_LIMIT} bytes")
        return read_document(bytes(raw))


def read_document(raw: bytes) -> object:
    """Strict JSON: what two readers could read differently is not read. Raises ValueError."""
    document: object = jiter.from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    return document


def _oauth_error(raw: bytes) -> str:
    try:
        document = read_document(raw)
    except ValueError:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, str) else ""


def authorities(path: str) -> WatchedFile[ssl.SSLContext]:
    """A TLS context for clients in which only the authorities of a PEM file count."""
    return WatchedFile(path, _read_authorities)


def checked(text: str, *, http: bool, loopback: bool) -> URL:
    """`text` as an address that may be asked: https, or http where allowed or (if `loopback`) local.

    Raises ValueError.
    """
    url = URL(text)
    if not url.host or url.user is not None or url.password is not None or url.fragment:
        raise ValueError(f"`{text}` is not a plain web address")
    if url.scheme == "https" or (url.scheme == "http" and (http or (loopback and is_loopback(url.host)))):
        return url
    raise ValueError(f"`{text}` must be https (http only on loopback or with `allow_http: true`)")


def _by_proxy(url: URL, headers: dict[str, str]) -> dict[str, Any]:
    """aiohttp's arguments for the proxy on the way. A proxy's credential goes to the proxy alone."""
    proxy = proxy_for(url, config.proxies_in_environment())
    if proxy is None:
        return {}
    if not proxy.authorization:
        return {"proxy": proxy.url}
    credential = {"Proxy-Authorization": proxy.authorization}
    if url.scheme == "https":  # sent with CONNECT, outside the tunnel
        return {"proxy": proxy.url, "proxy_headers": credential}
    headers |= credential  # the proxy reads the request itself, and takes this off
    return {"proxy": proxy.url}


def _read_authorities(raw: bytes) -> ssl.SSLContext:
    # Not `create_default_context`: given nothing it would trust the system's authorities. This one trusts
    # nobody, and fails where there is no certificate to add.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_verify_locations(cadata=raw.decode("ascii", "ignore"))  # comments may be in any language
    except (ssl.SSLError, ValueError):
        raise ValueError("has no certificates that can be read (PEM)") from None
    return context
