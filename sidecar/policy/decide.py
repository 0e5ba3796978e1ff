"""The decision.

Owns: look_ups() and decide(), which together are the whole PDP.
Never: awaits, reads a clock, mentions a status code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from sidecar.model import (
    NO_FACTS,
    PUSHES,
    SENDS,
    Call,
    Decision,
    Decoded,
    Divergence,
    Fact,
    Facts,
    Operation,
    Other,
    Permit,
    Principal,
    Reason,
    Refusal,
    Resource,
    Unreadable,
    Watch,
    Webhooks,
)
from sidecar.policy import ownership, push
from sidecar.policy.rules import Mode, Policy
from sidecar.policy.scopes import Needs, UnknownSkill, widen


class LookUps(NamedTuple):
    """What must be known before a call can be decided."""

    resources: tuple[Resource, ...] = ()
    extended_card: bool = False


class Known(NamedTuple):
    """What was found out. `needs` is set where the caller's extended card was judged too, `addresses` (by host, empty
    where a name has none) once the hosts a permit asked for were resolved. `now` is in seconds since the epoch."""

    facts: Facts = NO_FACTS
    needs: Needs | None = None
    addresses: Mapping[str, Collection[str]] | None = None
    now: float = 0.0


class Guarded(NamedTuple):
    """What the life-cycle guard found: the skill it judged by, and the refusal, if any."""

    skill: str = ""
    chosen_by: str = ""
    refusal: Refusal | None = None


NOTHING = LookUps()

_LONGEST_NAME: Final = 100  # characters of a skill's name that are told

WATCH = {
    Operation.SEND_MESSAGE: Watch.RECORD,
    Operation.SEND_STREAMING_MESSAGE: Watch.RECORD,
    Operation.GET_EXTENDED_CARD: Watch.CARD,
    Operation.LIST_TASKS: Watch.LIST,
}


def look_ups(call: Decoded, who: Principal | Refusal, policy: Policy, now: float = 0.0) -> LookUps:
    """Nothing for whom the credential or its scopes already settle: existence must not show through the ledger."""
    if not isinstance(call, Call) or not isinstance(who, Principal):
        return NOTHING
    for mode, refusal in _before_look_up(call, who, policy, now):
        if refusal is not None and mode is Mode.ENFORCE:
            return NOTHING
    guarded = policy.scopes is not Mode.DISABLED and call.operation in SENDS and who.scopes is not None
    creates = call.operation in SENDS and call.task_id is None
    return LookUps(
        ownership.named(call, policy) if policy.ownership is not Mode.DISABLED else (),
        extended_card=guarded and creates and policy.offers_extended_card,
    )


def decide(call: Decoded, who: Principal | Refusal, policy: Policy, known: Known) -> Decision:
    """The first enforced rule that refuses decides; an observed one is noted and lets pass."""
    observed: Refusal | None = None
    for mode, refusal in _judge(call, who, policy, known):
        if refusal is None or mode is Mode.DISABLED:
            continue
        if mode is Mode.ENFORCE:
            return refusal
        observed = observed or refusal
    return _permit(call, who, policy, known, observed)


def may_pass(who: Principal | Refusal, path: str, policy: Policy) -> bool:
    """Whether some request of this caller to `path` could be permitted, whatever its body says."""
    opened = policy.other.default == "anonymous" or policy.other.anonymous(path)
    return isinstance(who, Principal) or opened or policy.mode is not Mode.ENFORCE


def guard(call: Call, who: Principal, policy: Policy, needs: Needs | None, now: float) -> Guarded:
    """The life-cycle rule: a task may be created only if the token covers the skill's whole life (S_card ⊆ S_token), and
    lives as long as the policy asks. `now` is when the call came in, in seconds since the epoch."""
    if who.scopes is None or policy.scopes is Mode.DISABLED:
        return Guarded()
    if needs is None:
        return Guarded(refusal=Refusal(Reason.CARD_UNAVAILABLE, internal="no usable agent card"))
    found = needs.for_call(call.skill, certified=who.certified)
    if isinstance(found, UnknownSkill):
        # The caller may have written it, in bytes no record can hold (a header that is not UTF-8) and as long as a body.
        name = found.skill[:_LONGEST_NAME].encode("utf-8", "replace").decode()
        refusal = Refusal(Reason.UNKNOWN_SKILL, f"`{name}` ({found.chosen_by})")
        return Guarded(found.skill, found.chosen_by, refusal)
    need, skill, chosen_by = found
    held = widen(who.scopes, policy.implies)
    missing = need.missing(held)
    remaining = math.inf if who.expires_at is None else who.expires_at - now
    if missing is None and (not need.lifetime or remaining >= need.lifetime):
        return Guarded(skill, chosen_by)
    divergence = Divergence(
        skill, chosen_by, need.required(held), who.scopes, missing or frozenset(), who.presented_by
    )
    if missing is not None:
        return Guarded(skill, chosen_by, Refusal(Reason.SCOPE_DIVERGENCE, divergence=divergence))
    short = divergence._replace(needed_lifetime=need.lifetime, remaining_lifetime=remaining)
    return Guarded(skill, chosen_by, Refusal(Reason.TOKEN_LIFETIME_TOO_SHORT, divergence=short))


def _judge(
    call: Decoded, who: Principal | Refusal, policy: Policy, known: Known
) -> Iterator[tuple[Mode, Refusal | None]]:
    """Every rule in order with its mode. Lazy: what an earlier enforced rule refuses is not judged further."""
    if isinstance(call, Other):
        yield policy.mode, _other(call, who, policy)
        return
    if isinstance(who, Refusal):
        yield policy.mode, who
        return
    if isinstance(call, Unreadable):
        yield policy.mode, Refusal(call.reason, call.detail)
        return
    yield from _before_look_up(call, who, policy, known.now, known.needs)
    if call.task_id is not None and ownership.creates(call, policy, known.facts):
        yield policy.scopes, guard(call, who, policy, known.needs or policy.needs, known.now).refusal
    yield policy.ownership, _as_miss(ownership.check(call, who, policy, known.facts), call, policy)
    if known.addresses is not None:
        yield policy.push, push.unresolved(push.to_resolve(call, policy.webhooks), known.addresses)


def _as_miss(refusal: Refusal | None, call: Call, policy: Policy) -> Refusal | None:
    """Where the card declares no push notifications the agent says so of every id alike (1.0 §3.3.4), and so do we."""
    if refusal is None or policy.offers_push or call.operation not in PUSHES:
        return refusal
    return refusal._replace(reason=Reason.PUSH_NOT_OFFERED)


def _before_look_up(
    call: Call, who: Principal, policy: Policy, now: float, needs: Needs | None = None
) -> Iterator[tuple[Mode, Refusal | None]]:
    """What can be said of a call without knowing what exists."""
    if call.operation is Operation.LIST_TASKS and not policy.lists:
        yield policy.mode, Refusal(Reason.UNSUPPORTED_OPERATION, "listing tasks is not offered here")
    required = policy.per_operation.get(call.operation)
    if required and who.scopes is not None and (missing := required - widen(who.scopes, policy.implies)):
        divergence = Divergence("", "per operation", required, who.scopes, missing, who.presented_by)
        yield policy.scopes, Refusal(Reason.INSUFFICIENT_SCOPE, divergence=divergence)
    if call.operation in SENDS and call.task_id is None:
        yield policy.scopes, guard(call, who, policy, needs or policy.needs, now).refusal
    if call.push:
        yield policy.push, push.refusal(call, policy.webhooks, offered=policy.offers_push)


def _other(call: Other, who: Principal | Refusal, policy: Policy) -> Refusal | None:
    rules = policy.other
    if call.preflight:
        return (
            None
            if rules.preflights
            else Refusal(Reason.METHOD_NOT_ALLOWED, "preflights are not answered here")
        )
    if call.upgrade and call.path not in rules.upgrades:
        return Refusal(Reason.UPGRADE_REFUSED)
    if rules.anonymous(call.path) and not call.listed_method:
        return None
    if rules.default == "refuse" and not call.listed_method:
        return who if isinstance(who, Refusal) else Refusal(Reason.UNKNOWN_PATH)
    if isinstance(who, Refusal) and rules.default != "anonymous":
        return who
    return None


def permit_to_get(listing: Permit, call: Call, task: Resource, fact: Fact) -> Permit:
    """The ticket for `call`, a GetTask of the caller's own `task` that the permitted list needs."""
    return listing._replace(call=call, watch=Watch.KEEP, known={task: fact})


