"""Page tokens: good for one caller, one filter, one time."""

from __future__ import annotations

import os

import pytest

from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Reason, Refused
from sidecar.proxy.page_tokens import PageTokens
from tests.contract.ledger_contract import Clock

BOUND = ("list", "alice")
POSITION = (1_796_032_920_000_000, "t-1/é\ud800\x00")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tokens(clock: Clock, *keys: bytes, ledger: MemoryLedger | None = None) -> PageTokens:
    return PageTokens(ledger or MemoryLedger(now=clock), keys, 60.0, clock)


async def require_refused(tokens: PageTokens, token: str, bound: tuple[str, ...] = BOUND) -> None:
    with pytest.raises(Refused) as refused:
        await tokens.open(token, bound)
    assert refused.value.refusal.reason is Reason.INVALID_PARAMS


@pytest.mark.parametrize("position", [POSITION, (-1, ""), (0, "t" * 1024), None])
async def test_what_was_sealed_comes_out(clock: Clock, position: tuple[int, str] | None) -> None:
    page_tokens = tokens(clock)
    token = await page_tokens.seal(position, BOUND)
    assert await page_tokens.open(token, BOUND) == position
    assert token != await page_tokens.seal(position, BOUND)


@pytest.mark.parametrize(
    "bound", [("list", "bob"), ("list",), ("listalice", ""), ("list", "alice", ""), ("", "listalice")]
)
async def test_it_opens_only_with_what_it_is_bound_to(clock: Clock, bound: tuple[str, ...]) -> None:
    page_tokens = tokens(clock)
    await require_refused(page_tokens, await page_tokens.seal(POSITION, BOUND), bound)


async def test_it_expires(clock: Clock) -> None:
    page_tokens = tokens(clock)
    token = await page_tokens.seal(POSITION, BOUND)
    clock.seconds += 60
    assert await page_tokens.open(token, BOUND) == POSITION
    clock.seconds += 1
    await require_refused(page_tokens, token)


async def test_one_from_the_future_is_refused(clock: Clock) -> None:
    page_tokens = tokens(clock)
    token = await page_tokens.seal(POSITION, BOUND)
    clock.seconds -= 60
    assert await page_tokens.open(token, BOUND) == POSITION
    clock.seconds -= 1
    await require_refused(page_tokens, token)


async def test_keys_of_the_policy_rotate(clock: Clock) -> None:
    old, new, other = (os.urandom(32) for _ in range(3))
    token = await tokens(clock, old).seal(POSITION, BOUND)
    assert await tokens(clock, new, old).open(token, BOUND) == POSITION
    await require_refused(tokens(clock, new), token)
    await require_refused(tokens(clock, other), token)
    await require_refused(tokens(clock), token)


async def test_sidecars_on_one_ledger_open_each_others(clock: Clock) -> None:
    ledger = MemoryLedger(now=clock)
    token = await tokens(clock, ledger=ledger).seal(POSITION, BOUND)
    assert await tokens(clock, ledger=ledger).open(token, BOUND) == POSITION
    await require_refused(tokens(clock), token)


@pytest.mark.parametrize("token", ["", "A", "AAAA", "AAAAA", "é", "\ud800", "====", "a b", "A" * 8000])
async def test_what_is_no_token(clock: Clock, token: str) -> None:
    await require_refused(tokens(clock), token)


async def test_a_key_does_not_show_in_a_token(clock: Clock) -> None:
    key = os.urandom(32)
    token = await tokens(clock, key).seal(POSITION, BOUND)
    assert key.hex()[:8] not in token.encode().hex()
