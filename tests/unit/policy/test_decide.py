"""The decision: one line a case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar import config
from sidecar.model import (
    PUSHES,
    Call,
    Decision,
    Fact,
    Facts,
    Form,
    Kind,
    Operation,
    Other,
    Permit,
    Principal,
    Reason,
    Refusal,
    Resource,
    Unreadable,
    Watch,
)
from sidecar.policy.decide import Known, decide, guard, look_ups
from sidecar.policy.rules import Policy
from tests.builders import (
    AGENT,
    ALICE,
    CONTEXT,
    JSONRPC_01,
    JSONRPC_1,
    TASK,
    a_call,
    a_card,
    a_policy,
    a_principal,
)

SEND = Operation.SEND_MESSAGE
NEEDS = a_card({"o": frozenset({"w", "r"})})
POLICY = a_policy(NEEDS)
A_ROW = Fact(context_id="c-1")
OWNED: Facts = {TASK: A_ROW, CONTEXT: Fact()}


def outcome_of(decision: Decision) -> Reason | str:
    return decision.reason if isinstance(decision, Refusal) else "permit"


BY_TASK = [op for op in Operation if op not in (SEND, Operation.SEND_STREAMING_MESSAGE)]
BY_TASK = [op for op in BY_TASK if op not in (Operation.LIST_TASKS, Operation.GET_EXTENDED_CARD)]


@pytest.mark.parametrize("operation", [*BY_TASK, SEND, Operation.SEND_STREAMING_MESSAGE])
@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        pytest.param(OWNED, "permit", id="the owner may"),
        pytest.param({}, Reason.NOT_FOUND, id="what the ledger does not give does not exist"),
        pytest.param(
            {TASK: Fact(tenant="t2")}, Reason.TENANT_MISMATCH, id="nor does a task of another tenant"
        ),
    ],
)
def test_a_named_task(operation: Operation, facts: Facts, outcome: Reason | str) -> None:
    assert outcome_of(decide(a_call(operation, task="t-1"), a_principal(), POLICY, Known(facts))) == outcome


@pytest.mark.parametrize(
    ("call", "scopes", "facts", "outcome"),
    [
        pytest.param(a_call(SEND), "w r", {}, "permit", id="a token that covers the whole life may create"),
        pytest.param(a_call(SEND), "w", {}, Reason.SCOPE_DIVERGENCE, id="one that lacks a scope may not"),
        pytest.param(a_call(SEND), None, {}, "permit", id="a credential without scopes is outside the rule"),
        pytest.param(a_call(SEND, task="t-1"), "w", OWNED, "permit", id="continuing is not creating"),
        pytest.param(
            a_call(SEND, task="t-1", dialect=JSONRPC_01),
            "w",
            {},
            Reason.SCOPE_DIVERGENCE,
            id="in 0.1 a send to an unknown id creates",
        ),
        pytest.param(
            a_call(SEND, task="t-1", dialect=JSONRPC_01),
            "w r",
            {},
            "permit",
            id="0.1: the caller picks the id",
        ),
        pytest.param(a_call(SEND, context="c-1"), "w r", {}, "permit", id="an unknown context may be picked"),
        pytest.param(
            a_call(SEND, task="t-1", context="c-2"),
            "w r",
            OWNED,
            Reason.CONTEXT_MISMATCH,
            id="a context that is not the task's is never forwarded",
        ),
        pytest.param(
            a_call(SEND, references=("t-2",)),
            "w r",
            OWNED,
            Reason.NOT_FOUND,
            id="every reference must be the caller's",
        ),
        pytest.param(
            a_call(SEND, task="t-1", references=("t-1",), dialect=JSONRPC_01),
            "w r",
            {},
            Reason.NOT_FOUND,
            id="0.1: an id picked is no reference",
        ),
        pytest.param(
            a_call(SEND, skill="nope"), "w r", {}, Reason.UNKNOWN_SKILL, id="a skill the card does not have"
        ),
        pytest.param(
            a_call(Operation.LIST_TASKS), "w r", {}, "permit", id="a caller may list what is theirs"
        ),
        pytest.param(
            a_call(Operation.LIST_TASKS, context="c-1"),
            "w r",
            {},
            "permit",
            id="a list's context is a filter",
        ),
        pytest.param(
            a_call(task="t-1", tenant="t9"), "w r", OWNED, Reason.TENANT_MISMATCH, id="an undeclared tenant"
        ),
    ],
)
def test_decisions(call: Call, scopes: str | None, facts: Facts, outcome: Reason | str) -> None:
    who = a_principal(scopes=scopes.split() if scopes is not None else None)
    assert outcome_of(decide(call, who, POLICY, Known(facts))) == outcome


NOBODY = Refusal(Reason.UNAUTHENTICATED)


@pytest.mark.parametrize(
    ("call", "who", "policy"),
    [
        pytest.param(a_call(task="t-1"), NOBODY, POLICY, id="an unverified caller looks nothing up"),
        pytest.param(
            a_call(SEND, references=("t-1",)), a_principal(scopes=("w",)), POLICY, id="scopes already settle"
        ),
        pytest.param(
            a_call(task="t-1"),
            a_principal(scopes=("w",)),
            a_policy(NEEDS, scopes=config.Scopes(per_operation="enforce", lifecycle={"get": ("r",)})),
            id="so do those of one operation",
        ),
    ],
)
def test_existence_does_not_show_where_something_else_settles(
    call: Call, who: Principal | Refusal, policy: Policy
) -> None:
    assert look_ups(call, who, policy).resources == ()
    assert isinstance(decide(call, who, policy, Known()), Refusal)


def test_everything_named_is_looked_up() -> None:
    call = a_call(SEND, task="t-1", context="c-1", references=("t-2", "t-3"))
    ids = {r.id for r in look_ups(call, a_principal(), POLICY).resources}
    assert ids == {"t-1", "c-1", "t-2", "t-3"}


def test_without_a_card_nothing_is_created_but_the_rest_goes_on() -> None:
    bare = a_policy()
    assert outcome_of(decide(a_call(SEND), a_principal(), bare, Known())) == Reason.CARD_UNAVAILABLE
    assert outcome_of(decide(a_call(task="t-1"), a_principal(), bare, Known(OWNED))) == "permit"


def test_an_unreadable_request_of_a_stranger_is_first_of_all_unauthenticated() -> None:
    unreadable = Unreadable(Form(JSONRPC_1), "/", Reason.UNPARSABLE, "no JSON")
    assert outcome_of(decide(unreadable, NOBODY, POLICY, Known())) == Reason.UNAUTHENTICATED
    assert outcome_of(decide(unreadable, a_principal(), POLICY, Known())) == Reason.UNPARSABLE


def test_ids_the_caller_picks_are_reserved() -> None:
    permit = decide(
        a_call(SEND, task="t-1", context="c-1", dialect=JSONRPC_01), a_principal(), POLICY, Known()
    )
    assert isinstance(permit, Permit)
    assert [(e.resource, e.chosen, e.fact.provisional) for e in permit.reserve] == [
        (CONTEXT, True, True),
        (TASK, True, True),
    ]


def test_an_owned_context_is_not_reserved_again() -> None:
    permit = decide(a_call(SEND, context="c-1"), a_principal(), POLICY, Known({CONTEXT: Fact()}))
    assert isinstance(permit, Permit)
    assert permit.reserve == ()


def test_only_contexts_the_agent_issued_where_the_policy_says_so() -> None:
    strict = a_policy(NEEDS, ownership=config.Ownership(client_context_ids="refuse"))
    assert (
        outcome_of(decide(a_call(SEND, context="c-9"), a_principal(), strict, Known()))
        == Reason.CONTEXT_NOT_ISSUED
    )


def test_a_context_the_agent_gives_to_everybody_is_nobodys() -> None:
    shared = a_policy(NEEDS, ownership=config.Ownership(shared_context_ids=("default",)))
    permit = decide(a_call(SEND, context="default"), a_principal(), shared, Known())
    assert isinstance(permit, Permit)
    assert permit.reserve == ()


@pytest.mark.parametrize(
    ("paths", "path", "who", "outcome"),
    [
        pytest.param(config.OtherPaths(), "/docs", a_principal(), "permit", id="any valid caller by default"),
        pytest.param(config.OtherPaths(), "/docs", NOBODY, Reason.UNAUTHENTICATED, id="and nobody else"),
        pytest.param(
            config.OtherPaths(default="refuse"), "/docs", a_principal(), Reason.UNKNOWN_PATH, id="refuse"
        ),
        pytest.param(
            config.OtherPaths(default="anonymous"), "/docs", NOBODY, "permit", id="anonymous by default"
        ),
        pytest.param(
            config.OtherPaths(anonymous=("/healthz",)), "/healthz", NOBODY, "permit", id="a listed path"
        ),
        pytest.param(
            config.OtherPaths(anonymous=("/healthz",)),
            "/healthz/x",
            NOBODY,
            Reason.UNAUTHENTICATED,
            id="exactly it",
        ),
        pytest.param(
            config.OtherPaths(anonymous=("/static/*",)), "/static/a.css", NOBODY, "permit", id="below a path"
        ),
        pytest.param(
            config.OtherPaths(anonymous=("/static/*",)),
            "/staticx",
            NOBODY,
            Reason.UNAUTHENTICATED,
            id="not beside it",
        ),
    ],
)
def test_other_paths(
    paths: config.OtherPaths, path: str, who: Principal | Refusal, outcome: Reason | str
) -> None:
    assert (
        outcome_of(decide(Other(Form(), path, path), who, a_policy(NEEDS, other_paths=paths), Known()))
        == outcome
    )


def test_an_upgrade_is_refused_even_where_paths_are_open() -> None:
    upgrade = Other(Form(), "/ws", "/ws", upgrade=True)
    open_to_all = a_policy(NEEDS, other_paths=config.OtherPaths(default="anonymous"))
    assert outcome_of(decide(upgrade, a_principal(), open_to_all, Known())) == Reason.UPGRADE_REFUSED


@pytest.mark.parametrize(
    ("call", "facts", "reason"),
    [
        pytest.param(a_call(SEND), {}, Reason.SCOPE_DIVERGENCE, id="what scopes would have refused"),
        pytest.param(a_call(task="t-1"), {}, Reason.NOT_FOUND, id="what ownership would have refused"),
    ],
)
def test_observing_permits_and_says_what_it_saw(call: Call, facts: Facts, reason: Reason) -> None:
    permit = decide(call, a_principal(scopes=("w",)), a_policy(NEEDS, mode="observe"), Known(facts))
    assert isinstance(permit, Permit)
    assert permit.observed is not None
    assert permit.observed.reason is reason
    assert not permit.enforcing


def test_observing_one_rule_leaves_the_others_in_force() -> None:
    policy = a_policy(NEEDS, scopes=config.Scopes(mode="observe"))
    who = a_principal(scopes=("w",))
    assert outcome_of(decide(a_call(SEND), who, policy, Known())) == "permit"
    assert outcome_of(decide(a_call(task="t-1"), who, policy, Known())) == Reason.NOT_FOUND


def test_an_unverified_caller_who_is_only_observed_owns_nothing() -> None:
    permit = decide(a_call(SEND), NOBODY, a_policy(NEEDS, mode="observe"), Known())
    assert isinstance(permit, Permit)
    assert permit.who is None
    assert permit.watch is Watch.PASS


def test_a_resource_of_another_agent_is_another_resource() -> None:
    elsewhere = {Resource("other", Kind.TASK, "t-1"): A_ROW}
    assert outcome_of(decide(a_call(task="t-1"), a_principal(), POLICY, Known(elsewhere))) == Reason.NOT_FOUND
    assert AGENT != "other"
    assert ALICE.subject == "alice"


@pytest.mark.parametrize("operation", sorted(PUSHES))
def test_without_push_notifications_every_id_that_is_not_the_callers_gets_the_agents_answer(
    operation: Operation,
) -> None:
    bare = a_policy(a_card(push=False))
    assert (
        outcome_of(decide(a_call(operation, task="t-1"), a_principal(), bare, Known()))
        == Reason.PUSH_NOT_OFFERED
    )
    assert outcome_of(decide(a_call(operation, task="t-1"), a_principal(), bare, Known(OWNED))) == "permit"
    assert outcome_of(decide(a_call(task="t-1"), a_principal(), bare, Known())) == Reason.NOT_FOUND


# --- how long the token lives ----------------------------------------------------------------------

NOW = 1_800_000_000.0
TEN_MINUTES = a_policy(NEEDS, scopes=config.Scopes(min_remaining_lifetime=600.0))
STREAM = Operation.SEND_STREAMING_MESSAGE


def expiring(seconds: float | None, scopes: str = "w r") -> Principal:
    return replace(a_principal(scopes=scopes.split()), expires_at=None if seconds is None else NOW + seconds)


@pytest.mark.parametrize(
    ("call", "who", "facts", "outcome"),
    [
        pytest.param(a_call(SEND), expiring(3600), {}, "permit", id="it lives longer"),
        pytest.param(a_call(SEND), expiring(600), {}, "permit", id="it lives exactly as long"),
        pytest.param(
            a_call(SEND), expiring(599), {}, Reason.TOKEN_LIFETIME_TOO_SHORT, id="it ends a second early"
        ),
        pytest.param(
            a_call(SEND), expiring(-3), {}, Reason.TOKEN_LIFETIME_TOO_SHORT, id="within the leeway of clocks"
        ),
        pytest.param(
            a_call(STREAM), expiring(60), {}, Reason.TOKEN_LIFETIME_TOO_SHORT, id="also of a stream"
        ),
        pytest.param(
            a_call(SEND, task="t-1", dialect=JSONRPC_01),
            expiring(60),
            {},
            Reason.TOKEN_LIFETIME_TOO_SHORT,
            id="also in 0.1, where the caller picks the id",
        ),
        pytest.param(
            a_call(SEND), expiring(60, "w"), {}, Reason.SCOPE_DIVERGENCE, id="what it lacks is told first"
        ),
        pytest.param(
            a_call(SEND, skill="nope"), expiring(60), {}, Reason.UNKNOWN_SKILL, id="and so is whom it asks"
        ),
        pytest.param(
            a_call(SEND, references=("t-9",)),
            expiring(60),
            {},
            Reason.TOKEN_LIFETIME_TOO_SHORT,
            id="before anything is said of what exists",
        ),
        pytest.param(a_call(SEND), expiring(None), {}, "permit", id="a credential without end"),
        pytest.param(
            a_call(SEND),
            replace(a_principal(scopes=None), expires_at=NOW + 60),
            {},
            "permit",
            id="one without scopes",
        ),
        pytest.param(
            a_call(SEND, task="t-1"), expiring(60), OWNED, "permit", id="continuing is not creating"
        ),
        pytest.param(
            a_call(SEND, task="t-1", dialect=JSONRPC_01), expiring(60), OWNED, "permit", id="nor is it in 0.1"
        ),
        pytest.param(a_call(task="t-1"), expiring(60), OWNED, "permit", id="reading what there is"),
    ],
)
def test_a_token_that_ends_too_early(call: Call, who: Principal, facts: Facts, outcome: Reason | str) -> None:
    assert outcome_of(decide(call, who, TEN_MINUTES, Known(facts, now=NOW))) == outcome


def test_what_is_told_of_a_token_that_ends_too_early() -> None:
    refusal = decide(a_call(SEND, skill="review"), expiring(190), TEN_MINUTES, Known(now=NOW))
    assert isinstance(refusal, Refusal)
    told = refusal.divergence
    assert told is not None
    assert (told.skill, told.chosen_by) == ("review", "named by metadata skillId")
    assert (told.needed_lifetime, told.remaining_lifetime) == (600.0, 190.0)
    assert (told.missing, told.presented_by) == (frozenset(), "planner")


def test_a_token_that_ends_too_early_looks_nothing_up() -> None:
    call = a_call(SEND, references=("t-1",))
    assert look_ups(call, expiring(60), TEN_MINUTES, NOW).resources == ()
    assert len(look_ups(call, expiring(600), TEN_MINUTES, NOW).resources) == 1


@pytest.mark.parametrize(
    ("scopes", "whole", "observed"),
    [
        pytest.param("observe", "enforce", True, id="observed as the scopes are"),
        pytest.param("enforce", "observe", True, id="observed as everything is"),
        pytest.param("disabled", "enforce", False, id="not judged where scopes are not"),
    ],
)
def test_the_lifetime_follows_the_mode_of_the_scopes(scopes: str, whole: str, observed: bool) -> None:
    rules = config.Scopes(mode=scopes, min_remaining_lifetime=600.0)  # type: ignore[arg-type]
    permit = decide(a_call(SEND), expiring(60), a_policy(NEEDS, scopes=rules, mode=whole), Known(now=NOW))
    assert isinstance(permit, Permit)
    found = permit.observed.reason if permit.observed else None
    assert found is (Reason.TOKEN_LIFETIME_TOO_SHORT if observed else None)


# --- a skill nobody knows --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skill", "told"),
    [
        pytest.param("deploy", "`deploy` (named by metadata skillId)", id="what the caller wrote"),
        pytest.param("x" * 5000, f"`{'x' * 100}` (named by metadata skillId)", id="but not all of it"),
        pytest.param("\udcff", "`?` (named by metadata skillId)", id="nor what no record can hold"),
    ],
)
def test_an_unknown_skill_is_named(skill: str, told: str) -> None:
    refusal = guard(a_call(SEND, skill=skill), a_principal(), POLICY, POLICY.needs, NOW).refusal
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (Reason.UNKNOWN_SKILL, told)
