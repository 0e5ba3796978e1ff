"""Reading agent cards of every version, and the copy clients may see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.bindings.card import CardUnreadable, read_card
from sidecar.bindings.card_rewriting import Fronting, etag, rest_bases, rewrite_card
from sidecar.model import Binding, Card, Dialect, Interface, Scheme, Version

CARDS = Path(__file__).parents[2] / "wire" / "cards"
EVERY_CARD = sorted(CARDS.glob("*.json"))

RPC_01, RPC_02, RPC_03, RPC_10 = (Dialect(Binding.JSONRPC, v) for v in Version)
REST_03, REST_10 = (Dialect(Binding.HTTP_JSON, v) for v in (Version.V0_3, Version.V1_0))

PUBLIC = "https://agents.example.com/code-review"
FRONTING = Fronting("http://127.0.0.1:9000/a2a", PUBLIC)
AT_ROOT = Fronting("http://127.0.0.1:9000", PUBLIC)


def recorded(name: str) -> bytes:
    return (CARDS / f"{name}.json").read_bytes()


def of(**members: Any) -> bytes:
    return json.dumps(members).encode()


def v03(url: str = "http://127.0.0.1:9000/a2a", **members: Any) -> bytes:
    return of(**{"protocolVersion": "0.3.0", "url": url, **members})


def v1(*interfaces: tuple[str, str, str], **members: Any) -> bytes:
    listed = [{"url": u, "protocolBinding": b, "protocolVersion": v} for u, b, v in interfaces]
    return of(supportedInterfaces=listed, **members)


def rewritten(body: bytes, fronting: Fronting = FRONTING) -> dict[str, Any]:
    card: dict[str, Any] = json.loads(rewrite_card(body, fronting))
    return card


# --- interfaces --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dialects"),
    [
        ("spec-v0.1", [RPC_01, RPC_02, RPC_03]),
        ("spec-v0.2", [RPC_02, REST_03, None]),
        ("spec-v0.2-extended", [RPC_02, REST_03, None]),
        ("spec-v0.3", [RPC_03, REST_03, None]),
        ("spec-v0.3-protojson", [RPC_03]),
        ("spec-v1.0", [RPC_10, REST_10, None, RPC_03]),
        ("a2a-sdk-0.2.16", [RPC_02]),
        ("a2a-sdk-0.3.26", [RPC_03, REST_03, None]),
        ("a2a-sdk-1.0.3", [RPC_10, REST_10, None, RPC_03]),
        ("a2a-sdk-1.3.0", [RPC_10, REST_10, None, RPC_03]),
        ("a2a-js-sdk-0.3.14", [RPC_03, REST_03, None]),
        ("a2a-js-sdk-1.3.0-hybrid", [RPC_10, REST_10, None, RPC_03, REST_03]),
        ("a2a-js-sdk-1.3.0-v1", [RPC_10, REST_10, None, RPC_03, REST_03]),
        ("a2a-js-sdk-1.3.0-v03-extended", [RPC_03, REST_03]),
        ("a2a-lite-1.2.1", [RPC_10, REST_10]),
        ("google-adk-2.13.0", [RPC_10]),
        ("fasta2a-2.1.1", [RPC_10]),
        ("a2akit-0.0.32", [RPC_03]),
        ("python-a2a-0.5.10", [RPC_03]),
    ],
)
def test_dialects_of_recorded_cards(name: str, dialects: list[Dialect | None]) -> None:
    assert [i.dialect for i in read_card(recorded(name)).interfaces] == dialects


ONE_URL = "http://127.0.0.1:9000/"


@pytest.mark.parametrize(
    ("body", "dialects"),
    [
        pytest.param(of(url=ONE_URL), [RPC_02, RPC_03], id="a card without version is 0.2 or 0.3"),
        pytest.param(
            of(url=ONE_URL, authentication={"schemes": ["Bearer"]}),
            [RPC_01, RPC_02, RPC_03],
            id="authentication is a member of 0.1 only",
        ),
        pytest.param(
            of(url=ONE_URL, preferredTransport="HTTP+JSON"),
            [REST_03],
            id="rest without version is 0.3's rest",
        ),
        pytest.param(
            of(url=ONE_URL, preferredTransport="HTTP+JSON", protocolVersion="0.2.5"),
            [REST_03],
            id="rest of 0.2 is 0.3's rest",
        ),
        pytest.param(of(url=ONE_URL, protocolVersion="0.2"), [RPC_02], id="a version needs no patch level"),
        pytest.param(
            of(url=ONE_URL, protocolVersion="0.4.0"), [None], id="a version we do not know is not fronted"
        ),
        pytest.param(
            of(url=ONE_URL, protocolVersion="latest"), [None], id="what is no version is not fronted"
        ),
        pytest.param(
            of(url=ONE_URL, protocolVersion=""), [RPC_02, RPC_03], id="an empty version is no version"
        ),
        pytest.param(
            of(url=ONE_URL, preferredTransport=""), [RPC_02, RPC_03], id="the default transport is json-rpc"
        ),
        pytest.param(v1((ONE_URL, "JSONRPC", "1.0.1")), [RPC_10], id="patch levels take no part"),
        pytest.param(v1((ONE_URL, "JSONRPC", "")), [RPC_10], id="1.0's list without version speaks 1.0"),
        pytest.param(v1((ONE_URL, "JSONRPC", "1.7")), [None], id="a later minor version is not fronted"),
        pytest.param(
            v1((ONE_URL, "urn:example:binding", "1.0")), [None], id="a custom binding is not fronted"
        ),
        pytest.param(v1(("h:443", "GRPC", "1.0")), [None], id="grpc is not fronted"),
        pytest.param(v1((ONE_URL, "HTTP+JSON", "0.1")), [None], id="rest did not exist in 0.1"),
        pytest.param(
            v1((ONE_URL, "JSONRPC", "1.0"), url=ONE_URL),
            [RPC_10, RPC_03],
            id="0.x members of a hybrid are 0.3's",
        ),
        pytest.param(
            v1((ONE_URL, "JSONRPC", "1.0"), url=ONE_URL, protocolVersion="1.0"),
            [RPC_10, RPC_03],
            id="also where the hybrid states 1.0",
        ),
        pytest.param(
            of(
                supported_interfaces=[
                    {"url": ONE_URL, "protocol_binding": "JSONRPC", "protocol_version": "1.0"}
                ]
            ),
            [RPC_10],
            id="snake_case is read as protojson reads it",
        ),
        pytest.param(of(url=None, skills=None), [], id="null is absent"),
    ],
)
def test_dialects(body: bytes, dialects: list[Dialect | None]) -> None:
    assert [i.dialect for i in read_card(body).interfaces] == dialects


def test_only_entries_of_1_0_have_a_tenant() -> None:
    interfaces = read_card(recorded("spec-v1.0")).interfaces
    assert interfaces[0] == Interface("https://agent.example.com/rpc", RPC_10, "acme")
    assert interfaces[3].tenant == ""
    assert read_card(v03(tenant="acme")).interfaces[0].tenant == ""


@pytest.mark.parametrize(
    ("members", "offers"),
    [
        pytest.param({}, False, id="absent is no"),
        pytest.param({"capabilities": {"extendedAgentCard": True}}, True, id="1.0's capability"),
        pytest.param({"supportsAuthenticatedExtendedCard": True}, True, id="0.3's flag"),
        pytest.param({"supportsExtendedAgentCard": True}, True, id="the flag of 1.0's drafts"),
        pytest.param(
            {"capabilities": {"extendedAgentCard": False}, "supportsAuthenticatedExtendedCard": True},
            True,
            id="either half of a hybrid",
        ),
    ],
)
def test_extended_card(members: dict[str, Any], offers: bool) -> None:
    assert read_card(of(**members)).offers_extended is offers


# --- security ----------------------------------------------------------------------------------


def test_a_card_as_a_whole() -> None:
    card = read_card(recorded("spec-v0.3"))
    assert card.schemes == {
        "oauth": Scheme.OAUTH2,
        "oidc": Scheme.OPENID,
        "key": Scheme.API_KEY,
        "bearer": Scheme.HTTP_BEARER,
        "mtls": Scheme.MTLS,
    }
    assert card.requirements == (
        {"oauth": frozenset({"ledger.read"})},
        {"key": frozenset(), "mtls": frozenset()},
    )
    assert card.skills == {"post-entry": ({"oauth": frozenset({"ledger.write"})},)}
    assert card.offers_extended


def test_1_0_says_the_same_in_its_own_spelling() -> None:
    old, new = read_card(recorded("spec-v0.3")), read_card(recorded("spec-v1.0"))
    assert (old.requirements, old.skills) == (new.requirements, new.skills)
    assert new.schemes["basic"] is Scheme.HTTP_BEARER  # `scheme: Bearer`, whatever the name


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        pytest.param(
            {"type": "http", "scheme": "BEARER"}, Scheme.HTTP_BEARER, id="scheme names have no case"
        ),
        pytest.param({"type": "http", "scheme": "basic"}, Scheme.HTTP_OTHER, id="basic is no bearer"),
        pytest.param({"type": "http"}, Scheme.HTTP_OTHER, id="http without scheme is no bearer"),
        pytest.param({"httpAuthSecurityScheme": {"scheme": "digest"}}, Scheme.HTTP_OTHER, id="1.0's http"),
        pytest.param(
            {"http_auth_security_scheme": {"scheme": "bearer"}}, Scheme.HTTP_BEARER, id="snake_case http"
        ),
        pytest.param({"oauth2_security_scheme": {}}, Scheme.OAUTH2, id="snake_case oauth2"),
        pytest.param({"open_id_connect_security_scheme": {}}, Scheme.OPENID, id="snake_case openid"),
        pytest.param({"mtlsSecurityScheme": {}}, Scheme.MTLS, id="1.0's mtls"),
        pytest.param(
            {"oauth2SecurityScheme": {}, "type": "apiKey"}, Scheme.OAUTH2, id="1.0's member comes first"
        ),
        pytest.param(
            {"oauth2SecurityScheme": {}, "apiKeySecurityScheme": {}},
            Scheme.UNKNOWN,
            id="two kinds are no kind",
        ),
        pytest.param({"type": "OAuth2"}, Scheme.UNKNOWN, id="a type in wrong case is unknown"),
        pytest.param({}, Scheme.UNKNOWN, id="an empty scheme is unknown"),
    ],
)
def test_schemes(scheme: dict[str, Any], kind: Scheme) -> None:
    assert read_card(of(securitySchemes={"s": scheme})).schemes == {"s": kind}


W, R, NONE = frozenset({"w"}), frozenset({"r"}), frozenset[str]()


@pytest.mark.parametrize(
    ("members", "requirements"),
    [
        pytest.param({}, (), id="absent declares nothing"),
        pytest.param({"security": []}, (), id="empty declares nothing"),
        pytest.param({"security": [{"o": ["w"]}]}, ({"o": W},), id="0.3's spelling"),
        pytest.param(
            {"security": [{"schemes": {"o": {"list": ["w"]}}}]}, ({"o": W},), id="protobuf 0.3's spelling"
        ),
        pytest.param(
            {"securityRequirements": [{"schemes": {"o": {"list": ["w"]}, "k": {}}}]},
            ({"o": W, "k": NONE},),
            id="1.0's spelling",
        ),
        pytest.param(
            {"security_requirements": [{"schemes": {"o": {"list": ["w"]}}}]}, ({"o": W},), id="snake_case"
        ),
        pytest.param(
            {"securityRequirements": [{"o": ["w"]}]}, ({"o": W},), id="0.3's entries below 1.0's name"
        ),
        pytest.param(
            {"securityRequirements": [{"schemes": {"o": ["w"]}}]}, ({"o": W},), id="a bare list of scopes"
        ),
        pytest.param({"security": [{"schemes": ["w"]}]}, ({"schemes": W},), id="a scheme called schemes"),
        pytest.param({"security": [{}, {"o": ["w"]}]}, ({}, {"o": W}), id="the anonymous alternative stays"),
        pytest.param({"security": [{"schemes": {}}]}, ({},), id="1.0's anonymous alternative stays"),
        pytest.param(
            {"security": [{"o": ["w"]}, {"o": ["r"]}], "securityRequirements": [{"o": ["r"]}, {"o": ["w"]}]},
            ({"o": R}, {"o": W}),
            id="a hybrid that says the same twice says it once",
        ),
        pytest.param(
            {"security": [{"o": ["w"]}, {"k": []}], "securityRequirements": [{"o": ["r"]}]},
            ({"o": W | R}, {"o": R, "k": NONE}),
            id="a hybrid that differs needs one of each list",
        ),
        pytest.param(
            {"security": [{"o": ["w"]}], "securityRequirements": [{}]},
            ({"o": W},),
            id="an anonymous alternative of one list does not open the other",
        ),
        pytest.param(
            {"security": [{"o": ["w"]}], "securityRequirements": []},
            ({"o": W},),
            id="an empty list adds nothing",
        ),
    ],
)
def test_requirements(members: dict[str, Any], requirements: tuple[Any, ...]) -> None:
    card = read_card(of(**members, skills=[{"id": "s", **members}]))
    assert card.requirements == requirements
    assert card.skills == {"s": requirements}


# --- what is refused ---------------------------------------------------------------------------

UNREADABLE = [
    pytest.param(b"", "no strict JSON", id="nothing"),
    pytest.param(b"<html>", "no strict JSON", id="a page"),
    pytest.param(b"[]", "no JSON object", id="a list"),
    pytest.param(b'\xef\xbb\xbf{"url":"u"}', "no strict JSON", id="a byte order mark"),
    pytest.param(b'{"url":"u","url":"v"}', "repeats a member", id="a key twice"),
    pytest.param(b'{"skills":[{"id":"a","security":[{"o":["w"],"o":[]}]}]}', "repeats a member", id="a deep key twice"),
    pytest.param(b'{"x":NaN}', "no strict JSON", id="a number that is none"),
    pytest.param(b'{"x":' + b"1" * 5000 + b"}", "no strict JSON", id="a number too long to read"),
    pytest.param(b'{"x":' + b"[" * 500 + b"]" * 500 + b"}", "no strict JSON", id="nested too deep"),
    pytest.param(of(url="u", supportedInterfaces={}), "`supportedInterfaces` must be a list", id="interfaces no list"),
    pytest.param(of(supportedInterfaces=["u"]), "must hold objects", id="an interface that is no object"),
    pytest.param(of(supportedInterfaces=[{}]), "no `url`", id="an interface without url"),
    pytest.param(of(additionalInterfaces=[{"url": None}]), "no `url`", id="an interface with a null url"),
    pytest.param(of(url=5), "no `url`", id="a url that is a number"),
    pytest.param(of(url="u", protocolVersion=0.3), "must be a string", id="a version that is a number"),
    pytest.param(v1(("u", "JSONRPC", "1.0"), tenant=1, protocolBinding="x", url="u"), "must be a string", id="a tenant that is a number"),
    pytest.param(of(url="u", preferredTransport=["JSONRPC"]), "must be a string", id="a transport that is a list"),
    pytest.param(of(capabilities=[]), "must be an object", id="capabilities no object"),
    pytest.param(of(supportsAuthenticatedExtendedCard="true"), "must be a boolean", id="a flag that is a string"),
    pytest.param(of(skills=[{"name": "s"}]), "no `id`", id="a skill without id"),
    pytest.param(of(skills=[{"id": ""}]), "no `id`", id="a skill with an empty id"),
    pytest.param(of(skills=[{"id": 1}]), "must be a string", id="a skill id that is a number"),
    pytest.param(of(skills=[{"id": "a"}, {"id": "a"}]), "two skills", id="two skills of one id"),
    pytest.param(of(skills={"a": {}}), "must be a list", id="skills no list"),
    pytest.param(of(securitySchemes=[]), "must be an object", id="schemes no object"),
    pytest.param(of(securitySchemes={"s": "oauth2"}), "is no object", id="a scheme that is no object"),
    pytest.param(of(security={"o": ["w"]}), "must be a list", id="requirements no list"),
    pytest.param(of(security=["o"]), "must hold objects", id="a requirement that is no object"),
    pytest.param(of(security=[{"o": "w"}]), "no list of strings", id="scopes that are a string"),
    pytest.param(of(security=[{"o": [1]}]), "no list of strings", id="a scope that is a number"),
    pytest.param(of(security=[{"o": None}]), "no list of strings", id="scopes that are null"),
    pytest.param(of(security=[{"o": {"scopes": ["w"]}}]), "no list of strings", id="scopes below an unknown member"),
    pytest.param(of(security=[{"schemes": None}]), "no list of strings", id="schemes that are null"),
    pytest.param(of(security=[{"schemes": {"o": {}}, "k": []}]), "two forms", id="two forms in one entry"),
    pytest.param(of(skills=[{"id": "a", "security": [{"o": "w"}]}]), "no list of strings", id="a skill's requirement"),
    pytest.param(of(security=[], Security=[{"o": []}]), "is written as", id="a twin in another case"),
    pytest.param(of(supportedInterfaces=[], supported_interfaces=[]), "is written as", id="camel and snake at once"),
    pytest.param(of(SecuritySchemes={}), "is written as", id="a member in wrong case only"),
    pytest.param(
        of(security=[{f"a{n}": []} for n in range(40)], securityRequirements=[{f"b{n}": []} for n in range(40)]),
        "too long to combine",
        id="a hybrid whose lists cannot be combined",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), UNREADABLE)
def test_unreadable_cards(body: bytes, message: str) -> None:
    with pytest.raises(CardUnreadable, match=message):
        read_card(body)
    with pytest.raises(CardUnreadable, match=message):
        rewrite_card(body, FRONTING)


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "public"),
    [
        pytest.param("http://127.0.0.1:9000/a2a", PUBLIC, id="the upstream itself"),
        pytest.param("http://127.0.0.1:9000/a2a/", f"{PUBLIC}/", id="a trailing slash is kept"),
        pytest.param("http://127.0.0.1:9000/a2a/rpc", f"{PUBLIC}/rpc", id="a path below"),
        pytest.param("http://127.0.0.1:9000/a2a/rpc/", f"{PUBLIC}/rpc/", id="a path below with slash"),
        pytest.param("http://127.0.0.1:9000/a2a/rpc?x=1&y", f"{PUBLIC}/rpc?x=1&y", id="a query is kept"),
        pytest.param("http://127.0.0.1:9000/a2a?x=1", f"{PUBLIC}?x=1", id="a query of the upstream itself"),
        pytest.param("http://127.0.0.1:9000/a2a/rpc#top", f"{PUBLIC}/rpc", id="a fragment is dropped"),
        pytest.param("http://127.0.0.1:9000/a2a/r%20pc", f"{PUBLIC}/r%20pc", id="encoded characters stay encoded"),
        pytest.param("http://127.0.0.1:9000/%612a/rpc", f"{PUBLIC}/rpc", id="the prefix may be encoded"),
        pytest.param("http://127.0.0.1:9000/a2ab/rpc", PUBLIC, id="a prefix ends at a slash"),
        pytest.param("http://127.0.0.1:9000/other", PUBLIC, id="a path beside the upstream's"),
        pytest.param("http://127.0.0.1:9000", PUBLIC, id="a path above the upstream's"),
        pytest.param("http://127.0.0.1:9000/a2a/../admin", PUBLIC, id="dots that lead out"),
        pytest.param("http://127.0.0.1:9000/a2a/%2e%2E/admin", PUBLIC, id="encoded dots that lead out"),
        pytest.param("http://127.0.0.1:9000/x/../a2a/./rpc", f"{PUBLIC}/rpc", id="dots that lead in"),
        pytest.param("http://127.0.0.1:9000/a2a/rpc/..", f"{PUBLIC}/", id="dots at the end leave a slash"),
        pytest.param("https://agent.internal:8443/a2a/rpc", f"{PUBLIC}/rpc", id="whatever host the card names"),
        pytest.param("http://0.0.0.0:9000/a2a/rpc", f"{PUBLIC}/rpc", id="any address of four"),
        pytest.param("http://[::]:8080/a2a/rpc", f"{PUBLIC}/rpc", id="any address of six"),
        pytest.param("http://user:pw@127.0.0.1:9000/a2a/rpc", f"{PUBLIC}/rpc", id="credentials go"),
        pytest.param("//127.0.0.1:9000/a2a/rpc", f"{PUBLIC}/rpc", id="no scheme"),
        pytest.param("127.0.0.1:9000/a2a/rpc", f"{PUBLIC}/rpc", id="neither scheme nor slashes"),
        pytest.param("localhost:9000", PUBLIC, id="a name and a port"),
        pytest.param("[::1]:9000", PUBLIC, id="a bare address of six"),
        pytest.param("127.0.0.1/a2a/rpc", f"{PUBLIC}/rpc", id="the upstream's host without port"),
        pytest.param("rpc", f"{PUBLIC}/rpc", id="a relative path"),
        pytest.param("./rpc", f"{PUBLIC}/rpc", id="a relative path with a dot"),
        pytest.param("../rpc", PUBLIC, id="a relative path that leads out"),
        pytest.param("/a2a/rpc", f"{PUBLIC}/rpc", id="an absolute path below"),
        pytest.param("/rpc", PUBLIC, id="an absolute path beside"),
        pytest.param("", PUBLIC, id="an empty address is the upstream"),
        pytest.param("?x=1", f"{PUBLIC}?x=1", id="a query only"),
        pytest.param("urn:example:agent", PUBLIC, id="a name instead of an address"),
        pytest.param(PUBLIC, PUBLIC, id="already public"),
        pytest.param(f"{PUBLIC}/rpc/?x#y", f"{PUBLIC}/rpc/?x#y", id="below the public address already"),
        pytest.param("HTTPS://Agents.example.com:443/code-review", "HTTPS://Agents.example.com:443/code-review", id="already public, spelled differently"),
        pytest.param("http://agents.example.com/code-review", PUBLIC, id="the scheme is the configured one"),
        pytest.param("https://agents.example.com:8443/code-review", PUBLIC, id="the port is the configured one"),
        pytest.param("https://agents.example.com/code-reviewer", PUBLIC, id="public up to a slash only"),
        pytest.param("https://agents.example.com/code-review/../x", PUBLIC, id="public but for the dots"),
        pytest.param("https://x@agents.example.com/code-review", PUBLIC, id="public but for the credentials"),
    ],
)  # fmt: skip
def test_addresses(url: str, public: str) -> None:
    assert rewritten(v03(url))["url"] == public
    assert rewritten(v1((url, "JSONRPC", "1.0")))["supportedInterfaces"][0]["url"] == public


@pytest.mark.parametrize(
    ("upstream", "public_url", "url", "public"),
    [
        pytest.param("http://a:1", PUBLIC, "http://a:1/", f"{PUBLIC}/", id="an upstream at the root, url with slash"),
        pytest.param("http://a:1/", PUBLIC, "http://a:1", PUBLIC, id="an upstream with slash, url without"),
        pytest.param("http://a:1/", PUBLIC, "http://a:1//x", f"{PUBLIC}//x", id="a doubled slash is the agent's own"),
        pytest.param("http://a:1/a2a/tock/", "https://pub.example/a2a/tick", "http://a:1/a2a/tock/", "https://pub.example/a2a/tick/", id="no prefix is doubled or lost"),
        pytest.param("http://a:1/a2a/tock/", "https://pub.example/a2a/tick", "rpc", "https://pub.example/a2a/tick/rpc", id="relative below a folder"),
        pytest.param("http://a:1/x", f"{PUBLIC}/", "http://a:1/x/rpc", f"{PUBLIC}/rpc", id="a public address with slash"),
        pytest.param("http://a:1/x", f"{PUBLIC}/", "http://a:1/y", f"{PUBLIC}/", id="the public address itself, as configured"),
        pytest.param("http://a:1/x", "https://pub.example", "http://a:1/x/rpc", "https://pub.example/rpc", id="a public address at the root"),
        pytest.param("http://[fd00::1]:1/x", "http://[fd00::2]:2/y", "http://[fd00::1]:1/x/z", "http://[fd00::2]:2/y/z", id="addresses of six"),
    ],
)  # fmt: skip
def test_addresses_of_other_deployments(upstream: str, public_url: str, url: str, public: str) -> None:
    assert rewritten(v03(url), Fronting(upstream, public_url))["url"] == public


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://[::1/a2a", id="half an address of six"),
        pytest.param("http://a:port/a2a", id="a port that is a word"),
        pytest.param("https://agents.example.com\\@a/code-review", id="a backslash"),
        pytest.param("http://a/a2a rpc", id="a blank"),
        pytest.param("java\tscript:alert(1)", id="a tab"),
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(CardUnreadable, match="an interface address"):
        rewrite_card(v03(url), FRONTING)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=40).map(lambda tail: f"http://127.0.0.1:9000/a2a{tail}") | st.text(max_size=60))
def test_whatever_a_card_names_only_our_host_is_served(url: str) -> None:
    body = json.dumps({"url": url, "protocolVersion": "0.3.0"}).encode("utf-8", "surrogatepass")
    try:
        served = rewritten(body)["url"]
    except CardUnreadable:
        return
    assert served.startswith(PUBLIC)
    assert urlsplit(served).netloc == "agents.example.com"
    assert rewrite_card(v03(served), FRONTING) == v03(served)


# --- what is kept, dropped, promoted -----------------------------------------------------------


@pytest.mark.parametrize("path", EVERY_CARD, ids=lambda path: path.stem)
def test_recorded_cards_keep_everything_but_addresses(path: Path) -> None:
    before, after = json.loads(path.read_bytes()), rewritten(path.read_bytes(), AT_ROOT)
    assert [key for key in before if key != "signatures" or not before[key]] == list(after)
    changed = {"url", "additionalInterfaces", "supportedInterfaces", "signatures"}
    assert all(after[key] == before[key] for key in after if key not in changed)
    urls = [after.get("url", PUBLIC)] + [
        entry["url"]
        for key in ("additionalInterfaces", "supportedInterfaces")
        for entry in after.get(key, [])
    ]
    assert all(url.startswith(PUBLIC) for url in urls)
    assert None not in [i.dialect for i in read_card(rewrite_card(path.read_bytes(), AT_ROOT)).interfaces]


@pytest.mark.parametrize("path", EVERY_CARD, ids=lambda path: path.stem)
def test_a_rewritten_card_needs_no_rewriting(path: Path) -> None:
    once = rewrite_card(path.read_bytes(), AT_ROOT)
    assert rewrite_card(once, AT_ROOT) is once


def test_a_card_that_names_the_public_address_passes_byte_for_byte() -> None:
    body = b'{ "url": "' + PUBLIC.encode() + b'", "big": 123456789012345678901234567890, "signatures": [{}] }'
    assert rewrite_card(body, Fronting("http://a:1", PUBLIC, signatures="refuse")) is body


def test_only_interface_addresses_change() -> None:
    inner = "http://127.0.0.1:9000/a2a/doc"
    kept: dict[str, Any] = {
        "provider": {"url": inner, "organization": "x"},
        "documentationUrl": inner,
        "iconUrl": inner,
        "capabilities": {"extensions": [{"uri": inner, "url": inner}]},
        "securitySchemes": {"o": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": inner}}}},
        "skills": [{"id": "s", "url": inner, "näme": "ü\u2028"}],
        "x-unknown": {"supportedInterfaces": [{"url": inner}]},
    }
    assert rewritten(v03(**kept)) == {"protocolVersion": "0.3.0", "url": PUBLIC, **kept}


def test_numbers_leave_with_the_digits_they_came_with() -> None:
    numbers = b'"n":[1.10,1e400,0.1000000000000000055511151231257827,18446744073709551615,-1,1E5,-0.0]'
    served = rewrite_card(b'{"url":"http://a/",' + numbers + b"}", AT_ROOT)
    assert served == b'{"url":"' + PUBLIC.encode() + b'/",' + numbers + b"}"


def test_an_integer_that_cannot_be_written_back_is_refused() -> None:
    with pytest.raises(CardUnreadable, match="written back"):
        rewrite_card(b'{"url":"http://a/","n":18446744073709551616}', AT_ROOT)


GRPC = ("127.0.0.1:9001", "GRPC", "1.0")
RPC1 = ("http://127.0.0.1:9000/a2a/", "JSONRPC", "1.0")
REST1 = ("http://127.0.0.1:9000/a2a/rest", "HTTP+JSON", "1.0")
OLD = "http://127.0.0.1:9000/a2a/"


def additional(*entries: tuple[str, str]) -> list[dict[str, str]]:
    return [{"url": url, "transport": transport} for url, transport in entries]


def fronting(*dialects: Dialect) -> Fronting:
    return Fronting(FRONTING.upstream, PUBLIC, frozenset(dialects))


def test_what_we_do_not_front_is_dropped_from_every_list() -> None:
    body = v1(
        GRPC,
        RPC1,
        (OLD, "urn:x", "1.0"),
        REST1,
        url=OLD,
        preferredTransport="JSONRPC",
        additionalInterfaces=additional((OLD, "JSONRPC"), ("127.0.0.1:9001", "GRPC"), (OLD, "x")),
    )
    card = rewritten(body)
    assert [i["url"] for i in card["supportedInterfaces"]] == [f"{PUBLIC}/", f"{PUBLIC}/rest"]
    assert card["additionalInterfaces"] == additional((f"{PUBLIC}/", "JSONRPC"))
    assert b"127.0.0.1" not in rewrite_card(body, FRONTING)


def test_a_dropped_interface_alone_is_a_rewriting() -> None:
    body = v1((PUBLIC, "JSONRPC", "1.0"), GRPC, signatures=[{"signature": "s"}])
    assert rewritten(body) == json.loads(v1((PUBLIC, "JSONRPC", "1.0")))


def test_a_main_address_we_do_not_front_gives_way_to_the_first_additional_one() -> None:
    body = v03(
        "127.0.0.1:9001",
        preferredTransport="GRPC",
        additionalInterfaces=additional(
            ("127.0.0.1:9001", "GRPC"), (f"{OLD}rest", "HTTP+JSON"), (OLD, "JSONRPC")
        ),
    )
    left = additional((f"{PUBLIC}/rest", "HTTP+JSON"), (f"{PUBLIC}/", "JSONRPC"))
    assert rewritten(body) == {
        "protocolVersion": "0.3.0",
        "url": f"{PUBLIC}/rest",
        "preferredTransport": "HTTP+JSON",
        "additionalInterfaces": left,
    }


def test_promotion_states_the_transport_where_the_card_left_it_to_the_default() -> None:
    body = v03(OLD, additionalInterfaces=additional((f"{OLD}rest", "HTTP+JSON")))
    card = rewritten(body, fronting(REST_03))
    assert (card["url"], card["preferredTransport"]) == (f"{PUBLIC}/rest", "HTTP+JSON")


def test_a_hybrid_of_which_we_front_no_0_3_loses_its_0_3_members() -> None:
    body = v1(
        RPC1,
        (OLD, "JSONRPC", "0.3"),
        name="n",
        url=OLD,
        protocolVersion="0.3",
        preferredTransport="JSONRPC",
        additionalInterfaces=additional((OLD, "JSONRPC")),
        security=[],
    )
    card = rewritten(body, fronting(RPC_10))
    assert list(card) == ["supportedInterfaces", "name", "security"]
    assert [i["protocolVersion"] for i in card["supportedInterfaces"]] == ["1.0"]


def test_a_hybrid_of_which_we_front_no_1_0_loses_its_list() -> None:
    body = v1(RPC1, url=OLD, additionalInterfaces=additional((OLD, "JSONRPC")))
    card = rewritten(body, fronting(RPC_03))
    assert card == {"url": f"{PUBLIC}/", "additionalInterfaces": additional((f"{PUBLIC}/", "JSONRPC"))}


def test_a_card_without_version_is_fronted_if_one_of_its_dialects_is() -> None:
    assert rewritten(of(url=OLD), fronting(RPC_02)) == {"url": f"{PUBLIC}/"}


def test_snake_case_interfaces_are_rewritten_in_place() -> None:
    body = of(
        supported_interfaces=[
            {"url": OLD, "protocol_binding": "JSONRPC"},
            {"url": "h:1", "protocol_binding": "GRPC"},
        ]
    )
    assert rewritten(body) == {"supported_interfaces": [{"url": f"{PUBLIC}/", "protocol_binding": "JSONRPC"}]}


@pytest.mark.parametrize(
    ("body", "dialects"),
    [
        pytest.param(of(name="n"), None, id="a card without addresses"),
        pytest.param(v1(GRPC), None, id="grpc only"),
        pytest.param(
            v03(OLD, preferredTransport="GRPC", additionalInterfaces=[]), None, id="grpc only, in 0.3"
        ),
        pytest.param(v1(RPC1, url=OLD), frozenset({REST_10}), id="only dialects the policy does not list"),
        pytest.param(v1(RPC1), frozenset[Dialect](), id="an empty list of dialects is none"),
        pytest.param(
            v1(RPC1, url=OLD, additionalInterfaces=additional((OLD, "JSONRPC"))),
            frozenset({RPC_02}),
            id="a hybrid that loses its list does not become a 0.2 card",
        ),
    ],
)
def test_a_card_with_nothing_left_is_refused(body: bytes, dialects: frozenset[Dialect] | None) -> None:
    with pytest.raises(CardUnreadable, match="no interface we front"):
        rewrite_card(body, Fronting(FRONTING.upstream, PUBLIC, dialects))


def test_a_signature_does_not_survive_rewriting() -> None:
    assert "signatures" not in rewritten(recorded("spec-v1.0"))
    assert rewritten(v03(OLD, signatures=[]))["signatures"] == []
    strict = Fronting(FRONTING.upstream, PUBLIC, signatures="refuse")
    with pytest.raises(CardUnreadable, match="signed"):
        rewrite_card(recorded("spec-v1.0"), strict)
    assert rewritten(v03(OLD, signatures=[]), strict)["url"] == f"{PUBLIC}/"


# --- tags and bases ----------------------------------------------------------------------------


def test_etag_is_strong_quoted_and_of_the_bytes() -> None:
    tag = etag(b"{}")
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert len(tag) == 34
    assert etag(b"{}") == tag != etag(b"{} ")


@pytest.mark.parametrize(
    ("body", "bases"),
    [
        pytest.param(v1(RPC1), ((),), id="no rest: the root alone"),
        pytest.param(v1(RPC1, REST1), ((), ("rest",)), id="rest below the mount"),
        pytest.param(v1((f"{REST1[0]}/", "HTTP+JSON", "1.0"), REST1), ((), ("rest",)), id="a trailing slash is no segment"),
        pytest.param(v1((f"{OLD}a%20b/c", "HTTP+JSON", "0.3")), ((), ("a b", "c")), id="segments are decoded"),
        pytest.param(v1(("http://a/elsewhere", "HTTP+JSON", "1.0")), ((),), id="beside the upstream: the root"),
        pytest.param(v1((f"{PUBLIC}/api/", "HTTP+JSON", "1.0")), ((), ("api",)), id="already public"),
        pytest.param(v03(OLD, additionalInterfaces=additional((f"{OLD}rest", "HTTP+JSON"))), ((), ("rest",)), id="in 0.3"),
        pytest.param(v1((f"{OLD}grpc", "GRPC", "1.0")), ((),), id="what we cannot front has none"),
        pytest.param(v1((f"{OLD}rest", "HTTP+JSON", "1.0"), (f"{OLD}v", "HTTP+JSON", "0.3")), ((), ("rest",), ("v",)), id="one each"),
    ],
)  # fmt: skip
def test_rest_bases(body: bytes, bases: tuple[tuple[str, ...], ...]) -> None:
    assert rest_bases(read_card(body), FRONTING) == bases


def test_a_door_we_do_not_open_is_still_recognised() -> None:
    assert rest_bases(read_card(v1(RPC1, REST1)), fronting(RPC_10)) == ((), ("rest",))


def test_rest_bases_refuse_what_is_no_address() -> None:
    card = Card((Interface("http://[", REST_10),), {}, (), {})
    with pytest.raises(CardUnreadable, match="no URL"):
        rest_bases(card, FRONTING)


def test_the_schemes_of_a_js_sdk_1_card_are_read_in_the_form_it_writes() -> None:
    """@a2a-js/sdk 1.3 serves `{"scheme": {"$case": …, "value": …}}` under A2A-Version 1.0."""
    flows = {"flows": {"flow": {"$case": "clientCredentials", "value": {"tokenUrl": "", "scopes": {}}}}}
    card = {
        "name": "js",
        "supportedInterfaces": [{"url": "http://a/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "securitySchemes": {"oauth": {"scheme": {"$case": "oauth2SecurityScheme", "value": flows}}},
        "securityRequirements": [{"schemes": {"oauth": {"list": ["w", "r"]}}}],
        "skills": [],
    }
    read = read_card(orjson.dumps(card))
    assert read.schemes == {"oauth": Scheme.OAUTH2}
    assert read.requirements == ({"oauth": frozenset({"w", "r"})},)
