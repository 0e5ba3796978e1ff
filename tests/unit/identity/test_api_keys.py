"""Whose an API key is."""

from __future__ import annotations

from hashlib import sha256

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.identity.api_keys import API_KEY_ISSUER, ApiKeys
from sidecar.identity.invalid import InvalidKey
from sidecar.model import Head, Owner


def hashed(key: str) -> str:
    return sha256(key.encode()).hexdigest()


KEYS = config.ApiKeys(
    keys=(
        config.ApiKey(subject="ci", sha256=hashed("one")),
        config.ApiKey(subject="ci", sha256=hashed("two")),
        config.ApiKey(subject="cron", tenant="t1", sha256=hashed("three")),
    )
)


def asking(*pairs: tuple[str, str]) -> Head:
    return Head("GET", "/", CIMultiDictProxy(CIMultiDict(pairs)))


def test_several_keys_may_be_one_callers() -> None:
    keys = ApiKeys(KEYS, ())
    assert keys.principal("one").owner == keys.principal("two").owner == Owner("", API_KEY_ISSUER, "ci")


def test_a_key_brings_its_tenant_and_no_scopes() -> None:
    who = ApiKeys(KEYS, ("azp", "act")).principal("three")
    assert who.owner == Owner("t1", API_KEY_ISSUER, "cron", ("", ""))
    assert (who.scopes, who.presented_by, who.expires_at) == (None, "cron", None)


@pytest.mark.parametrize("key", ["", "One", "one ", hashed("one"), "onetwo", "\udce9", "one\x00"])
def test_any_other_key_is_nobodys(key: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        ApiKeys(KEYS, ()).principal(key)
    assert key == "" or key not in str(refused.value.refusal)


def test_the_header_is_looked_at_only_where_there_are_keys() -> None:
    head = asking(("X-API-KEY", "one"), ("x-api-key", "two"), ("X_API_Key", "three"))
    assert list(ApiKeys(KEYS, ()).presented(head)) == ["one", "two"]
    assert not ApiKeys(config.ApiKeys(), ()).presented(head)
    named = KEYS.model_copy(update={"header": "X-Key"})
    assert list(ApiKeys(named, ()).presented(asking(("X-Key", "one")))) == ["one"]
