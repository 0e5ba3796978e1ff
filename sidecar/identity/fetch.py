"""Asking an issuer for its keys, once, and for where to ask it other things.

Owns: discovery, and the two places keys come from: the issuer and a file.
Never: keeps anything, or retries.
"""

from __future__ import annotations

import aiohttp
from yarl import URL

from sidecar.config import Issuer
from sidecar.identity.jwks import KeySet, read_key_set
from sidecar.identity.line import Line, checked, read_document, within_limits
from sidecar.identity.watched import WatchedFile


def addresses(issuer: Issuer) -> tuple[URL, ...]:
    """Where to begin looking for keys: `jwks_uri`, or else `metadata_addresses`; nowhere with `jwks_file`.

    Raises ValueError for an address that may not be used.
    """
    if issuer.jwks_file is not None:
        return ()
    if issuer.jwks_uri is not None:
        return (checked(issuer.jwks_uri, http=issuer.allow_http, loopback=True),)
    return metadata_addresses(issuer)


def metadata_addresses(issuer: Issuer) -> tuple[URL, ...]:
    """Where the issuer's metadata may be, in the order to try.

    OpenID Connect Discovery §4.1 appends its suffix to the issuer; RFC 8414 §3.1 inserts its own
    before the issuer's path. Raises ValueError for an address that may not be used.
    """
    base = checked(issuer.issuer, http=issuer.allow_http, loopback=True)
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


async def fetch_key_set(line: Line) -> KeySet:
    """The issuer's usable keys as they are now. Raises Unobtainable, within TIME_LIMIT."""
    issuer = line.issuer
    async with within_limits():
        begin = addresses(issuer)
        where = begin[0] if issuer.jwks_uri is not None else await discover(line, "jwks_uri")
        return read_key_set(await line.get(where), frozenset(issuer.algorithms))


def keys_file(path: str, issuer: Issuer) -> WatchedFile[KeySet]:
    """The issuer's usable keys as a file has them: a JWK Set, as `jwks_uri` would answer."""
    return WatchedFile(path, lambda raw: _read_keys(raw, issuer))


async def discover(line: Line, member: str) -> URL:
    """The address the issuer's metadata names as `member`. Failures are those of `Line`."""
    problems = []
    for place in metadata_addresses(line.issuer):
        try:
            return _named_address(line.issuer, await line.get(place), member)
        except (aiohttp.ClientError, ValueError) as error:
            problems.append(f"`{place}`: {error}")
    raise ValueError("; ".join(problems))


def _named_address(issuer: Issuer, metadata: object, member: str) -> URL:
    # Invariant: metadata that names another issuer is not this one's (RFC 8414 §3.3).
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer.issuer:
        raise ValueError("the metadata names another issuer")
    where = metadata.get(member)
    if not isinstance(where, str):
        raise ValueError(f"the metadata has no `{member}`")
    # An issuer on https cannot send us back to plain http, not even to our own loopback.
    return checked(where, http=issuer.allow_http, loopback=URL(issuer.issuer).scheme == "http")


def _read_keys(raw: bytes, issuer: Issuer) -> KeySet:
    try:
        return read_key_set(read_document(raw), frozenset(issuer.algorithms))
    except ValueError as error:
        raise ValueError(f"holds no usable keys: {error}") from None
