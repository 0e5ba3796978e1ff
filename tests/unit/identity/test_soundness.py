"""What about an issuer's settings must stop the start, told all at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar import config
from sidecar.identity.soundness import problems
from tests.certificates import Authority, put
from tests.issuer import jwk, private_key

SECRET = "IDP_CLIENT_SECRET"
BY_ENVIRONMENT = {"client_id": "c", "client_secret_env": SECRET}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    monkeypatch.setenv(SECRET, "canary")


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], str]:
    """The path of a file by what is in it."""
    keys = json.dumps({"keys": [jwk(private_key("ES256"), kid="k")]}).encode()
    Authority().write(tmp_path / "ca")
    for name, content in {"keys": keys, "no keys": b'{"keys": []}', "garbage": b"\xffcanary", "secret": b"canary\n",
                          "newline": b"\n", "empty": b""}.items():  # fmt: skip
        put(tmp_path / name, content)
    (tmp_path / "folder").mkdir()
    return lambda name: str(tmp_path / name)


def of(place: Callable[[str], str], **settings: Any) -> config.Issuer:
    files = {name: place(settings.pop(name)) for name in ("jwks_file", "ca_file") if name in settings}
    if told := settings.pop("introspection", None):
        if "client_secret_file" in told:
            told = told | {"client_secret_file": place(told["client_secret_file"])}
        files["introspection"] = config.Introspection(**told)
    return config.Issuer(**({"issuer": "https://a.example", "audiences": ("a",)} | settings | files))


def by_file(name: str) -> dict[str, str]:
    return {"client_id": "c", "client_secret_file": name}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="discovery"),
        pytest.param({"jwks_uri": "https://a.example/k"}, id="an address"),
        pytest.param({"jwks_file": "keys"}, id="a file of keys"),
        pytest.param({"jwks_file": "keys", "issuer": "http://a.example"}, id="an issuer that is never asked may be http"),
        pytest.param({"ca_file": "ca"}, id="authorities"),
        pytest.param({"introspection": by_file("secret")}, id="a secret in a file"),
        pytest.param({"introspection": BY_ENVIRONMENT}, id="a secret in the environment"),
        pytest.param({"introspection": {**BY_ENVIRONMENT, "url": "http://127.0.0.1:1/i"}}, id="http on loopback"),
        pytest.param({"introspection": {**BY_ENVIRONMENT, "url": "http://b.example/i"}, "allow_http": True},
                     id="http where the policy allows it"),
    ],
)  # fmt: skip
def test_a_sound_issuer(place: Callable[[str], str], settings: dict[str, Any]) -> None:
    assert problems(of(place, **settings)) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param({"issuer": "http://a.example"}, "must be https", id="http beyond loopback"),
        pytest.param({"jwks_uri": "http://a.example/k"}, "must be https", id="keys over http"),
        pytest.param({"introspection": {**BY_ENVIRONMENT, "url": "http://a.example/i"}}, "must be https",
                     id="tokens and secret over http"),
        pytest.param({"issuer": "http://a.example", "jwks_file": "keys", "introspection": BY_ENVIRONMENT},
                     "must be https", id="an endpoint that would be discovered over http"),
        pytest.param({"jwks_file": "absent"}, "No such file", id="no file of keys"),
        pytest.param({"jwks_file": "no keys"}, "no usable keys", id="a file without keys"),
        pytest.param({"jwks_file": "garbage"}, "no usable keys", id="a file that holds no keys"),
        pytest.param({"jwks_file": "folder"}, "Is a directory", id="a folder"),
        pytest.param({"ca_file": "absent"}, "No such file", id="no authorities"),
        pytest.param({"ca_file": "garbage"}, "no certificates", id="authorities that are garbage"),
        pytest.param({"ca_file": "empty"}, "no certificates", id="an empty file of authorities"),
        pytest.param({"introspection": by_file("absent")}, "No such file", id="no secret"),
        pytest.param({"introspection": by_file("newline")}, "is empty", id="an empty secret"),
        pytest.param({"introspection": by_file("garbage")}, "not UTF-8", id="a secret that is no text"),
        pytest.param({"introspection": {"client_id": "c", "client_secret_env": "NOBODY_SETS_THIS"}},
                     "`NOBODY_SETS_THIS`", id="a variable that is not set"),
    ],
)  # fmt: skip
def test_an_unsound_one(place: Callable[[str], str], settings: dict[str, Any], told: str) -> None:
    found = problems(of(place, **settings))
    assert len(found) == 1
    assert told in found[0]
    assert "canary" not in found[0]


def test_everything_is_told_at_once(place: Callable[[str], str]) -> None:
    issuer = of(place, issuer="http://a.example", jwks_file="absent", ca_file="garbage", introspection=by_file("newline"))  # fmt: skip
    assert len(problems(issuer)) == 4


def test_a_policy_that_is_only_judged_needs_no_files(place: Callable[[str], str]) -> None:
    issuer = of(place, jwks_file="absent", ca_file="garbage", introspection=by_file("newline"))
    assert problems(issuer, here=False) == []
    http = of(place, issuer="http://a.example", ca_file="garbage")
    assert len(problems(http, here=False)) == 1


@pytest.mark.parametrize("settings", [{}, {"jwks_file": "keys", "introspection": BY_ENVIRONMENT},
                                      {"jwks_file": "keys", "introspection": {**BY_ENVIRONMENT, "url": "https://b.a.example/i"}}])  # fmt: skip
def test_a_proxy_that_cannot_be_used(
    place: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setenv("https_proxy", "socks5://me:canary@proxy:1080")
    found = problems(of(place, **settings))
    assert len(found) == 1
    assert "proxy" in found[0]
    assert "canary" not in found[0]
    monkeypatch.setenv("no_proxy", "a.example")
    assert problems(of(place, **settings)) == []
