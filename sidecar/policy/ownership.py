"""Whose things a call names, and which ids it picks itself.

Owns: the check of every named task and context, and what must be recorded before forwarding.
Never: reads the ledger.
"""

from __future__ import annotations

from sidecar.model import (
    SENDS,
    Call,
    Entry,
    Fact,
    Facts,
    Kind,
    Operation,
    Principal,
    Reason,
    Refusal,
    Resource,
)
from sidecar.policy.rules import Policy


def tenant_of(call: Call, policy: Policy) -> str:
    """The A2A tenant that applies: the one named, else the one the interface declares (1.0 §8.3.2)."""
    return call.tenant if call.tenant is not None else policy.tenant_of.get(call.dialect, "")


def named_task(call: Call, policy: Policy) -> Resource | None:
    return Resource(policy.agent, Kind.TASK, call.task_id) if call.task_id is not None else None


def named_context(call: Call, policy: Policy) -> Resource | None:
    """The context a call names, unless the agent gives that one to everybody."""
    if call.context_id is None or call.context_id in policy.shared_context_ids:
        return None
    return Resource(policy.agent, Kind.CONTEXT, call.context_id)


def named(call: Call, policy: Policy) -> tuple[Resource, ...]:
    """Every task and context a call names: all are looked up, all must be the caller's.

    A list's context is a filter of the caller's own tasks: somebody else's finds as little as one that never was.
    """
    if call.operation is Operation.LIST_TASKS:
        return ()
    found = [r for r in (named_task(call, policy), named_context(call, policy)) if r is not None]
    if call.references:
        found += [Resource(policy.agent, Kind.TASK, id_) for id_ in call.references]
    return tuple(found)


def creates(call: Call, policy: Policy, facts: Facts) -> bool:
    """Whether this send makes a task: it names none or, in 0.1, one the caller does not own yet."""
    if call.operation not in SENDS:
        return False
    task = named_task(call, policy)
    return task is None or (call.creates_by_id and not _settled(task, facts))


def check(call: Call, who: Principal, policy: Policy, facts: Facts) -> Refusal | None:
    """None if everything named is the caller's, under the tenant that applies."""
    tenant = tenant_of(call, policy)
    if call.tenant is not None and tenant not in policy.tenants | set(policy.tenant_of.values()):
        return Refusal(Reason.TENANT_MISMATCH, internal="tenant not declared")
    if not _may_use(who, tenant, policy):
        return Refusal(Reason.TENANT_MISMATCH, internal="tenant not this caller's")
    task = named_task(call, policy)
    for resource in named(call, policy):
        fact = facts.get(resource)
        if fact is None:
            if not _may_be_picked(call, resource, task, policy):
                return _miss(call, resource, policy)
        elif fact.tenant != tenant and resource.kind is Kind.TASK:
            return Refusal(Reason.TENANT_MISMATCH, internal="made under another tenant")
    of_task = facts[task].context_id if task in facts else None  # type: ignore[index]
    if of_task is not None and call.context_id not in (None, of_task):
        return Refusal(Reason.CONTEXT_MISMATCH, internal="not the context of the task named")
    return None


def _may_use(who: Principal, tenant: str, policy: Policy) -> bool:
    """Whether the caller's claims meet every condition of the tenant; no tenant at all is open to everybody."""
    if policy.tenant_rules is None or not tenant:
        return True
    rules = policy.tenant_rules.get(tenant)
    return rules is not None and all(
        values & who.claims.get(claim, frozenset()) for claim, values in rules.items()
    )


def reservations(
    call: Call, policy: Policy, facts: Facts, skill: str, held: frozenset[str]
) -> tuple[Entry, ...]:
    """Ids this call picks: recorded before it is forwarded, provisionally.

    An id the caller has only reserved so far, by another call still under way, is reserved again:
    each call holds it for itself, so that one that fails does not take it from one that succeeds.
    """
    if call.operation not in SENDS:
        return ()
    fact = Fact(
        tenant=tenant_of(call, policy),
        context_id=call.context_id,
        skill=skill or None,
        held=held,
        provisional=True,
    )
    task, context = named_task(call, policy), named_context(call, policy)
    entries = []
    if context is not None and not _settled(context, facts) and not _is_context_of_task(call, facts, task):
        entries.append(Entry(context, Fact(tenant=fact.tenant, provisional=True), chosen=True))
    if task is not None and call.creates_by_id and not _settled(task, facts):
        entries.append(Entry(task, fact, chosen=True))
    return tuple(entries)


def _settled(resource: Resource, facts: Facts) -> bool:
    """Whether it is the caller's for good, not only reserved."""
    fact = facts.get(resource)
    return fact is not None and not fact.provisional


def _may_be_picked(call: Call, resource: Resource, task: Resource | None, policy: Policy) -> bool:
    """An id the ledger does not give this caller may still be one the caller is free to pick."""
    if resource.kind is Kind.CONTEXT:
        return call.operation in SENDS and policy.own_context_ids
    return resource == task and call.creates_by_id and resource.id not in call.references


def _is_context_of_task(call: Call, facts: Facts, task: Resource | None) -> bool:
    return task is not None and task in facts and facts[task].context_id == call.context_id


def _miss(call: Call, resource: Resource, policy: Policy) -> Refusal:
    if resource.kind is Kind.CONTEXT and not policy.own_context_ids:
        return Refusal(Reason.CONTEXT_NOT_ISSUED, internal="context not issued by the agent to this caller")
    return Refusal(Reason.NOT_FOUND, internal=f"{resource.kind} not the caller's")
