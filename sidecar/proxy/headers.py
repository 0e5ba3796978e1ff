"""Which headers go on, both ways. Pure.

Owns: hop-by-hop, forwarded, routing and identity headers (RFC 9110 §7.6.1; field cases of kinds 2 and 3).
Never: trusts inbound identity.
"""

from __future__ import annotations

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

# A header that names another path, verb, host or caller than the ones judged. Compared with `_` read as
# `-`, because CGI-style frameworks fold the two; prefixes end in `-`.
_CLAIMED = frozenset(
    {
        "forwarded",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-method",
        "x-original-uri",
        "x-original-url",
        "x-real-ip",
        "x-rewrite-url",
        "x-remote-user",
        "remote-user",
        "x-user",
        "x-user-id",
        "x-tenant-id",
        "x-client-cert",
        "x-ssl-client-cert",
    }
)
_CLAIMED_PREFIXES = (
    "x-forwarded-",
    "x-a2a-",
    "x-auth-request-",
    "x-envoy-",
    "x-authenticated-",
    "x-remote-user-",
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
