"""A list of the caller's own tasks.

Owns: putting one page together: ids from the ledger, states and bodies from the agent by the caller's own GetTask.
Never: asks the agent for its list, shows a short list for a whole one, or looks at anybody else's rows.

The ledger knows whose a task is and how it was last seen; only the agent knows what it looks like now. So
unfinished tasks are asked for first, since that may move them in the list or out of the filter; then the page is
read from the ledger and whatever on it has not been asked for yet, until nothing on it is news any longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.listing import list_reply, listed_task
from sidecar.bindings.own_requests import get_request
from sidecar.bindings.replies import Seen, Shape, Unclear, read_reply
from sidecar.ledger import LedgerUnavailable
from sidecar.model import (
    Call,
    Exchange,
    Fact,
    Kind,
    Operation,
    Page,
    Permit,
    Position,
    Principal,
    Reason,
    Refused,
    Reply,
    Resource,
    Selection,
    TaskFilter,
)
from sidecar.policy.decide import permit_to_get
from sidecar.proxy import headers
from sidecar.proxy.agents import GuardedAgent, View
from sidecar.proxy.body import inflate
from sidecar.proxy.deps import Deps
from sidecar.proxy.watch import Watcher

AT_ONCE: Final = 8  # requests to the agent, of one list


class Answered(Exception):
    """The agent refuses the caller themselves: its own reply is what they get."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


