"""Config and card → compiled Policy.

Owns: everything about a decision that changes with policy or card only.
Never: per call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sidecar import config
from sidecar.model import Card, Dialect, Operation
from sidecar.policy.push import PushRules, compile_push
from sidecar.policy.scopes import Needs, compile_needs


class Mode(StrEnum):
    """What a rule does with what it finds."""

    ENFORCE = "enforce"
    OBSERVE = "observe"
    DISABLED = "disabled"


LIFECYCLE_KEY: Mapping[Operation, str] = {
    Operation.SEND_MESSAGE: "send",
    Operation.SEND_STREAMING_MESSAGE: "send",
    Operation.GET_TASK: "get",
    Operation.LIST_TASKS: "get",
    Operation.CANCEL_TASK: "cancel",
    Operation.SUBSCRIBE_TO_TASK: "subscribe",
    Operation.CREATE_PUSH_CONFIG: "push",
    Operation.GET_PUSH_CONFIG: "push",
    Operation.LIST_PUSH_CONFIGS: "push",
    Operation.DELETE_PUSH_CONFIG: "push",
}


@dataclass(frozen=True, slots=True)
class OtherPaths:
    """What may pass that is no A2A."""

    default: str  # authenticated | refuse | anonymous
    exact: frozenset[str]
    below: tuple[str, ...]
    upgrades: frozenset[str]
    preflights: bool

    def anonymous(self, path: str) -> bool:
        return path in self.exact or path.startswith(self.below)


@dataclass(frozen=True, slots=True)
class Policy:
    """What one agent's policy and card say. `needs` is None while no usable card is known."""

    agent: str
    hash: str
    mode: Mode
    scopes: Mode
    ownership: Mode
    push: Mode
    needs: Needs | None
    offers_extended_card: bool
    offers_push: bool
    webhooks: PushRules
    rules: config.Scopes
    cards: tuple[Card, ...]
    per_operation: Mapping[Operation, frozenset[str]]
    implies: Mapping[str, frozenset[str]]
    tenants: frozenset[str]  # that a request may name
    tenant_rules: (
        Mapping[str, Mapping[str, frozenset[str]]] | None
    )  # tenant → claim → values; None: for everybody
    tenant_of: Mapping[Dialect, str]
    own_context_ids: bool
    lists: bool  # whether lists are answered, from the ledger
    callers_pick_task_ids: bool  # the agent speaks 0.1: any task id may be named anew
    shared_context_ids: frozenset[str]
    other: OtherPaths


def compile_policy(agent: config.Agent, whole: config.Config, cards: Sequence[Card]) -> Policy:
    """`cards` holds every version of the agent's card; empty while none is known."""
    scopes = agent.scopes or whole.scopes
    ownership = agent.ownership or whole.ownership
    push = agent.push or whole.push
    declared = [i for card in cards for i in card.interfaces if i.dialect]
    return Policy(
        agent=agent.name,
        hash=whole.hash,
        mode=Mode(whole.mode),
        scopes=_mode(whole.mode, scopes.mode),
        ownership=_mode(whole.mode, ownership.mode),
        push=_mode(whole.mode, push.mode),
        needs=compile_needs(scopes, cards) if cards else None,
        offers_extended_card=any(card.offers_extended for card in cards),
        offers_push=not cards or any(card.offers_push for card in cards),
        webhooks=compile_push(push),
        rules=scopes,
        cards=tuple(cards),
        per_operation=_per_operation(scopes),
        implies={scope: frozenset(more) for scope, more in scopes.implies.items()},
        tenants=frozenset(agent.tenants) | {i.tenant for i in declared if i.tenant},
        tenant_rules=_tenant_rules(agent),
        tenant_of={i.dialect: i.tenant for i in reversed(declared) if i.dialect},
        callers_pick_task_ids=any(
            str(dialect).endswith("/0.1") for dialect in (agent.dialects or [i.dialect for i in declared])
        ),
        lists=agent.list == "ledger",
        own_context_ids=ownership.client_context_ids == "own",
        shared_context_ids=frozenset(ownership.shared_context_ids),
        other=_other_paths(agent, agent.other_paths or whole.other_paths),
    )


def with_extended_card(policy: Policy, card: Card) -> Needs:
    """The needs once the caller's own extended card is judged too (design: the union is required)."""
    return compile_needs(policy.rules, [*policy.cards, card])


def _tenant_rules(agent: config.Agent) -> Mapping[str, Mapping[str, frozenset[str]]] | None:
    """Once one tenant is bound to claims, only those listed may be used, also of the ones the card declares."""
    if not any(tenant.claims for tenant in agent.tenants.values()):
        return None
    return {
        name: {claim: frozenset(values) for claim, values in tenant.claims.items()}
        for name, tenant in agent.tenants.items()
    }


def _mode(whole: str, rule: str) -> Mode:
    if rule == "enforce" and whole == "observe":
        return Mode.OBSERVE
    return Mode(rule)


def _per_operation(scopes: config.Scopes) -> Mapping[Operation, frozenset[str]]:
    if scopes.per_operation == "disabled":
        return {}
    return {
        operation: frozenset(scopes.lifecycle[key])  # type: ignore[index]
        for operation, key in LIFECYCLE_KEY.items()
        if key in scopes.lifecycle
    }


def _other_paths(agent: config.Agent, paths: config.OtherPaths) -> OtherPaths:
    return OtherPaths(
        default=paths.default,
        exact=frozenset(p for p in paths.anonymous if not p.endswith("/*")),
        below=tuple(p[:-1] for p in paths.anonymous if p.endswith("/*")),
        upgrades=frozenset(paths.upgrades),
        preflights=agent.cors == "pass",
    )
