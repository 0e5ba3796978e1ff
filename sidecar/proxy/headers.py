"""Which headers go on, both ways. Pure.

Owns: hop-by-hop, forwarded, routing and identity headers (RFC 9110 §7.6.1; field cases of kinds 2 and 3).
Never: trusts inbound identity, or adds any (onward.py does).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.model import Reason, Refused

SERVER = "a2a-sidecar"

HOP_BY_HOP = frozenset(
    {
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

# Ours to say, or made anew for the next hop.
_REPLACED = frozenset({"host", "content-length", "expect", "accept-encoding"})

# A header that names another path, verb, host, address or caller than the ones judged, as well-known servers,
# frameworks and authenticating proxies read them. Compared with `_` read as `-`, because CGI-style frameworks
# fold the two; prefixes end in `-`.
_CLAIMED = frozenset(
    {
        *("forwarded", "x-forwarded", "x-host", "x-method-override", "x-script-name", "x-waws-unencoded-url"),
        *("x-original-host", "x-original-method", "x-original-path", "x-original-uri", "x-original-url"),
        *("x-rewrite-uri", "x-rewrite-url"),
        *("x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip"),
        *(
            "x-user",
            "x-user-id",
            "x-user-email",
            "x-username",
            "x-userinfo",
            "x-email",
            "x-groups",
            "x-auth-user",
        ),
        *(
            "x-tenant",
            "x-tenant-id",
            "x-scope-orgid",
            "x-verified-subject",
            "x-jwt-payload",
            "x-credential-identifier",
        ),
        *("x-endpoint-api-userinfo", "x-apigateway-api-userinfo", "x-client-dn", "x-ssl-cert"),
        *("client-cert", "client-cert-chain", "x-client-cert", "ssl-client-cert", "x-ms-client-principal"),
    }
)
_CLAIMED_PREFIXES = (
    *("x-forwarded-", "x-a2a-", "x-envoy-", "x-http-"),
    *(
        "x-auth-request-",
        "x-authenticated-",
        "remote-",
        "x-remote-",
        "x-webauth-",
        "x-authentik-",
        "x-pomerium-",
    ),
    *("x-ssl-client-", "x-amzn-oidc-", "x-goog-authenticated-user-", "x-goog-iap-", "x-ms-client-principal-"),
    *("cf-access-", "tailscale-user-", "x-consumer-", "x-vouch-", "impersonate-"),
)

# 0.x names its extensions header so; it is the protocol's own.
_KEPT = frozenset({"x-a2a-extensions"})

# What another header may not remove from the request on its way, since we judged by it.
_JUDGED_BY = frozenset(
    {
        "authorization",
        "a2a-version",
        "a2a-extensions",
        "x-a2a-extensions",
        "content-type",
        "content-encoding",
        "cookie",
        "dpop",
    }
)

_CREDENTIALS = frozenset(
    {
        *("authorization", "cookie", "dpop"),
        *("x-authorization", "x-access-token", "x-id-token", "x-auth-token", "x-refresh-token"),
        *("x-ms-token-aad-access-token", "x-ms-token-aad-id-token", "x-ms-token-aad-refresh-token"),
    }
)

# What we tell agents of a verified caller begins so, in any spelling; nobody else's does.
OWN_PREFIX: Final = "x-a2a-sidecar-"

_OURS = HOP_BY_HOP | {"server", "date", "content-length"}  # the edge's own on every reply

ABOUT_A_BODY: Final = (
    *("accept", "content-encoding", "content-language", "content-type", "if-match", "if-modified-since"),
    *("if-none-match", "if-range", "if-unmodified-since", "last-event-id", "range"),
)

_ADDRESSES = frozenset({"location", "content-location"})

_ENDS_HERE = HOP_BY_HOP | _REPLACED

_ODD: Final = re.compile(r"[^a-z0-9]")

_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which of a caller's headers one agent gets: `goes_on` by name. `Connection` may list none of `judged_by`."""

    goes_on: Callable[[str], bool]
    judged_by: frozenset[str]


def sieve(*, credentials: bool, api_key: str | None) -> Sieve:
    """The sieve of an agent that gets callers' `credentials`, or none of them.

    `api_key` is the header API keys are sent in, None where nobody has one: it is a credential like the others.
    """
    own = api_key.lower() if api_key is not None else None
    key = _folded(own) if own is not None else None

    def goes_on(name: str) -> bool:
        lower = name.lower()
        folded = _folded(lower)
        if folded in _ENDS_HERE or folded.startswith(OWN_PREFIX):
            return False
        if folded == key:
            return credentials and lower == own  # its twin was not judged
        if folded in _CREDENTIALS:
            return credentials and lower == folded
        return not _claims_identity(lower, folded)

    # Names are the caller's to choose, so those remembered are bounded.
    return Sieve(lru_cache(maxsize=4096)(goes_on), _JUDGED_BY | ({own} if own is not None else set()))


def to_upstream(
    inbound: CIMultiDictProxy[str], sieve: Sieve, *, plain_reply: bool, inflated: bool
) -> CIMultiDict[str]:
    """What of a caller's headers the agent gets. Raises Refused where `Connection` lists what was judged by.

    `plain_reply` asks for a reply we can read; `inflated` says that the body lost its Content-Encoding.
    """
    goes_on = sieve.goes_on
    listed = _listed(inbound, sieve.judged_by) if "Connection" in inbound else _NONE
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in inbound.items():
        if goes_on(name) and (not listed or name.lower() not in listed):
            out.add(name, value)
    if inflated:
        out.popall("Content-Encoding", None)
    coding = "identity" if plain_reply else inbound.get("Accept-Encoding")
    if coding is not None:
        out["Accept-Encoding"] = coding
    return out


def to_downstream(inbound: CIMultiDictProxy[str], upstream: str, public_url: str) -> CIMultiDict[str]:
    """The reply headers the caller gets; Date, Server and the framing are the edge's own.

    A redirect to the agent's own address (`upstream`) leads to where callers find it (`public_url`).
    """
    dropped = _OURS
    if "Connection" in inbound:
        dropped = dropped | {
            t.strip().lower() for value in inbound.getall("Connection") for t in value.split(",")
        }
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in inbound.items():
        lower = name.lower()
        if lower in _ADDRESSES and value.startswith(upstream):
            rest = value[len(upstream) :]
            value = public_url + rest if rest[:1] in ("", "/", "?", "#") else value
        if lower not in dropped:
            out.add(name, value)
    return out


def _listed(inbound: CIMultiDictProxy[str], judged_by: frozenset[str]) -> frozenset[str]:
    listed = {token.strip().lower() for value in inbound.getall("Connection") for token in value.split(",")}
    if taken := listed & judged_by:
        raise Refused(Reason.INVALID_REQUEST, f"`Connection` may not list `{min(taken)}`")
    return frozenset(listed)


def _folded(lower: str) -> str:
    """A name as CGI-style frameworks tell names apart: some fold `-` and `_`, some whatever is no letter or digit."""
    return _ODD.sub("-", lower.strip())


def _claims_identity(lower: str, folded: str) -> bool:
    if folded != lower and folded in _JUDGED_BY:
        return True  # an underscore twin of what was judged
    return folded in _CLAIMED or (folded.startswith(_CLAIMED_PREFIXES) and lower not in _KEPT)
