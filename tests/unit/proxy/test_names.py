"""Look-ups of names: bounded in time and number, and in nobody's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator

import pytest

from sidecar.proxy.names import Names, system_look_up
from tests.builders import ALICE, BOB

LONG = 60.0  # seconds; longer than a test may take


class Stuck:
    """Names that hang until told otherwise."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str) -> Collection[str]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.go_on.wait(LONG)
        return ["1.1.1.1"]


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    names = Stuck()
    yield names
    names.go_on.set()


async def until(holds: object) -> None:
    async with asyncio.timeout(10):
        while not holds():  # type: ignore[operator]
            await asyncio.sleep(0.005)


async def test_the_systems_resolver_knows_the_loopback_names() -> None:
    found = await Names(system_look_up).resolve({"localhost"}, ALICE)
    assert set(found["localhost"]) <= {"127.0.0.1", "::1"}
    assert found["localhost"]


async def test_every_name_is_resolved(stuck: Stuck) -> None:
    found = await Names(stuck).resolve({"a.example.com", "b.example.com"}, ALICE)
    assert found == {"a.example.com": ["1.1.1.1"], "b.example.com": ["1.1.1.1"]}


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError("no such name"), id="a name that is not there"),
        pytest.param(UnicodeError("label too long"), id="what is no name to a resolver"),
    ],
)
async def test_a_name_without_addresses_has_none(error: Exception) -> None:
    def look_up(host: str) -> Collection[str]:
        if host == "b.example.com":
            raise error
        return ["1.1.1.1"]

    found = await Names(look_up).resolve({"a.example.com", "b.example.com"}, ALICE)
    assert list(found.pop("b.example.com")) == []  # type: ignore[attr-defined]
    assert found == {"a.example.com": ["1.1.1.1"]}


async def test_a_name_that_hangs_is_given_up_and_holds_up_nobody(stuck: Stuck) -> None:
    names = Names(stuck, wait=0.05)
    assert await names.resolve({"slow.example.com"}, ALICE) == {}
    assert not stuck.go_on.is_set(), "it was not waited for"
    assert await names.resolve({"fast.example.com"}, ALICE) == {"fast.example.com": ["1.1.1.1"]}
    assert await asyncio.to_thread(lambda: "the loop's own threads are free") is not None


async def test_one_owner_cannot_take_all_the_places(stuck: Stuck) -> None:
    names = Names(stuck, wait=0.05, at_once=8)
    hung = await asyncio.gather(*(names.resolve({f"slow-{n}.example.com"}, ALICE) for n in range(8)))
    assert hung == [{}] * 8
    assert len(stuck.asked) == 2, "a quarter of the places"
    assert await names.resolve({"fast.example.com"}, BOB) == {"fast.example.com": ["1.1.1.1"]}


async def test_all_places_together_are_bounded(stuck: Stuck) -> None:
    names = Names(stuck, wait=0.05, at_once=1)
    assert await names.resolve({"slow.example.com"}, ALICE) == {}
    assert await names.resolve({"fast.example.com"}, BOB) == {}
    assert stuck.asked == ["slow.example.com"]


async def test_calls_that_ask_for_one_name_at_once_share_one_look_up(stuck: Stuck) -> None:
    names = Names(stuck, wait=LONG, at_once=4)
    asked = [asyncio.create_task(names.resolve({"slow.example.com"}, owner)) for owner in (ALICE, BOB) * 50]
    await until(lambda: stuck.asked)
    asked.pop().cancel()
    stuck.go_on.set()
    assert await asyncio.gather(*asked) == [{"slow.example.com": ["1.1.1.1"]}] * 99
    assert stuck.asked == ["slow.example.com"]
    await names.resolve({"slow.example.com"}, ALICE)
    assert stuck.asked == ["slow.example.com"] * 2, "what was found is not remembered"


async def test_more_names_than_places_wait_for_their_turn(stuck: Stuck) -> None:
    names = Names(stuck, wait=LONG, at_once=4)
    hosts = [f"fast-{n}.example.com" for n in range(40)]
    found = await asyncio.gather(*(names.resolve({host}, ALICE) for host in hosts))
    assert found == [{host: ["1.1.1.1"]} for host in hosts]


async def test_a_place_is_free_again_once_its_name_has_answered(stuck: Stuck) -> None:
    names = Names(stuck, wait=0.05, at_once=1)
    await names.resolve({"slow.example.com"}, ALICE)
    stuck.go_on.set()
    await until(lambda: not names._places)
    assert await names.resolve({"fast.example.com"}, ALICE) == {"fast.example.com": ["1.1.1.1"]}


async def test_a_caller_who_leaves_frees_no_place_too_early(stuck: Stuck) -> None:
    names = Names(stuck, wait=LONG, at_once=1)
    left = asyncio.create_task(names.resolve({"slow.example.com"}, ALICE))
    await until(lambda: stuck.asked)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    waiting = asyncio.create_task(names.resolve({"fast.example.com"}, BOB))
    await asyncio.sleep(0)
    assert stuck.asked == ["slow.example.com"]
    stuck.go_on.set()
    assert await waiting == {"fast.example.com": ["1.1.1.1"]}
    await until(lambda: not names._places)


async def test_without_a_thread_there_is_no_answer(monkeypatch: pytest.MonkeyPatch, stuck: Stuck) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = Names(stuck)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        assert await names.resolve({"a.example.com"}, ALICE) == {"a.example.com": ()}
    assert await names.resolve({"a.example.com"}, ALICE) == {"a.example.com": ["1.1.1.1"]}
