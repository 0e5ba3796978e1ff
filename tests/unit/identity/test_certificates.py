"""What a client certificate says, and whose word about one is believed."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.identity.certificates import CERTIFICATE_ISSUER, Certificate, Certificates, forwarded, read
from sidecar.identity.invalid import InvalidToken
from sidecar.model import Head, Owner
from tests.certificates import Authority

CA = Authority()
PLANNER = "spiffe://example.org/ns/prod/sa/planner"
INGRESS = "spiffe://example.org/ingress"
HASH = "ab" * 32
NOW = time.time()
THUMBPRINT = urlsafe_b64encode(bytes.fromhex(HASH)).rstrip(b"=").decode()


def head(der: bytes | None = None, *told: str) -> Head:
    pairs = [("x-forwarded-client-cert", one) for one in told]
    return Head("GET", "/", CIMultiDictProxy(CIMultiDict(pairs)), certificate=der)


@pytest.mark.parametrize(
    ("names", "read_as"),
    [
        pytest.param((PLANNER,), (PLANNER,), id="a SPIFFE id"),
        pytest.param(("planner.example.org",), ("dns:planner.example.org",), id="a DNS name"),
        pytest.param(
            (PLANNER, "a.example", "b.example"), (PLANNER, "dns:a.example", "dns:b.example"), id="both"
        ),
        pytest.param((PLANNER, INGRESS), (), id="two SPIFFE ids are none (X509-SVID §2)"),
        pytest.param((PLANNER, "https://example.org/x"), (), id="a SPIFFE id beside another URI"),
        pytest.param(("https://example.org/x",), (), id="a URI that is no SPIFFE id"),
        pytest.param(("spiffe://example.org",), (), id="a trust domain is nobody"),
        pytest.param(("spiffe://example.org/a/../b",), (), id="dot segments are no name"),
        pytest.param(
            ("spiffe://example.org/a/..b.",), ("spiffe://example.org/a/..b.",), id="dots in one are"
        ),
        pytest.param(("spiffe://example.org/a%2fb",), (), id="an encoded slash"),
        pytest.param(("*.example.org",), (), id="a wildcard is no name"),
        pytest.param(("PLANNER.example.org",), ("dns:planner.example.org",), id="DNS has no case"),
        pytest.param(("127.0.0.1",), (), id="an address is no name"),
        pytest.param((), (), id="no name at all"),
    ],
)
def test_the_names_of_a_certificate(names: tuple[str, ...], read_as: tuple[str, ...]) -> None:
    issued = CA.client(*names, common_name="spiffe://example.org/ns/prod/sa/admin")
    found = read(issued.der)
    assert found.names == read_as
    assert found.thumbprint == urlsafe_b64encode(sha256(issued.der).digest()).rstrip(b"=").decode()
    assert found.expires_at == issued.certificate.not_valid_after_utc.timestamp()


def test_what_is_no_certificate_has_no_names() -> None:
    assert read(b"x").names == ()


@pytest.mark.parametrize(
    ("patterns", "names", "who"),
    [
        pytest.param((PLANNER,), (PLANNER,), PLANNER, id="by its name"),
        pytest.param(("spiffe://example.org/ns/prod/*",), (PLANNER,), PLANNER, id="by what is above it"),
        pytest.param(("spiffe://example.org/*",), (PLANNER,), PLANNER, id="by its trust domain"),
        pytest.param(("spiffe://example.org/ns/pro/*",), (PLANNER,), None, id="not by half a segment"),
        pytest.param(("spiffe://example.org/ns/prod/sa",), (PLANNER,), None, id="not without the star"),
        pytest.param((PLANNER + "/x",), (PLANNER,), None, id="not by what is below"),
        pytest.param(("spiffe://example.com/*",), (PLANNER,), None, id="another trust domain"),
        pytest.param(("dns:a.example",), ("dns:a.example",), "dns:a.example", id="by DNS name"),
        pytest.param(
            ("dns:a.example", "dns:b.example"),
            ("dns:a.example", "dns:b.example"),
            None,
            id="two names, nobody",
        ),
        pytest.param(("dns:a.example",), ("dns:a.example", "dns:b.example"), "dns:a.example", id="one known"),
        pytest.param((PLANNER, "dns:a.example"), (PLANNER, "dns:a.example"), PLANNER, id="SPIFFE before DNS"),
        pytest.param((), (PLANNER,), None, id="an empty list knows nobody"),
    ],
)
def test_who_may_call_by_certificate(patterns: tuple[str, ...], names: tuple[str, ...], who: Any) -> None:
    known = Certificates(config.Certificates(principals=patterns), ("azp",))
    found = known.principal(Certificate(THUMBPRINT, names, 17.0))
    if who is None:
        assert found is None
    else:
        assert found is not None
        assert found.owner == Owner("", CERTIFICATE_ISSUER, who, ("",))
        assert (found.scopes, found.expires_at) == (None, 17.0)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        pytest.param(f"By=x;Hash={HASH};URI={PLANNER}", (PLANNER,), id="as Envoy writes it"),
        pytest.param(
            f'By=x;Hash={HASH};Subject="CN=a,O=\\"b;c\\"";URI={PLANNER};DNS=a.example;DNS=b.example',
            (PLANNER, "dns:a.example", "dns:b.example"),
            id="quoted values hold separators",
        ),
        pytest.param(f"hash={HASH.upper()};uri={PLANNER}", (PLANNER,), id="keys and digits have no case"),
        pytest.param(
            f"Hash={'cd' * 32};URI={INGRESS},Hash={HASH};URI={PLANNER}", (PLANNER,), id="the last counts"
        ),
        pytest.param(
            f"Hash={'cd' * 32};URI={INGRESS}, By=x;Hash={HASH}",
            (),
            id="the last has no name, whoever came before",
        ),
        pytest.param(f'By=x;Hash={HASH};Subject="";URI=', (), id="an empty name"),
        pytest.param(f"Hash={HASH};URI={PLANNER};URI={INGRESS}", (), id="two SPIFFE ids"),
    ],
)
def test_what_a_proxy_tells(header: str, names: tuple[str, ...]) -> None:
    assert forwarded(header) == Certificate(THUMBPRINT, names)


@pytest.mark.parametrize(
    "header",
    [
        *("", "x", f"URI={PLANNER}", f"Hash={HASH[:-1]}", f"Hash={HASH}x", f"Hash=sha256:{HASH}"),
        *(f"Hash={HASH};Hash={'cd' * 32}", f"Hash={HASH},", f"Hash={HASH},,URI={PLANNER}"),
        # A caller's own word that would swallow the proxy's, were quotes read loosely.
        *(f'Hash={HASH};X="', f'Hash={HASH};X=",Hash={"cd" * 32};Subject="CN=b"'),
        *(f'Hash={HASH};X="a"b', f"Hash={HASH};=x", f"Hash={HASH}" + ";X=y" * 20_000),
    ],
)
def test_what_a_proxy_tells_and_nobody_can_read(header: str) -> None:
    with pytest.raises(InvalidToken):
        forwarded(header)


def test_a_word_made_to_be_read_slowly_is_not() -> None:
    """Blanks before a quote that does not belong there: it took a time that grew with their square."""
    for odd in (f'Subject=a{" " * 15_000}"', f"{'a' * 15_000}", f'Subject="{" " * 15_000}', " " * 15_000):
        with pytest.raises(InvalidToken):
            forwarded(odd)


def test_whose_word_about_a_caller_is_believed() -> None:
    known = Certificates(config.Certificates(forwarded_by=(INGRESS,)), ())
    told = f"Hash={HASH};URI={PLANNER}"
    proxy, caller = CA.client(INGRESS).der, CA.client("spiffe://example.org/mallory").der
    assert known.of(head(proxy, told), NOW) == Certificate(THUMBPRINT, (PLANNER,))
    assert known.of(head(proxy), NOW) is None, "the proxy is nobody by itself"
    assert known.of(head(caller, told), NOW) == read(caller), "anybody else's word is not heard"
    assert known.of(head(None, told), NOW) is None, "nor that of one without a certificate"
    with pytest.raises(InvalidToken):
        known.of(head(proxy, told, told), NOW)
    with pytest.raises(InvalidToken):
        known.of(head(proxy, "x"), NOW)


def test_a_certificate_that_has_expired_since_is_none() -> None:
    known = Certificates(config.Certificates(principals=(PLANNER,), forwarded_by=(INGRESS,)), ())
    for name in (PLANNER, INGRESS, "spiffe://example.org/mallory"):
        shown = head(CA.client(name, expired=True).der, f"Hash={HASH};URI={PLANNER}")
        with pytest.raises(InvalidToken, match="expired"):
            known.of(shown, NOW)
