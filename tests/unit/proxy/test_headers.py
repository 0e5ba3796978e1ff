"""Which headers go on, both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.model import Refused
from sidecar.proxy.headers import Sieve, sieve, to_downstream, to_upstream

Pairs = list[tuple[str, str]]

ALL = sieve(credentials=True, api_key=None)


def sent(pairs: Pairs, by: Sieve = ALL, *, plain: bool = False, inflated: bool = False) -> Pairs:
    inbound = CIMultiDictProxy(CIMultiDict(pairs))
    return list(to_upstream(inbound, by, plain_reply=plain, inflated=inflated).items())


@pytest.mark.parametrize(
    "name",
    [
        "Host", "Content-Length", "Expect", "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
        "HTTP2-Settings", "Proxy-Authorization", "Proxy-Connection", "Forwarded", "X-Forwarded-For", "X-Forwarded-User",
        "x_forwarded_user", "X-A2A-Sidecar-Subject", "X_A2A_Principal", "X-Original-URL", "X-Rewrite-Url", "X-Real-IP",
        "X-HTTP-Method-Override", "X-Method-Override", "X-Envoy-Original-Path", "X-Auth-Request-User", "X-Tenant-Id",
        "X-Forwarded-Client-Cert", "A2A_Version", "Content_Type", "Transfer_Encoding", "Remote-User",
    ],
)  # fmt: skip
def test_what_stays_here(name: str) -> None:
    assert sent([(name, "x"), ("Kept", "1")]) == [("Kept", "1")]


@pytest.mark.parametrize(
    "name",
    ["Authorization", "Cookie", "A2A-Version", "A2A-Extensions", "X-A2A-Extensions", "traceparent", "Accept",
     "Content-Type", "Last-Event-ID", "X-Custom", "x_custom", "User-Agent", "Origin"],
)  # fmt: skip
def test_what_goes_on(name: str) -> None:
    assert sent([(name, "x")]) == [(name, "x")]


def test_repeated_headers_keep_their_order() -> None:
    pairs = [("A2A-Extensions", "a"), ("B", "1"), ("a2a-extensions", "b")]
    assert sent(pairs) == pairs


def test_what_connection_lists_is_of_one_hop() -> None:
    assert sent([("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Other", "2")]) == [("Other", "2")]


@pytest.mark.parametrize(
    "name", ["Authorization", "a2a-version", "Content-Type", "cookie", "Content-Encoding", "DPoP", "X-Key"]
)
def test_connection_may_not_list_what_was_judged_by(name: str) -> None:
    with pytest.raises(Refused):
        sent([("Connection", f"keep-alive, {name}"), (name, "x")], sieve(credentials=True, api_key="x-key"))


def test_a_reply_we_must_read_is_asked_for_plainly() -> None:
    assert sent([("Accept-Encoding", "br")], plain=True) == [("Accept-Encoding", "identity")]
    assert sent([("Accept-Encoding", "br")]) == [("Accept-Encoding", "br")]
    assert sent([]) == []


def test_an_inflated_body_has_no_coding_any_more() -> None:
    assert sent([("Content-Encoding", "gzip"), ("content-encoding", "br")], inflated=True) == []
    assert sent([("Content-Encoding", "identity")]) == [("Content-Encoding", "identity")]


CREDENTIALS = [("Authorization", "x"), ("Cookie", "y"), ("DPoP", "z"), ("X-Key", "k"), ("X", "1")]


@pytest.mark.parametrize(
    ("credentials", "api_key", "kept"),
    [
        pytest.param(True, "X-Key", ["Authorization", "Cookie", "DPoP", "X-Key", "X"], id="all go on"),
        pytest.param(False, "X-Key", ["X"], id="none does"),
        pytest.param(False, None, ["X-Key", "X"], id="a header nobody's key is sent in is no credential"),
    ],
)
@pytest.mark.parametrize("spelt", [str, str.lower, str.upper])
def test_credentials_go_on_or_stay_as_the_policy_says(
    credentials: bool, api_key: str | None, kept: list[str], spelt: Callable[[str], str]
) -> None:
    pairs = [(spelt(name), value) for name, value in CREDENTIALS]
    got = [name for name, _ in sent(pairs, sieve(credentials=credentials, api_key=api_key))]
    assert got == [spelt(name) for name in kept]


@pytest.mark.parametrize("twin", ["X_Key", "x_key", "X_KEY"])
@pytest.mark.parametrize("credentials", [True, False])
def test_a_twin_of_the_api_key_stays_here(twin: str, credentials: bool) -> None:
    assert sent([(twin, "k"), ("X", "1")], sieve(credentials=credentials, api_key="X-Key")) == [("X", "1")]


def test_replies_lose_what_is_of_one_hop_or_ours() -> None:
    pairs = [
        ("Connection", "keep-alive, X-Hop"), ("Keep-Alive", "5"), ("X-Hop", "1"), ("Server", "uvicorn"), ("Date", "now"),
        ("Content-Length", "5"), ("ETag", "x"), ("Set-Cookie", "a"), ("Set-Cookie", "b"), ("WWW-Authenticate", "Bearer"),
    ]  # fmt: skip
    kept = list(to_downstream(CIMultiDictProxy(CIMultiDict(pairs)), "http://a:1", "https://p").items())
    assert kept == [("ETag", "x"), ("Set-Cookie", "a"), ("Set-Cookie", "b"), ("WWW-Authenticate", "Bearer")]


@pytest.mark.parametrize(
    ("location", "told"),
    [
        pytest.param("http://a:1/base/foo/?x=1", "https://p/code/foo/?x=1", id="the agent's own address"),
        pytest.param("http://a:1/base", "https://p/code", id="exactly it"),
        pytest.param("http://a:1/basement", "http://a:1/basement", id="not one that only begins like it"),
        pytest.param("https://elsewhere/x", "https://elsewhere/x", id="somebody else's"),
        pytest.param("/relative", "/relative", id="a relative one"),
    ],
)
def test_a_redirect_to_the_agent_leads_to_where_callers_find_it(location: str, told: str) -> None:
    inbound = CIMultiDictProxy(CIMultiDict([("Location", location)]))
    assert to_downstream(inbound, "http://a:1/base", "https://p/code")["Location"] == told


@pytest.mark.parametrize(
    "name",
    [
        *(
            "x.a2a.sidecar.subject",
            "x!a2a!sidecar!subject",
            "X.Forwarded.User",
            "X~Remote~User",
            "content.length",
        ),
        *(
            "X-Consumer-Username",
            "X-Vouch-User",
            "Impersonate-User",
            "X-Scope-OrgID",
            "X-Jwt-Payload",
            "X.Auth+User",
        ),
    ],
)
def test_a_twin_by_any_character_is_no_identity(name: str) -> None:
    """Some servers fold whatever is no letter or digit into one character."""
    assert not sieve(credentials=True, api_key=None).goes_on(name)


@pytest.mark.parametrize(
    "name", ["X-Access-Token", "X-Auth-Token", "X-Authorization", "X-MS-Token-AAD-Access-Token"]
)
def test_what_agents_take_for_a_token_is_a_credential(name: str) -> None:
    assert sieve(credentials=True, api_key=None).goes_on(name)
    assert not sieve(credentials=False, api_key=None).goes_on(name)
    assert not sieve(credentials=True, api_key=None).goes_on(name.replace("-", "."))
