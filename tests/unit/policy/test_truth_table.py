"""Who may submit what: one table, and the same question asked of a second evaluator.

The table runs whole: a card's JSON as it comes off the wire, `read_card`, a compiled policy, the guard. How to read it:

    o(w r)          one alternative: a token of scheme `o` with both scopes
    o(w) | o(r)     two alternatives
    o(w) + k        one alternative that needs two schemes
    {}              the alternative that asks nothing
    []              a list that is there and empty
    None            no list at all

Schemes: `o` OAuth 2, `i` OpenID Connect, `b` HTTP bearer; `k` API key, `m` mutual TLS, `h` HTTP basic; `u` is declared by
no card. Unless a row says otherwise the caller names the skill `s`.

What comes of it is `permit`; `lacks …` with exactly the scopes that are missing; `nobody` where no token however wide
would do; or `unknown` where the skill is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar import config
from sidecar.bindings.card import read_card
from sidecar.config import Scopes, Skill
from sidecar.model import Card, Operation, Reason
from sidecar.policy.decide import guard
from sidecar.policy.rules import Policy, compile_policy, with_extended_card
from tests.builders import AGENT, a_call, a_principal

# --- cards as they come off the wire -------------------------------------------------------------

KINDS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {  # as 0.3 and as 1.0 declare them
    "o": ({"type": "oauth2", "flows": {}}, {"oauth2SecurityScheme": {"flows": {}}}),
    "i": (
        {"type": "openIdConnect", "openIdConnectUrl": "https://idp.test"},
        {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://idp.test"}},
    ),
    "b": ({"type": "http", "scheme": "bearer"}, {"httpAuthSecurityScheme": {"scheme": "Bearer"}}),
    "h": ({"type": "http", "scheme": "basic"}, {"httpAuthSecurityScheme": {"scheme": "Basic"}}),
    "k": ({"type": "apiKey", "in": "header", "name": "X"}, {"apiKeySecurityScheme": {"name": "X"}}),
    "m": ({"type": "mutualTLS"}, {"mtlsSecurityScheme": {}}),
}
OLD, NEW, BOTH = "0.3", "1.0", "1.0 with 0.3's members beside its own"
SPELLINGS = (OLD, NEW, BOTH)

Alternatives = list[dict[str, list[str]]]


def read(level: str | None) -> Alternatives | None:
    """The notation of the table, read."""
    if level is None:
        return None
    if level == "[]":
        return []
    return [
        {part[0]: part[2:-1].split() for part in one.split(" + ") if part != "{}"}
        for one in level.split(" | ")
    ]


def listed(level: Alternatives | None, spelling: str) -> dict[str, Any]:
    """The members that write `level`, on a card or on a skill."""
    if level is None:
        return {}
    new = [{"schemes": {k: {"list": v} if v else {} for k, v in one.items()}} for one in level]
    return ({"security": level} if spelling != NEW else {}) | (
        {"securityRequirements": new} if spelling != OLD else {}
    )


def a_card(level: str | None, skills: Mapping[str, str | None], spelling: str) -> Card:
    raw = {
        "securitySchemes": {
            name: (old if spelling == OLD else new if spelling == NEW else new | old)
            for name, (old, new) in KINDS.items()
        },
        "skills": [{"id": id_} | listed(read(own), spelling) for id_, own in skills.items()],
        **listed(read(level), spelling),
    }
    return read_card(json.dumps(raw).encode())


def a_policy(scopes: Scopes, cards: Sequence[Card]) -> Policy:
    agent = config.Agent(name=AGENT, upstream="http://127.0.0.1:9000", public_url="https://agents.test")
    issuer = config.Issuer(issuer="https://idp.test", audiences=("review",))
    whole = config.Config(
        version=1, agents=(agent,), identity=config.Identity(issuers=(issuer,)), scopes=scopes
    )
    return compile_policy(agent, whole, cards)


def judged(policy: Policy, held: frozenset[str] | None, skill: str | None, extended: Card | None) -> str:
    """What the guard says of one submission, in the words of the table but for `nobody`."""
    call = a_call(Operation.SEND_MESSAGE, skill=skill)
    needs = policy.needs if extended is None else with_extended_card(policy, extended)
    refusal = guard(call, a_principal(scopes=held), policy, needs, 0.0).refusal
    if refusal is None:
        return "permit"
    if refusal.reason is Reason.UNKNOWN_SKILL:
        return "unknown"
    assert refusal.reason is Reason.SCOPE_DIVERGENCE
    assert refusal.divergence is not None
    return f"lacks {' '.join(sorted(refusal.divergence.missing))}"


# --- the table -----------------------------------------------------------------------------------

EVERYTHING = frozenset({*"wrxy", "a.read", "a.write", "t:send", "t:get", "t:cancel"})
LIFE: Mapping[Any, tuple[str, ...]] = {"send": ("t:send",), "get": ("t:get",), "cancel": ("t:cancel",)}
ANY, SKILL = {"alternatives": "any"}, {"levels": "skill"}


def own(*names: str, **more: Any) -> dict[str, Any]:
    """The policy's own list for the skill `s`."""
    return {"skills": {"s": Skill(scopes=names, **more)}}


