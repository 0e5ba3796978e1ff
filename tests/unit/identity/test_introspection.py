"""Opaque tokens, asked about at a real issuer."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar import config
from sidecar.identity import introspection, line
from sidecar.identity.introspection import Introspector
from sidecar.identity.invalid import InvalidToken, KeysUnavailable
from sidecar.identity.keys import Keys
from tests.certificates import Authority, put
from tests.issuer import METADATA, Issuer
from tests.unit.identity.conftest import Clock
from tests.unit.identity.test_line import serving

Eventually = Callable[[Callable[[], object]], Awaitable[None]]
SECRET = "IDP_CLIENT_SECRET"
INACTIVE = 10.0
SETTINGS = config.Identity(keys_refresh=300.0, keys_cooldown=10.0)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "its secret")


def asked_at(idp: Issuer, *, issuer: dict[str, Any] | None = None, **settings: Any) -> config.Issuer:
    asked = {
        "client_id": "sidecar",
        "url": idp.introspection_endpoint,
        "cache_inactive": INACTIVE,
        "cache": 0.0,
    } | settings
    if "client_secret_file" not in asked:
        asked["client_secret_env"] = SECRET
    return config.Issuer(
        issuer=idp.url, audiences=("agent",), introspection=config.Introspection(**asked), **(issuer or {})
    )


def discovering(idp: Issuer, **settings: Any) -> config.Issuer:
    return asked_at(idp, url=None, **settings)


@pytest.fixture
async def introspector(idp: Issuer, clock: Clock) -> AsyncIterator[Introspector]:
    made = Introspector(asked_at(idp), SETTINGS, clock=clock)
    yield made
    await made.close()


@pytest.fixture
async def opened(clock: Clock) -> AsyncIterator[Callable[[config.Issuer], Introspector]]:
    made: list[Introspector] = []

    def open_one(issuer: config.Issuer) -> Introspector:
        made.append(Introspector(issuer, SETTINGS, clock=clock))
        return made[-1]

    yield open_one
    for one in made:
        await one.close()


Opened = Callable[[config.Issuer], Introspector]


async def outcome(introspector: Introspector, token: str) -> Any:
    """The subject, or the kind of refusal."""
    try:
        return str((await introspector.claims(token)).claims["sub"])
    except (InvalidToken, KeysUnavailable) as error:
        return type(error)


# --- the answer -----------------------------------------------------------------------------------


async def test_an_active_token_is_what_the_issuer_says_of_it(introspector: Introspector, idp: Issuer) -> None:
    token = idp.mint_opaque(scope="r w", username="a")
    assert (await introspector.claims(token)).claims == idp.opaque[token]
    assert idp.questions == [token]


async def test_a_token_nobody_knows_is_not_active(introspector: Introspector, idp: Issuer) -> None:
    with pytest.raises(InvalidToken, match="not active"):
        await introspector.claims("stranger")
    assert idp.questions == ["stranger"]


async def test_what_is_asked(introspector: Introspector, idp: Issuer) -> None:
    token = idp.mint_opaque()
    odd = "a+b/c~d.e-f_g=&token=h%20i=="
    idp.opaque[odd] = idp.opaque[token]
    assert await outcome(introspector, odd) == "alice"
    assert idp.questions == [odd]
    assert idp.headers[0]["Accept"] == "application/json"
    assert idp.headers[0]["Content-Type"] == "application/x-www-form-urlencoded"
    assert "Cookie" not in idp.headers[0]


async def test_who_we_are_is_form_encoded_first(idp: Issuer, opened: Opened, tmp_path: Path) -> None:
    idp.clients = {"a client:ä": "s:e+c r%e/t&ü\n"}
    path = put(tmp_path / "secret", "s:e+c r%e/t&ü\n\n".encode())
    introspector = opened(asked_at(idp, client_id="a client:ä", client_secret_file=path))
    assert await outcome(introspector, idp.mint_opaque()) == "alice"
    expected = b64encode(b"a+client%3A%C3%A4:s%3Ae%2Bc+r%25e%2Ft%26%C3%BC%0A").decode()
    assert idp.headers[0]["Authorization"] == f"Basic {expected}"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        *(pytest.param({"active": no}, KeysUnavailable, id=f"active {no!r} is neither yes nor no")
          for no in ("true", "false", 1, 0, None, [True], {}, ...)),
        pytest.param({"active": False}, InvalidToken, id="inactive, whatever else is said"),
        pytest.param({}, "alice", id="its own `iss`"),
        pytest.param({"iss": ...}, "alice", id="no `iss`"),
        *(pytest.param({"iss": iss}, InvalidToken, id=f"FC-035 iss {iss!r}")
          for iss in ("https://other.example", "", None, 5, ["x"], {}, True)),
    ],
)  # fmt: skip
async def test_only_a_plain_yes_is_one(
    introspector: Introspector, idp: Issuer, said: dict[str, Any], expected: Any
) -> None:
    token = idp.mint_opaque(**said)
    assert await outcome(introspector, token) == expected


@pytest.mark.parametrize("variant", [lambda url: url + "/", lambda url: url[:-1], lambda url: url.upper()])
async def test_fc035_a_variant_of_the_issuer_is_another(
    introspector: Introspector, idp: Issuer, variant: Callable[[str], str]
) -> None:
    assert await outcome(introspector, idp.mint_opaque(iss=variant(idp.url))) is InvalidToken


NO_ANSWERS = [
    "500", "404", "400", "401", "403", "302", "204", "html", "huge", "drop", "redirect",
    "", "null", "true", "[]", '["active"]', '"active"', "{}", '{"active": true', '{"active": true} {}',
    '{"active": false, "active": true}', '{"active": true, "sub": "a", "sub": "b"}',
    '{"active": true, "exp": NaN}', '\ufeff{"active": true}', '{"active": true, "a": {"b": 1, "b": 2}}',
    '{"active": true, "x": ' + "[" * 5000 + "]" * 5000 + "}",
]  # fmt: skip


@pytest.mark.parametrize("how", NO_ANSWERS)
async def test_an_answer_that_is_none_is_neither_yes_nor_no(
    introspector: Introspector, idp: Issuer, how: str
) -> None:
    idp.introspecting = how
    token = idp.mint_opaque()
    assert await outcome(introspector, token) is KeysUnavailable
    assert (introspector.failures, bool(introspector.problem)) == (1, True)
    assert "/moved" not in idp.requests
    # Nothing of it is remembered.
    idp.introspecting = "ok"
    assert await outcome(introspector, token) == "alice"
    assert introspector.problem == ""


async def test_an_issuer_that_is_down(introspector: Introspector, idp: Issuer) -> None:
    token = idp.mint_opaque()
    await idp.down()
    assert await outcome(introspector, token) is KeysUnavailable
    await idp.up()
    assert await outcome(introspector, token) == "alice"


async def test_an_issuer_that_does_not_answer(
    introspector: Introspector, idp: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "TIME_LIMIT", 0.05)
    idp.open.clear()
    with pytest.raises(KeysUnavailable, match=r"0\.05 s"):
        await introspector.claims(idp.mint_opaque())


async def test_a_kept_connection_that_died_costs_nobody_an_answer(
    introspector: Introspector, idp: Issuer
) -> None:
    tokens = [idp.mint_opaque(sub=f"user-{n}") for n in range(2)]
    assert await outcome(introspector, tokens[0]) == "user-0"
    await idp.down()
    await idp.up()
    assert await outcome(introspector, tokens[1]) == "user-1"


async def test_a_connection_that_breaks_is_replaced_once(introspector: Introspector, idp: Issuer) -> None:
    token = idp.mint_opaque()
    for known in (0, 2):  # a new connection, and a kept one
        idp.introspecting = "drop once"
        assert await outcome(introspector, token) == "alice"
        assert len(idp.questions) == known + 2
    idp.introspecting = "drop"
    assert await outcome(introspector, token) is KeysUnavailable
    assert len(idp.questions) == 6
    await idp.down()
    assert await outcome(introspector, token) is KeysUnavailable


async def test_connections_are_kept(introspector: Introspector, idp: Issuer) -> None:
    for _ in range(3):
        await introspector.claims(idp.mint_opaque())
    assert introspector._session is not None
    assert introspector._session.connector is not None
    assert len(next(iter(introspector._session.connector._conns.values()))) == 1


# --- how often it is asked --------------------------------------------------------------------------


async def test_one_question_serves_all_who_ask_it_now(
    introspector: Introspector, idp: Issuer, eventually: Eventually
) -> None:
    token, other = idp.mint_opaque(), idp.mint_opaque(sub="bob")
    idp.open.clear()
    asking = [asyncio.create_task(outcome(introspector, token)) for _ in range(100)]
    asking.append(asyncio.create_task(outcome(introspector, other)))
    await eventually(lambda: len(idp.questions) == 2)
    idp.open.set()
    assert await asyncio.gather(*asking) == ["alice"] * 100 + ["bob"]
    assert idp.questions == [token, other]
    # What an active token says is not kept here.
    assert await outcome(introspector, token) == "alice"
    assert len(idp.questions) == 3
    assert introspector._flights == {}


@pytest.mark.parametrize("how", ["500", '{"active": false}'])
async def test_all_who_ask_now_hear_the_same_refusal(
    introspector: Introspector, idp: Issuer, eventually: Eventually, how: str
) -> None:
    idp.introspecting = how
    idp.open.clear()
    asking = [asyncio.create_task(outcome(introspector, "t")) for _ in range(20)]
    await eventually(lambda: idp.questions)
    idp.open.set()
    assert len(set(await asyncio.gather(*asking))) == 1
    assert idp.questions == ["t"]


async def test_a_caller_who_leaves_does_not_end_the_question_of_the_others(
    introspector: Introspector, idp: Issuer, eventually: Eventually
) -> None:
    token = idp.mint_opaque()
    idp.open.clear()
    first, second = (asyncio.create_task(outcome(introspector, token)) for _ in range(2))
    await eventually(lambda: idp.questions)
    first.cancel()
    await asyncio.wait([first])
    idp.open.set()
    assert await second == "alice"
    assert idp.questions == [token]


async def test_only_so_many_questions_are_under_way(
    idp: Issuer, opened: Opened, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "AT_ONCE", 3)
    introspector = opened(asked_at(idp))
    tokens = [idp.mint_opaque(sub=f"user-{n}") for n in range(10)]
    idp.open.clear()
    asking = [asyncio.create_task(outcome(introspector, token)) for token in tokens]
    await eventually(lambda: len(idp.questions) == 3)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(idp.questions) == 3
    idp.open.set()
    assert await asyncio.gather(*asking) == [f"user-{n}" for n in range(10)]


async def test_who_waits_too_long_for_a_turn_is_told_so(
    idp: Issuer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "AT_ONCE", 1)
    monkeypatch.setattr(line, "TIME_LIMIT", 0.1)
    introspector = opened(asked_at(idp))
    idp.open.clear()
    assert await asyncio.gather(*(outcome(introspector, f"t{n}") for n in range(5))) == [KeysUnavailable] * 5
    assert len(idp.questions) < 5  # a turn that becomes free at the last moment may still be taken
    idp.open.set()
    monkeypatch.setattr(line, "TIME_LIMIT", 5)
    assert await outcome(introspector, idp.mint_opaque()) == "alice"


async def test_a_token_that_is_not_active_is_remembered_for_a_while(
    introspector: Introspector, idp: Issuer, clock: Clock
) -> None:
    token = idp.mint_opaque()
    said = idp.opaque[token]
    idp.revoke(token)
    for _ in range(3):
        assert await outcome(introspector, token) is InvalidToken
    assert len(idp.questions) == 1
    idp.opaque[token] = said
    clock.at += INACTIVE - 1
    assert await outcome(introspector, token) is InvalidToken
    clock.at += 1
    assert await outcome(introspector, token) == "alice"
    assert len(idp.questions) == 2


async def test_memory_may_be_forbidden(idp: Issuer, opened: Opened) -> None:
    introspector = opened(asked_at(idp, cache_inactive=0))
    for _ in range(3):
        assert await outcome(introspector, "t") is InvalidToken
    assert len(idp.questions) == 3


async def test_memory_is_bounded_and_holds_no_token(
    idp: Issuer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "REMEMBERED", 3)
    introspector = opened(asked_at(idp))
    for number in range(5):
        assert await outcome(introspector, f"canary{number}") is InvalidToken
    assert len(introspector._inactive) == 3
    assert all(len(key) == 32 and b"canary" not in key for key in introspector._inactive)


# --- the secret -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["401", "403"])
async def test_a_secret_that_was_changed_is_read_anew(
    idp: Issuer, opened: Opened, tmp_path: Path, status: str
) -> None:
    path = put(tmp_path / "secret", b"its secret\n")
    introspector = opened(asked_at(idp, client_secret_file=path))
    assert await outcome(introspector, idp.mint_opaque()) == "alice"
    idp.clients = {"sidecar": "another"}
    assert await outcome(introspector, idp.mint_opaque()) is KeysUnavailable
    assert f"refused ({401})" in introspector.problem
    put(tmp_path / "secret", b"another\r\n")
    assert await outcome(introspector, idp.mint_opaque()) == "alice"
    asked = len(idp.questions)
    idp.introspecting = status
    assert await outcome(introspector, idp.mint_opaque()) is KeysUnavailable
    assert len(idp.questions) == asked + 1  # the same secret is not tried twice


async def test_a_secret_that_changes_while_it_is_asked_is_tried_at_once(
    idp: Issuer, opened: Opened, tmp_path: Path, eventually: Eventually
) -> None:
    path = put(tmp_path / "secret", b"its secret")
    introspector = opened(asked_at(idp, client_secret_file=path))
    idp.clients = {"sidecar": "another"}
    idp.open.clear()
    asking = asyncio.create_task(outcome(introspector, idp.mint_opaque()))
    await eventually(lambda: idp.questions)
    put(tmp_path / "secret", b"another")
    idp.open.set()
    assert await asking == "alice"


async def test_a_secret_file_that_breaks_leaves_the_last_secret(
    idp: Issuer, opened: Opened, tmp_path: Path
) -> None:
    path = put(tmp_path / "secret", b"its secret")
    introspector = opened(asked_at(idp, client_secret_file=path))
    assert await outcome(introspector, idp.mint_opaque()) == "alice"
    put(tmp_path / "secret", b"\n")
    assert await outcome(introspector, idp.mint_opaque()) == "alice"
    (tmp_path / "secret").unlink()
    assert await outcome(introspector, idp.mint_opaque()) == "alice"


@pytest.mark.parametrize("value", [None, ""])
async def test_without_a_secret_nothing_is_asked(
    introspector: Introspector, idp: Issuer, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(SECRET)
    else:
        monkeypatch.setenv(SECRET, value)
    assert await outcome(introspector, idp.mint_opaque()) is KeysUnavailable
    assert SECRET in introspector.problem
    assert idp.requests == []


@pytest.mark.parametrize("how", [*NO_ANSWERS, "down", "inactive", "iss", "slow"])
async def test_neither_token_nor_secret_reaches_a_text(
    introspector: Introspector, idp: Issuer, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, how: str,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(SECRET, "canary-secret")
    idp.clients = {"sidecar": "canary-secret"}
    token = "canary-token"
    idp.opaque[token] = idp.claims(active=how != "inactive", iss="https://canary.example")
    match how:
        case "down":
            await idp.down()
        case "slow":
            monkeypatch.setattr(line, "TIME_LIMIT", 0.05)
            idp.open.clear()
        case "inactive" | "iss":
            pass
        case _:
            idp.introspecting = how
    with pytest.raises((InvalidToken, KeysUnavailable)) as failed:
        await introspector.claims(token)
    shown = b64encode(b"sidecar:canary-secret").decode()
    texts = [*traceback.format_exception(failed.value), repr(failed.value), failed.value.refusal.internal]
    texts += [introspector.problem, *caplog.messages]
    texts += [text for other in chain(failed.value) for text in (str(other), repr(other))]
    assert not any("canary" in text or shown in text for text in texts)


def chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


# --- where to ask ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/realms/a"])
@pytest.mark.parametrize("document", METADATA)
async def test_the_endpoint_is_discovered_once(opened: Opened, path: str, document: str) -> None:
    async with Issuer(path=path) as idp:
        idp.metadata_at = (document,)
        introspector = opened(discovering(idp))
        tokens = [idp.mint_opaque() for _ in range(20)]
        assert await asyncio.gather(*(outcome(introspector, token) for token in tokens)) == ["alice"] * 20
        assert sum(path.endswith(document) or document in path for path in idp.requests) == 1
        assert idp.fetches == 0


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"issuer": "https://other.example"}, id="of another issuer"),
        pytest.param({"issuer": None}, id="of no issuer"),
        pytest.param({"introspection_endpoint": None}, id="without the endpoint"),
        pytest.param({"introspection_endpoint": ["/x"]}, id="with a list of endpoints"),
        pytest.param({"introspection_endpoint": "/introspect"}, id="with a relative address"),
        pytest.param({"introspection_endpoint": "http://idp.example/i"}, id="leading to http elsewhere"),
        pytest.param({"introspection_endpoint": "file:///etc/passwd"}, id="leading to a file"),
        pytest.param({"introspection_endpoint": "https://u:p@a.example/"}, id="with a password"),
    ],
)
async def test_metadata_that_is_not_followed(idp: Issuer, opened: Opened, metadata: dict[str, Any]) -> None:
    idp.metadata = metadata
    assert await outcome(opened(discovering(idp)), idp.mint_opaque()) is KeysUnavailable
    assert idp.questions == []


async def test_metadata_that_cannot_be_had_is_asked_for_once_a_second(
    idp: Issuer, opened: Opened, clock: Clock
) -> None:
    idp.behaviour = "500"
    introspector = opened(discovering(idp))
    tokens = [idp.mint_opaque() for _ in range(20)]
    assert {await outcome(introspector, token) for token in tokens} == {KeysUnavailable}
    assert len(idp.requests) == len(METADATA)
    idp.behaviour = "ok"
    assert await outcome(introspector, tokens[0]) is KeysUnavailable
    clock.at += 1
    assert await outcome(introspector, tokens[0]) == "alice"


async def test_metadata_that_does_not_come_is_not_waited_for_by_everybody(
    idp: Issuer, opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    introspector = opened(discovering(idp))
    token = idp.mint_opaque()
    idp.open.clear()
    monkeypatch.setattr(line, "TIME_LIMIT", 0.05)
    for _ in range(3):
        assert await outcome(introspector, token) is KeysUnavailable
    assert len(idp.requests) == 1
    monkeypatch.setattr(line, "TIME_LIMIT", 5)
    idp.open.set()
    clock.at += 1
    assert await outcome(introspector, token) == "alice"


async def test_an_endpoint_that_moved_is_found(idp: Issuer, opened: Opened, clock: Clock) -> None:
    introspector = opened(discovering(idp))
    assert await outcome(introspector, idp.mint_opaque()) == "alice"
    known = len(idp.requests)
    async with Issuer() as other:
        other.opaque = idp.opaque
        idp.metadata = {"introspection_endpoint": other.introspection_endpoint}
        assert await outcome(introspector, idp.mint_opaque()) == "alice"
        assert len(idp.requests) == known + 1
        # By age.
        clock.at += SETTINGS.keys_refresh
        assert await outcome(introspector, idp.mint_opaque()) == "alice"
        assert len(other.questions) == 1
        # By a failure, but not for every one.
        other.introspecting = "404"
        idp.metadata = {}
        for expected in (KeysUnavailable, KeysUnavailable):
            assert await outcome(introspector, idp.mint_opaque()) is expected
        assert len(other.questions) == 3
        clock.at += SETTINGS.keys_cooldown
        assert await outcome(introspector, idp.mint_opaque()) is KeysUnavailable
        assert await outcome(introspector, idp.mint_opaque()) == "alice"
        assert len(other.questions) == 4


async def test_the_authorities_of_the_policy_count_here_too(opened: Opened, tmp_path: Path) -> None:
    authority = Authority()
    ca, other = authority.write(tmp_path / "ca.pem"), Authority().write(tmp_path / "other.pem")
    async with Issuer(tls=serving(authority.server(), tmp_path), host="localhost") as idp:
        token = idp.mint_opaque()
        for trusted, expected in ((ca, "alice"), (other, KeysUnavailable), (None, KeysUnavailable)):
            for issuer in (
                asked_at(idp, issuer={"ca_file": trusted}),
                discovering(idp, issuer={"ca_file": trusted}),
            ):
                assert await outcome(opened(issuer), token) == expected
        assert idp.questions == [token, token]


# --- the end, and its place among the keys --------------------------------------------------------


async def test_closing_ends_the_wait_for_an_issuer(
    introspector: Introspector, idp: Issuer, eventually: Eventually
) -> None:
    idp.open.clear()
    waiting = asyncio.create_task(outcome(introspector, idp.mint_opaque()))
    await eventually(lambda: idp.questions)
    await introspector.close()
    assert await waiting is KeysUnavailable
    assert await outcome(introspector, "t") is KeysUnavailable
    assert len(idp.questions) == 1


def test_an_issuer_that_is_not_to_be_asked_has_no_introspector(idp: Issuer, clock: Clock) -> None:
    with pytest.raises(ValueError, match="introspection"):
        Introspector(config.Issuer(issuer=idp.url, audiences=("a",)), SETTINGS, clock=clock)


async def test_an_issuer_without_keys_can_be_asked_all_the_same(
    idp: Issuer, clock: Clock, eventually: Eventually
) -> None:
    idp.metadata = {"jwks_uri": None}
    keys = Keys(config.Identity(issuers=(discovering(idp),)), clock=clock)
    await keys.start()
    await eventually(lambda: keys.status()[0].failures)
    assert keys.ready()
    assert keys.status()[0].usable
    assert (await keys.introspect(idp.url, idp.mint_opaque())).claims["sub"] == "alice"
    with pytest.raises(KeysUnavailable):
        await keys.obtain(idp.url, "key-0", "RS256")
    await keys.close()
    with pytest.raises(KeysUnavailable):
        await keys.introspect(idp.url, "t")


@pytest.mark.parametrize("named", ["jwks_uri", "jwks_file"])
async def test_an_issuer_whose_keys_the_policy_names_needs_them(
    idp: Issuer, clock: Clock, eventually: Eventually, tmp_path: Path, named: str
) -> None:
    place = {"jwks_uri": idp.jwks_uri, "jwks_file": str(tmp_path / "keys.json")}
    keys = Keys(config.Identity(issuers=(asked_at(idp, issuer={named: place[named]}),)), clock=clock)
    assert not keys.ready()
    put(tmp_path / "keys.json", json.dumps({"keys": idp.published}).encode())
    await keys.start()
    await eventually(keys.ready)
    await keys.close()
