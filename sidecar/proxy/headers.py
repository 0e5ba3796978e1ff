"""Which headers go on, both ways. Pure.

Owns: hop-by-hop, forwarded, routing and identity headers (RFC 9110 §7.6.1; field cases of kinds 2 and 3).
Never: trusts inbound identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

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
        *("x-user", "x-user-id", "x-user-email", "x-tenant-id"),
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
    *("cf-access-", "tailscale-user-"),
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
    }
)

_CREDENTIALS = frozenset({"authorization", "cookie", "dpop"})

_OURS = HOP_BY_HOP | {"server", "date", "content-length"}  # the edge's own on every reply

_ABOUT_A_BODY = (
    *("accept", "content-encoding", "content-language", "content-type", "if-match", "if-modified-since"),
    *("if-none-match", "if-range", "if-unmodified-since", "last-event-id", "range"),
)

_ADDRESSES = frozenset({"location", "content-location"})

_DROPPED = {
    (strip, inflated): HOP_BY_HOP
    | _REPLACED
    | (_CREDENTIALS if strip else frozenset())
    | (frozenset({"content-encoding"}) if inflated else frozenset())
    for strip in (False, True)
    for inflated in (False, True)
}


def to_upstream(
    inbound: CIMultiDictProxy[str], *, strip_credentials: bool, plain_reply: bool, inflated: bool
) -> CIMultiDict[str]:
    """The request headers the agent gets. Raises Refused where `Connection` lists what was judged by.

    `plain_reply` asks for a reply we can read; `inflated` says that the body lost its Content-Encoding.
    """
    dropped = _DROPPED[strip_credentials, inflated]
    if "Connection" in inbound:
        dropped = dropped | _listed(inbound)
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in inbound.items():
        lower = name.lower()
        if lower not in dropped and not _claims_identity(lower):
            out.add(name, value)
    coding = "identity" if plain_reply else inbound.get("Accept-Encoding")
    if coding is not None:
        out["Accept-Encoding"] = coding
    return out


def for_own_request(
    inbound: CIMultiDictProxy[str], own: Mapping[str, str], *, strip_credentials: bool
) -> CIMultiDict[str]:
    """The headers of a request of ours on behalf of the caller: `own`, over those theirs that are not about a body."""
    out = to_upstream(inbound, strip_credentials=strip_credentials, plain_reply=True, inflated=True)
    for name in _ABOUT_A_BODY:
        out.popall(name, None)
    out.update(own)
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


def _listed(inbound: CIMultiDictProxy[str]) -> frozenset[str]:
    listed = {token.strip().lower() for value in inbound.getall("Connection") for token in value.split(",")}
    if taken := listed & _JUDGED_BY:
        raise Refused(Reason.INVALID_REQUEST, f"`Connection` may not list `{min(taken)}`")
    return frozenset(listed)


@lru_cache(maxsize=4096)
def _claims_identity(lower: str) -> bool:
    folded = lower.replace("_", "-").strip()
    if folded != lower and folded in _JUDGED_BY | HOP_BY_HOP | _REPLACED:
        return True  # an underscore twin of what was judged
    return folded in _CLAIMED or (folded.startswith(_CLAIMED_PREFIXES) and lower not in _KEPT)