def narrowed(**skills: tuple[str, ...]) -> dict[str, Any]:
    return {"skills": {id_: Skill(traverses=operations) for id_, operations in skills.items()}}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    card: str | None  # the card level
    skill: str | None  # the level of the skill `s`
    policy: Mapping[str, Any]
    held: str | None  # None: a credential without scopes by nature
    comes_of_it: str
    named: str | None = "s"
    others: Mapping[str, str | None] = field(default_factory=dict)  # further skills of the card
    versions: tuple[tuple[str | None, Mapping[str, str | None]], ...] = ()  # further cards
    extended: tuple[str | None, Mapping[str, str | None]] | None = None


T: Mapping[str, str | None] = {"t": "o(x)"}

TABLE: Mapping[str, Row] = {
    # card level alone
    "nothing declared asks nothing": Row(None, None, {}, "", "permit"),
    "an empty list declares nothing": Row("[]", None, {}, "", "permit"),
    "nor does an empty list of the skill": Row(None, "[]", {}, "", "permit"),
    "the empty alternative asks nothing": Row("{}", None, {}, "", "permit"),
    "a scheme without scopes asks for a token": Row("o()", None, {}, "", "permit"),
    "one scope, held": Row("o(w)", None, {}, "w", "permit"),
    "one scope, held among others": Row("o(w)", None, {}, "w x", "permit"),
    "one scope, not held": Row("o(w)", None, {}, "r", "lacks w"),
    "one scope, no scopes at all": Row("o(w)", None, {}, "", "lacks w"),
    "a scope is compared whole: no prefix": Row("o(w)", None, {}, "write w:all ww", "lacks w"),
    "and not the other way": Row("o(a.read)", None, {}, "a a.", "lacks a.read"),
    "case counts": Row("o(w)", None, {}, "W", "lacks w"),
    "the incident: two scopes, one passed on": Row("o(w r)", None, {}, "w", "lacks r"),
    "two scopes, both passed on": Row("o(w r)", None, {}, "w r", "permit"),
    "the credential of a direct peer has no scopes, so there is no rule": Row("o(w r)", None, {}, None, "permit"),
    "not even where nobody could pass": Row("k", None, {}, None, "permit"),
    # schemes of one alternative: all of them
    "two token schemes, scopes of both": Row("o(w) + i(r)", None, {}, "w", "lacks r"),
    "two token schemes, scopes of both held": Row("o(w) + i(r)", None, {}, "w r", "permit"),
    "OpenID Connect is a token": Row("i(w)", None, {}, "w", "permit"),
    "so is HTTP bearer, with roles": Row("b(w)", None, {}, "", "lacks w"),
    "and without": Row("b()", None, {}, "", "permit"),
    "a token is no API key": Row("k", None, {}, "w r", "nobody"),
    "nor a certificate": Row("m()", None, {}, "w r", "nobody"),
    "nor a password": Row("h()", None, {}, "w r", "nobody"),
    "a token and a key are not a token": Row("o(w) + k()", None, {}, "w", "nobody"),
    "a scheme nobody declared is satisfied by nothing": Row("u(w)", None, {}, "w", "nobody"),
    "nor beside one that is declared": Row("o(w) + u()", None, {}, "w", "nobody"),
    # alternatives
    "all: every alternative a token could satisfy": Row("o(w) | o(r)", None, {}, "w", "lacks r"),
    "all: the union of them": Row("o(w) | o(r)", None, {}, "w r", "permit"),
    "all: over schemes, too": Row("o(w) | b(r)", None, {}, "w", "lacks r"),
    "all: one for keys only does not count": Row("k() | o(w)", None, {}, "w", "permit"),
    "all: nor one with an undeclared scheme": Row("u(x) | o(w)", None, {}, "w", "permit"),
    "all: nor one that needs a key as well": Row("o(x) + k() | o(w)", None, {}, "w", "permit"),
    "all: the empty alternative takes nothing away": Row("{} | o(w)", None, {}, "", "lacks w"),
    "all: the empty one beside one for keys only": Row("{} | k()", None, {}, "", "permit"),
    "all: none a token could satisfy": Row("k() | m() | u(w)", None, {}, "w", "nobody"),
    "any: one covered is enough": Row("o(w) | o(r)", None, ANY, "r", "permit"),
    "any: two halves are no whole": Row("o(w r) | o(x y)", None, ANY, "w x", "lacks r"),
    "any: what is told is the one that lacks least": Row("o(w r) | o(x)", None, ANY, "", "lacks x"),
    "any: one for keys only does not count": Row("k() | o(w)", None, ANY, "", "lacks w"),
    "any: the empty alternative asks nothing": Row("{} | o(w)", None, ANY, "", "permit"),
    "any: none a token could satisfy": Row("k() | u(w)", None, ANY, "w", "nobody"),
    "any: one alternative still needs all its scopes": Row("o(w r)", None, ANY, "w", "lacks r"),
    # card level and skill level
    "the skill's list alone": Row(None, "o(w r)", {}, "w", "lacks r"),
    "both levels hold": Row("o(w)", "o(r)", {}, "w", "lacks r"),
    "both levels held": Row("o(w)", "o(r)", {}, "w r", "permit"),
    "a skill without a list has the card's": Row("o(w)", None, {}, "", "lacks w"),
    "a skill's empty list does not open the card": Row("o(w)", "[]", {}, "", "lacks w"),
    "nor does its empty alternative": Row("o(w)", "{}", {}, "", "lacks w"),
    "a skill for keys only": Row("o(w)", "k()", {}, "w", "nobody"),
    "a card for keys only": Row("k()", "o(w)", {}, "w", "nobody"),
    "any: one of each level": Row("o(w) | o(r)", "o(x) | o(y)", ANY, "r x", "permit"),
    "any: one of only one level": Row("o(w) | o(r)", "o(x)", ANY, "r", "lacks x"),
    "any: one scope may serve both": Row("o(w) | o(r)", "o(w) | o(x)", ANY, "w", "permit"),
    "levels skill: the skill's list instead of the card's": Row("o(w)", "o(r)", SKILL, "r", "permit"),
    "levels skill: and it is needed": Row("o(w)", "o(r)", SKILL, "w", "lacks r"),
    "levels skill: the card's where the skill has none": Row("o(w)", None, SKILL, "", "lacks w"),
    "levels skill: an empty list is none": Row("o(w)", "[]", SKILL, "", "lacks w"),
    "levels skill: the empty alternative opens it": Row("o(w)", "{}", SKILL, "", "permit"),
    "levels skill: a card for keys only, opened to tokens": Row("k()", "o(w)", SKILL, "w", "permit"),
    "levels skill, any": Row("o(x)", "o(w) | o(r)", SKILL | ANY, "r", "permit"),
    # the policy's own list
    "the policy's list wins over the card": Row("o(w)", "o(r)", own("x"), "x", "permit"),
    "and is all needed": Row("o(w)", "o(r)", own("x", "y"), "x w r", "lacks y"),
    "also where the card serves no token": Row("k()", "u(w)", own("x"), "x", "permit"),
    "an empty list of the policy asks nothing": Row("o(w)", "o(r)", own(), "", "permit"),
    "a skill listed without scopes keeps the card's": Row("o(w)", "o(r)", narrowed(s=()), "w", "lacks r"),
    "any: the policy's list has no alternatives": Row("o(w) | o(r)", None, ANY | own("x", "y"), "x", "lacks y"),
    # the life cycle
    "the whole life cycle is needed": Row(None, None, {"lifecycle": LIFE}, "t:send", "lacks t:cancel t:get"),
    "and added to the card": Row("o(w)", "o(r)", {"lifecycle": LIFE}, "t:send t:get t:cancel", "lacks r w"),
    "a skill may narrow it": Row("o(w)", None, {"lifecycle": LIFE} | narrowed(s=("get",)), "w", "lacks t:get"),
    "narrowed and held": Row("o(w)", None, {"lifecycle": LIFE} | narrowed(s=("get",)), "w t:get", "permit"),
    "narrowed to nothing": Row("o(w)", None, {"lifecycle": LIFE} | narrowed(s=()), "w", "permit"),
    "an operation without scopes adds none": Row(None, None, {"lifecycle": LIFE} | narrowed(s=("push",)), "", "permit"),
    "the policy's list needs it too": Row("o(w)", None, {"lifecycle": LIFE} | own("x"), "x t:get t:send", "lacks t:cancel"),
    "any: the life cycle beside one alternative": Row("o(w) | o(r)", None, ANY | {"lifecycle": LIFE} | narrowed(s=("get",)), "r t:get", "permit"),
    "another skill's narrowing is no matter": Row(None, None, {"lifecycle": LIFE} | narrowed(t=()), "t:send t:get", "lacks t:cancel", others=T),
    # what a scope stands for
    "a scope that implies the needed one": Row("o(a.read)", None, {"implies": {"a.write": ("a.read",)}}, "a.write", "permit"),
    "through another": Row("o(r)", None, {"implies": {"x": ("w",), "w": ("r",)}}, "x", "permit"),
    "not backwards": Row("o(w)", None, {"implies": {"w": ("r",)}}, "r", "lacks w"),
    "in a circle": Row("o(w r)", None, {"implies": {"w": ("r",), "r": ("w",)}}, "r", "permit"),
    "and what is told is the rest": Row("o(w r x)", None, {"implies": {"w": ("r",)}}, "w", "lacks x"),
    "it does not open what nobody may": Row("k()", None, {"implies": {"w": ("k", "x")}}, "w", "nobody"),
    "the policy's list may be implied": Row(None, None, own("x") | {"implies": {"y": ("x",)}}, "y", "permit"),
    # which skill
    "another skill's needs are no matter": Row("o(w)", "o(r)", {}, "w r", "permit", others=T),
    "a skill the card does not have": Row("o(w)", None, {}, "w r x", "unknown", "nope"),
    "a skill in another case": Row("o(w)", None, {}, "w", "unknown", "S"),
    "one only the policy has: card level, and its own": Row("o(w)", None, {"skills": {"z": Skill()}}, "", "lacks w", "z"),
    "unnamed: the only skill": Row("o(w)", "o(r)", {}, "w", "lacks r", None),
    "unnamed, all: the union of skills": Row("o(w)", "o(r)", {}, "w r", "lacks x", None, T),
    "unnamed, all: held": Row("o(w)", "o(r)", {}, "w r x", "permit", None, T),
    "unnamed, all: one skill for keys only": Row(None, "o(r)", {}, "r", "nobody", None, {"t": "k()"}),
    "unnamed, all: the policy's list for one": Row(None, "k()", own("y"), "x", "lacks y", None, T),
    "unnamed, all: the policy's lists for all win over the card": Row("k()", "o(w)", {"skills": {"s": Skill(scopes=("x",)), "t": Skill(scopes=("y",))}}, "x y", "permit", None, T),
    "unnamed, all, levels skill: lists of all skills replace the card's": Row("k()", "o(w)", SKILL, "w x", "permit", None, T),
    "unnamed, all: a skill only the policy has": Row(None, "o(r)", {"skills": {"z": Skill(scopes=("y",))}}, "r x", "lacks y", None, T),
    "unnamed, all: each skill its own life": Row(None, None, {"lifecycle": LIFE} | narrowed(s=("get",), t=("send",)), "x", "lacks t:get t:send", None, T),
    "unnamed, all, any: one alternative of each skill": Row(None, "o(w) | o(r)", ANY, "r x", "permit", None, T),
    "unnamed, card: the card level only": Row("o(w)", "o(r)", {"unnamed_skill": "card"}, "w", "permit", None, T),
    "unnamed, card: with the whole life cycle": Row("o(w)", "o(r)", {"unnamed_skill": "card", "lifecycle": LIFE} | narrowed(s=(), t=()), "w", "lacks t:cancel t:get t:send", None, T),
    "unnamed, card: but for a card of one skill": Row("o(w)", "o(r)", {"unnamed_skill": "card"}, "w", "lacks r", None),
    "unnamed, card: for keys only": Row("k()", "o(r)", {"unnamed_skill": "card"}, "r", "nobody", None, T),
    "unnamed, the policy's choice": Row("o(w)", "o(r)", {"unnamed_skill": "t"}, "w", "lacks x", None, T),
    "unnamed, a choice the card does not have": Row("o(w)", "o(r)", {"unnamed_skill": "nope"}, "w r x", "unknown", None, T),
    # cards that vary by version, and the caller's own
    "versions: card levels of both": Row("o(w)", None, {}, "w", "lacks r", versions=(("o(r)", {"s": None}),)),
    "versions: skill levels of both": Row(None, "o(w)", {}, "w", "lacks r", versions=((None, {"s": "o(r)"}),)),
    "versions: held": Row("o(w)", None, {}, "w r", "permit", versions=(("o(r)", {"s": None}),)),
    "versions: one for keys only is not made up for": Row("o(w)", None, {}, "w", "nobody", versions=(("k()", {"s": None}),)),
    "versions: a card without the skill adds its level": Row("o(w)", "o(r)", {}, "w r", "lacks x", versions=(("o(x)", T),)),
    "versions, levels skill: one without the skill adds nothing": Row("o(w)", "o(r)", SKILL, "r", "permit", versions=(("o(x)", T),)),
    "versions, any: one alternative of each": Row("o(w) | o(r)", None, ANY, "r x", "permit", versions=(("o(x) | o(y)", {"s": None}),)),
    "versions: a skill one of them has is known": Row("o(w)", None, {}, "w", "lacks x", "t", versions=(("o(w)", T),)),
    "versions: two with a skill each have two": Row(None, "o(r)", {}, "r", "lacks x", None, versions=((None, T),)),
    "versions: the policy's list wins over both": Row("o(w)", None, own("x"), "x", "permit", versions=(("k()", {"s": "o(r)"}),)),
    "extended card: its level too": Row("o(w)", None, {}, "w", "lacks r", extended=("o(r)", {"s": None})),
    "extended card: the level of its skill too": Row("o(w)", "o(r)", {}, "w r", "lacks x", extended=("o(w)", {"s": "o(x)"})),
    "extended card: it takes nothing away": Row("o(w r)", None, {}, "w", "lacks r", extended=(None, {"s": None})),
    "extended card: a skill only it has": Row("o(w)", None, {}, "w", "lacks x", "t", extended=(None, T)),
    "extended card: held": Row("o(w)", None, {}, "w r", "permit", extended=("o(r)", {"s": None})),
    "extended card: with one more skill there is no only one": Row(None, "o(r)", {}, "r", "lacks x", None, extended=(None, {"s": None, **T})),
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("row", [pytest.param(row, id=sentence) for sentence, row in TABLE.items()])
def test_who_may_submit(row: Row, spelling: str) -> None:
    card = a_card(row.card, {"s": row.skill, **row.others}, spelling)
    policy = a_policy(Scopes(**row.policy), [card, *(a_card(*version, spelling) for version in row.versions)])
    extended = a_card(*row.extended, spelling) if row.extended else None
    held = frozenset(row.held.split()) if row.held is not None else None
    found = judged(policy, held, row.named, extended)
    if row.comes_of_it == "nobody":
        assert judged(policy, EVERYTHING, row.named, extended).startswith("lacks")
        assert found.startswith("lacks")
        return
    assert found == row.comes_of_it
    if found.startswith("lacks"):
        assert held is not None
        wide = held | frozenset(found.split()[1:])
        assert judged(policy, wide, row.named, extended) == "permit", "what was named is not all"


# --- a second evaluator ---------------------------------------------------------------------------
# Written from the rules (policies/README.md), on plain values, and asking of one token instead of compiling: so
# that it shares neither code nor way of thinking with what it checks. It knows no sets of options.


@dataclass(frozen=True)
class Level:
    """What a card says in one place; `twice` where 1.0's list and 0.3's say different things."""

    alternatives: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] | None
    twice: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] | None = None

    @property
    def lists(self) -> list[Any]:
        return [one for one in (self.alternatives, self.twice) if one]


