"""The way to an issuer: through a proxy, and believing whom."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sidecar import config
from sidecar.identity.fetch import fetch_key_set
from sidecar.identity.line import Line, Unobtainable, open_session
from tests.certificates import HERE, Authority, Issued, put
from tests.forward_proxy import ForwardProxy
from tests.issuer import Issuer

NAME = "idp.example"  # which nobody but the proxy knows


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def serving(issued: Issued, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issued.write(folder, "server"))
    return context


def of(idp: Issuer, **settings: Any) -> config.Issuer:
    return config.Issuer(issuer=idp.url, audiences=("a",), **settings)


async def kids(session: aiohttp.ClientSession, issuer: config.Issuer) -> list[str | None]:
    return [key.kid for key in (await fetch_key_set(Line(issuer, lambda: session))).keys]


# --- whom to believe -----------------------------------------------------------------------------


async def test_the_authorities_of_the_policy_vouch_for_the_issuer(
    session: aiohttp.ClientSession, authority: Authority, tmp_path: Path
) -> None:
    ca = authority.write(tmp_path / "ca.pem")
    async with Issuer(tls=serving(authority.server(), tmp_path), host="localhost") as idp:
        assert await kids(session, of(idp, ca_file=ca)) == ["key-0"]


@pytest.mark.parametrize("how", ["the system's authorities", "another authority", "another name", "expired"])
async def test_an_issuer_nobody_vouches_for_is_not_asked(
    session: aiohttp.ClientSession, authority: Authority, tmp_path: Path, how: str
) -> None:
    issued = authority.server(["other.example"] if how == "another name" else HERE, expired=how == "expired")
    other = Authority().write(tmp_path / "other.pem")
    ca = {"the system's authorities": None, "another authority": other}.get(
        how, authority.write(tmp_path / "ca.pem")
    )
    async with Issuer(tls=serving(issued, tmp_path), host="localhost") as idp:
        with pytest.raises(Unobtainable, match="ertificate"):
            await kids(session, of(idp, ca_file=ca))
        assert idp.requests == []


async def test_authorities_may_change_and_the_last_good_ones_stand(
    session: aiohttp.ClientSession, authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    Authority().write(path)
    async with Issuer(tls=serving(authority.server(), tmp_path), host="localhost") as idp:
        line = Line(of(idp, ca_file=str(path)), lambda: session)
        with pytest.raises(Unobtainable):
            await fetch_key_set(line)
        authority.write(path)
        assert await fetch_key_set(line)
        put(path, b"garbage")
        assert await fetch_key_set(line)


async def test_without_its_authorities_an_issuer_is_not_asked(
    session: aiohttp.ClientSession, authority: Authority, tmp_path: Path
) -> None:
    async with Issuer(tls=serving(authority.server(), tmp_path), host="localhost") as idp:
        for content in (b"", b"garbage", b"# only a comment, \xc3\xa4\n", authority.issued.key_pem()):
            with pytest.raises(Unobtainable, match=r"ca\.pem` has no certificates"):
                await kids(session, of(idp, ca_file=put(tmp_path / "ca.pem", content)))


async def test_a_bundle_may_have_comments(
    session: aiohttp.ClientSession, authority: Authority, tmp_path: Path
) -> None:
    bundle = "# für alle\n".encode() + Authority().issued.pem + b"# ours\n" + authority.issued.pem
    async with Issuer(tls=serving(authority.server(), tmp_path), host="localhost") as idp:
        assert await kids(session, of(idp, ca_file=put(tmp_path / "ca.pem", bundle))) == ["key-0"]


# --- through a proxy -----------------------------------------------------------------------------


@pytest.mark.parametrize("credentials", [None, "me:p@ss"])
async def test_http_goes_through_the_proxy(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, credentials: str | None
) -> None:
    async with Issuer(host=NAME) as idp, ForwardProxy(credentials) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{'me:p%40ss@' if credentials else ''}{proxy.address}")
        assert await kids(session, of(idp, allow_http=True)) == ["key-0"]
        assert proxy.asked[-1] == f"GET {idp.jwks_uri} HTTP/1.1"
        assert not any("Proxy-Authorization" in headers for headers in idp.headers)


@pytest.mark.parametrize("credentials", [None, "me:p@ss"])
async def test_https_goes_through_a_tunnel(
    session: aiohttp.ClientSession, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    credentials: str | None,
) -> None:  # fmt: skip
    ca = authority.write(tmp_path / "ca.pem")
    tls = serving(authority.server([NAME]), tmp_path)
    async with Issuer(host=NAME, tls=tls) as idp, ForwardProxy(credentials) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{'me:p%40ss@' if credentials else ''}{proxy.address}")
        assert await kids(session, of(idp, ca_file=ca)) == ["key-0"]
        assert set(proxy.asked) == {f"CONNECT {idp.origin.removeprefix('https://')} HTTP/1.1"}
        assert b"key-0" not in proxy.seen
        assert idp.fetches == 1
        assert not any("Proxy-Authorization" in headers for headers in idp.headers)
        # The tunnel changes nothing about whom we believe.
        with pytest.raises(Unobtainable, match="ertificate"):
            await kids(session, of(idp))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_a_password_is_told_none_by_texts(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    async with Issuer() as idp, ForwardProxy("me:right") as proxy:
        monkeypatch.setenv("all_proxy", f"http://me:canary@{proxy.address}")
        issuer = config.Issuer(
            issuer=f"{scheme}://{NAME}", jwks_uri=idp.jwks_uri.replace("http://127.0.0.1", f"{scheme}://{NAME}"),
            audiences=("a",), allow_http=True,
        )  # fmt: skip
        with pytest.raises(Unobtainable) as failed:
            await kids(session, issuer)
        assert "407" in str(failed.value)
        assert "canary" not in str(failed.value)
        assert failed.value.__cause__ is None
        assert idp.requests == []


@pytest.mark.parametrize("named", ["http://me:canary@127.0.0.1:9", "socks5://me:canary@127.0.0.1:9"])
async def test_a_proxy_that_is_not_there_is_not_gone_round(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("https_proxy", named)
    with pytest.raises(Unobtainable) as failed:
        await kids(session, config.Issuer(issuer=f"https://{NAME}", audiences=("a",)))
    assert "prox" in str(failed.value).lower() or "127.0.0.1:9" in str(failed.value)
    assert "canary" not in str(failed.value)


async def test_no_proxy_stands_between_ports_of_one_machine(
    session: aiohttp.ClientSession, idp: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ForwardProxy() as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
        assert await kids(session, of(idp)) == ["key-0"]
        assert proxy.asked == []


async def test_no_credential_comes_from_netrc(
    session: aiohttp.ClientSession, idp: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = put(tmp_path / "netrc", b"machine 127.0.0.1 login me password canary\n")
    monkeypatch.setenv("NETRC", netrc)
    assert await kids(session, of(idp)) == ["key-0"]
    assert not any("Authorization" in headers for headers in idp.headers)
