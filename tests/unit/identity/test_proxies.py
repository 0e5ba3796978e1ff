"""Which proxy leads to an address, by the environment."""

from __future__ import annotations

import pytest
from yarl import URL

from sidecar import config
from sidecar.identity.proxies import Proxy, proxy_for

BOTH = {"http": "http://plain:1", "https": "http://secure:2"}


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        pytest.param("https://a.example/k", {}, None, id="no proxy is named"),
        pytest.param("https://a.example/k", BOTH, "http://secure:2", id="https by the one for https"),
        pytest.param("http://a.example/k", BOTH, "http://plain:1", id="http by the one for http"),
        pytest.param("https://a.example/k", {"http": "http://plain:1"}, None, id="https not by the one for http"),
        pytest.param("https://a.example/k", {"all": "http://any:3"}, "http://any:3", id="anything by the one for all"),
        pytest.param("https://a.example/k", {"https": "", "all": "http://any:3"}, "http://any:3", id="an empty one is none"),
        pytest.param("https://a.example/k", {"https": "proxy:3128"}, "http://proxy:3128", id="without a scheme it is http"),
        pytest.param("https://a.example/k", {"https": "http://proxy:3128/"}, "http://proxy:3128", id="with a final slash"),
        pytest.param("https://a.example/k", {"https": "https://proxy"}, "https://proxy", id="a proxy spoken to by TLS"),
        *(
            pytest.param(url, {**BOTH, "all": "http://any:3"}, None, id=f"never for this machine: {url}")
            for url in (
                "http://127.0.0.1:1/k", "http://127.8.8.8/k", "https://localhost/k", "http://LOCALHOST/k",
                "http://localhost./k", "http://[::1]:1/k",
            )
        ),
        pytest.param("https://127.0.0.1.nip.example/k", BOTH, "http://secure:2", id="a name that only looks local"),
    ],
)  # fmt: skip
def test_the_proxy_on_the_way(url: str, environment: dict[str, str], expected: str | None) -> None:
    found = proxy_for(URL(url), environment)
    assert found == (None if expected is None else Proxy(URL(expected)))


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("a.example", "https://a.example", True),
        ("A.Example", "https://a.EXAMPLE", True),
        (".a.example", "https://a.example", True),
        ("*.a.example", "https://b.a.example", True),
        ("a.example", "https://b.a.example", True),
        ("a.example.", "https://a.example", True),
        ("a.example", "https://ba.example", False),
        ("a.example", "https://a.example.org", False),
        ("x, a.example", "https://a.example", True),
        ("x a.example", "https://a.example", True),
        ("*", "https://a.example", True),
        ("x,*", "https://a.example", False),
        ("", "https://a.example", False),
        (",", "https://a.example", False),
        (".", "https://a.example", False),
        ("a.example:8443", "https://a.example:8443", True),
        ("a.example:8443", "https://a.example", False),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.1/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("10.1.2.3", "https://10.1.2.3:8443", True),
        ("0.1.2.3", "https://10.1.2.3", False),
        ("fd00::/8", "https://[fd00::1]", True),
        ("[fd00::1]", "https://[fd00::1]", True),
        ("10.0.0.0/8", "https://10.example", False),
    ],
)
def test_what_needs_no_proxy(no_proxy: str, url: str, direct: bool) -> None:
    assert (proxy_for(URL(url), {**BOTH, "no": no_proxy}) is None) is direct


def test_credentials_go_into_a_header_and_out_of_every_text() -> None:
    found = proxy_for(URL("https://a.example"), {"https": "http://me:p%40ss%3A@proxy:3128"})
    assert found == Proxy(URL("http://proxy:3128"), "Basic bWU6cEBzczo=")
    assert "bWU6" not in repr(found)
    assert proxy_for(URL("https://a.example"), {"https": "me@proxy:1"}) == Proxy(
        URL("http://proxy:1"), "Basic bWU6"
    )


@pytest.mark.parametrize(
    "named", ["socks5://me:canary@proxy:1", "http://me:canary@proxy:port", "http://me:canary@", "ftp://canary"]
)  # fmt: skip
def test_a_proxy_that_cannot_be_used_is_no_reason_to_go_without(named: str) -> None:
    with pytest.raises(ValueError) as refused:
        proxy_for(URL("https://a.example"), {"https": named})
    assert "canary" not in str(refused.value)


def test_the_environment_is_read_as_curl_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://upper:1")
    monkeypatch.setenv("no_proxy", "a.example")
    found = config.proxies_in_environment()
    assert (found["https"], found["no"]) == ("http://upper:1", "a.example")
    monkeypatch.setenv("https_proxy", "http://lower:1")
    assert config.proxies_in_environment()["https"] == "http://lower:1"