@dataclass(frozen=True)
class Said:
    level: Level
    skills: tuple[tuple[str, Level], ...]


TOKEN_SCHEMES = {"o", "i", "b"}


def passes(cards: Sequence[Said], policy: Mapping[str, Any], named: str | None, held: frozenset[str]) -> bool:
    """Whether a token of these scopes may submit; False also for a skill nobody knows."""
    held = closure(held, policy["implies"])
    declared = {id_ for card in cards for id_, _ in card.skills}
    known = declared | set(policy["skills"])
    everything = [scope for names in policy["lifecycle"].values() for scope in names]

    def card_levels() -> bool:
        return all(level_passes(card.level, policy, held) for card in cards)

    def skill(id_: str) -> bool:
        if id_ not in known:
            return False
        listed = policy["skills"].get(id_, {})
        traverses = listed.get("traverses")
        for operation, names in policy["lifecycle"].items():
            if (traverses is None or operation in traverses) and not set(names) <= held:
                return False
        if listed.get("scopes") is not None:
            return set(listed["scopes"]) <= held
        return all(on_card(card, id_) for card in cards)

    def on_card(card: Said, id_: str) -> bool:
        own = dict(card.skills).get(id_)
        replaces = policy["levels"] == "skill"
        if own is None:  # not a skill of this card; it counts unless only cards that have the skill do
            return (replaces and id_ in declared) or level_passes(card.level, policy, held)
        if replaces and own.lists:
            return level_passes(own, policy, held)
        return level_passes(card.level, policy, held) and level_passes(own, policy, held)

    if named is not None:
        return skill(named)
    if len(declared) == 1:
        return skill(*declared)
    if policy["unnamed_skill"] == "card" or (policy["unnamed_skill"] == "all" and not known):
        return card_levels() and set(everything) <= held
    if policy["unnamed_skill"] == "all":
        return all(skill(id_) for id_ in known) and (bool(declared) or card_levels())
    return skill(policy["unnamed_skill"])


