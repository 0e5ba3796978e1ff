"""The life of a request.

Owns: the order of steps in enforce(), and answer(), the one place where what was raised becomes a reply.
Never: parses or formats.

    edge ─► authenticate ─► decode ─► look up ─► decide ─► audit ─► forward ─► obligations ─► edge

A webhook's name is resolved in between only where everything else permits the call, and then decided about anew: so
nobody but the owner of a task causes a question to DNS, and no stranger learns by time whether the task exists.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

import structlog

from sidecar.bindings.decode import decode, form_of
from sidecar.bindings.refusals import NOT_FOUND_REASONS, encode_refusal
from sidecar.bindings.surface import Target
from sidecar.ledger import LedgerUnavailable
from sidecar.model import Call, Exchange, Form, Permit, Principal, Reason, Refusal, Refused, Reply, Resource
from sidecar.policy.decide import Known, LookUps, decide, look_ups, may_pass
from sidecar.policy.rules import Mode
from sidecar.proxy.agents import GuardedAgent, View, public_card
from sidecar.proxy.body import Body, read_body, read_for_form
from sidecar.proxy.deps import Deps
from sidecar.proxy.obligations import Carrier

log = structlog.get_logger()

# Their reply is the request as it came (RFC 9110 §9.3.8), and what comes to the agent is not only the caller's.
_ECHOES = frozenset({"TRACE", "TRACK"})

_MISSES = NOT_FOUND_REASONS | {Reason.PUSH_NOT_OFFERED}


@dataclass(slots=True)
class Progress:
    """How far a request has come: what `answer` needs if the line breaks off."""

    form: Form = field(default_factory=Form)
    agent: str = ""
    decided: bool = False
    misses: tuple[Resource, ...] = ()
    who: Principal | None = None


async def answer(exchange: Exchange, deps: Deps) -> Reply:
    """The reply to any request. The only function that catches everything."""
    progress = Progress()
    try:
        return await enforce(exchange, deps, progress)
    except Refused as refused:
        refusal = refused.refusal
    except LedgerUnavailable as problem:
        refusal = Refusal(Reason.LEDGER_UNAVAILABLE, internal=str(problem))
    except Exception as problem:  # noqa: BLE001 - a bug must not open the door, nor show itself to the caller
        log.error(
            "a fault of ours", error=type(problem).__name__, where=_place(problem), decision_id=exchange.id
        )
        refusal = Refusal(Reason.INTERNAL, internal=type(problem).__name__)
    _audit_break(refusal, exchange, deps, progress)
    return _refusal_reply(refusal, exchange, deps, progress)


async def enforce(exchange: Exchange, deps: Deps, progress: Progress) -> Reply:
    if exchange.head.method in _ECHOES:
        raise Refused(Reason.METHOD_NOT_ALLOWED, "this method is not answered here")
    agent, target = deps.agents.at(exchange.head.target)
    progress.agent = agent.name
    view = await agent.view()
    if (card := public_card(exchange.head, target, view)) is not None:
        return card

    url = agent.public_address(exchange.head.target)
    who = await deps.identity.authenticate(exchange.head, agent.audiences, url)
    body = await read(exchange, target, who, view, deps, progress)
    call = decode(exchange.head, target, body.whole, view.surface)
    progress.form = call.form
    now = deps.now()
    asked = look_ups(call, who, view.policy, now)
    known = await look_up(asked, call, who, exchange, agent, view, deps, now)
    decision = decide(call, who, view.policy, known)
    if isinstance(decision, Permit) and decision.resolve and decision.who is not None:
        addresses = await deps.names.resolve(decision.resolve, decision.who.owner)
        decision = decide(call, who, view.policy, known._replace(addresses=addresses))
    deps.audit.decision(exchange.id, agent.name, view.policy.hash, call, who, decision)
    deps.metrics.decision(agent.name, call, decision)
    progress.decided = True
    progress.misses = tuple(r for r in asked.resources if r not in known.facts)
    progress.who = who if isinstance(who, Principal) else None
    if isinstance(decision, Refusal):
        return _refusal_reply(decision, exchange, deps, progress)
    return await Carrier(decision, exchange, body, agent, view, deps).carry_out()


async def read(
    exchange: Exchange, target: Target, who: Principal | Refusal, view: View, deps: Deps, progress: Progress
) -> Body:
    """The body, whole where it must be judged; hardly any of it for a caller who will be refused. Raises Refused."""
    if not may_pass(who, target.path, view.policy):
        return await read_for_form(exchange, deps.limits)
    try:
        return await read_body(exchange, deps.limits)
    except Refused:
        progress.form = form_of(exchange.head, target, view.surface)
        raise


async def look_up(
    asked: LookUps,
    call: object,
    who: Principal | Refusal,
    exchange: Exchange,
    agent: GuardedAgent,
    view: View,
    deps: Deps,
    now: float,
) -> Known:
    """Fetch what `look_ups` asked for. `now` is when the call came in. Raises LedgerUnavailable, Refused."""
    if not isinstance(call, Call) or not isinstance(who, Principal):
        return Known()
    try:
        facts = await deps.ledger.facts(who.owner, asked.resources) if asked.resources else {}
    except LedgerUnavailable:
        if view.policy.ownership is Mode.ENFORCE:
            raise
        return Known(now=now)
    if not asked.extended_card:
        return Known(facts, now=now)
    return Known(facts, await agent.needs_with_extended(call, who, exchange.head, view), now=now)


def _refusal_reply(refusal: Refusal, exchange: Exchange, deps: Deps, progress: Progress) -> Reply:
    reply = encode_refusal(refusal, progress.form, exchange.id)
    if refusal.reason in _MISSES and progress.who is not None:
        # Invariant 6: why it was a miss is looked up after the last byte has left, for every miss alike.
        owner = progress.who.owner
        reply.after = lambda: deps.misses.add(exchange.id, owner, progress.misses)
    return reply


def _audit_break(refusal: Refusal, exchange: Exchange, deps: Deps, progress: Progress) -> None:
    """What was raised: instead of a decision, or after one."""
    if progress.decided:
        deps.audit.outcome(
            exchange.id, progress.agent, "failed", refusal.reason.value, internal=refusal.internal
        )
        deps.metrics.outcome(progress.agent, refusal.reason.value)
    else:
        deps.audit.failure(exchange.id, progress.agent, refusal)
        deps.metrics.decision(progress.agent, None, refusal)


def _place(problem: Exception) -> str:
    """File and line of a fault; its message stays out of the log, since it may quote what a caller sent."""
    frames = traceback.extract_tb(problem.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
