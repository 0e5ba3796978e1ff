"""Asking an issuer for its keys, once.

Owns: which addresses may be asked, discovery, and the limits on an answer.
Never: keeps anything, retries, or follows a redirect.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import Final

import aiohttp
import jiter
from yarl import URL

from sidecar.config import Issuer
from sidecar.identity.jwks import KeySet, read_key_set

ANSWER_LIMIT: Final = 2**20  # bytes, decompressed
TIME_LIMIT: Final = 5.0  # seconds, for discovery and keys together


class Unobtainable(Exception):
    """An issuer's keys could not be fetched; says why, for operators."""


def addresses(issuer: Issuer) -> tuple[URL, ...]:
    """Where to begin: `jwks_uri`, or else the metadata addresses in the order to try.

    OpenID Connect Discovery §4.1 appends its suffix to the issuer; RFC 8414 §3.1 inserts its own
    before the issuer's path. Raises ValueError for an address that may not be used.
    """
    if issuer.jwks_uri is not None:
        return (_checked(issuer.jwks_uri, http=issuer.allow_http, loopback=True),)
    base = _checked(issuer.issuer, http=issuer.allow_http, loopback=True)
    if base.raw_query_string:
        raise ValueError(f"`{issuer.issuer}` has a query, so its metadata cannot be discovered")
    path = base.raw_path.removesuffix("/")
    return tuple(
        URL(f"{base.origin()}{suffixed}", encoded=True)
        for suffixed in (
            f"{path}/.well-known/openid-configuration",
            f"/.well-known/oauth-authorization-server{path}",
        )
    )


async def fetch_key_set(session: aiohttp.ClientSession, issuer: Issuer) -> KeySet:
    """The issuer's usable keys as they are now. Raises Unobtainable, within TIME_LIMIT."""
    try:
        async with asyncio.timeout(TIME_LIMIT):
            begin = addresses(issuer)
            where = begin[0] if issuer.jwks_uri is not None else await _discover(session, issuer, begin)
            return read_key_set(await _get(session, where), frozenset(issuer.algorithms))
    except TimeoutError:
        raise Unobtainable(f"no answer within {TIME_LIMIT:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unobtainable(f"{type(error).__name__}: {error}") from error


async def _discover(session: aiohttp.ClientSession, issuer: Issuer, places: tuple[URL, ...]) -> URL:
    problems = []
    for place in places:
        try:
            return _keys_address(issuer, await _get(session, place))
        except (aiohttp.ClientError, ValueError) as error:
            problems.append(f"`{place}`: {error}")
    raise ValueError("; ".join(problems))


def _keys_address(issuer: Issuer, metadata: object) -> URL:
    # Invariant: metadata that names another issuer is not this one's (RFC 8414 §3.3).
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer.issuer:
        raise ValueError("the metadata names another issuer")
    where = metadata.get("jwks_uri")
    if not isinstance(where, str):
        raise ValueError("the metadata has no `jwks_uri`")
    # An issuer on https cannot send us back to plain http, not even to our own loopback.
    return _checked(where, http=issuer.allow_http, loopback=URL(issuer.issuer).scheme == "http")


def _checked(text: str, *, http: bool, loopback: bool) -> URL:
    """`text` as an address that may be asked: https, or http where allowed or (if `loopback`) local."""
    url = URL(text)
    if not url.host or url.user is not None or url.password is not None or url.fragment:
        raise ValueError(f"`{text}` is not a plain web address")
    if url.scheme == "https" or (url.scheme == "http" and (http or (loopback and _is_loopback(url.host)))):
        return url
    raise ValueError(f"`{text}` must be https (http only on loopback or with `allow_http: true`)")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _get(session: aiohttp.ClientSession, url: URL) -> object:
    async with session.get(url, allow_redirects=False, headers={"Accept": "application/json"}) as response:
        if response.status != 200:
            raise ValueError(f"answered {response.status}")
        body = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            body += chunk
            if len(body) > ANSWER_LIMIT:
                raise ValueError(f"answered more than {ANSWER_LIMIT} bytes")
    document: object = jiter.from_json(bytes(body), allow_inf_nan=False, catch_duplicate_keys=True)
    return document
