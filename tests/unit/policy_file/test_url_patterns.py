"""Patterns of `push.allow`: what they may be, what they admit, and what each wrong one is told."""

from __future__ import annotations

import pytest

from sidecar.policy_file.url_patterns import UrlPattern, canonical_host, is_inside, is_number, read_pattern


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        pytest.param("https://*", UrlPattern("https", "*", 443), id="any public host"),
        pytest.param("http://*", UrlPattern("http", "*", 80), id="without TLS"),
        pytest.param("https://*:*", UrlPattern("https", "*", None), id="on any port"),
        pytest.param(
            "https://*.example.com", UrlPattern("https", "*.example.com", 443), id="names below one"
        ),
        pytest.param("https://a.example.com:8443", UrlPattern("https", "a.example.com", 8443), id="a port"),
        pytest.param("https://a.example.com/", UrlPattern("https", "a.example.com", 443), id="a bare slash"),
        pytest.param(
            "https://a.example.com/x/y", UrlPattern("https", "a.example.com", 443, "/x/y"), id="a path"
        ),
        pytest.param("http://127.0.0.1:9", UrlPattern("http", "127.0.0.1", 9), id="an address, written out"),
        pytest.param("http://[::1]:9", UrlPattern("http", "::1", 9), id="an IPv6 address, written out"),
        pytest.param("http://hooks:9", UrlPattern("http", "hooks", 9), id="one label, written out"),
        pytest.param("http://a.b.svc", UrlPattern("http", "a.b.svc", 80), id="a service, written out"),
        pytest.param(
            "https://xn--bcher-kva.de", UrlPattern("https", "xn--bcher-kva.de", 443), id="an A-label"
        ),
    ],
)
def test_what_a_pattern_says(text: str, pattern: UrlPattern) -> None:
    assert read_pattern(text) == pattern


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "must begin with `https://`", id="nothing"),
        pytest.param("*", "must begin with `https://`", id="no scheme"),
        pytest.param("example.com", "must begin with `https://`", id="a bare name"),
        pytest.param("ftp://a.example.com", "must begin with `https://`", id="another scheme"),
        pytest.param("*://a.example.com", "must begin with `https://`", id="any scheme"),
        pytest.param("https:/a.example.com", "must begin with `https://`", id="one slash"),
        pytest.param("HTTPS://a.example.com", "write `https://`", id="a scheme in capitals"),
        pytest.param("https://a.example.com?x", "must begin with", id="a query"),
        pytest.param("https://a.example.com#x", "must begin with", id="a fragment"),
        pytest.param("https://u@a.example.com", "user-info", id="user-info"),
        pytest.param("https://", "names no host; write `*`", id="no host"),
        pytest.param("https://:443", "names no host; write `*`", id="a port alone"),
        pytest.param("https://a.example.com:1:2", "at most one port", id="two ports"),
        pytest.param("https://::1", "has no host with at most one port", id="IPv6 without brackets"),
        pytest.param("https://*example.com", "whole labels", id="part of a label"),
        pytest.param("https://a.*.example.com", "whole labels", id="a label in the middle"),
        pytest.param("https://*.*", "whole labels", id="two wildcards"),
        pytest.param("https://A.example.com", "write `a.example.com`", id="a host in capitals"),
        pytest.param("https://a.example.com.", "names no valid host", id="a final dot"),
        pytest.param("https://a..example.com", "names no valid host", id="an empty label"),
        pytest.param("https://bücher.de", "ASCII form (`xn--…`)", id="an international name"),
        pytest.param("https://a b", "names no valid host", id="a blank"),
        pytest.param(f"https://{'a' * 64}.de", "names no valid host", id="a label too long"),
        pytest.param("http://127.1", "four decimal parts", id="a short address"),
        pytest.param("http://0x7f000001", "four decimal parts", id="a hexadecimal address"),
        pytest.param("http://2130706433", "four decimal parts", id="a decimal address"),
        pytest.param("http://127.0.0.01", "four decimal parts", id="an octal part"),
        pytest.param("http://[0:0::1]", "write `[::1]`", id="a long IPv6 address"),
        pytest.param("http://[fe80::1%eth0]", "names no valid host", id="an IPv6 zone"),
        pytest.param("http://[v1.x]", "names no valid host", id="a future address"),
        pytest.param("http://*.0.0.1", "`*` before an address", id="a wildcard before numbers"),
        pytest.param("https://*.svc.cluster.local", "would admit nothing", id="names of a cluster"),
        pytest.param("https://*.internal", "would admit nothing", id="internal names"),
        pytest.param("https://a.example.com:0", "no valid port", id="port zero"),
        pytest.param("https://a.example.com:65536", "no valid port", id="a port too high"),
        pytest.param("https://a.example.com:0443", "no valid port", id="a port with a zero before it"),
        pytest.param("https://a.example.com:", "no valid port", id="an empty port"),
        pytest.param("https://a.example.com/x/", "not canonical", id="a slash at the end"),
        pytest.param("https://a.example.com//x", "not canonical", id="an empty segment"),
        pytest.param("https://a.example.com/x/../y", "not canonical", id="dot segments"),
        pytest.param("https://a.example.com/%78", "not canonical", id="an escape"),
        pytest.param("https://a.example.com/*", "not canonical", id="a wildcard in the path"),
        pytest.param("https://a.example.com/x y", "not canonical", id="a blank in the path"),
    ],
)
def test_what_a_wrong_one_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_pattern(text)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "host", "admitted"),
    [
        ("https://*.example.com", "a.example.com", True),
        ("https://*.example.com", "a.b.example.com", True),
        ("https://*.example.com", "example.com", False),
        ("https://*.example.com", ".example.com", False),
        ("https://*.example.com", "aexample.com", False),
        ("https://*.example.com", "a.example.com.evil.net", False),
        ("https://a.example.com", "a.example.com", True),
        ("https://a.example.com", "b.a.example.com", False),
        ("https://*", "anything.at.all", True),
    ],
)
def test_hosts_a_pattern_admits(pattern: str, host: str, admitted: bool) -> None:
    assert read_pattern(pattern).admits_host(host) is admitted


