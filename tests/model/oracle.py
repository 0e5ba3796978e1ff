"""Who owns what, and what every caller may therefore be told.

Owns: the tasks, contexts, webhooks and page tokens there are, in which states they can be, what an operation must
answer, and which ids and texts each caller may see.
Never: sends anything, and never looks into the sidecar: it knows what was sent and what came back.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4

from tests.model.wire import PUSHES, REST_0, SENDS, STREAMS, Answer, Ask, state_of
from tests.model.world import Person, may_use

TERMINAL: Final = frozenset({"completed", "canceled"})
OUTCOME: Final = {"done": "completed", "input": "input-required", "hold": "open"}  # word → state of the task

# Whatever is secret looks like this: what the agent makes up, and every text, id and token made up here.
SECRET: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
ENCODED: Final = re.compile(r"[A-Za-z0-9_\-+/]{24,}={0,2}")


class Wrong(AssertionError):
    """An answer nobody may get."""


class Whose(Enum):
    """Whose thing a call names."""

    MINE = auto()
    THEIRS = auto()
    NOBODYS = auto()


@dataclass(frozen=True, slots=True)
class Pick:
    """A thing to be named: the `n`th of those there are, a random id where there is none."""

    whose: Whose
    n: int = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants, in words that mean the same in every run."""

    operation: str
    who: Person
    dialect: str
    task: Pick | None = None
    context: Pick | None = None
    references: tuple[Pick, ...] = ()
    config: Pick | None = None
    token: Pick | None = None
    stray: tuple[str, Pick] | None = None
    tenant: str = ""
    word: str = "done"
    webhook: bool = False
    filters: tuple[tuple[str, Any], ...] = ()
    snake: bool = False


@dataclass(eq=False, slots=True)
class Thing:
    """What somebody owns."""

    id: str
    owner: Person
    name: str
    tenant: str = ""

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, slots=True, repr=False)
class Task(Thing):
    """`states` are those it can be in: more than one where a caller left before the answer."""

    context: str = ""
    states: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    webhooks: dict[str, str] = field(default_factory=dict)  # config id → its token
    unsure: set[str] = field(default_factory=set)  # config ids that may be there or not
    gone: bool = False  # the agent has forgotten it
    by_chance: bool = False  # whether and when it came to be is not the script's choice: never picked

    @property
    def is_finished(self) -> bool:
        return self.states <= TERMINAL


@dataclass(eq=False, slots=True, repr=False)
class Token(Thing):
    """A page token and the list it continues."""

    filters: tuple[tuple[str, Any], ...] = ()


class Must(Enum):
    """What an answer must be."""

    SUCCEED = ("ok",)
    BE_ABSENT = ("not found",)  # in the very bytes of an id that never was
    FAIL = ("refused",)  # it is there all the same
    FAIL_SOMEHOW = ("refused", "not found")
    MAY_FAIL = ("ok", "refused")
    MAY = ("ok", "refused", "not found")  # but the same for an id of somebody else as for one that never was


@dataclass(slots=True)
class Plan:
    """A wish with its ids, what must come back, and the same call with random ids for those of others."""

    wish: Wish
    ask: Ask
    must: Must
    said: str  # how the script tells it
    twin: Ask | None = None
    task: Task | None = None  # the caller's own
    swapped: dict[str, str] = field(default_factory=dict)

    def other(self, id_: str) -> str:
        """The random id that stands for `id_` in the twin, the same wherever it stands."""
        return self.swapped.setdefault(id_, str(uuid4()))


@dataclass(slots=True)
class Left:
    """A send whose caller hung up: the task may be there."""

    who: Person
    ask: Ask

    @property
    def text(self) -> str:
        return self.ask.text.partition(" ")[2]