def level_passes(level: Level, policy: Mapping[str, Any], held: frozenset[str]) -> bool:
    """Every list that is there and not empty must hold."""
    for listed in level.lists:
        possible = [one for one in listed if {scheme for scheme, _ in one} <= TOKEN_SCHEMES]
        covered = [all(set(names) <= held for _, names in one) for one in possible]
        if not possible or not (any if policy["alternatives"] == "any" else all)(covered):
            return False
    return True


def closure(held: frozenset[str], implies: Mapping[str, Sequence[str]]) -> frozenset[str]:
    wider = held.union(*(implies.get(scope, ()) for scope in held))
    return held if wider == held else closure(wider, implies)


def on_the_wire(said: Said, spelling: str) -> Card:
    def members(level: Level) -> dict[str, Any]:
        first, second = (
            None if one is None else [{scheme: list(names) for scheme, names in alt} for alt in one]
            for one in (level.alternatives, level.twice)
        )
        if second is not None:
            return listed(first, NEW) | listed(second, OLD)
        return listed(first, spelling)

    schemes = {name: new | (old if spelling == BOTH else {}) for name, (old, new) in KINDS.items()}
    if spelling == OLD:
        schemes = {name: old for name, (old, _) in KINDS.items()}
    raw = {
        "securitySchemes": schemes,
        "skills": [{"id": id_} | members(level) for id_, level in said.skills],
        **members(said.level),
    }
    return read_card(json.dumps(raw).encode())


