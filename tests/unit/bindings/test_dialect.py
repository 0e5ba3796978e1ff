"""Which dialects exist, and how a request declares a version."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.dialect import DIALECTS, declared_version, is_0x, jsonrpc_guess
from sidecar.model import Reason, Refused

Pairs = tuple[tuple[str, str], ...]


def headers(*values: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict([("a2a-version", value) for value in values]))


def test_the_dialects_by_the_names_a_policy_uses() -> None:
    assert sorted(DIALECTS) == [
        *("GRPC/0.3", "GRPC/1.0", "HTTP+JSON/0.3", "HTTP+JSON/1.0"),
        *("JSONRPC/0.1", "JSONRPC/0.2", "JSONRPC/0.3", "JSONRPC/1.0"),
    ]


@pytest.mark.parametrize(
    ("sent", "query", "version"),
    [
        pytest.param((), (), "", id="nothing declared"),
        pytest.param(("",), (), "", id="declared empty"),
        pytest.param((" 1.0 ",), (), "1.0", id="by header"),
        pytest.param((), (("A2A-Version", "1.0"), ("x", "y")), "1.0", id="by query"),
        pytest.param(("1.0", "1.0"), (("A2A-Version", "1.0"),), "1.0", id="three times the same"),
    ],
)
def test_declared(sent: tuple[str, ...], query: Pairs, version: str) -> None:
    assert declared_version(headers(*sent), query) == version


@pytest.mark.parametrize(
    ("sent", "query"),
    [
        pytest.param(("1.0", "0.3"), (), id="two headers"),
        pytest.param(("1.0",), (("A2A-Version", "0.3"),), id="header and query"),
        pytest.param(("1.0",), (("A2A-Version", ""),), id="header and an empty query"),
        pytest.param((), (("A2A-Version", "1.0"), ("a2a-version", "0.3")), id="two in the query"),
    ],
)
def test_declared_in_two_ways(sent: tuple[str, ...], query: Pairs) -> None:
    with pytest.raises(Refused) as refused:
        declared_version(headers(*sent), query)
    assert refused.value.refusal.reason is Reason.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("", True),
        ("0", True),
        ("0.3", True),
        ("0.3.0", True),
        ("1.0", False),
        ("00.3", False),
        ("junk", False),
    ],
)
def test_what_counts_as_0_x(version: str, old: bool) -> None:
    assert is_0x(version) is old


@pytest.mark.parametrize(
    ("version", "dialect"), [("1.0", "JSONRPC/1.0"), ("0.3", "JSONRPC/0.3"), ("x", "JSONRPC/0.3")]
)
def test_the_guess_for_an_answer(version: str, dialect: str) -> None:
    assert str(jsonrpc_guess(headers(version))) == dialect
    assert str(jsonrpc_guess(headers())) == "JSONRPC/0.3"
