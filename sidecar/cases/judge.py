"""One case through the line that every request goes through, up to the decision.

Owns: standing in for what a running sidecar has (card, verified caller, facts), and comparing what was decided.
Never: decides: target, mount, card, body, decoding, look-ups and decision are the real ones. The order of steps is
`proxy/enforce.py`'s; a step added there belongs here as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import orjson
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.card import CardUnreadable, read_card
from sidecar.bindings.card_rewriting import etag, rewrite_card
from sidecar.bindings.decode import decode
from sidecar.cases.document import CARD, NOTHING, PERMIT, REFUSE, Case, CaseFile, Owned, Request, Who
from sidecar.config import Agent, Config, Document, Problem
from sidecar.identity import Identity
from sidecar.identity.claims import principal
from sidecar.identity.invalid import InvalidToken
from sidecar.ledger.memory import MemoryLedger
from sidecar.model import (
    Call,
    Decision,
    Decoded,
    Divergence,
    Fact,
    Facts,
    Head,
    Kind,
    Permit,
    Principal,
    Refusal,
    Refused,
    Resource,
)
from sidecar.policy.decide import Known, decide, look_ups, may_pass
from sidecar.proxy.agents import Agents, GuardedAgent, View, build_view, fronting_of, public_card
from sidecar.proxy.body import read_body, read_for_form
from sidecar.proxy.cards import CardSet, Served

NOBODY = Head("GET", "/", CIMultiDictProxy(CIMultiDict()))  # a request without a credential


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy as it stands once every agent's card is known."""

    config: Config
    agents: Agents
    views: Mapping[str, View]
    identity: Identity


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided, and why. `divergence` is the refusal's, or of what was only observed."""

    decision: str  # permit | refuse | card
    reason: str = ""
    observed: str = ""
    skill: str = ""
    chosen_by: str = ""
    divergence: Divergence | None = None
    detail: str = ""
    internal: str = ""
    operation: str = ""
    dialect: str = ""

    @property
    def missing(self) -> frozenset[str]:
        return self.divergence.missing if self.divergence else frozenset()


@dataclass(frozen=True, slots=True)
class Result:
    """One case that was run, and the line its file has it in."""

    case: Case
    line: int
    outcome: Outcome
    good: bool


@dataclass(slots=True)
class _Exchange:
    """A request that came from a file."""

    head: Head
    body: bytes
    id: str = ""

    @property
    def has_body(self) -> bool:
        return bool(self.body)

    def arrived(self) -> bytes:
        return self.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body


async def judge(case: Case, standing: Standing, line: int) -> Result:
    """Run one case. Raises nothing for what a file can hold."""
    outcome = await _outcome(case, standing)
    return Result(case, line, outcome, _as_expected(case, outcome))


def _as_expected(case: Case, outcome: Outcome) -> bool:
    expect = case.expect
    if isinstance(expect, str):
        return expect == (outcome.reason or outcome.decision)
    return (
        expect.decision == outcome.decision
        and expect.reason in (None, outcome.reason)
        and expect.observed in (None, outcome.observed or NOTHING)
        and expect.skill in (None, outcome.skill)
        and (expect.missing is None or frozenset(expect.missing) == outcome.missing)
    )


# --- the line ------------------------------------------------------------------------------------


async def _outcome(case: Case, standing: Standing) -> Outcome:
    exchange = _exchange(case.request)
    try:
        agent, target = standing.agents.at(exchange.head.target)
        view = standing.views[agent.name]
        if public_card(exchange.head, target, view) is not None:
            return Outcome(CARD)
        who = await _caller(case, standing, agent.audiences)
        goes_on = may_pass(who, target.path, view.policy)
        body = await (read_body if goes_on else read_for_form)(exchange, standing.config.limits)
        call = decode(exchange.head, target, body.whole, view.surface)
    except Refused as refused:
        return _told(refused.refusal, None)
    owned = _facts(case.owns, agent.name)
    now = _no_clock()
    asked = look_ups(call, who, view.policy, now)
    # Nor are names resolved: what a permit of a webhook leaves open stays open.
    known = Known({resource: owned[resource] for resource in asked.resources if resource in owned}, now=now)
    return _told(decide(call, who, view.policy, known), call)


def _told(decision: Decision, call: Decoded | None) -> Outcome:
    operation, dialect = (str(call.operation), str(call.dialect)) if isinstance(call, Call) else ("", "")
    refusal = decision if isinstance(decision, Refusal) else decision.observed
    divergence = refusal.divergence if refusal else None
    permit = decision if isinstance(decision, Permit) else None
    return Outcome(
        decision=PERMIT if permit else REFUSE,
        reason=decision.reason.value if isinstance(decision, Refusal) else "",
        observed=permit.observed.reason.value if permit and permit.observed else "",
        skill=permit.skill if permit else divergence.skill if divergence else "",
        chosen_by=permit.chosen_by if permit else divergence.chosen_by if divergence else "",
        divergence=divergence,
        detail=refusal.detail if refusal else "",
        internal=refusal.internal if refusal else "",
        operation=operation,
        dialect=dialect,
    )


# --- what stands in ------------------------------------------------------------------------------