SCOPES = ("a", "b", "c", "d")
TOKENS = [
    frozenset(held)
    for held in chain.from_iterable(combinations(SCOPES, size) for size in range(len(SCOPES) + 1))
]
some_scopes = st.lists(st.sampled_from(SCOPES), max_size=2, unique=True).map(tuple)
alternatives = st.dictionaries(
    # Mostly what a token satisfies: else nearly every card would be nobody's.
    st.sampled_from("oooibkmhu"),
    some_scopes,
    max_size=2,
).map(lambda one: tuple(one.items()))
lists = st.none() | st.lists(alternatives, max_size=3).map(tuple)
levels_of_a_card = st.builds(Level, lists, st.none() | st.none() | st.none() | lists)
cards = st.builds(
    Said,
    levels_of_a_card,
    st.dictionaries(st.sampled_from("stu"), levels_of_a_card, max_size=3).map(lambda s: tuple(s.items())),
)
operations = st.sampled_from(("send", "get", "cancel", "subscribe", "push"))
policies = st.fixed_dictionaries(
    {
        "alternatives": st.sampled_from(("all", "any")),
        "levels": st.sampled_from(("both", "skill")),
        "unnamed_skill": st.sampled_from(("all", "all", "card", "s", "nope")),
        "lifecycle": st.dictionaries(operations, some_scopes, max_size=2),
        "implies": st.dictionaries(st.sampled_from(SCOPES), some_scopes, max_size=2),
        "skills": st.dictionaries(
            st.sampled_from("stv"),
            st.fixed_dictionaries(
                {},
                optional={
                    "scopes": st.none() | some_scopes,
                    "traverses": st.none() | st.lists(operations, max_size=2, unique=True).map(tuple),
                },
            ),
            max_size=2,
        ),
    }
)