@pytest.mark.parametrize(
    ("path", "admitted"),
    [("/x", True), ("/x/", True), ("/x/y", True), ("/xy", False), ("/", False), ("", False), ("/y/x", False)],
)
def test_a_path_is_whole_segments(path: str, admitted: bool) -> None:
    assert read_pattern("https://a.example.com/x").admits_path(path) is admitted


@pytest.mark.parametrize(
    ("host", "one"),
    [
        ("A.Example.COM", "a.example.com"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::FFFF:127.0.0.1]", "::ffff:7f00:1"),
        ("a_b.example.com", "a_b.example.com"),
        ("example.com.", None),
        ("-a.example.com", None),
        ("", None),
        ("[::1%25eth0]", None),
        ("[::1", None),
        ("exam\u017fple.com", None),  # long s folds to s
        ("１２７.0.0.1", None),  # full-width digits are digits to a client that normalises
        ("a%2eb", None),
        (".".join(["a" * 63] * 4), None),
    ],
)
def test_a_host_has_one_spelling(host: str, one: str | None) -> None:
    assert canonical_host(host) == one


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "1", "0x7f.1", "0x", "017700000001", "a.1", "::1", "a.0x1f"]
)
def test_numbers_in_every_form(host: str) -> None:
    assert is_number(host)


@pytest.mark.parametrize("host", ["1.example.com", "127.0.0.1.nip.io", "a1", "x7f", "1a", "0xyz.example.com"])
def test_names_with_digits(host: str) -> None:
    assert not is_number(host)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "hooks", "a.localhost", "printer.local", "web.dev.svc", "web.dev.svc.cluster.local"),
        *("metadata.google.internal", "metadata.goog", "x.home.arpa", "nas.lan", "vault.corp", "x.invalid"),
    ],
)
def test_names_that_lead_inside(host: str) -> None:
    assert is_inside(host)


@pytest.mark.parametrize(
    "host", ["example.com", "internal.example.com", "local.net", "mylocal.example", "a.arpa"]
)
def test_names_that_may_lead_outside(host: str) -> None:
    assert not is_inside(host)