class Listing:
    """One permitted list."""

    def __init__(
        self, permit: Permit, exchange: Exchange, agent: GuardedAgent, view: View, deps: Deps
    ) -> None:
        assert isinstance(permit.call, Call)
        assert permit.who is not None
        assert permit.call.selection is not None
        self._permit = permit
        self._call: Call = permit.call
        self._who: Principal = permit.who
        self._selection: Selection = permit.call.selection
        self._exchange = exchange
        self._agent = agent
        self._view = view
        self._deps = deps
        self._filter = TaskFilter(
            agent.name,
            permit.tenant,
            permit.call.context_id,
            self._selection.state,
            self._selection.changed_since,
        )
        self._tasks: dict[str, bytes] = {}  # what was got, as the list shows it
        self._size = 0  # bytes of it
        self._paging = False  # the page is being filled; before, tasks are got for their state
        self._gone: set[str] = set()
        self._left = deps.lists.refresh_max + 4 * self._selection.page_size  # requests to the agent
        self._moved = False  # something got differs from what the ledger said

    async def answer(self) -> Reply:
        """The page asked for. Raises Refused, LedgerUnavailable."""
        after = await self._start()
        try:
            await self._refresh()
            page = await self._settled(after)
        except Answered as answered:
            return answered.reply
        size = self._selection.page_size
        # Past the last request to the agent the page ends where the tasks that were got do.
        got = list(takewhile(lambda entry: entry[0][1] in self._tasks, page.tasks[:size]))
        more = len(got) < len(page.tasks)
        last = got[-1][0] if got else after
        token = await self._deps.page_tokens.seal(last, self._bound()) if more else ""
        bodies = [self._tasks[position[1]] for position, _ in got]
        return list_reply(bodies, token, size, page.total, self._call.form)

    async def _start(self) -> Position | None:
        token = self._selection.page_token
        return await self._deps.page_tokens.open(token, self._bound()) if token else None

    def _bound(self) -> tuple[str, ...]:
        """What a page token is good for: this caller, and these filters."""
        owner, wanted = self._who.owner, self._filter
        filters = (wanted.context_id, wanted.state, wanted.changed_since)
        return (
            *("list", wanted.agent, wanted.tenant, *map(repr, filters)),
            *(owner.tenant, owner.issuer, owner.subject, *owner.further),
        )

    async def _refresh(self) -> None:
        """Ask for the newest unfinished tasks, whatever their last known state."""
        most = self._deps.lists.refresh_max
        if most:
            unfinished = self._filter._replace(state=None, changed_since=None, unfinished=True)
            await self._get((await self._page(unfinished, None, most)).tasks)

    async def _settled(self, after: Position | None) -> Page:
        """The page, with one task more than asked for if there is one, once all on it has been got."""
        while True:
            page = await self._page(self._filter, after, self._selection.page_size + 1)
            self._keep_only(page)
            lacking = [e for e in page.tasks[: self._selection.page_size] if e[0][1] not in self._tasks]
            if not lacking or self._left <= 0:
                return page
            self._moved = False
            await self._get(lacking)
            if not self._moved:
                return page

    def _keep_only(self, page: Page) -> None:
        """Make room: what was got to learn its state and is not on the page is not needed any longer."""
        self._paging = True
        self._tasks = {id_: self._tasks[id_] for (_, id_), _ in page.tasks if id_ in self._tasks}
        self._size = sum(map(len, self._tasks.values()))

    async def _page(self, wanted: TaskFilter, after: Position | None, limit: int) -> Page:
        page = await self._deps.ledger.tasks(self._who.owner, wanted, after, limit)
        # A row could not be marked yet: the ledger writes behind.
        there = tuple(entry for entry in page.tasks if entry[0][1] not in self._gone)
        return Page(there, page.total - (len(page.tasks) - len(there)))

    # --- the caller's own GetTask ----------------------------------------------------------------

    async def _get(self, entries: Iterable[tuple[Position, Fact]]) -> None:
        """Get each of `entries`, as long as requests are left. Raises Refused, Answered."""
        waiting = iter(list(entries)[: max(0, self._left)])

        async def one_after_another() -> None:
            for position, fact in waiting:
                await self._get_one(position[1], fact)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(one_after_another())
        except* (Refused, Answered, LedgerUnavailable) as several:
            problem: BaseException | None = several.exceptions[0]
        else:
            problem = None
        if problem is not None:
            raise problem

    async def _get_one(self, id_: str, fact: Fact) -> None:
        """Raises Refused, Answered, LedgerUnavailable."""
        self._left -= 1
        task = Resource(self._agent.name, Kind.TASK, id_)
        try:
            request = get_request(self._call, id_)
        except ValueError as problem:
            raise _failed(str(problem)) from None
        call = self._call._replace(
            operation=Operation.GET_TASK,
            target=request.target,
            task_id=id_,
            context_id=None,
            selection=None,
        )
        watcher = self._watcher(call, task, fact)
        status, got, raw = await self._ask(request.method, request.target, request.headers, request.body)
        self._agent.onward.require_accepted(self._who, status, got)
        plain, seen = self._read(raw, status, got, watcher)
        if seen.not_found:
            self._gone.add(id_)
            self._moved = True
            watcher.gone()
        elif seen.shape is Shape.ERROR or status >= 300:
            if not (status < 300 or 400 <= status < 500):
                raise _failed(f"status {status}")
            raise Answered(Reply(status, self._down(got), raw))
        else:
            await watcher.admit(seen)
            self._keep(id_, plain, call)
            self._compare(task, fact, seen)

    def _watcher(self, call: Call, task: Resource, fact: Fact) -> Watcher:
        permit = permit_to_get(self._permit, call, task, fact)
        return Watcher(permit, self._view.policy, self._deps, self._exchange.id, _never, _nothing)

    async def _ask(
        self, method: str, target: str, own: Mapping[str, str], body: bytes
    ) -> tuple[int, CIMultiDictProxy[str], bytes]:
        limits = self._deps.limits
        sent = self._agent.onward.own_request(self._exchange.head.headers, self._who, own)
        try:
            return await self._agent.upstream.ask(
                method, target, sent, body, limit=limits.reply, timeout=limits.connect_timeout * 4
            )
        except Refused as refused:
            raise _failed(refused.refusal.internal) from None

    def _read(
        self, raw: bytes, status: int, got: CIMultiDictProxy[str], watcher: Watcher
    ) -> tuple[bytes, Seen]:
        coding = ",".join(got.getall("Content-Encoding", ())).strip().lower()
        try:
            plain = raw if coding in ("", "identity") else inflate(raw, coding, self._deps.limits.reply)
            seen = read_reply(plain, status, watcher.call)
        except (Unclear, Refused) as problem:
            watcher.note("reply_unreadable", str(problem))
            raise _failed("a task that cannot be read") from None
        if seen.shape not in (Shape.TASK, Shape.ERROR):
            raise _failed("a GetTask answered with no task")
        return plain, seen

    def _keep(self, id_: str, reply: bytes, call: Call) -> None:
        try:
            task = listed_task(reply, call, self._selection)
        except Unclear as problem:
            raise _failed(str(problem)) from None
        if self._size + len(task) <= self._deps.limits.reply:
            self._tasks[id_] = task
            self._size += len(task)
        elif self._paging:
            raise Refused(Reason.REPLY_TOO_LARGE)

    def _compare(self, task: Resource, known: Fact, seen: Seen) -> None:
        news = known._replace(
            state=seen.state or known.state,
            status_at=seen.status_at or known.status_at,
            context_id=known.context_id or seen.context_id,
        )
        if news != known:
            self._moved = True
        self._deps.ledger.sight(self._who.owner, task, news)

    def _down(self, got: CIMultiDictProxy[str]) -> CIMultiDict[str]:
        return headers.to_downstream(got, self._agent.upstream_url, self._agent.public_url)


def _failed(what: str) -> Refused:
    """Nothing the caller asked for has happened, so they may ask again."""
    return Refused(Reason.AGENT_UNAVAILABLE, internal=f"while listing: {what}")


async def _nothing() -> None:
    """A GetTask makes no task that could need anything."""


_never: Callable[[str], None] = lambda _: None  # noqa: E731 - a GetTask makes no task to abandon