class Oracle:
    """What is known of one round."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.contexts: list[Thing] = []
        self.configs: list[Thing] = []
        self.tokens: list[Token] = []
        self.left: list[Left] = []
        self._may_see: dict[str, set[Person]] = {}

    # --- naming things -----------------------------------------------------------------------------

    def secret(self, *who: Person) -> str:
        """An id or a text nobody has seen, for `who` alone."""
        made = str(uuid4())
        if who:
            self.reveal(made, *who)
        return made

    def reveal(self, secret: str, *who: Person) -> None:
        self._may_see.setdefault(_plain(secret), set()).update(who)

    def picked(self, pick: Pick, who: Person, things: Iterable[Thing], tenant: str | None = None) -> Thing:
        """The thing `pick` means. `tenant`: a task of another A2A tenant is as good as somebody else's."""
        if pick.whose is not Whose.NOBODYS:
            mine = pick.whose is Whose.MINE
            found = [
                thing
                for thing in things
                if is_of(thing, who, tenant) is mine and not (isinstance(thing, Task) and thing.by_chance)
            ]
            if found:
                return found[pick.n % len(found)]
        return Thing(self.secret(), _NOBODY, "a random id")

    def task_with(self, id_: str) -> Task | None:
        return next((task for task in self.tasks if task.id == id_), None)

    # --- planning ----------------------------------------------------------------------------------

    def plan(self, wish: Wish) -> Plan:
        """Fill in the ids, and tell what must come back. Whatever the call brings along is its caller's to see."""
        who = wish.who
        tenant = wish.tenant if wish.dialect.endswith("1.0") else ""
        ask = Ask(wish.operation, wish.dialect, tenant=tenant, snake=wish.snake, filters=dict(wish.filters))
        plan = Plan(wish, ask, Must.SUCCEED, f"{who}: {wish.operation} {wish.dialect}")
        if tenant:
            plan.said += f" tenant {tenant}"
        if wish.snake:
            plan.said += " snake_case"
        if wish.operation in SENDS:
            self._plan_send(plan)
        elif wish.operation == "list":
            self._plan_list(plan)
        elif wish.operation != "card":
            self._plan_on_a_task(plan)
        # The context of a query is a list's filter, and in a send the message's: no stray.
        names_context = (
            wish.operation in (*SENDS, "list") and wish.stray and wish.stray[0] == "query contextId"
        )
        # In 1.0 `id` beside a task is the webhook's own: any text may be one, and is told again.
        names_config = wish.operation in PUSHES and not plan.ask.is_old
        names_config = names_config and wish.stray is not None and wish.stray[0] in ("body id", "query id")
        if wish.stray is not None and not (names_context or names_config):
            self._add_stray(plan, *wish.stray)
        if not may_use(who, tenant):
            plan.must = Must.BE_ABSENT if wish.stray is None else Must.FAIL_SOMEHOW
        return plan

    def _plan_on_a_task(self, plan: Plan) -> None:
        wish, who = plan.wish, plan.wish.who
        task = self.picked(wish.task or Pick(Whose.MINE), who, self.tasks, plan.ask.tenant)
        plan.ask = replace(plan.ask, task=task.id)
        plan.said += f" {task}"
        config = None
        if wish.operation in PUSHES and wish.operation != "push-list":
            pick = wish.config or Pick(Whose.MINE)
            of_task = [each for each in self.configs if isinstance(task, Task) and each.id in task.webhooks]
            # Every other time one of this very task's: of all there are it would rarely be.
            config = of_task[0] if of_task and pick.n % 2 == 0 else self.picked(pick, who, self.configs)
            plan.ask = replace(plan.ask, config=config.id, secret=self.secret(who))
            plan.said += f" webhook {config}"
        if isinstance(task, Task) and is_of(task, who, plan.ask.tenant):
            plan.task = task
            plan.must = self._must(plan, task)
            if wish.operation == "push-create":
                self.reveal(plan.ask.config, who)
        else:
            plan.must = Must.BE_ABSENT
        keeps = plan.task is not None and plan.must is not Must.BE_ABSENT
        twin = replace(plan.ask, task=task.id if keeps else plan.other(task.id))
        if config is not None and config.owner is not who and wish.operation == "push-get":
            twin = replace(twin, config=plan.other(config.id))
        plan.twin = twin if twin != plan.ask else None

    def _must(self, plan: Plan, task: Task) -> Must:
        """What the agent answers the owner."""
        operation = plan.wish.operation
        if task.gone:
            # The agent's own words for a webhook of a task it has forgotten are the owner's alone.
            own_words = operation in PUSHES or _is_refused_empty(plan.ask)
            return Must.MAY if own_words else Must.BE_ABSENT
        match operation:
            case "cancel" | "subscribe":
                if task.is_finished:
                    return Must.FAIL
                return Must.MAY_FAIL if task.states & TERMINAL else Must.SUCCEED
            case "push-get":
                unsure = plan.ask.config in task.unsure
                return Must.SUCCEED if plan.ask.config in task.webhooks and not unsure else Must.MAY
            case "push-delete" if plan.ask.dialect == REST_0:
                return Must.MAY  # a2a-sdk 1 has no such route
        return Must.SUCCEED

    def _plan_send(self, plan: Plan) -> None:
        wish, who, tenant = plan.wish, plan.wish.who, plan.ask.tenant
        word, text = wish.word, self.secret(who)
        ask = replace(plan.ask, context="", config="")
        absent = False
        if wish.task is not None:
            task = self.picked(wish.task, who, self.tasks, tenant)
            if isinstance(task, Task) and is_of(task, who, tenant):
                # A second message to a task at work would wait for the first one's end.
                if "open" not in task.states:
                    plan.task = task
            else:
                absent = True
            if plan.task or absent:
                ask = replace(ask, task=task.id)
                plan.said += f" to {task}"
                word = "done" if word == "hello" else word
        twin = (
            ask if plan.task and not plan.task.gone else replace(ask, task=ask.task and plan.other(ask.task))
        )
        if wish.context is not None:
            context = self.picked(wish.context, who, self.contexts)
            ask = replace(ask, context=context.id)
            twin = replace(twin, context=context.id if context.owner is who else plan.other(context.id))
            plan.said += f" in context {context}"
            if context.owner not in (who, _NOBODY):
                absent = absent or plan.task is None
                # A context that never was would be made: what it must look like is a task that never was.
                twin = replace(twin, task=twin.task or str(uuid4()))
        references = [self.picked(pick, who, self.tasks, tenant) for pick in wish.references]
        if references:
            mine = [is_of(each, who, tenant) for each in references]
            absent = absent or not all(mine)
            ask = replace(ask, references=tuple(each.id for each in references))
            pairs = zip(references, mine, strict=True)
            twin = replace(twin, references=tuple(e.id if own else plan.other(e.id) for e, own in pairs))
            plan.said += f" referring to {references}"
        if wish.webhook and word != "hello":
            config = self.picked(wish.config or Pick(Whose.NOBODYS), who, self.configs)
            ask = replace(ask, webhook=True, config=config.id, secret=self.secret(who))
            plan.said += f" with webhook {config}"
        plan.said += f" `{word}`"
        plan.must = Must.BE_ABSENT if absent else self._must_of_send(plan, ask)
        if plan.must is not Must.BE_ABSENT:
            self.reveal(ask.context, who)
            self.reveal(ask.config, who)
        more = {"text": f"{word} {text}", "waits": word != "hold"}
        twin = replace(twin, webhook=ask.webhook, config=ask.config, secret=ask.secret, **more)
        plan.ask = replace(ask, **more)
        plan.twin = twin if twin != plan.ask else None

    def _must_of_send(self, plan: Plan, ask: Ask) -> Must:
        task = plan.task
        if task is None:
            return Must.SUCCEED
        if task.gone:
            uniform = ask.context in ("", task.context) and not _is_refused_empty(ask)
            return Must.BE_ABSENT if uniform else Must.FAIL_SOMEHOW
        if ask.context not in ("", task.context):
            return Must.FAIL_SOMEHOW
        if task.is_finished:
            return Must.FAIL
        return Must.MAY_FAIL if task.states & TERMINAL else Must.SUCCEED

    def _plan_list(self, plan: Plan) -> None:
        wish, who = plan.wish, plan.wish.who
        filters = dict(wish.filters)
        twin = None
        if wish.token is not None:
            token = self.picked(wish.token, who, self.tokens)
            if isinstance(token, Token):
                filters = {**dict(token.filters), "pageToken": token.id}
                plan.ask = replace(plan.ask, tenant=token.tenant if plan.ask.tenant or token.tenant else "")
                mine = token.owner is who
                if token.tenant and not plan.ask.dialect.endswith("1.0"):
                    plan.ask, mine = replace(plan.ask, tenant=""), False
                plan.must = Must.SUCCEED if mine else Must.FAIL
                twin = None if mine else {**filters, "pageToken": self._garbage(token.id)}
                plan.said += f" from {token}"
        elif wish.context is not None:
            context = self.picked(wish.context, who, self.contexts)
            filters["contextId"] = context.id
            plan.said += f" of context {context}"
            if context.owner is not who:
                twin = {**filters, "contextId": plan.other(context.id)}
        plan.said += f" {dict(wish.filters)}"
        plan.ask = replace(plan.ask, filters=filters)
        plan.twin = replace(plan.ask, filters=twin) if twin else None

    @staticmethod
    def _garbage(token: str) -> str:
        return base64.urlsafe_b64encode(uuid4().bytes * (len(token) // 16 + 1)).decode()[: len(token)]

    def _add_stray(self, plan: Plan, place: str, pick: Pick) -> None:
        """An id in a further place: it may be refused or have no effect, but for everybody's id alike."""
        things = self.contexts if place.endswith("contextId") else self.tasks
        stray = self.picked(pick, plan.wish.who, things)
        twin = replace(plan.twin or plan.ask, stray=(place, plan.other(stray.id)))
        plan.ask = replace(plan.ask, stray=(place, stray.id))
        plan.said += f" and {stray} in {place}"
        if twin.task and not plan.ask.task:
            plan.twin = None  # a random task in place of a context could contradict the stray id
        else:
            plan.twin = twin if stray.owner is not _NOBODY or plan.twin else None
        plan.must = Must.FAIL_SOMEHOW if "ok" not in plan.must.value else Must.MAY

    # --- judging -------------------------------------------------------------------------------------

    def judge(self, plan: Plan, answer: Answer) -> None:
        """Raises Wrong where the answer is not what must come back; else learns from it."""
        self.scan(plan.wish.who, answer)
        outcome = "not found" if answer.is_not_found else "ok" if answer.error is None else "refused"
        if outcome not in plan.must.value:
            raise Wrong(
                f"{outcome} ({answer.error}), must be {' or '.join(plan.must.value)}: {answer.body[:600]!r}"
            )
        if outcome == "ok":
            self._learn(plan, answer)
        elif (
            outcome == "refused"
            and plan.ask.webhook
            and plan.ask.operation in SENDS
            and plan.task is not None
        ):
            # a2a-sdk keeps a message's webhook before it finds that the task takes no more messages.
            plan.task.webhooks.setdefault(plan.ask.config, plan.ask.secret)
            plan.task.unsure.add(plan.ask.config)

    def _learn(self, plan: Plan, answer: Answer) -> None:
        match plan.wish.operation:
            case "send" | "send-stream":
                self._learn_send(plan, answer)
            case "list":
                self._check_list(plan, answer.result)
            case "card":
                if answer.result["name"] != "extended worker":
                    raise Wrong("another card")
            case "push-create":
                assert plan.task is not None
                self._add_webhook(plan.task, plan.ask)
            case "push-get":
                assert plan.task is not None
                token = plan.task.webhooks.get(plan.ask.config)
                if token is None or (
                    token.encode() not in answer.body and plan.ask.config not in plan.task.unsure
                ):
                    raise Wrong("another webhook")
            case "push-list":
                self._check_webhooks(plan, answer)
            case "push-delete":
                assert plan.task is not None
                plan.task.webhooks.pop(plan.ask.config, None)
                plan.task.unsure.discard(plan.ask.config)
            case _:
                self._check_task(plan, answer.resource)

    def _check_task(self, plan: Plan, shown: Mapping[str, Any]) -> None:
        task = plan.task
        assert task is not None
        if shown.get("id") != task.id:
            raise Wrong(f"another task: {shown.get('id')}")
        state = state_of(shown)  # type: ignore[arg-type]
        if plan.wish.operation == "cancel":
            task.states = {"canceled"}
        self._check_state(task, state)
        if plan.wish.operation == "get" and "historyLength" not in plan.ask.filters:
            text = json.dumps(shown)
            if missing := [said for said in task.texts if said not in text]:
                raise Wrong(f"what its owner said is missing: {missing}")

    @staticmethod
    def _check_state(task: Task, state: str) -> None:
        if state not in task.states:
            raise Wrong(f"{task} is {state}, must be {' or '.join(sorted(task.states))}")
        if state in TERMINAL:
            task.states = {state}

    def _learn_send(self, plan: Plan, answer: Answer) -> None:
        who, ask, shown = plan.wish.who, plan.ask, answer.resource
        word, _, text = ask.text.partition(" ")
        self.own_context(shown.get("contextId"), who)
        if ask.context and shown.get("contextId") != ask.context:
            raise Wrong(f"context {shown.get('contextId')} and not the one asked for")
        if word == "hello":
            return
        id_ = shown.get("id") or shown.get("taskId")
        if plan.task is None:
            if not id_:
                raise Wrong("no task")
            name = f"{who}'s task {sum(task.owner is who for task in self.tasks) + 1}"
            plan.task = Task(id_, who, name, ask.tenant, context=shown.get("contextId", ""))
            self.tasks.append(plan.task)
            self.reveal(id_, who)
        elif plan.task.id != id_:
            raise Wrong(f"another task: {id_}")
        plan.task.states = {OUTCOME[word]}
        plan.task.texts.append(text)
        if ask.webhook:
            self._add_webhook(plan.task, ask)
        if ask.operation == "send":
            self._check_state(plan.task, state_of(shown))

    def own_context(self, id_: Any, who: Person) -> None:
        if not isinstance(id_, str) or not id_:
            raise Wrong("no context")
        self.reveal(id_, who)
        if not any(context.id == id_ for context in self.contexts):
            number = sum(context.owner is who for context in self.contexts) + 1
            self.contexts.append(Thing(id_, who, f"{who}'s context {number}"))

    def _add_webhook(self, task: Task, ask: Ask) -> None:
        task.webhooks[ask.config] = ask.secret
        task.unsure.discard(ask.config)
        if not any(config.id == ask.config for config in self.configs):
            number = sum(config.owner is task.owner for config in self.configs) + 1
            self.configs.append(Thing(ask.config, task.owner, f"{task.owner}'s webhook {number}"))

    def _check_webhooks(self, plan: Plan, answer: Answer) -> None:
        task = plan.task
        assert task is not None
        shown = answer.result
        listed = shown if isinstance(shown, list) else shown.get("configs", [])
        if (
            not len(task.webhooks.keys() - task.unsure)
            <= len(listed)
            <= len(task.webhooks.keys() | task.unsure)
        ):
            raise Wrong(f"{len(listed)} webhooks, must be {len(task.webhooks)}")
        text = json.dumps(listed)
        for config, token in task.webhooks.items():
            if config not in task.unsure and token not in text:
                raise Wrong("a webhook is missing")

    # --- lists -----------------------------------------------------------------------------------------

    def matching(self, who: Person, ask: Ask) -> tuple[list[Task], int, int]:
        """The caller's tasks the filters may find, the least there must be, and the most there may be."""
        context, status = ask.filters.get("contextId"), ask.filters.get("status")
        wanted = str(status or "").removeprefix("TASK_STATE_").lower().replace("_", "-")
        found, least = [], 0
        for task in self.tasks:
            if not is_of(task, who, ask.tenant) or (context and task.context != context):
                continue
            states = {"working", "submitted"} | task.states if "open" in task.states else task.states
            if status and wanted not in states:
                continue
            found.append(task)
            least += not task.gone and (not status or len(states) == 1)
        left = sum(each.who is who and each.ask.tenant == ask.tenant for each in self.left)
        return found, least, len(found) + left

    def _check_list(self, plan: Plan, page: Mapping[str, Any]) -> None:
        who, ask = plan.wish.who, plan.ask
        tasks, token = page["tasks"], page["nextPageToken"]
        for shown in tasks:
            self._adopt(who, ask.tenant, shown)
        found, least, most = self.matching(who, ask)
        if not least <= page["totalSize"] <= most:
            raise Wrong(
                f"totalSize {page['totalSize']}, must be from {least} to {most}: {found} {ask.filters}"
            )
        size = ask.filters.get("pageSize", 50)
        if page["pageSize"] != size or len(tasks) > size:
            raise Wrong(f"{len(tasks)} tasks on a page of {size}")
        by_id = {task.id: task for task in found}
        for shown in tasks:
            task = by_id.get(shown["id"])
            if task is None:
                # Of a task a caller left behind nothing may show whose it is.
                if not any(left.who is who for left in self.left):
                    raise Wrong(f"a task that is not the caller's, or not asked for: {shown['id']}")
            elif task.gone:
                raise Wrong("a task the agent has forgotten")
            else:
                self._check_state(task, state_of(shown))
        if "pageToken" not in ask.filters and not token:
            ids = {shown["id"] for shown in tasks}
            lacking = [t for t in found if not t.gone and t.id not in ids]
            if len(lacking) > len(found) - least:
                raise Wrong(f"not on the page: {lacking}")
        stamps = [shown["status"].get("timestamp", "") for shown in tasks]
        if "timestamp" in json.dumps(tasks) and any(_instant(a) < _instant(b) for a, b in pairwise(stamps)):
            raise Wrong(f"not newest first: {stamps}")
        if token:
            filters = tuple((k, v) for k, v in ask.filters.items() if k != "pageToken")
            self.tokens.append(Token(token, who, f"{who}'s page token", ask.tenant, filters))

    def next_page(self, plan: Plan, token: str) -> Plan | None:
        if not token:
            return None
        ask = replace(plan.ask, filters={**plan.ask.filters, "pageToken": token})
        return Plan(plan.wish, ask, Must.SUCCEED, f"{plan.wish.who}: the next page")

    def check_pages(self, plan: Plan, pages: list[Mapping[str, Any]]) -> None:
        """Raises Wrong unless all pages together show every task once. What moves meanwhile may be missed."""
        shown = [task["id"] for page in pages for task in page["tasks"]]
        found, least, most = self.matching(plan.wish.who, plan.ask)
        if any(len(task.states) > 1 for task in self.tasks if task.owner is plan.wish.who) or least != most:
            return
        if sorted(shown) != sorted(task.id for task in found):
            raise Wrong(f"{len(shown)} tasks on all pages, must be {found}")

    def _adopt(self, who: Person, tenant: str, shown: Mapping[str, Any]) -> None:
        """A task whose maker left before its id was told: theirs, since what they said is in it."""
        if self.task_with(shown["id"]) is not None:
            return
        text = json.dumps(shown)
        for left in self.left:
            if left.who is who and left.ask.tenant == tenant and left.text in text:
                self.adopt(left, shown["id"], shown.get("contextId", ""))
                return

    def adopt(self, left: Left, id_: str, context: str) -> None:
        ask, word = left.ask, left.ask.text.partition(" ")[0]
        name = f"the task {left.who} left behind"
        task = Task(id_, left.who, name, ask.tenant, context=context, states={"open", OUTCOME[word]})
        task.by_chance = True
        task.texts.append(left.text)
        if ask.webhook:
            task.webhooks[ask.config] = ask.secret
            task.unsure.add(ask.config)
        self.tasks.append(task)
        self.reveal(id_, left.who)
        self.left.remove(left)

    # --- callers who leave -------------------------------------------------------------------------------

    def left_alone(self, plan: Plan) -> None:
        """The caller hung up: whatever the call does may have happened or not."""
        ask, task = plan.ask, plan.task
        word = ask.text.partition(" ")[0]
        if plan.must in (Must.BE_ABSENT, Must.FAIL):
            return
        if ask.operation in SENDS:
            if task is None:
                if word != "hello":
                    self.left.append(Left(plan.wish.who, ask))
                return
            task.states |= {"open", OUTCOME[word]}
            if ask.webhook:
                task.webhooks.setdefault(ask.config, ask.secret)
                task.unsure.add(ask.config)
        elif task is not None and ask.operation == "cancel" and not task.gone:
            task.states |= {"canceled"}
        elif task is not None and ask.operation in ("push-create", "push-delete"):
            if ask.operation == "push-create":
                task.webhooks.setdefault(ask.config, ask.secret)
            task.unsure.add(ask.config)

    # --- what may be seen ----------------------------------------------------------------------------------

    def scan(self, who: Person, answer: Answer) -> None:
        """Raises Wrong where the answer mentions what is not the caller's. What is new is the caller's from now on."""
        text = "\n".join([answer.body.decode(errors="replace"), *(f"{k}: {v}" for k, v in answer.headers)])
        for piece in _readings(text):
            for found in SECRET.findall(piece):
                seen_by = self._may_see.setdefault(_plain(found), {who})
                if who not in seen_by:
                    raise Wrong(f"{found} is of {', '.join(map(repr, seen_by)) or 'nobody'}: {text[:600]}")


_NOBODY: Final = Person("nobody", "")


def _is_refused_empty(ask: Ask) -> bool:
    """Whether a2a-sdk 1 refuses this with a stream that holds nothing: what it means, only its reader can guess."""
    return ask.operation in STREAMS and ask.dialect == REST_0


def is_of(thing: Thing, who: Person, tenant: str | None = None) -> bool:
    """Whether the thing is the caller's, and was made under the A2A tenant that applies where that matters."""
    return thing.owner is who and (tenant is None or thing.tenant == tenant)


def _plain(secret: str) -> str:
    return secret.replace("-", "").lower()


def _readings(text: str) -> Iterator[str]:
    """The text as it stands, without its escapes, and whatever in it may be base64."""
    yield text
    if "\\u" in text or "%" in text:
        yield re.sub(r"\\u([0-9a-fA-F]{4})|%([0-9a-fA-F]{2})", lambda m: chr(int(m[1] or m[2], 16)), text)
    for found in ENCODED.findall(text):
        if not SECRET.fullmatch(found):
            bare = found.rstrip("=").replace("+", "-").replace("/", "_")
            try:
                yield base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)).decode("latin-1")
            except (binascii.Error, ValueError):
                continue


def _instant(stamp: str) -> str:
    """RFC 3339 in UTC as text that sorts: the agent writes as many digits as it needs."""
    seconds, _, fraction = stamp.rstrip("Z").removesuffix("+00:00").partition(".")
    return f"{seconds}.{fraction:0<9}"
