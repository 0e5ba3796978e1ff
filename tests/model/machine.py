"""What happens, in any order: several people, tenants and dialects, every operation, and everybody's ids in all of them.

Owns: the rules hypothesis chooses from, carrying one out, and telling the script of a run that went wrong.
Never: knows what an answer must be; that is the oracle's.

Arguments are picks, not ids (`theirs, the 3rd`), so that a shorter script still means something.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.model.oracle import Oracle, Pick, Plan, Whose, Wish, Wrong
from tests.model.wire import DIALECTS, OPERATIONS, PUSHES, SENDS, STRAYS, STREAMS, Answer, Ask, request
from tests.model.world import PATIENCE, PEOPLE, Person, Stream, World

NUMBERS: Final = st.integers(0, 63)
WHO_AND_HOW: Final = st.sampled_from([(who, dialect) for dialect in DIALECTS for who in PEOPLE])
WORDS: Final = ("done", "input", "hold", "hello")
FILTERS: Final = (
    ("pageSize", (1, 2, 3)),
    ("historyLength", (0, 1, 2)),
    ("includeArtifacts", (True, True, True)),
    ("status", ("TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING")),
)


def picks(*whose: Whose) -> st.SearchStrategy[Pick]:
    most = 16 * len(whose) - 1
    return st.integers(0, most).map(lambda n: Pick(whose[n % len(whose)], n // len(whose)))


MINE, THEIRS, NOBODYS = Whose.MINE, Whose.THEIRS, Whose.NOBODYS
ANYBODYS: Final = picks(MINE, THEIRS, MINE, THEIRS, THEIRS, NOBODYS)
OTHERS: Final = picks(THEIRS, THEIRS, NOBODYS)


class Chances:
    """One number, taken apart into choices: far cheaper to draw than each for itself. Zero chooses nothing special."""

    def __init__(self, number: int) -> None:
        self._left = number

    def below(self, n: int) -> int:
        self._left, chosen = divmod(self._left, n)
        return chosen

    def one_in(self, n: int) -> bool:
        return self.below(n) == n - 1


@st.composite
def wishes(draw: st.DrawFn, *operations: str) -> Wish:
    operation = draw(st.sampled_from(operations)) if len(operations) > 1 else operations[0]
    who, dialect = draw(WHO_AND_HOW)
    chances = Chances(draw(st.integers(0, 2**32 - 1)))
    wish: dict[str, Any] = {"snake": chances.one_in(2)}
    if chances.one_in(4):
        wish["tenant"] = ("blue", "green")[chances.below(2)]
    if chances.one_in(8):
        wish["stray"] = (STRAYS[chances.below(len(STRAYS))], draw(OTHERS))
    if operation in SENDS:
        wish["word"] = WORDS[chances.below(4)]
        if chances.one_in(2):
            wish["task"] = draw(ANYBODYS)
        if chances.one_in(4):
            wish["context"] = draw(ANYBODYS)
        if chances.one_in(4):
            wish["references"] = tuple(draw(ANYBODYS) for _ in range(1 + chances.below(2)))
        if chances.one_in(4):
            wish |= {"webhook": True, "config": draw(ANYBODYS)}
    elif operation == "list":
        wish["filters"] = tuple(
            (name, values[chances.below(3)]) for name, values in FILTERS if chances.one_in(2)
        )
        if chances.one_in(3):
            wish["context"] = draw(ANYBODYS)
        elif chances.one_in(3):
            wish["token"] = draw(ANYBODYS)
    elif operation != "card":
        wish["task"] = draw(ANYBODYS)
        if operation in PUSHES:
            wish["config"] = draw(ANYBODYS)
        elif operation == "get" and chances.one_in(4):
            wish["filters"] = (("historyLength", 1),)
    return Wish(operation, who, dialect, **wish)


class Callers(RuleBasedStateMachine):
    """One round: five people nobody has seen before, and whatever they do. `world` is set by whoever runs it."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.oracle = Oracle()
        self.tokens = self.world.tokens()
        self.script: list[str] = []
        self.followed: list[tuple[Plan, Stream]] = []
        self.went_wrong = False

    # --- rules -------------------------------------------------------------------------------------------

    @initialize(
        dialects=st.tuples(*[st.sampled_from(DIALECTS)] * len(PEOPLE)),
        words=st.tuples(*[st.sampled_from(WORDS)] * len(PEOPLE)),
    )
    def everybody_sends(self, dialects: tuple[str, ...], words: tuple[str, ...]) -> None:
        sends = zip(PEOPLE, dialects, words, strict=True)
        webhook = {"webhook": True, "config": Pick(NOBODYS)}
        self.call(*(Wish("send", who, dialect, word=word, **webhook) for who, dialect, word in sends))

    @rule(wish=wishes(*SENDS))
    def one_sends(self, wish: Wish) -> None:
        self.call(wish)

    @rule(wish=wishes("get", "list"))
    def one_reads(self, wish: Wish) -> None:
        self.call(wish)

    @rule(wish=wishes("cancel", "subscribe", "card"))
    def one_acts(self, wish: Wish) -> None:
        self.call(wish)

    @rule(wish=wishes(*PUSHES))
    def one_has_webhooks(self, wish: Wish) -> None:
        self.call(wish)

    @rule(several=st.lists(wishes(*OPERATIONS), min_size=2, max_size=4, unique_by=lambda wish: wish.who.name))
    def several_call_at_once(self, several: list[Wish]) -> None:
        self.call(*several)

    @rule(wish=wishes(*OPERATIONS), patience=st.integers(0, 40))
    def one_hangs_up(self, wish: Wish, patience: int) -> None:
        """At once, or after the loop has turned a few times: before, amid or after the agent's work."""
        plan = self.oracle.plan(wish)

        async def leave() -> None:
            self.say("(hangs up) ", plan)
            self.oracle.left_alone(plan)
            await self.world.leave(request(plan.ask), self.tokens[plan.wish.who], patience)

        self.step(leave)

    @rule(wish=wishes("subscribe", "send-stream"))
    def one_follows(self, wish: Wish) -> None:
        """A stream that stays open while others go on."""
        plan = self.oracle.plan(replace(wish, word="hold"))

        async def follow() -> None:
            self.say("(stays on) ", plan)
            stream = await self.world.open(request(plan.ask), self.tokens[plan.wish.who])
            await stream.first_event()
            self.oracle.judge(plan, stream.answer)
            self.followed.append((plan, stream))

        self.step(follow)

    @rule(number=NUMBERS)
    def one_has_heard_enough(self, number: int) -> None:
        if self.followed:
            self.step(self.hear, *self.followed.pop(number % len(self.followed)))

    @rule(
        who=st.lists(st.sampled_from(PEOPLE), min_size=2, max_size=3, unique=True),
        dialects=st.tuples(*[st.sampled_from(DIALECTS)] * 3),
    )
    def several_pick_one_context(self, who: list[Person], dialects: tuple[str, ...]) -> None:
        """The same new context id, at once: it becomes the first one's, and is there for nobody else."""
        self.step(self.race, who, dialects, count=len(who))

    @rule(number=NUMBERS)
    def agent_forgets(self, number: int) -> None:
        finished = [
            task for task in self.oracle.tasks if task.is_finished and not (task.gone or task.by_chance)
        ]
        if finished:
            self.step(self.forget, finished[number % len(finished)])

    @rule(wish=wishes("list"))
    def one_turns_every_page(self, wish: Wish) -> None:
        self.step(self.turn_pages, wish)

    # --- carrying them out ---------------------------------------------------------------------------------

    def call(self, *several: Wish) -> None:
        how = "at once " if len(several) > 1 else ""
        self.step(self.calls, [self.oracle.plan(wish) for wish in several], how, count=len(several))

    def step(self, action: Callable[..., Any], *arguments: Any, count: int = 1) -> None:
        self.world.steps += count
        try:
            self.world.run(action(*arguments))
        except Exception as problem:
            self.went_wrong = True
            problem.add_note("\n".join(["the script:", *self.script]))
            raise

    def say(self, how: str, plan: Plan, answer: Answer | None = None) -> None:
        told = "" if answer is None else f" -> {answer.status} {answer.error or 'ok'}"
        self.script.append(f"  {how}{plan.said}{told}")

    async def ask(self, ask: Ask, who: Person) -> Answer:
        self.world.calls += 1
        whole = ask.operation != "subscribe" and not (ask.operation == "send-stream" and not ask.waits)
        return await self.world.ask(request(ask), self.tokens[who], whole=whole)

    async def calls(self, plans: list[Plan], how: str = "") -> list[Answer]:
        """Carry out `plans` at once, hold every answer against what it must be, then ask with random ids."""
        answers = await asyncio.gather(*(self.ask(plan.ask, plan.wish.who) for plan in plans))
        for plan, answer in zip(plans, answers, strict=True):
            self.say(how, plan, answer)
            self.oracle.judge(plan, answer)
        for plan, answer in zip(plans, answers, strict=True):
            if plan.twin is not None and (answer.error is not None or plan.wish.operation == "list"):
                await self.compare(plan, answer)
        return answers

    async def compare(self, plan: Plan, answer: Answer) -> None:
        """Somebody else's id and one that never was: one answer."""
        assert plan.twin is not None
        twin = await self.ask(plan.twin, plan.wish.who)
        if plan.task is not None and plan.task.gone and plan.ask.is_old and plan.ask.operation in STREAMS:
            # Told of a task of one's own that the agent has forgotten: its event, made uniform, under its headers.
            answer, twin = replace(answer, headers=()), replace(twin, headers=())
            if answer.cut and not answer.body:
                return  # a2a-sdk 0.3 opens its HTTP+JSON stream, then looks for the task, then breaks off
        if (shown := _without_token(answer)) != (random := _without_token(twin)):
            raise Wrong(f"not as for a random id:\n  {shown}\n  {random}")

    async def hear(self, plan: Plan, stream: Stream) -> None:
        self.say("(hears the rest) ", plan)
        if plan.task is not None and plan.task.is_finished:
            await stream.rest()
        stream.hang_up()
        self.oracle.scan(plan.wish.who, stream.answer)

    async def race(self, who: list[Person], dialects: tuple[str, ...]) -> None:
        context = self.oracle.secret()
        asks = [
            Ask("send", dialect, context=context, text=f"hello {self.oracle.secret(each)}")
            for each, dialect in zip(who, dialects, strict=False)
        ]
        answers = await asyncio.gather(*(self.ask(ask, each) for each, ask in zip(who, asks, strict=True)))
        told = ", ".join(f"{each} {answer.error or 'ok'}" for each, answer in zip(who, answers, strict=True))
        self.script.append(f"  at once, the same new context in {dialects[: len(who)]} -> {told}")
        winners = [each for each, answer in zip(who, answers, strict=True) if answer.error is None]
        if len(winners) != 1 or not all(a.is_not_found for a in answers if a.error is not None):
            raise Wrong(f"one context for {winners}: {[answer.body[:300] for answer in answers]}")
        self.oracle.reveal(context, winners[0])  # not among what is picked: who wins is chance
        for each, answer in zip(who, answers, strict=True):
            self.oracle.scan(each, answer)

    async def forget(self, task: Any) -> None:
        self.script.append(f"  the agent forgets {task}")
        await self.world.control("forget", [task.id])
        task.gone = True

    async def turn_pages(self, wish: Wish) -> None:
        """Every page in turn; all of the caller's tasks are on them, once."""
        plan: Plan | None = self.oracle.plan(replace(wish, token=None, stray=None))
        pages = []
        while plan is not None:
            (answer,) = await self.calls([plan])
            if answer.error is not None:
                return
            pages.append(answer.result)
            plan = self.oracle.next_page(plan, answer.result["nextPageToken"])
        self.oracle.check_pages(self.oracle.plan(replace(wish, token=None, stray=None)), pages)

    def teardown(self) -> None:
        for _, stream in self.followed:
            stream.hang_up()
        try:
            if not self.went_wrong and self.oracle.left:
                self.step(self.find_left_behind)
        finally:
            self.world.run(self.world.control("round"))

    async def find_left_behind(self) -> None:
        """What a caller who hung up made is theirs in the end (invariant 4)."""
        made = await self.world.control("made")
        for left in list(self.oracle.left):
            for id_, texts in made.items():
                if any(left.text in text for text in texts):
                    self.script.append(f"  {left.who} looks for the task left behind")
                    async with asyncio.timeout(PATIENCE):
                        await self.until_there(
                            left.who, Ask("get", DIALECTS[0], task=id_, tenant=left.ask.tenant)
                        )

    async def until_there(self, who: Person, ask: Ask) -> None:
        while True:
            answer = await self.ask(ask, who)
            self.oracle.scan(who, answer)
            if answer.error is None:
                return
            if not answer.is_not_found:
                raise Wrong(f"{answer.error}: {answer.body[:600]!r}")


def _without_token(answer: Answer) -> tuple[object, ...]:
    """What is shown, but for the page token: it is sealed anew each time."""
    status, headers, body, cut = answer.shown
    return status, headers, re.sub(rb'"nextPageToken":"[^"]*"', b'"nextPageToken":"..."', body), cut