def _watch(call: Call, policy: Policy) -> Watch:
    watch = WATCH.get(call.operation, Watch.KEEP)
    if watch is Watch.CARD:
        return watch
    # While ownership is only observed the agent answers lists itself, as it would without us.
    unchanged = policy.ownership is Mode.OBSERVE and watch is Watch.LIST
    return Watch.PASS if unchanged or policy.ownership is Mode.DISABLED else watch


def _permit(
    call: Decoded, who: Principal | Refusal, policy: Policy, known: Known, observed: Refusal | None
) -> Permit:
    if not isinstance(call, Call) or not isinstance(who, Principal):
        passing = call if not isinstance(call, Unreadable) else Other(call.form, call.target, path="")
        return Permit(passing, who if isinstance(who, Principal) else None, Watch.PASS, observed=observed)
    creates = ownership.creates(call, policy, known.facts)
    guarded = guard(call, who, policy, known.needs or policy.needs, known.now) if creates else Guarded()
    owned = policy.ownership is not Mode.DISABLED
    watch = _watch(call, policy)
    return Permit(
        call,
        who,
        watch,
        reserve=ownership.reservations(call, policy, known.facts, guarded.skill, who.scopes or frozenset())
        if owned
        else (),
        creates=creates,
        tenant=ownership.tenant_of(call, policy),
        known=known.facts,
        skill=guarded.skill,
        chosen_by=guarded.chosen_by,
        enforcing=policy.ownership is Mode.ENFORCE,
        observed=observed,
        resolve=_unresolved(call, policy, known),
        webhooks=_webhooks(call, policy, known),
    )


def _unresolved(call: Call, policy: Policy, known: Known) -> frozenset[str]:
    if not call.push or policy.push is Mode.DISABLED or known.addresses is not None:
        return frozenset()
    return push.to_resolve(call, policy.webhooks)


def _webhooks(call: Call, policy: Policy, known: Known) -> Webhooks | None:
    """Counted where the task is the caller's own, or about to be: rows are kept by owner."""
    if not call.push and call.config_id is None:
        return None
    task = ownership.named_task(call, policy)
    owned = task is None or task in known.facts or call.creates_by_id
    if policy.push is Mode.DISABLED or policy.ownership is Mode.DISABLED or not owned:
        return None
    named = push.names(call)
    return Webhooks(named, policy.webhooks.per_task, policy.push is Mode.ENFORCE) if named else None
