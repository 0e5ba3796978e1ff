"""Asking a real issuer for its keys, and what it may not lead us to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from sidecar import config
from sidecar.identity import fetch, line
from sidecar.identity.fetch import addresses, fetch_key_set
from sidecar.identity.jwks import KeySet
from sidecar.identity.line import Line, Unobtainable
from tests.issuer import METADATA, Issuer


def of(issuer: str, **settings: Any) -> config.Issuer:
    return config.Issuer.model_construct(issuer=issuer, audiences=("a",), **settings)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def keys_of(session: aiohttp.ClientSession, issuer: config.Issuer) -> KeySet:
    return await fetch_key_set(Line(issuer, lambda: session))


OPENID, OAUTH = METADATA


@pytest.mark.parametrize(
    ("issuer", "settings", "asked"),
    [
        pytest.param("https://a.example", {}, [f"https://a.example{OPENID}", f"https://a.example{OAUTH}"], id="bare"),
        pytest.param("https://a.example/", {}, [f"https://a.example{OPENID}", f"https://a.example{OAUTH}"],
                     id="a final slash is dropped"),
        pytest.param("https://a.example:8443/r/x", {},
                     [f"https://a.example:8443/r/x{OPENID}", f"https://a.example:8443{OAUTH}/r/x"],
                     id="a path comes before OpenID's suffix and after OAuth's"),
        pytest.param("https://a.example/my%20realm/", {},
                     [f"https://a.example/my%20realm{OPENID}", f"https://a.example{OAUTH}/my%20realm"],
                     id="an escaped path stays escaped"),
        pytest.param("http://localhost:1/r", {}, [f"http://localhost:1/r{OPENID}", f"http://localhost:1{OAUTH}/r"],
                     id="http on loopback"),
        pytest.param("http://[::1]:1", {}, [f"http://[::1]:1{OPENID}", f"http://[::1]:1{OAUTH}"], id="http on ::1"),
        pytest.param("http://idp:1", {"allow_http": True}, [f"http://idp:1{OPENID}", f"http://idp:1{OAUTH}"],
                     id="http where the policy allows it"),
        pytest.param("anything", {"jwks_uri": "https://a.example/k?v=1"}, ["https://a.example/k?v=1"],
                     id="an explicit address is the only one"),
    ],
)  # fmt: skip
def test_where_keys_are_looked_for(issuer: str, settings: dict[str, Any], asked: list[str]) -> None:
    assert [str(url) for url in addresses(of(issuer, **settings))] == asked


@pytest.mark.parametrize(
    "text",
    [
        "http://a.example", "http://10.0.0.1/", "http://localhost.evil.example/", "http://127.0.0.1.nip.example",
        "ftp://a.example/", "file:///etc/passwd", "https://", "a.example", "", "https://user:pw@a.example/",
        "https://@a.example:x/", "https://a.example/#top",
    ],
)  # fmt: skip
def test_addresses_that_may_not_be_asked(text: str) -> None:
    with pytest.raises(ValueError):
        addresses(of(text))
    with pytest.raises(ValueError):
        addresses(of("https://a.example", jwks_uri=text))


def test_an_issuer_with_a_query_has_no_metadata_address() -> None:
    with pytest.raises(ValueError, match="query"):
        addresses(of("https://a.example/?tenant=1"))


@pytest.mark.parametrize("path", ["", "/", "/realms/a", "/realms/a/"])
@pytest.mark.parametrize("document", METADATA)
async def test_keys_are_discovered(session: aiohttp.ClientSession, path: str, document: str) -> None:
    async with Issuer(path=path) as idp:
        idp.metadata_at = (document,)
        found = await keys_of(session, of(idp.url))
        assert [key.kid for key in found.keys] == ["key-0"]


async def test_an_explicit_address_needs_no_metadata(session: aiohttp.ClientSession, idp: Issuer) -> None:
    await keys_of(session, of("urn:any", jwks_uri=idp.jwks_uri))
    assert idp.requests == ["/keys"]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"issuer": "https://other.example"}, id="of another issuer"),
        pytest.param({"issuer": None}, id="of no issuer"),
        pytest.param({"jwks_uri": None}, id="without keys"),
        pytest.param({"jwks_uri": ["/keys"]}, id="with a list of keys addresses"),
        pytest.param({"jwks_uri": "/keys"}, id="with a relative address"),
        pytest.param({"jwks_uri": "http://idp.example/keys"}, id="leading to http elsewhere"),
        pytest.param({"jwks_uri": "file:///etc/passwd"}, id="leading to a file"),
    ],
)
async def test_metadata_that_is_not_followed(
    session: aiohttp.ClientSession, idp: Issuer, metadata: dict[str, Any]
) -> None:
    idp.metadata = metadata
    with pytest.raises(Unobtainable):
        await keys_of(session, of(idp.url))
    assert idp.fetches == 0


def test_an_https_issuer_cannot_send_us_to_our_own_loopback() -> None:
    document = {"issuer": "https://a.example", "jwks_uri": "http://127.0.0.1:9000/keys"}
    with pytest.raises(ValueError, match="https"):
        fetch._named_address(of("https://a.example"), document, "jwks_uri")


@pytest.mark.parametrize(
    "behaviour", ["500", "html", "empty", "invalid", "twins", "redirect", "huge", "drop"]
)
@pytest.mark.parametrize("explicit", [True, False])
async def test_fc046_an_answer_that_is_no_key_set(
    session: aiohttp.ClientSession, idp: Issuer, behaviour: str, explicit: bool
) -> None:
    idp.behaviour = behaviour
    with pytest.raises(Unobtainable):
        await keys_of(session, of(idp.url, jwks_uri=idp.jwks_uri if explicit else None))
    assert "/moved" not in idp.requests


async def test_an_issuer_that_is_down(session: aiohttp.ClientSession, idp: Issuer) -> None:
    await idp.down()
    with pytest.raises(Unobtainable):
        await keys_of(session, of(idp.url))


async def test_an_issuer_that_does_not_answer(
    session: aiohttp.ClientSession, idp: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "TIME_LIMIT", 0.05)
    idp.open.clear()
    with pytest.raises(Unobtainable, match=r"0\.05 s"):
        await keys_of(session, of(idp.url))