@settings(max_examples=500, deadline=None, database=None)
@given(
    st.lists(cards, min_size=1, max_size=2),
    st.none() | st.none() | cards,
    policies,
    st.sampled_from((None, None, "s", "t", "v", "nope")),
    st.sampled_from(SPELLINGS),
)
def test_a_second_evaluator_agrees(
    said: list[Said], extended: Said | None, policy: dict[str, Any], named: str | None, spelling: str
) -> None:
    """Every token over four scopes, under a card and policy made up: some thousands of answers."""
    scopes = Scopes(
        **policy | {"skills": {id_: Skill(**settings) for id_, settings in policy["skills"].items()}}
    )
    compiled = a_policy(scopes, [on_the_wire(card, spelling) for card in said])
    own = on_the_wire(extended, spelling) if extended else None
    whole = [*said, *([extended] if extended else [])]
    for held in TOKENS:
        found = judged(compiled, held, named, own)
        assert (found == "permit") is passes(whole, policy, named, held), (sorted(held), found)
    told_rightly(compiled, named, own)


def told_rightly(policy: Policy, named: str | None, extended: Card | None) -> None:
    """With what a refusal names as missing the same token passes, unless no token does; nothing held is named."""
    possible = judged(policy, frozenset(SCOPES), named, extended) == "permit"
    for held in TOKENS if possible else ():
        _, *missing = judged(policy, held, named, extended).split()
        assert held.isdisjoint(missing)
        assert judged(policy, held | frozenset(missing), named, extended) == "permit"


@settings(max_examples=150, deadline=None, database=None)
@given(cards, policies)
def test_who_may_name_every_skill_need_not_name_one(card: Said, policy: dict[str, Any]) -> None:
    """And the other way round: under `unnamed_skill: all` saying nothing is never less than saying something."""
    scopes = Scopes(
        **policy
        | {
            "unnamed_skill": "all",
            "skills": {id_: Skill(**settings) for id_, settings in policy["skills"].items()},
        }
    )
    compiled = a_policy(scopes, [on_the_wire(card, NEW)])
    skills = [id_ for id_, _ in card.skills]
    every = skills if len(skills) == 1 else [*skills, *scopes.skills]
    for held in TOKENS if skills else ():
        unnamed = judged(compiled, held, None, None) == "permit"
        assert unnamed is all(judged(compiled, held, id_, None) == "permit" for id_ in every)