def stand_in(config: Config, document: Document[CaseFile]) -> tuple[Standing | None, tuple[Problem, ...]]:
    """What a case file's requests meet, or every problem of the file with this policy."""
    assert document.content is not None
    content = document.content
    problems = [*_unfitting(config, content, document)]
    views = {agent.name: build_view(agent, config, None) for agent in config.agents}
    for key, agent, card in _cards(config, content):
        try:
            views[agent.name] = build_view(agent, config, _card_set(card, agent))
        except CardUnreadable as problem:
            problems.append(document.problem(str(problem), *key))
    if problems:
        return None, tuple(sorted(problems, key=lambda problem: problem.line))
    agents = Agents([GuardedAgent(agent, config, _no_clock) for agent in config.agents])
    return Standing(config, agents, views, identity_of(config)), ()


def identity_of(config: Config) -> Identity:
    """Who calls, as far as that needs no keys. Raises ValueError with every problem of the issuers, a line each."""
    return Identity(
        config.identity,
        config.ownership.owner_claims,
        config.limits.token,
        config.asked_claims,
        memory=MemoryLedger(now=_no_clock),
        now=_no_clock,
        clock=_no_clock,
        here=False,
    )


def _unfitting(config: Config, content: CaseFile, document: Document[CaseFile]) -> Iterator[Problem]:
    names = [agent.name for agent in config.agents]
    listed = ", ".join(f"`{name}`" for name in names)
    if content.card is not None and (len(names) > 1 or content.cards):
        yield document.problem(f"whose card is it? write `cards` with the names {listed}", "card")
    for name in content.cards:
        if name not in names:
            yield document.problem(f"the policy has no agent of this name, only {listed}", "cards", name)
    seen: set[str] = set()
    for index, case in enumerate(content.cases):
        if case.name in seen:
            yield document.problem(
                f"`{case.name}` is the name of another case already", "cases", index, "name"
            )
        seen.add(case.name)
        for place, owned in enumerate(case.owns):
            if owned.agent is not None and owned.agent not in names:
                key = ("cases", index, "owns", place, "agent")
                yield document.problem(f"the policy has no agent of this name, only {listed}", *key)
        if isinstance(case.who, Who):
            yield from _unfitting_caller(config, case.who, document, index)


def _unfitting_caller(
    config: Config, who: Who, document: Document[CaseFile], index: int
) -> Iterator[Problem]:
    trusted = {issuer.issuer: issuer for issuer in config.identity.issuers}
    if who.issuer is None and len(trusted) != 1:
        listed = ", ".join(f"`{name}`" for name in trusted) or "none"
        message = f"say whose token it is with `issuer`; the policy trusts {listed}"
        yield document.problem(message, "cases", index, "who")
    issuer = trusted.get(who.issuer or next(iter(trusted), ""))
    if who.tenant is not None and issuer is not None and issuer.claims.tenant is None:
        message = "the policy takes no tenant from this issuer's tokens; remove the key"
        yield document.problem(message, "cases", index, "who", "tenant")


def _cards(
    config: Config, content: CaseFile
) -> Iterator[tuple[tuple[str, ...], Agent, Mapping[str, object]]]:
    if content.card is not None and len(config.agents) == 1:
        yield ("card",), config.agents[0], content.card
    for agent in config.agents:
        if agent.name in content.cards:
            yield ("cards", agent.name), agent, content.cards[agent.name]


def _card_set(card: Mapping[str, object], agent: Agent) -> CardSet:
    """The card as if the agent had sent it. Raises CardUnreadable."""
    raw = orjson.dumps(card)
    body = rewrite_card(raw, fronting_of(agent))
    return CardSet({"": Served(raw, body, etag(body), "", read_card(raw))}, varies=False)


async def _caller(case: Case, standing: Standing, audiences: tuple[str, ...] | None) -> Principal | Refusal:
    """Whoever a verified token with these claims speaks for."""
    who = case.who
    if not isinstance(who, Who):
        return await standing.identity.authenticate(NOBODY, audiences)
    trusted = {issuer.issuer: issuer for issuer in standing.config.identity.issuers}
    issuer = trusted.get(who.issuer or next(iter(trusted)))
    if issuer is None:
        return InvalidToken("`iss` is not a trusted issuer").refusal
    names = issuer.claims
    claims: dict[str, object] = {"azp": who.client, "client_id": who.client} if who.client else {}
    if names.tenant is not None and who.tenant is not None:
        claims[names.tenant] = who.tenant
    claims |= {name: list(who.scopes) for name in names.scopes[:1]} | {names.subject: who.subject}
    try:
        ends = who.expires_in  # the clock of a case stands at zero
        return principal(
            claims, issuer, standing.config.ownership.owner_claims, ends, standing.config.asked_claims
        )
    except InvalidToken as error:
        return error.refusal


def _facts(owns: tuple[Owned, ...], asked: str) -> Facts:
    facts: dict[Resource, Fact] = {}
    for owned in owns:
        agent = owned.agent or asked
        if owned.task is not None:
            facts[Resource(agent, Kind.TASK, owned.task)] = Fact(owned.tenant, owned.context)
        if owned.context is not None:
            facts[Resource(agent, Kind.CONTEXT, owned.context)] = Fact(owned.tenant)
    return facts


def _exchange(request: Request) -> _Exchange:
    headers = CIMultiDict(request.headers)
    body = request.body
    if body is not None and not isinstance(body, str):
        headers.setdefault("Content-Type", "application/json")
        body = orjson.dumps(body).decode()
    head = Head(request.method, request.path, CIMultiDictProxy(headers))
    return _Exchange(head, (body or "").encode())


def _no_clock() -> float:
    return 0.0
