"""What an agent receives of who is calling."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.config import Config
from sidecar.model import Owner, Principal, Reason
from sidecar.proxy import from_files
from sidecar.proxy.onward import Onward, TokenRefused, encoded, read_token
from tests.edge.conftest import eventually

Pairs = list[tuple[str, str]]
KEY = "agents[0].authorization_file"
EVERYTHING = ["subject", "issuer", "tenant", "scopes", "actor", "presented-by"]

ALICE = Principal(
    Owner("t-1", "https://idp.test", "alice"),
    frozenset({"w", "a:r"}),
    presented_by="planner",
    actors=("executor", "planner"),
)
MACHINE = Principal(Owner("", "urn:a2a-sidecar:api-key", "ci"), None)


def onward(api_key: str | None = None, **agent: Any) -> Onward:
    key = {"subject": "ci", "sha256": "a" * 64}
    document = {
        "version": 1,
        "agents": [{"name": "a", "upstream": "http://127.0.0.1:1", "public_url": "https://p.test"} | agent],
        "identity": {"api_keys": {"header": api_key, "keys": [key]}} if api_key else {},
    }
    whole = Config.model_validate_json(json.dumps(document))
    return Onward(whole.agents[0], whole)


def inbound(pairs: Pairs) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def sent(pairs: Pairs, who: Principal | None = ALICE, *, by: Onward) -> Pairs:
    return list(by.forwarded(inbound(pairs), who, plain_reply=False, inflated=False).items())


def told(who: Principal, *names: str) -> dict[str, str]:
    return {k.removeprefix("x-a2a-sidecar-"): v for k, v in sent([], who, by=onward(identity_headers=names))}


# --- credentials ---------------------------------------------------------------------------------

CREDENTIALS = [
    ("Authorization", "Bearer x"),
    ("Cookie", "a=b"),
    ("DPoP", "p"),
    ("X-API-Key", "k"),
    ("X", "1"),
]


@pytest.mark.parametrize("spelt", [str.lower, str.upper, str.title, str.swapcase])
def test_every_credential_goes_on_or_none_in_any_case(spelt: Callable[[str], str]) -> None:
    pairs = [(spelt(name), value) for name, value in CREDENTIALS]
    assert sent(pairs, by=onward("X-API-Key")) == pairs
    assert sent(pairs, by=onward("X-API-Key", authorization="strip")) == [(spelt("X"), "1")]


@pytest.mark.parametrize("mode", ["forward", "strip"])
@pytest.mark.parametrize(
    ("header", "twin"), [("X-API-Key", "X_API_Key"), ("X-API-Key", "x-api_key"), ("X_Key", "X-Key")]
)
def test_a_twin_of_the_api_key_never_goes_on(mode: str, header: str, twin: str) -> None:
    by = onward(header, authorization=mode)
    assert sent([(twin, "other"), (header, "k")], by=by) == ([(header, "k")] if mode == "forward" else [])


def test_without_api_keys_their_header_is_one_like_others() -> None:
    assert sent([("X-API-Key", "k")], by=onward(authorization="strip")) == [("X-API-Key", "k")]


def test_an_api_key_may_be_in_a_header_that_else_would_stay_here() -> None:
    pairs = [("X-Auth-Request-Key", "k"), ("X-Auth-Request-User", "bob")]
    assert sent(pairs, by=onward("X-Auth-Request-Key")) == pairs[:1]
    assert sent(pairs, by=onward("X-Auth-Request-Key", authorization="strip")) == []


async def test_the_token_replaces_every_credential(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" ours\n")
    by = onward("X-API-Key", authorization="replace", authorization_file=str(tmp_path / "token"))
    async with by:
        pairs = [*CREDENTIALS, ("authorization", "Bearer y"), ("Proxy-Authorization", "z")]
        assert sent(pairs, by=by) == [("X", "1"), ("Authorization", "Bearer ours")]
        assert sent(pairs, None, by=by) == [("X", "1")]  # not lent to whom nobody verified


def test_a_request_of_ours_has_the_same_credentials_and_our_own_headers() -> None:
    pairs = [*CREDENTIALS, ("Content-Type", "text/plain"), ("Accept", "*/*"), ("Content-Encoding", "gzip")]
    own = {"Accept": "application/json", "A2A-Version": "1.0"}
    by = onward("X-API-Key", identity_headers=["subject"])
    got = by.own_request(inbound(pairs), ALICE, own)
    also = [("Accept-Encoding", "identity"), ("x-a2a-sidecar-subject", "alice")]
    assert list(got.items()) == [*CREDENTIALS, *also, *own.items()]


@pytest.mark.parametrize(
    ("agent", "kept"),
    [
        pytest.param({}, ["Authorization", "Cookie", "X-API-Key"], id="the caller's own, but for the proof"),
        pytest.param({"authorization": "strip"}, [], id="none: all callers are one to the agent"),
        pytest.param(
            {"authorization": "strip", "identity_headers": ["tenant"]},
            ["x-a2a-sidecar-tenant"],
            id="what the agent is told of them",
        ),
    ],
)
def test_by_what_an_agent_can_tell_callers_apart(agent: dict[str, Any], kept: list[str]) -> None:
    assert list(onward("X-API-Key", **agent).identifying(inbound(CREDENTIALS), ALICE)) == kept


# --- the token's file ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "token"),
    [
        (b"abc", "abc"),
        (b"  abc.def-ghi_~+/==\r\n\n", "abc.def-ghi_~+/=="),
        pytest.param(b"x" * 16384, "x" * 16384, id="the longest"),
    ],
)
def test_a_token_is_the_whole_file_but_for_blanks_around_it(
    tmp_path: Path, content: bytes, token: str
) -> None:
    (tmp_path / "token").write_bytes(content)
    assert read_token(KEY, str(tmp_path / "token")) == token


@pytest.mark.parametrize(
    "content",
    [
        b"", b" \n", b"SECRET\ntwo", b"Bearer SECRET", b"SECRET two", b"SECRET\0", b"\xef\xbb\xbfSECRET",
        "SECRET\u00f6".encode(), b"SECRET\x7fe", b"SECRET\r\nX-Evil: 1",
        pytest.param(b"SECRET" + b"x" * 16379, id="too long"), pytest.param(b"SECRET" + b"\n" * 16379, id="too long, all told"),
    ],
)  # fmt: skip
def test_anything_else_is_no_token_and_is_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"agents\[0\]\.authorization_file: `/") as told:
        read_token(KEY, str(path))
    assert str(path) in str(told.value)
    assert "SECRET" not in str(told.value)


async def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        by = onward(authorization="replace", authorization_file=str(path))
        with pytest.raises(
            ValueError, match=rf"agents\[0\]\.authorization_file: cannot read `{path}`: {why}"
        ):
            await by.__aenter__()
    with pytest.raises(ValueError, match=r"agents\[0\]\.authorization_file: say which file"):
        await onward(authorization="replace").__aenter__()


async def test_a_new_file_counts_and_a_bad_one_leaves_the_old_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_files, "INTERVAL", 0.005)
    path = tmp_path / "token"
    path.write_text("one")
    with structlog.testing.capture_logs() as logs:
        async with onward(authorization="replace", authorization_file=str(path)) as by:

            def token() -> str:
                return dict(sent([], by=by))["Authorization"]

            def problems() -> list[str]:
                return [line["problem"] for line in logs if line["log_level"] == "error"]

            path.write_text("two words")
            await eventually(problems)
            assert token() == "Bearer one"
            path.unlink()
            await eventually(lambda: len(problems()) == 2)
            assert token() == "Bearer one"
            path.write_text("three")
            await eventually(lambda: token() == "Bearer three")
    assert len(problems()) == 2
    assert not any("two words" in str(line) or "three" in str(line) for line in logs)


# --- our token refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "status", "challenge", "ours"),
    [
        pytest.param(ALICE, 401, True, True, id="a 401 is about our token"),
        pytest.param(ALICE, 401, False, True, id="also without a challenge"),
        pytest.param(ALICE, 403, True, True, id="a 403 that asks for another token asks us"),
        pytest.param(ALICE, 403, False, False, id="a plain 403 is about the caller"),
        pytest.param(ALICE, 200, True, False, id="what was done was not refused"),
        pytest.param(ALICE, 407, False, False, id="another matter"),
        pytest.param(None, 401, True, False, id="nobody was lent our token"),
    ],
)
async def test_whose_credential_the_agent_refuses(
    tmp_path: Path, who: Principal | None, status: int, challenge: bool, ours: bool
) -> None:
    (tmp_path / "token").write_text("secret-1")
    got = CIMultiDict({"www-authenticate": "Bearer"} if challenge else {})
    for mode in ("forward", "strip"):
        onward(authorization=mode).require_accepted(who, status, got)
    with structlog.testing.capture_logs() as logs:
        async with onward(authorization="replace", authorization_file=str(tmp_path / "token")) as by:
            for _ in range(2):
                if not ours:
                    by.require_accepted(who, status, got)
                    continue
                with pytest.raises(TokenRefused) as refused:
                    by.require_accepted(who, status, got)
                assert refused.value.refusal.reason is Reason.AGENT_FAILED
                assert refused.value.refusal.detail == ""
                assert KEY in refused.value.refusal.internal
    assert len(logs) == ours  # once for one token
    assert "secret-1" not in str(logs)


# --- identity headers ----------------------------------------------------------------------------


def test_the_agent_is_told_what_the_policy_lists() -> None:
    assert told(ALICE, *EVERYTHING) == {
        "subject": "alice",
        "issuer": "https://idp.test",
        "tenant": "t-1",
        "scopes": "a:r w",
        "actor": "executor",
        "presented-by": "planner",
    }
    assert told(ALICE, "tenant") == {"tenant": "t-1"}
    twice = onward(identity_headers=["tenant", "tenant"])
    assert sent([], by=twice) == [("x-a2a-sidecar-tenant", "t-1")]
    assert sent([], by=onward()) == []


def test_what_is_absent_has_no_header() -> None:
    assert told(MACHINE, *EVERYTHING) == {"subject": "ci", "issuer": "urn:a2a-sidecar:api-key"}
    assert sent([], None, by=onward(identity_headers=EVERYTHING)) == []


def test_no_scopes_are_not_the_same_as_none_needed() -> None:
    assert told(Principal(ALICE.owner, frozenset()), "scopes") == {"scopes": ""}
    assert told(Principal(ALICE.owner, None), "scopes") == {}


@pytest.mark.parametrize(
    "name",
    ["x-a2a-sidecar-subject", "X-A2A-Sidecar-Subject", "X_A2A_Sidecar_Subject", "x-a2a_sidecar-subject",
     "X-A2A-SIDECAR-SUBJECT", "x-a2a-sidecar-", "X-A2A-Sidecar-Anything"],
)  # fmt: skip
@pytest.mark.parametrize("who", [ALICE, None])
def test_a_caller_tells_nothing_of_the_kind(name: str, who: Principal | None) -> None:
    pairs = [(name, "bob"), ("X", "1"), (name, "carol")]
    ours = [("x-a2a-sidecar-subject", "alice")] if who else []
    assert sent(pairs, who, by=onward(None, identity_headers=["subject"])) == [("X", "1"), *ours]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("alice@corp.test", "alice@corp.test"),
        ("spiffe://example.org/ns/a", "spiffe://example.org/ns/a"),
        ("Alice B", "Alice%20B"),
        ("100%", "100%25"),
        ("%25", "%2525"),
        ("a+b", "a%2Bb"),
        ("a,b;c", "a%2Cb%3Bc"),
        ("Zo\u00eb", "Zo%C3%AB"),
        ("Zoe\u0308", "Zoe%CC%88"),
        ("\u738b", "%E7%8E%8B"),
        ("a\r\nX: 1", "a%0D%0AX:%201"),
        ("a\0", "a%00"),
        ('"q"', "%22q%22"),
        ("-._~", "-._~"),
    ],
)
def test_how_a_value_is_written(value: str, text: str) -> None:
    assert told(Principal(Owner("", "i", value), frozenset({value})), "subject", "scopes") == {
        "subject": text,
        "scopes": text,
    }


@given(st.text())
def test_one_value_has_one_text_and_one_text_one_value(value: str) -> None:
    text = encoded(value)
    assert unquote(text, errors="strict") == value
    assert all("!" <= character <= "~" and character not in ' ,;"' for character in text)
