"""Keys over time against a real issuer: rotation, floods, outages, and waiting for nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sidecar import config
from sidecar.identity.invalid import KeysUnavailable
from sidecar.identity.keys import Keys
from sidecar.identity.source import EARLY, FILE_PAUSE
from tests.certificates import Volume
from tests.issuer import Issuer
from tests.unit.identity.conftest import Clock

REFRESH, STALE, COOLDOWN = 300.0, 3600.0, 10.0
Eventually = Callable[[Callable[[], object]], Awaitable[None]]


def keys_of(clock: Callable[[], float], *issuers: Issuer) -> Keys:
    entries = tuple(config.Issuer(issuer=idp.url, audiences=("agent",)) for idp in issuers)
    settings = config.Identity(
        issuers=entries, keys_refresh=REFRESH, keys_max_stale=STALE, keys_cooldown=COOLDOWN
    )
    return Keys(settings, clock=clock)


@pytest.fixture
async def keys(idp: Issuer, clock: Clock) -> AsyncIterator[Keys]:
    made = keys_of(clock, idp)
    yield made
    await made.close()


async def has(keys: Keys, idp: Issuer, kid: str) -> bool:
    """Whether a token of this `kid` could be verified now."""
    return bool((await keys.obtain(idp.url, kid, "RS256")).fitting(kid, "RS256"))


async def test_fc045_a_cold_herd_costs_one_fetch(keys: Keys, idp: Issuer) -> None:
    found = await asyncio.gather(*(has(keys, idp, "key-0") for _ in range(200)))
    assert all(found)
    assert idp.fetches == 1


async def test_fc045_a_cold_herd_of_unknown_kids_costs_one_fetch(keys: Keys, idp: Issuer) -> None:
    found = await asyncio.gather(*(has(keys, idp, uuid4().hex) for _ in range(200)))
    assert not any(found)
    assert idp.fetches == 1


async def test_a_caller_who_leaves_does_not_end_the_fetch_of_the_others(keys: Keys, idp: Issuer,
                                                                       eventually: Eventually) -> None:  # fmt: skip
    idp.open.clear()
    first, second = (asyncio.create_task(has(keys, idp, "key-0")) for _ in range(2))
    await eventually(lambda: idp.requests)
    first.cancel()
    await asyncio.wait([first])
    idp.open.set()
    assert await second
    assert idp.fetches == 1


async def test_a_rotated_key_is_found_at_once(keys: Keys, idp: Issuer) -> None:
    assert await has(keys, idp, "key-0")
    kid = idp.rotate()
    assert await has(keys, idp, kid)
    assert await has(keys, idp, "key-0")
    assert idp.fetches == 2


async def test_fc045_a_flood_of_unknown_kids_costs_one_fetch_per_cooldown(
    keys: Keys, idp: Issuer, clock: Clock
) -> None:
    assert await has(keys, idp, "key-0")
    for expected in (2, 3):
        for _ in range(3):
            assert not any(await asyncio.gather(*(has(keys, idp, uuid4().hex) for _ in range(100))))
            clock.at += 3.0
        assert idp.fetches == expected
        clock.at += COOLDOWN


async def test_fc045_known_keys_serve_while_unknown_ones_wait_for_a_slow_issuer(
    keys: Keys, idp: Issuer, eventually: Eventually
) -> None:
    assert await has(keys, idp, "key-0")
    idp.open.clear()
    before = len(idp.requests)
    flood = [asyncio.create_task(has(keys, idp, uuid4().hex)) for _ in range(500)]
    await eventually(lambda: len(idp.requests) > before)
    assert all(await asyncio.gather(*(has(keys, idp, "key-0") for _ in range(50))))
    assert not any(task.done() for task in flood)
    idp.open.set()
    assert not any(await asyncio.gather(*flood))
    assert idp.fetches == 2


async def test_an_unknown_kid_joins_a_refresh_under_way(keys: Keys, idp: Issuer, clock: Clock,
                                                        eventually: Eventually) -> None:  # fmt: skip
    assert await has(keys, idp, "key-0")
    clock.at += REFRESH
    idp.open.clear()
    before = len(idp.requests)
    assert keys.current(idp.url)
    await eventually(lambda: len(idp.requests) > before)
    kid = idp.rotate()
    waiting = asyncio.create_task(has(keys, idp, kid))
    idp.open.set()
    assert await waiting
    assert idp.fetches == 2


async def test_a_due_refresh_happens_behind_the_caller(keys: Keys, idp: Issuer, clock: Clock,
                                                       eventually: Eventually) -> None:  # fmt: skip
    assert await has(keys, idp, "key-0")
    served = keys.current(idp.url)
    idp.rotate()
    idp.withdraw("key-0")
    clock.at += REFRESH
    assert keys.current(idp.url) is served
    await eventually(lambda: keys.current(idp.url) is not served)
    assert not await has(keys, idp, "key-0")
    assert idp.fetches == 3  # cold, refresh, and one for the kid that is unknown now


async def test_a_withdrawn_key_is_no_longer_good_before_the_refresh_is_over(
    keys: Keys, idp: Issuer, clock: Clock, eventually: Eventually
) -> None:
    assert await has(keys, idp, "key-0")
    kid = idp.rotate()
    idp.withdraw("key-0")
    clock.at += REFRESH * EARLY
    assert clock.at < 1000.0 + REFRESH
    keys.current(idp.url)
    await eventually(lambda: idp.fetches == 2)
    assert await has(keys, idp, kid)
    assert not await has(keys, idp, "key-0")


async def test_a_slow_issuer_keeps_its_withdrawn_keys_no_longer_than_the_bound(
    keys: Keys, idp: Issuer, clock: Clock
) -> None:
    assert await has(keys, idp, "key-0")
    idp.open.clear()
    clock.at += STALE + 1
    assert keys.current(idp.url) is None


async def test_an_unchanged_set_stays_the_same_instance(keys: Keys, idp: Issuer, clock: Clock,
                                                        eventually: Eventually) -> None:  # fmt: skip
    assert await has(keys, idp, "key-0")
    served = keys.current(idp.url)
    clock.at += STALE - 1
    keys.current(idp.url)
    await eventually(lambda: idp.fetches == 2)
    clock.at += STALE - 1  # past the bound, had the second fetch not confirmed the set
    await eventually(lambda: keys.current(idp.url) is served)


async def break_it(idp: Issuer, how: str) -> None:
    if how == "down":
        await idp.down()
    else:
        idp.behaviour = how


async def repair(idp: Issuer, how: str) -> None:
    if how == "down":
        await idp.up()
    idp.behaviour = "ok"


BROKEN = ["500", "html", "empty", "invalid", "twins", "redirect", "huge", "drop", "down"]


@pytest.mark.parametrize("how", BROKEN)
async def test_fc046_the_last_good_keys_serve_until_they_are_too_old(
    keys: Keys, idp: Issuer, clock: Clock, eventually: Eventually, how: str
) -> None:
    assert await has(keys, idp, "key-0")
    await break_it(idp, how)
    clock.at += STALE  # to the second
    assert await has(keys, idp, "key-0")
    await eventually(lambda: keys.status()[0].failures == 1)
    assert await has(keys, idp, "key-0")
    assert keys.ready()
    clock.at += 1
    assert not keys.ready()
    assert keys.current(idp.url) is None
    with pytest.raises(KeysUnavailable):
        await has(keys, idp, "key-0")
    await repair(idp, how)
    clock.at += 1.0
    assert await has(keys, idp, "key-0")
    assert keys.ready()


async def test_fc046_an_unknown_kid_at_a_broken_issuer_is_neither_yes_nor_no(
    keys: Keys, idp: Issuer, clock: Clock
) -> None:
    assert await has(keys, idp, "key-0")
    idp.behaviour = "500"
    for _ in range(3):
        with pytest.raises(KeysUnavailable):
            await has(keys, idp, uuid4().hex)
    assert keys.status()[0].failures == 1
    idp.behaviour = "ok"
    clock.at += COOLDOWN
    assert not await has(keys, idp, uuid4().hex)


async def test_fc046_a_failed_refresh_is_repeated_after_the_cooldown(
    keys: Keys, idp: Issuer, clock: Clock, eventually: Eventually
) -> None:
    assert await has(keys, idp, "key-0")
    idp.behaviour = "500"
    clock.at += REFRESH
    keys.current(idp.url)
    await eventually(lambda: keys.status()[0].failures == 1)
    asked = len(idp.requests)
    clock.at += COOLDOWN - 1
    assert all(await asyncio.gather(*(has(keys, idp, "key-0") for _ in range(50))))
    assert len(idp.requests) == asked
    clock.at += 1
    keys.current(idp.url)
    await eventually(lambda: keys.status()[0].failures == 2)


async def test_fc046_a_cold_start_at_a_dead_issuer_is_unavailable_and_not_ready(
    keys: Keys, idp: Issuer, clock: Clock
) -> None:
    await idp.down()
    assert not keys.ready()
    for _ in range(5):
        with pytest.raises(KeysUnavailable):
            await has(keys, idp, "key-0")
    assert keys.status()[0].failures == 1  # the pause is respected, whatever the need
    assert keys.status()[0].problem
    await idp.up()
    clock.at += 1.0
    assert await has(keys, idp, "key-0")
    assert keys.ready()
    assert keys.status()[0].problem == ""


async def test_without_traffic_it_becomes_ready_when_the_issuer_comes(
    idp: Issuer, eventually: Eventually
) -> None:
    keys = keys_of(asyncio.get_running_loop().time, idp)
    await idp.down()
    await keys.start()
    await eventually(lambda: keys.status()[0].failures)
    assert not keys.ready()
    await idp.up()
    await eventually(keys.ready)
    await keys.close()


async def test_starting_with_fresh_keys_asks_nothing(keys: Keys, idp: Issuer) -> None:
    assert await has(keys, idp, "key-0")
    await keys.start()
    for _ in range(5):
        await asyncio.sleep(0)
    assert await has(keys, idp, "key-0")
    assert idp.fetches == 1


async def test_a_slow_issuer_delays_no_other(clock: Clock, idp: Issuer) -> None:
    async with Issuer() as slow:
        slow.open.clear()
        keys = keys_of(clock, slow, idp)
        await keys.start()
        assert await has(keys, idp, "key-0")
        assert not keys.ready()
        await keys.close()


async def test_without_issuers_it_is_ready(clock: Clock) -> None:
    assert keys_of(clock).ready()


async def test_closing_ends_the_wait_for_an_issuer(keys: Keys, idp: Issuer, eventually: Eventually) -> None:
    idp.open.clear()
    waiting = asyncio.create_task(has(keys, idp, "key-0"))
    await eventually(lambda: idp.requests)
    await keys.close()
    with pytest.raises(KeysUnavailable):
        await waiting
    with pytest.raises(KeysUnavailable):
        await has(keys, idp, "key-0")
    assert keys.current(idp.url) is None


async def test_the_environment_names_no_proxy_for_us(keys: Keys, idp: Issuer, monkeypatch: Any) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert await has(keys, idp, "key-0")


# --- from a file ----------------------------------------------------------------------------------


@pytest.fixture
def volume(tmp_path: Path, idp: Issuer) -> Volume:
    return Volume(tmp_path / "keys", jwks=published(idp))


@pytest.fixture
async def filed(volume: Volume, idp: Issuer, clock: Clock) -> AsyncIterator[Keys]:
    """Keys of `idp` by a file alone: it is not to be asked."""
    issuer = config.Issuer(issuer=idp.url, audiences=("agent",), jwks_file=volume.path("jwks"))
    settings = config.Identity(
        issuers=(issuer,), keys_refresh=REFRESH, keys_max_stale=STALE, keys_cooldown=COOLDOWN
    )
    made = Keys(settings, clock=clock)
    yield made
    assert idp.requests == []
    await made.close()


def published(idp: Issuer) -> bytes:
    return json.dumps({"keys": idp.published}).encode()


async def test_keys_come_from_a_file(filed: Keys, idp: Issuer) -> None:
    assert not filed.ready()
    assert await has(filed, idp, "key-0")
    assert not await has(filed, idp, "key-1")
    assert filed.ready()


async def test_a_changed_file_is_noticed_in_seconds(
    filed: Keys, idp: Issuer, clock: Clock, eventually: Eventually, volume: Volume
) -> None:
    assert await has(filed, idp, "key-0")
    served = filed.current(idp.url)
    clock.at += FILE_PAUSE
    for _ in range(20):
        assert filed.current(idp.url) is served  # read anew, and it says the same
        await asyncio.sleep(0)
    kid = idp.rotate()
    idp.withdraw("key-0")
    volume.turn(jwks=published(idp))
    clock.at += FILE_PAUSE
    await eventually(lambda: filed.current(idp.url) is not served)
    assert await has(filed, idp, kid)
    assert not await has(filed, idp, "key-0")


async def test_a_key_that_was_just_added_to_the_file_is_found_at_once(
    filed: Keys, idp: Issuer, volume: Volume
) -> None:
    assert await has(filed, idp, "key-0")
    kid = idp.rotate()
    volume.turn(jwks=published(idp))
    assert await has(filed, idp, kid)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"keys": [', id="half written"),
        pytest.param(b'{"keys": []}', id="without keys"),
        pytest.param(b'{"keys": [], "keys": []}', id="with a repeated key"),
        pytest.param(b"-----BEGIN PUBLIC KEY-----", id="something else"),
        pytest.param(None, id="gone"),
    ],
)
async def test_a_bad_file_leaves_the_last_good_keys_for_a_while(
    filed: Keys, idp: Issuer, clock: Clock, eventually: Eventually, volume: Volume, content: bytes | None
) -> None:
    assert await has(filed, idp, "key-0")
    volume.turn(**({} if content is None else {"jwks": content}))
    clock.at += FILE_PAUSE
    assert await has(filed, idp, "key-0")
    await eventually(lambda: filed.status()[0].failures == 1)
    assert volume.path("jwks") in filed.status()[0].problem
    assert filed.ready()
    with pytest.raises(KeysUnavailable):
        await has(filed, idp, "key-1")
    clock.at += STALE + 1
    assert not filed.ready()
    with pytest.raises(KeysUnavailable):
        await has(filed, idp, "key-0")
    volume.turn(jwks=published(idp))
    clock.at += FILE_PAUSE
    assert await has(filed, idp, "key-0")


async def test_without_traffic_a_changed_file_is_noticed_too(
    idp: Issuer, eventually: Eventually, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.identity.source.FILE_PAUSE", 0.05)
    issuer = config.Issuer(issuer=idp.url, audiences=("agent",), jwks_file=volume.path("jwks"))
    keys = Keys(config.Identity(issuers=(issuer,)), clock=asyncio.get_running_loop().time)
    await keys.start()
    await eventually(keys.ready)
    volume.turn(jwks=b"garbage")
    await eventually(lambda: keys.status()[0].problem)
    volume.turn(jwks=published(idp))
    await eventually(lambda: not keys.status()[0].problem)
    await keys.close()
