"""Webhooks: which URLs, addresses and header values pass, and what a refusal gives away."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yarl
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar import config
from sidecar.model import Call, Fact, Facts, Operation, Permit, PushTarget, Reason, Refusal, Webhooks
from sidecar.policy import push
from sidecar.policy.decide import Known, decide, look_ups
from sidecar.policy.push import compile_push, is_public
from tests.builders import ALICE, TASK, a_call, a_card, a_policy, a_principal

CREATE, SEND = Operation.CREATE_PUSH_CONFIG, Operation.SEND_MESSAGE
HOOK = "https://hooks.example.com/a2a"
PUBLIC = {"hooks.example.com": ["93.184.216.34"]}
OWNED = Known({TASK: Fact()})


def a_webhook(
    url: str = HOOK, *headers: str, of: Operation = CREATE, task: str | None = "t-1", id_: str | None = None
) -> Call:
    return a_call(of, task=task)._replace(push=(PushTarget(url, headers, id_),))


def judged(url: str, *allow: str, headers: tuple[str, ...] = ()) -> Refusal | None:
    rules = compile_push(config.Push(allow=allow or ("https://*",)))
    return push.refusal(a_webhook(url, *headers), rules, offered=True)


def refused(url: str, *allow: str) -> str:
    refusal = judged(url, *allow)
    assert refusal is not None
    assert refusal.reason is Reason.PUSH_TARGET_REFUSED
    return refusal.detail


# --- FC-092: one reading ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://allowed.example.com@127.0.0.1/", id="user-info"),
        pytest.param("https://u:p@hooks.example.com/", id="user-info with a password"),
        pytest.param("https://@hooks.example.com/", id="empty user-info"),
        pytest.param("http://127.0.0.1#@allowed.example.com/", id="a fragment that looks like a host"),
        pytest.param("https://hooks.example.com/x#y", id="a fragment"),
        pytest.param("https://hooks.example.com/#", id="an empty fragment"),
        pytest.param("http://allowed.example.com\\@127.0.0.1/", id="a backslash"),
        pytest.param("http:\\\\127.0.0.1", id="backslashes for slashes"),
        pytest.param("http:/127.0.0.1", id="one slash"),
        pytest.param("https:hooks.example.com", id="no slash"),
        pytest.param("//hooks.example.com", id="no scheme"),
        pytest.param("hooks.example.com", id="a bare name"),
        pytest.param("/hook", id="a path"),
        pytest.param("data:text/plain,x", id="data"),
        pytest.param("javascript:x", id="javascript"),
        pytest.param(" https://hooks.example.com/", id="a blank before it"),
        pytest.param("https://hooks.example.com/ ", id="a blank after it"),
        pytest.param("https://hooks.example.com/\n", id="a newline after it"),
        pytest.param("https://hooks.exa\tmple.com/", id="a tab inside"),
        pytest.param("https://hooks.exa\nmple.com/", id="a newline inside"),
        pytest.param("https://hooks.example.com\r\n/x", id="the end of a line"),
        pytest.param("https://hooks.example.com/\x00", id="a NUL"),
        pytest.param("https://hooks.example.com/\x7f", id="a DEL"),
        pytest.param("https://hooks.example.com:443:80/", id="two ports"),
        pytest.param("https://hooks.example.com:/", id="an empty port"),
        pytest.param("https://hooks.example.com:0/", id="port zero"),
        pytest.param("https://hooks.example.com:65536/", id="a port too high"),
        pytest.param("https://hooks.example.com:0443/", id="a port with a zero before it"),
        pytest.param("https://hooks.example.com:４４３/", id="a port in full-width digits"),
        pytest.param("https://", id="no host"),
        pytest.param("https:///path", id="an empty host"),
        pytest.param("https://:443/", id="a port alone"),
        pytest.param("https://?x", id="a query alone"),
        pytest.param("https://hooks.example.com./", id="a final dot"),
        pytest.param("https://.example.com/", id="an empty label"),
        pytest.param("https://hooks..example.com/", id="an empty label inside"),
        pytest.param("https://hooks.example%2ecom/", id="an escape in the host"),
        pytest.param("https://hooks.example.com%00.evil.net/", id="an escaped NUL in the host"),
        pytest.param("https://bücher.example.com/", id="an international name"),
        pytest.param("https://hooks。example。com/", id="ideographic full stops"),
        pytest.param("https://ⓗooks.example.com/", id="a letter that folds to another"),
        pytest.param("https://1２7.0.0.1/", id="a digit that folds to another"),
        pytest.param("https://[::1/", id="a bracket left open"),
        pytest.param("https://::1/", id="IPv6 without brackets"),
        pytest.param("https://[fe80::1%25eth0]/", id="an IPv6 zone"),
        pytest.param("https://[127.0.0.1]/", id="IPv4 in brackets"),
        pytest.param("https://[::1]x/", id="text after the bracket"),
        pytest.param("https://hooks.example.com/a/../b", id="dot segments"),
        pytest.param("https://hooks.example.com/a/%2e%2e/b", id="escaped dot segments"),
        pytest.param("https://hooks.example.com/a%2f..%2fb", id="escaped slashes around dots"),
        pytest.param("https://hooks.example.com/a/%252e%252e/b", id="dot segments escaped twice"),
        pytest.param("https://hooks.example.com/a/..;/b", id="dot segments with parameters"),
        pytest.param("https://hooks.example.com/%2525252525252541", id="escapes without end"),
        pytest.param("https://hooks.example.com/%zz", id="a broken escape"),
        pytest.param("https://hooks.example.com/" + "x" * 2048, id="a URL too long"),
        pytest.param("https://" + "a" * 64 + ".com/", id="a label too long"),
        pytest.param("https://hooks.example.com/\ud800", id="half a character"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_whatever_is_allowed(url: str) -> None:
    assert "must be `https://host" in refused(url, "https://*:*", "http://*:*", "http://127.0.0.1")


@pytest.mark.parametrize(
    "url", ["ftp://hooks.example.com/", "gopher://127.0.0.1:70/", "file:///x", "ws://a.example.com"]
)
def test_other_schemes_are_none(url: str) -> None:
    detail = refused(url, "https://*:*", "http://*:*")
    assert "scheme" in detail or "must be" in detail


PIECES = [
    *(
        "hooks.example.com",
        "evil.net",
        "127.0.0.1",
        "[::1]",
        "localhost",
        "https",
        "http",
        "ftp",
        "x",
        "xn--a",
        "é",
        "．",
    ),
    *(
        ":",
        "//",
        "/",
        "\\",
        "@",
        "#",
        "?",
        ".",
        "..",
        ";",
        "&",
        "=",
        ":443",
        ":80",
        ":0x1bb",
        "%2e",
        "%2f",
        "%40",
        "%00",
    ),
    *(
        " ",
        "\t",
        "\n",
        "\r",
        "\0",
        "\u200b",
        "\u00ad",
        "[",
        "]",
        "-",
        "_",
        "*",
        "$",
        "+",
        ",",
        "|",
        "^",
        "`",
        "{",
    ),
]


@given(
    st.sampled_from(["https://", "http://", "HTTPS://", ""]), st.lists(st.sampled_from(PIECES), max_size=8)
)
@settings(max_examples=2000, deadline=None)
def test_no_two_libraries_read_what_passes_differently(scheme: str, pieces: list[str]) -> None:
    url = scheme + "".join(pieces)
    allow = ("https://*:*", "http://*:*", "http://127.0.0.1:*", "https://127.0.0.1:*")
    rules = compile_push(config.Push(allow=allow))
    call = a_webhook(url)
    if push.refusal(call, rules, offered=True) is not None:
        return
    host = next(iter(push.to_resolve(call, rules)), "127.0.0.1")
    parts, aio, httpx_url = urlsplit(url), yarl.URL(url), httpx.URL(url)
    assert {parts.hostname, aio.raw_host, httpx_url.raw_host.decode()} == {host}
    assert parts.scheme == aio.scheme == httpx_url.scheme
    assert parts.port in (None, aio.port)
    assert {parts.username, aio.user} == {None}


@pytest.mark.parametrize(
    ("url", "allow"),
    [
        pytest.param(HOOK, "https://*", id="a public name"),
        pytest.param(
            "HTTPS://Hooks.Example.COM/A2A", "https://hooks.example.com", id="capitals of scheme and host"
        ),
        pytest.param("https://hooks.example.com", "https://*.example.com", id="no path"),
        pytest.param("https://hooks.example.com?token=a%2Fb&c[]=1", "https://*.example.com", id="a query"),
        pytest.param(
            "https://hooks.example.com/@user/a:b;v=1/x%2Fy", "https://*.example.com", id="an odd path"
        ),
        pytest.param(
            "https://hooks.example.com/.well-known/hook...", "https://*.example.com", id="dots in names"
        ),
        pytest.param("https://hooks.example.com:443/", "https://*.example.com", id="the port said aloud"),
        pytest.param("https://hooks.example.com:8443/", "https://*.example.com:8443", id="another port"),
        pytest.param("https://hooks.example.com:1/", "https://*:*", id="any port"),
        pytest.param("https://hooks.example.com/in/x", "https://hooks.example.com/in", id="below a path"),
        pytest.param("https://xn--bcher-kva.example.com/", "https://*", id="an A-label"),
        pytest.param("https://under_score.example.com/", "https://*", id="an underscore"),
        pytest.param("https://" + "a" * 63 + ".example.com/", "https://*", id="a label of full length"),
        pytest.param("http://127.0.0.1:9/", "http://127.0.0.1:9", id="loopback, written out"),
        pytest.param("http://[0:0::1]:9/", "http://[::1]:9", id="IPv6 loopback, written out"),
        pytest.param("http://receiver:9/", "http://receiver:9", id="one label, written out"),
        pytest.param(
            "http://web.dev.svc.cluster.local/",
            "http://web.dev.svc.cluster.local",
            id="a service, written out",
        ),
    ],
)
def test_what_passes(url: str, allow: str) -> None:
    assert judged(url, allow) is None


@pytest.mark.parametrize(
    ("url", "allow", "part"),
    [
        pytest.param("http://hooks.example.com/", "https://*", "scheme", id="http where https is allowed"),
        pytest.param("https://hooks.example.com/", "http://*", "scheme", id="https where http is allowed"),
        pytest.param("https://hooks.evil.net/", "https://*.example.com", "host", id="another domain"),
        pytest.param("https://example.com/", "https://*.example.com", "host", id="the bare domain"),
        pytest.param(
            "https://evilexample.com/", "https://*.example.com", "host", id="a name that ends alike"
        ),
        pytest.param(
            "https://hooks.example.com.evil.net/",
            "https://*.example.com",
            "host",
            id="a name that begins alike",
        ),
        pytest.param(
            "https://a.hooks.example.com/", "https://hooks.example.com", "host", id="below a host written out"
        ),
        pytest.param("https://hooks.example.com:8443/", "https://*", "port", id="another port"),
        pytest.param("https://hooks.example.com:80/", "https://hooks.example.com", "port", id="http's port"),
        pytest.param(
            "https://hooks.example.com/other", "https://hooks.example.com/in", "path", id="another path"
        ),
        pytest.param(
            "https://hooks.example.com/inside",
            "https://hooks.example.com/in",
            "path",
            id="a segment that begins alike",
        ),
        pytest.param(
            "https://hooks.example.com/In", "https://hooks.example.com/in", "path", id="the path in capitals"
        ),
    ],
)
def test_the_rule_that_was_missed_is_told(url: str, allow: str, part: str) -> None:
    assert refused(url, allow) == f"no entry of `push.allow` admits the {part} of a webhook's URL"


def test_an_empty_list_allows_nobody() -> None:
    refusal = push.refusal(a_webhook(), compile_push(config.Push(allow=())), offered=True)
    assert refusal is not None
    assert refusal.reason is Reason.PUSH_NOT_OFFERED


def test_the_entry_that_fits_best_is_told_of() -> None:
    assert "path" in refused(
        "https://a.example.com/x", "http://*", "https://b.net", "https://a.example.com/y"
    )


# --- FC-087, FC-088: where nothing may be sent -------------------------------------------------

NUMBERS = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
    *("224.0.0.1", "198.18.0.1", "255.255.255.255", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1"),
    *(
        "017700000001",
        "0177.0.0.1",
        "0x7f.0.0x0.01",
        "127.0.0.0x1",
        "1.1.1.1",
        "8.8.8.8",
        "256.1.1.1",
        "1.2.3.4.5",
    ),
    *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
    *(
        "[2002:7f00:1::]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::7f00:1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    ),
    "[2606:4700:4700::1111]",
]


@pytest.mark.parametrize("host", NUMBERS)
def test_no_wildcard_stands_for_a_number(host: str) -> None:
    assert "a wildcard of `push.allow`" in refused(f"http://{host}/", "http://*:*")


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "[::ffff:127.0.0.1]"]
)
def test_an_address_written_out_does_not_stand_for_its_other_forms(host: str) -> None:
    assert "host" in refused(f"http://{host}/", "http://127.0.0.1")


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "receiver",
            "a.localhost",
            "web.dev.svc",
            "web.dev.svc.cluster.local",
            "printer.local",
        ),
        *(
            "metadata.google.internal",
            "metadata",
            "metadata.goog",
            "METADATA.GOOG",
            "x.home.arpa",
            "LOCALHOST",
        ),
    ],
)
def test_no_wildcard_stands_for_a_name_that_leads_inside(host: str) -> None:
    assert "a wildcard of `push.allow`" in refused(f"https://{host}/")


@pytest.mark.parametrize(
    "address",
    [
        *(
            "0.0.0.0",
            "0.1.2.3",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
        ),
        *("168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192"),
        *(
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.10",
        ),
        *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1"),
        *(
            "64:ff9b::808:808",
            "64:ff9b:1::7f00:1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        ),
        *(
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
        ),
        *("5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1"),
        *("", "localhost", "127.1", "not an address"),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
        ),
        *("168.63.129.15", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255"),
        *("198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111", "2001:4860:4860::8888"),
        *("2001:200::1", "2a00::1", "3ffe::1"),
    ],
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("found", "passes"),
    [
        pytest.param({"a": ["1.1.1.1"]}, True, id="one public address"),
        pytest.param({"a": ["1.1.1.1", "2606:4700:4700::1111"]}, True, id="several public ones"),
        pytest.param({"a": ["1.1.1.1", "::1"]}, False, id="a public and a private one"),
        pytest.param({"a": ["1.1.1.1", "10.0.0.1"]}, False, id="two of one kind, one private"),
        pytest.param({"a": ["169.254.169.254"]}, False, id="a private one"),
        pytest.param({"a": ["64:ff9b::a9fe:a9fe"]}, False, id="IPv4 inside IPv6"),
        pytest.param({"a": []}, False, id="no address"),
        pytest.param({}, False, id="a name that does not resolve, or not in time"),
    ],
)
def test_every_address_must_be_public(found: dict[str, list[str]], passes: bool) -> None:
    refusal = push.unresolved({"a"}, found)
    assert (refusal is None) is passes


def test_a_refusal_tells_nothing_of_the_network() -> None:
    told = {
        refused("https://localhost/"),
        refused("https://10.0.0.1/"),
        *(
            getattr(push.unresolved({"a.example.com"}, found), "detail", None)
            for found in ({}, {"a.example.com": ["10.0.0.1"]}, {"a.example.com": []})
        ),
    }
    assert len(told) == 1


# --- FC-093: header values -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a\r\nX-Evil: 1", id="the end of a line"),
        pytest.param("a\rb", id="CR"),
        pytest.param("a\nb", id="LF"),
        pytest.param("\n", id="LF alone"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("a\tb", id="a tab"),
        pytest.param("a\x7fb", id="DEL"),
        pytest.param("a\x85b", id="NEL, U+0085"),
        pytest.param("a\x9fb", id="another C1 control"),
        pytest.param("\u20ac", id="not Latin-1"),
        pytest.param("\u2028", id="a line separator"),
        pytest.param("\ud800", id="half a character"),
        pytest.param("x" * 8193, id="too long"),
        pytest.param("x" * 1_000_000, id="far too long"),
    ],
)
def test_what_cannot_be_the_value_of_a_header(value: str) -> None:
    for headers in ((value,), ("fine", value)):
        refusal = judged(HOOK, headers=headers)
        assert refusal is not None
        assert refusal.reason is Reason.PUSH_TARGET_REFUSED
        assert value not in refusal.detail + refusal.internal


@pytest.mark.parametrize(
    "value", ["", "Bearer", "s3cret!", "é ÿ", pytest.param("x" * 8192, id="as long as may be")]
)
def test_what_can(value: str) -> None:
    assert judged(HOOK, headers=(value,)) is None


def test_no_more_than_the_host_is_audited() -> None:
    refusal = judged(
        "https://hooks.evil.net/path-secret?query-secret", "https://a.example.com", headers=("token-secret",)
    )
    assert refusal is not None
    assert "hooks.evil.net" in refusal.internal
    assert "secret" not in refusal.internal + refusal.detail


# --- the decision --------------------------------------------------------------------------------


def of(decision: Permit | Refusal) -> Any:
    return decision.reason if isinstance(decision, Refusal) else "permit"


LOCAL = config.Push(allow=("http://127.0.0.1",))
BARE = "http://127.0.0.1/"


@pytest.mark.parametrize(
    ("call", "known", "section", "outcome"),
    [
        pytest.param(a_webhook(BARE), OWNED, LOCAL, "permit", id="what is written out"),
        pytest.param(
            a_webhook(BARE), Known(), LOCAL, Reason.NOT_FOUND, id="on a task that is not the caller's"
        ),
        pytest.param(a_webhook(), OWNED, LOCAL, Reason.PUSH_TARGET_REFUSED, id="what is not allowed"),
        pytest.param(a_webhook(), Known(), LOCAL, Reason.PUSH_TARGET_REFUSED, id="nor on any other task"),
        pytest.param(
            a_webhook(), OWNED, config.Push(mode="disabled", allow=()), "permit", id="a rule that is off"
        ),
        pytest.param(
            a_webhook(), OWNED, config.Push(mode="observe", allow=()), "permit", id="a rule that observes"
        ),
        pytest.param(
            a_webhook(of=SEND), OWNED, LOCAL, Reason.PUSH_TARGET_REFUSED, id="with a message to a task"
        ),
        pytest.param(
            a_webhook(of=SEND, task=None), Known(), LOCAL, Reason.PUSH_TARGET_REFUSED, id="with a new one"
        ),
        pytest.param(
            a_webhook(BARE, of=SEND, task=None), Known(), LOCAL, "permit", id="allowed, with a new one"
        ),
    ],
)
def test_webhooks_are_decided_about(call: Call, known: Known, section: config.Push, outcome: object) -> None:
    policy = a_policy(a_card(), push=section)
    assert of(decide(call, a_principal(), policy, known)) == outcome


def test_what_is_refused_for_itself_is_refused_before_any_look_up() -> None:
    policy = a_policy(a_card(), push=LOCAL)
    assert look_ups(a_webhook(), a_principal(), policy).resources == ()
    assert look_ups(a_webhook(BARE), a_principal(), policy).resources == (TASK,)


def test_a_name_is_resolved_only_for_the_owner_of_the_task() -> None:
    policy = a_policy(a_card())
    permit = decide(a_webhook(), a_principal(), policy, OWNED)
    assert isinstance(permit, Permit)
    assert permit.resolve == {"hooks.example.com"}
    assert of(decide(a_webhook(), a_principal(), policy, Known())) is Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("addresses", "outcome"),
    [
        (PUBLIC, "permit"),
        ({"hooks.example.com": ["10.0.0.1"]}, Reason.PUSH_TARGET_REFUSED),
        ({}, Reason.PUSH_TARGET_REFUSED),
    ],
)
def test_then_what_was_found_decides(addresses: dict[str, list[str]], outcome: object) -> None:
    decision = decide(a_webhook(), a_principal(), a_policy(a_card()), OWNED._replace(addresses=addresses))
    assert of(decision) == outcome
    assert not isinstance(decision, Permit) or not decision.resolve


def test_observing_says_what_it_saw_of_the_addresses_too() -> None:
    policy = a_policy(a_card(), push=config.Push(mode="observe"))
    permit = decide(a_webhook(), a_principal(), policy, OWNED._replace(addresses={}))
    assert isinstance(permit, Permit)
    assert permit.observed is not None
    assert permit.observed.reason is Reason.PUSH_TARGET_REFUSED


@pytest.mark.parametrize("section", [config.Push(resolve=False), config.Push(mode="disabled")])
def test_nothing_is_resolved_where_the_policy_says_so(section: config.Push) -> None:
    permit = decide(a_webhook(), a_principal(), a_policy(a_card(), push=section), OWNED)
    assert isinstance(permit, Permit)
    assert not permit.resolve


@pytest.mark.parametrize("call", [a_webhook(), a_webhook(of=SEND), a_webhook(of=SEND, task=None)])
@pytest.mark.parametrize("facts", [OWNED.facts, {}])
def test_without_push_notifications_no_webhook_is_accepted(call: Call, facts: Facts) -> None:
    decision = decide(call, a_principal(), a_policy(a_card(push=False)), Known(facts))
    assert of(decision) is Reason.PUSH_NOT_OFFERED
    plain = call._replace(push=())
    assert (
        call.operation is CREATE
        or of(decide(plain, a_principal(), a_policy(a_card(push=False)), OWNED)) == "permit"
    )


@pytest.mark.parametrize(
    ("call", "names"),
    [
        pytest.param(a_webhook(id_="p"), ("id:p",), id="a config with an id"),
        pytest.param(a_webhook(), ("",), id="one whose id the agent will choose"),
        pytest.param(a_webhook(of=SEND, id_="p"), ("id:p",), id="an inline one with an id"),
        pytest.param(
            a_call(Operation.DELETE_PUSH_CONFIG, task="t-1")._replace(config_id="p"),
            ("id:p",),
            id="a deletion",
        ),
        pytest.param(
            a_call(Operation.GET_PUSH_CONFIG, task="t-1")._replace(config_id="p"), None, id="a look at one"
        ),
        pytest.param(a_call(SEND, task="t-1"), None, id="a message without any"),
    ],
)
def test_what_a_webhook_is_counted_under(call: Call, names: tuple[str, ...] | None) -> None:
    permit = decide(call, a_principal(), a_policy(a_card(), push=config.Push(per_task=3)), OWNED)
    assert isinstance(permit, Permit)
    assert permit.webhooks == (None if names is None else Webhooks(names, 3, enforcing=True))


def test_an_inline_webhook_without_an_id_counts_by_its_url_and_tells_nothing_of_it() -> None:
    first, again = (push.names(a_webhook(HOOK, token, of=SEND)) for token in ("s-1", "s-2"))
    assert first == again
    assert first != push.names(a_webhook(f"{HOOK}/x", of=SEND))
    assert "hooks" not in first[0]


def test_more_webhooks_in_one_call_than_a_task_may_have_are_refused_at_once() -> None:
    targets = tuple(PushTarget(HOOK, (), f"p-{n}") for n in range(3))
    call = a_call(SEND)._replace(push=targets)
    for limit, outcome in ((2, Reason.PUSH_LIMIT_REACHED), (3, "permit")):
        policy = a_policy(a_card(), push=config.Push(per_task=limit))
        assert of(decide(call, a_principal(), policy, Known())) == outcome


def test_nothing_is_counted_of_what_is_not_the_callers() -> None:
    observing = a_policy(a_card(), ownership=config.Ownership(mode="observe"))
    permit = decide(a_webhook(), a_principal(ALICE), observing, Known())
    assert isinstance(permit, Permit)
    assert permit.webhooks is None
