"""What a reply or an event shows, held against what was judged.

Owns: recording owners before release, withholding ids that are not the caller's, noting states.
Never: decides who may call; that was the permit's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from sidecar.bindings.replies import Seen, Shape
from sidecar.ledger import LedgerUnavailable
from sidecar.model import (
    Call,
    Entry,
    Fact,
    Kind,
    Operation,
    Permit,
    Principal,
    Reason,
    Refused,
    Resource,
    Watch,
    Webhooks,
)
from sidecar.policy import ownership
from sidecar.policy.decide import guard
from sidecar.policy.rules import Policy
from sidecar.policy.scopes import Needs
from sidecar.proxy.deps import Deps
from sidecar.proxy.webhooks import WebhookCount

log = structlog.get_logger()

_TASK_SHAPES = frozenset({Shape.TASK, Shape.STATUS, Shape.ARTIFACT})


class Watcher:
    """Watches the reply to one permitted call. `admit` everything before it is released."""

    def __init__(
        self,
        permit: Permit,
        policy: Policy,
        deps: Deps,
        decision_id: str,
        abandon: Callable[[str], None],
        needs: Callable[[], Awaitable[Needs | None]],
    ) -> None:
        """`abandon` starts cancelling a new task, by id, that cannot be given to its caller; `needs` finds what one needs
        that the call did not ask for, and may raise Refused.
        """
        assert isinstance(permit.call, Call)
        assert permit.who is not None
        self.permit = permit
        self.call: Call = permit.call
        self.who: Principal = permit.who
        self.settled = permit.watch is not Watch.RECORD
        self._policy = policy
        self._deps = deps
        self._came_at = deps.now()
        self._id = decision_id
        self._abandon = abandon
        self._needs = needs
        self._judged = ownership.named_task(self.call, policy)
        self._webhooks = self._count_of(permit.webhooks) if permit.webhooks is not None else None
        # What is only reserved is not recorded yet: this call makes it final itself.
        self._released: dict[Resource, Fact] = {r: f for r, f in permit.known.items() if not f.provisional}

    def _count_of(self, webhooks: Webhooks) -> WebhookCount:
        own = self._judged if self._judged in self.permit.known else None
        return WebhookCount(webhooks, self.call, own, self.who.owner, self._deps.ledger, self._id)

    async def reserve(self) -> None:
        """Record the ids the caller picked and count its webhooks, before the call goes on. Raises Refused, LedgerUnavailable."""
        if self.permit.reserve:
            await self._reserve()
        if self._webhooks is None:
            return
        try:
            if not await self._webhooks.hold():
                self.note("push_limit_reached")
        except (Refused, LedgerUnavailable):
            await self.unreserve()
            raise

    async def _reserve(self) -> None:
        try:
            taken = await self._deps.ledger.record(self.who.owner, self.permit.reserve)
        except LedgerUnavailable:
            if self.permit.enforcing:
                raise
            return
        if taken and self.permit.enforcing:
            self.note("taken")
            raise Refused(Reason.NOT_FOUND, internal="the id picked is somebody else's")

    async def unreserve(self) -> None:
        """The agent made nothing of the ids picked, and of webhooks not settled: forget them again."""
        picked = [e.resource for e in self.permit.reserve if e.resource not in self._released]
        if picked:
            try:
                await self._deps.ledger.drop(self.who.owner, picked)
            except LedgerUnavailable:
                log.warning("a provisional row could not be dropped", agent=self._policy.agent)
        if self._webhooks is not None:
            await self._webhooks.release()

    async def admit(self, seen: Seen) -> None:
        """Record what is new, check what is not. Raises Refused where `seen` must not reach the caller."""
        task, context = self._resources(seen)
        if self.permit.watch is Watch.RECORD:
            await self._record(seen, task, context)
            if seen.shape in _TASK_SHAPES or seen.shape in (Shape.MESSAGE, Shape.ERROR):
                self.settled = True
        else:
            await self._keep(seen, task, context)
        if self._webhooks is not None and seen.shape is not Shape.ERROR:
            await self._webhooks.settle(seen)
        if task is not None and (seen.shape is Shape.TASK or seen.shape is Shape.STATUS):
            self._sight(seen, task)

    def gone(self) -> None:
        """The agent itself no longer knows the task that was named."""
        if self._judged is not None and self._judged in self.permit.known:
            self._deps.ledger.sight(self.who.owner, self._judged, Fact(), gone=True)

    def note(self, what: str, detail: str = "") -> None:
        self._deps.audit.outcome(self._id, self._policy.agent, what, detail)
        self._deps.metrics.outcome(self._policy.agent, what)

    async def _record(self, seen: Seen, task: Resource | None, shown: Resource | None) -> None:
        context = shown or self._unsaid_context(seen)
        new = [r for r in (task, context) if r is not None and r not in self._released]
        if not new:
            return
        skill, held = self.permit.skill, self.who.scopes or frozenset()
        if task in new and task is not None:
            skill = await self._judge_new_task(task, shown)
        context_id = context.id if context else seen.context_id
        fact = Fact(self.permit.tenant, context_id, seen.state, seen.status_at, skill or None, held)
        picked = self._policy.callers_pick_task_ids
        entries = [
            Entry(r, fact, chosen=picked)
            if r.kind is Kind.TASK
            else Entry(r, Fact(tenant=self.permit.tenant))
            for r in new
        ]
        try:
            foreign = await self._deps.ledger.record(self.who.owner, entries)
        except LedgerUnavailable as problem:
            self.note("recording_failed", str(problem))
            if self.permit.enforcing:
                if task is not None and task in new:
                    self._abandon(task.id)
                raise Refused(Reason.RECORDING_FAILED) from None
            return
        if foreign:
            self._collided(task, context, foreign)
            return
        self._released |= {entry.resource: entry.fact for entry in entries}
        if self._webhooks is not None and task is not None and task in new:
            await self._webhooks.made(task)
        self.note("recorded")

    def _unsaid_context(self, seen: Seen) -> Resource | None:
        """The context the caller named, where the agent took the call without naming one: events of 0.1 have no
        session, and its tasks may leave it out. What the caller picked is theirs all the same."""
        took = seen.shape in _TASK_SHAPES or seen.shape is Shape.MESSAGE
        return ownership.named_context(self.call, self._policy) if took and not seen.context_id else None

    async def _judge_new_task(self, task: Resource, context: Resource | None) -> str:
        """A task id not named in the call: the call has created. Returns the skill it was judged by."""
        made_before = any(r.kind is Kind.TASK and r not in self.permit.known for r in self._released)
        if made_before and self.permit.enforcing and (context is None or context not in self._released):
            self.note("foreign_reply", "a second task outside the caller's context")
            raise Refused(Reason.FOREIGN_REPLY, internal="a second task outside the caller's context")
        if self.permit.creates:
            return self.permit.skill
        # Judged as if it had said so at once: how long the agent took is not what the token lacked.
        try:
            guarded = guard(self.call, self.who, self._policy, await self._needs(), self._came_at)
        except Refused as unknown:  # nobody can say what it needs
            self.note("created_unjudged", unknown.refusal.reason.value)
            if self._policy.scopes != "enforce":
                return ""
            self._abandon(task.id)
            raise Refused(Reason.AGENT_FAILED, internal=unknown.refusal.internal) from None
        if guarded.refusal is not None:
            self.note("created_beyond_scope", guarded.refusal.reason.value)
        if guarded.refusal is not None and self._policy.scopes == "enforce":
            self._abandon(task.id)
            refused = Refused(guarded.refusal.reason)
            told = guarded.refusal.divergence
            refused.refusal = guarded.refusal._replace(
                divergence=told._replace(after_creation=True) if told else None,
                internal="a continuing send created a task",
            )
            raise refused
        return guarded.skill

    def _collided(
        self, task: Resource | None, context: Resource | None, foreign: frozenset[Resource]
    ) -> None:
        # Invariant 5: nothing is cancelled that is the first writer's.
        self.note("collision", "task" if task in foreign else "context")
        if not self.permit.enforcing:
            return
        if task in foreign:
            raise Refused(Reason.COLLISION, internal="the agent gave this caller another caller's task")
        if task is not None and task not in self._released:
            self._abandon(task.id)
        raise Refused(Reason.SHARED_CONTEXT)

    async def _keep(self, seen: Seen, task: Resource | None, context: Resource | None) -> None:
        """In any reply but a send's only the task that was judged may appear (design §5)."""
        if task is not None and task != self._judged:
            self.note("foreign_reply")
            if self.permit.enforcing:
                raise Refused(
                    Reason.FOREIGN_REPLY, internal="the reply names another task than the one judged"
                )
        if self.call.operation is not Operation.GET_TASK or context is None or context in self._released:
            return
        if task is not None and self._released.get(task, Fact()).context_id != context.id:
            await self._add_context(context, seen)

    async def _add_context(self, context: Resource, seen: Seen) -> None:
        """Get may add its task's context, where the send's reply did not show it."""
        try:
            foreign = await self._deps.ledger.record(
                self.who.owner, [Entry(context, Fact(tenant=self.permit.tenant))]
            )
        except LedgerUnavailable:
            if self.permit.enforcing:
                raise Refused(Reason.RECORDING_FAILED) from None
            return
        if foreign:
            self._collided(None, context, foreign)

    def _sight(self, seen: Seen, task: Resource) -> None:
        last = self._released.get(task)
        if last is None:
            return
        fact = last._replace(
            state=seen.state, status_at=seen.status_at, context_id=seen.context_id or last.context_id
        )
        self._released[task] = fact
        # Also of what is as it was: being seen renews a row, and tells that the agent has the task again.
        self._deps.ledger.sight(self.who.owner, task, fact)

    def _resources(self, seen: Seen) -> tuple[Resource | None, Resource | None]:
        agent = self._policy.agent
        task = Resource(agent, Kind.TASK, seen.task_id) if seen.task_id else None
        shared = seen.context_id in self._policy.shared_context_ids
        context = Resource(agent, Kind.CONTEXT, seen.context_id) if seen.context_id and not shared else None
        return task, context
