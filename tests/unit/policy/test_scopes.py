"""Scope arithmetic, and the life-cycle requirement as one truth table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.bindings.card import read_card
from sidecar.config import Scopes, Skill
from sidecar.model import Card, NamedSkill
from sidecar.policy.scopes import Need, Needs, UnknownSkill, compile_needs, widen

Requirement = dict[str, list[str]]

SCHEMES = {
    "o": {"type": "oauth2", "flows": {}},
    "k": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "b": {"type": "http", "scheme": "bearer"},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://idp.example.com"},
    "basic": {"type": "http", "scheme": "basic"},
    "m": {"type": "mutualTLS"},
}
SPELLINGS = ("security", "securityRequirements")


def spelled(requirements: list[Requirement], spelling: str) -> list[Any]:
    if spelling == "security":
        return list(requirements)
    return [{"schemes": {k: {"list": v} if v else {} for k, v in r.items()}} for r in requirements]


def a_card(
    card: list[Requirement] | None = None, spelling: str = "security", **skills: list[Requirement] | None
) -> Card:
    """A card as it comes off the wire; a skill that is None declares nothing."""
    listed = [
        {"id": id_.replace("_", "-"), **({spelling: spelled(r, spelling)} if r is not None else {})}
        for id_, r in skills.items()
    ]
    raw = {"securitySchemes": SCHEMES, "skills": listed}
    if card is not None:
        raw[spelling] = spelled(card, spelling)
    return read_card(json.dumps(raw).encode())


def scopes(text: str) -> frozenset[str]:
    return frozenset(text.split())


def named(id_: str, by: str = "metadata skillId") -> NamedSkill:
    return NamedSkill(id_, by)


def need_of(needs: Needs, skill: NamedSkill | None = None) -> Need:
    found = needs.for_call(skill)
    assert not isinstance(found, UnknownSkill)
    return found[0]


# --- the truth table ---------------------------------------------------------------------------

TOKENS = ("", "w", "r", "w r", "w r x")
NOBODY: tuple[str, ...] = ()

WR: list[Requirement] = [{"o": ["w", "r"]}]
W_OR_R: list[Requirement] = [{"o": ["w"]}, {"o": ["r"]}]
W: list[Requirement] = [{"o": ["w"]}]
R: list[Requirement] = [{"o": ["r"]}]
W_AND_KEY: list[Requirement] = [{"o": ["w"], "k": []}]
KEY: list[Requirement] = [{"k": []}]
KEY_OR_WR: list[Requirement] = [{"k": []}, {"o": ["w", "r"]}]

# (card level, skill level, `levels`) → tokens that pass under `all`, and under `any`.
TABLE = [
    pytest.param(None, None, "both", TOKENS, TOKENS, id="nothing declared: any token"),
    pytest.param([], [], "both", TOKENS, TOKENS, id="empty lists declare nothing"),
    pytest.param(WR, None, "both", ("w r", "w r x"), ("w r", "w r x"), id="all scopes of one alternative"),
    pytest.param(W_OR_R, None, "both", ("w r", "w r x"), ("w", "r", "w r", "w r x"), id="entries are alternatives"),
    pytest.param(W_AND_KEY, None, "both", NOBODY, NOBODY, id="all schemes of one alternative"),
    pytest.param(KEY, None, "both", NOBODY, NOBODY, id="a token is no api key"),
    pytest.param([{"basic": []}], None, "both", NOBODY, NOBODY, id="a token is no password"),
    pytest.param([{"nowhere": ["w"]}], None, "both", NOBODY, NOBODY, id="an undeclared scheme is satisfied by nothing"),
    pytest.param([{"o": ["w"], "nowhere": []}], None, "both", NOBODY, NOBODY, id="nor together with a declared one"),
    pytest.param(KEY_OR_WR, None, "both", ("w r", "w r x"), ("w r", "w r x"), id="the other alternative does"),
    pytest.param([{"o": ["w"], "oidc": ["r"]}], None, "both", ("w r", "w r x"), ("w r", "w r x"), id="scopes of two schemes"),
    pytest.param([{"b": []}], None, "both", TOKENS, TOKENS, id="http bearer needs a token and no scope"),
    pytest.param([{"b": ["w"]}], None, "both", ("w", "w r", "w r x"), ("w", "w r", "w r x"), id="http bearer with roles"),
    pytest.param([{}, {"o": ["w"]}], None, "both", ("w", "w r", "w r x"), TOKENS, id="the anonymous alternative asks nothing"),
    pytest.param([{}], None, "both", TOKENS, TOKENS, id="anonymous only"),
    pytest.param([{}, {"k": []}], None, "both", TOKENS, TOKENS, id="anonymous or a key"),
    pytest.param(None, WR, "both", ("w r", "w r x"), ("w r", "w r x"), id="skill level alone"),
    pytest.param(W, R, "both", ("w r", "w r x"), ("w r", "w r x"), id="card level and skill level"),
    pytest.param(W, R, "skill", ("r", "w r", "w r x"), ("r", "w r", "w r x"), id="the skill's list instead of the card's"),
    pytest.param(W, None, "skill", ("w", "w r", "w r x"), ("w", "w r", "w r x"), id="the card's where the skill has none"),
    pytest.param(W, [], "skill", ("w", "w r", "w r x"), ("w", "w r", "w r x"), id="an empty list is none"),
    pytest.param(W_OR_R, R, "both", ("w r", "w r x"), ("r", "w r", "w r x"), id="alternatives combine across levels"),
    pytest.param(W_OR_R, W_OR_R, "both", ("w r", "w r x"), ("w", "r", "w r", "w r x"), id="one alternative may serve both levels"),
    pytest.param(W, KEY, "both", NOBODY, NOBODY, id="a skill for key holders only"),
    pytest.param(KEY, W, "both", NOBODY, NOBODY, id="a card for key holders only"),
    pytest.param(KEY, W, "skill", ("w", "w r", "w r x"), ("w", "w r", "w r x"), id="a skill that opens a card to tokens"),
    pytest.param(W, [{}], "skill", TOKENS, TOKENS, id="a skill that is open to all"),
    pytest.param(W, [{}], "both", ("w", "w r", "w r x"), ("w", "w r", "w r x"), id="which does not open the card"),
]  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("alternatives", ["all", "any"])
@pytest.mark.parametrize(("card", "skill", "levels", "all_", "any_"), TABLE)
def test_who_passes(
    card: Any,
    skill: Any,
    levels: Any,
    all_: tuple[str, ...],
    any_: tuple[str, ...],
    alternatives: Any,
    spelling: str,
) -> None:
    needs = compile_needs(Scopes(alternatives=alternatives, levels=levels), [a_card(card, spelling, s=skill)])
    need = need_of(needs, named("s"))
    assert tuple(t for t in TOKENS if need.missing(scopes(t)) is None) == (
        all_ if alternatives == "all" else any_
    )


@pytest.mark.parametrize(("alternatives", "levels"), list(product(["all", "any"], ["both", "skill"])))
@pytest.mark.parametrize("listed", ["", "x", "w r"])
def test_policy_wins_over_the_card(alternatives: Any, levels: Any, listed: str) -> None:
    policy = Scopes(
        alternatives=alternatives, levels=levels, skills={"s": Skill(scopes=tuple(listed.split()))}
    )
    for skill in (WR, KEY, None):
        need = need_of(compile_needs(policy, [a_card(KEY, s=skill)]), named("s"))
        for token in TOKENS:
            assert (need.missing(scopes(token)) is None) is (scopes(listed) <= scopes(token))


# --- what is told ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "held", "required", "missing"),
    [
        pytest.param(["w r"], "", "w r", "w r", id="all of it"),
        pytest.param(["w r"], "w x", "w r", "r", id="what is lacking"),
        pytest.param(["w r"], "w r x", "w r", None, id="nothing"),
        pytest.param(["a b c", "r"], "a b", "a b c", "c", id="the first of two that lack as much"),
        pytest.param(["a b c", "r x"], "x", "r x", "r", id="the option that lacks least"),
        pytest.param(["w"], "w:all wr W", "w", "w", id="whole scopes only, no prefixes"),
        pytest.param([""], "", "", None, id="nothing needed"),
    ],
)
def test_missing(options: list[str], held: str, required: str, missing: str | None) -> None:
    need = Need(tuple(scopes(option) for option in options))
    assert need.required(scopes(held)) == scopes(required)
    assert need.missing(scopes(held)) == (None if missing is None else scopes(missing))


def test_a_need_nobody_satisfies_is_never_covered() -> None:
    need = Need((scopes("w"),), satisfiable=False)
    assert need.missing(scopes("")) == scopes("w")
    assert need.missing(scopes("w")) == frozenset()  # not None: a refusal that has nothing to name


def test_the_incident_is_told_in_full() -> None:
    needs = compile_needs(Scopes(), [a_card(code_review=[{"o": ["write", "read"]}])])
    found = needs.for_call(named("code-review"))
    assert found == (Need((scopes("write read"),)), "code-review", "named by metadata skillId")
    assert need_of(needs).missing(scopes("write")) == scopes("read")
    assert need_of(needs).missing(scopes("write read")) is None


# --- which skill -------------------------------------------------------------------------------

TWO = a_card([{"o": ["base"]}], merge=W, comment=R)
ONE = a_card(merge=W)


@pytest.mark.parametrize(
    ("cards", "unnamed", "skill", "needed", "id_", "chosen_by"),
    [
        pytest.param([TWO], "all", named("merge"), "base w", "merge", "named by metadata skillId", id="named in metadata"),
        pytest.param([TWO], "card", named("comment", "header A2A-Skill"), "base r", "comment", "named by header A2A-Skill", id="named in a header"),
        pytest.param([ONE], "card", None, "w", "merge", "the only skill of the card", id="the only skill"),
        pytest.param([ONE, a_card()], "all", None, "w", "merge", "the only skill of the card", id="the only skill of all versions"),
        pytest.param([TWO], "all", None, "base w r", "", "no skill named: union of all skills", id="all skills"),
        pytest.param([TWO], "card", None, "base", "", "no skill named: card level only", id="card level"),
        pytest.param([TWO], "merge", None, "base w", "merge", "no skill named: policy says merge", id="the policy's skill"),
        pytest.param([a_card(W)], "all", None, "w", "", "no skill named: union of all skills", id="a card without skills"),
    ],
)  # fmt: skip
def test_the_skill_is_chosen(
    cards: list[Card], unnamed: str, skill: NamedSkill | None, needed: str, id_: str, chosen_by: str
) -> None:
    found = compile_needs(Scopes(unnamed_skill=unnamed), cards).for_call(skill)
    assert found == (Need((scopes(needed),)), id_, chosen_by)


@pytest.mark.parametrize(
    ("unnamed", "skill", "unknown"),
    [
        pytest.param("all", named("nope"), UnknownSkill("nope", "named by metadata skillId"), id="named by the caller"),
        pytest.param("all", named("Merge"), UnknownSkill("Merge", "named by metadata skillId"), id="in another case"),
        pytest.param("all", named(""), UnknownSkill("", "named by metadata skillId"), id="named by an empty string"),
        pytest.param("all", named("all"), UnknownSkill("all", "named by metadata skillId"), id="the policy's words are no skills"),
        pytest.param("nope", None, UnknownSkill("nope", "no skill named: policy says nope"), id="named by the policy"),
    ],
)  # fmt: skip
def test_an_unknown_skill(unnamed: str, skill: NamedSkill | None, unknown: UnknownSkill) -> None:
    assert compile_needs(Scopes(unnamed_skill=unnamed), [TWO]).for_call(skill) == unknown


def test_a_skill_the_policy_lists_is_known_though_no_card_has_it() -> None:
    policy = Scopes(skills={"hidden": Skill(scopes=("h",)), "bare": Skill()})
    needs = compile_needs(policy, [TWO])
    assert need_of(needs, named("hidden")).options == (scopes("h"),)
    assert need_of(needs, named("bare")).options == (scopes("base"),)  # the card level is all there is
    assert need_of(needs).options == (scopes("base w r h"),)
    replacing = compile_needs(policy.model_copy(update={"levels": "skill"}), [TWO])
    assert need_of(replacing, named("bare")).options == (scopes("base"),)


def test_one_skill_nobody_can_use_stops_a_call_that_names_none() -> None:
    needs = compile_needs(Scopes(), [a_card(open=W, closed=KEY)])
    assert need_of(needs, named("open")).satisfiable
    assert not need_of(needs).satisfiable


# --- several cards -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "cards", "needed"),
    [
        pytest.param("both", [a_card(W, s=None), a_card(R, s=None)], "w r", id="card levels add up"),
        pytest.param("both", [a_card(s=W), a_card(s=R)], "w r", id="skill levels add up"),
        pytest.param(
            "both", [a_card(W), a_card(s=R)], "w r", id="the skill of one card, the card level of both"
        ),
        pytest.param(
            "skill", [a_card(W), a_card(s=R)], "r", id="levels skill: only cards that have the skill"
        ),
        pytest.param(
            "skill", [a_card(W, s=None), a_card(s=R)], "w r", id="levels skill: each card by its own rule"
        ),
    ],
)
def test_all_versions_of_a_card_must_be_satisfied(levels: Any, cards: list[Card], needed: str) -> None:
    assert need_of(compile_needs(Scopes(levels=levels), cards), named("s")).options == (scopes(needed),)
    assert need_of(compile_needs(Scopes(levels=levels), cards[::-1]), named("s")).options == (scopes(needed),)


def test_a_version_nobody_satisfies_is_not_made_up_for_by_another() -> None:
    assert not need_of(
        compile_needs(Scopes(), [a_card(W, s=None), a_card(KEY, s=None)]), named("s")
    ).satisfiable


def test_without_a_card_there_is_nothing_to_judge_by() -> None:
    with pytest.raises(ValueError, match="no card"):
        compile_needs(Scopes(skills={"s": Skill(scopes=("w",))}), [])


# --- the life cycle ----------------------------------------------------------------------------

LIFECYCLE: Mapping[Any, tuple[str, ...]] = {
    "send": ("t:write",), "get": ("t:read",), "cancel": ("t:write", "t:stop"), "subscribe": ("t:read",), "push": ("t:push",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("skill", "needed"),
    [
        pytest.param(Skill(), "w t:write t:read t:stop t:push", id="every operation by default"),
        pytest.param(Skill(traverses=("send", "get")), "w t:write t:read", id="a skill may narrow them"),
        pytest.param(Skill(traverses=()), "w", id="or name none"),
        pytest.param(
            Skill(scopes=("own",)), "own t:write t:read t:stop t:push", id="added to the policy's own list"
        ),
        pytest.param(Skill(scopes=(), traverses=("push",)), "t:push", id="also to an empty one"),
    ],
)
def test_the_life_cycle_is_added(skill: Skill, needed: str) -> None:
    policy = Scopes(lifecycle=LIFECYCLE, skills={"merge": skill})
    assert need_of(compile_needs(policy, [ONE]), named("merge")).options == (scopes(needed),)


def test_a_call_that_names_no_skill_has_the_life_cycle_too() -> None:
    whole = "t:write t:read t:stop t:push"
    narrow = {id_: Skill(traverses=("get",)) for id_ in ("merge", "comment")}
    for unnamed, skills, needed in (
        ("card", {}, f"base {whole}"),
        ("card", narrow, f"base {whole}"),
        ("all", {}, f"base w r {whole}"),
        ("all", narrow, "base w r t:read"),
    ):
        policy = Scopes(unnamed_skill=unnamed, lifecycle=LIFECYCLE, skills=skills)
        assert need_of(compile_needs(policy, [TWO])).options == (scopes(needed),)


def test_the_life_cycle_alone_guards_a_card_that_declares_nothing() -> None:
    need = need_of(compile_needs(Scopes(lifecycle={"get": ("t:read",)}), [a_card(s=None)]))
    assert need.missing(scopes("t:write")) == scopes("t:read")
    assert need.missing(scopes("t:read")) is None


# --- many alternatives -------------------------------------------------------------------------


def test_more_options_than_the_cap_become_their_union() -> None:
    many: list[Requirement] = [{"o": [f"a{n}"]} for n in range(20)]
    other: list[Requirement] = [{"o": [f"b{n}"]} for n in range(20)]
    whole = frozenset(scope for r in [*many, *other] for scope in r["o"])
    assert need_of(compile_needs(Scopes(alternatives="any"), [a_card(many, s=other)])).options == (whole,)
    long: list[Requirement] = [{"o": [f"c{n}"]} for n in range(300)]
    [option] = need_of(compile_needs(Scopes(alternatives="any"), [a_card(long, s=None)])).options
    assert len(option) == 300


def test_options_that_ask_for_more_than_another_are_left_out() -> None:
    card = a_card([{"o": ["w", "r"]}, {"o": ["w"]}, {"b": ["w"]}], s=None)
    assert need_of(compile_needs(Scopes(alternatives="any"), [card])).options == (scopes("w"),)


levels_of = st.lists(st.lists(st.sampled_from("abcd"), unique=True), max_size=4)


@settings(deadline=None)  # a loaded machine is no failure
@given(levels_of, levels_of, st.frozensets(st.sampled_from("abcd")))
def test_any_is_one_covered_alternative_of_each_level(
    card: list[list[str]], skill: list[list[str]], held: frozenset[str]
) -> None:
    whole = a_card([{"o": s} for s in card], s=[{"o": s} for s in skill])
    need = need_of(compile_needs(Scopes(alternatives="any"), [whole]))
    expected = all(not level or any(set(s) <= held for s in level) for level in (card, skill))
    assert (need.missing(held) is None) is expected
    strict = need_of(compile_needs(Scopes(), [whole]))
    assert (strict.missing(held) is None) is all(set(s) <= held for s in [*card, *skill])


# --- scope sets --------------------------------------------------------------------------------


IMPLIES = {
    "admin": frozenset({"write"}),
    "write": frozenset({"read"}),
    "a": frozenset({"b"}),
    "b": frozenset({"a"}),
}


@pytest.mark.parametrize(
    ("held", "reached"),
    [
        pytest.param("", "", id="nothing implies nothing"),
        pytest.param("read", "read", id="the last of a chain"),
        pytest.param("admin", "admin write read", id="a chain is followed"),
        pytest.param("a", "a b", id="a cycle ends"),
        pytest.param("administrator", "administrator", id="no prefixes"),
        pytest.param("admin x b", "admin write read x a b", id="all of what is held"),
    ],
)
def test_widen(held: str, reached: str) -> None:
    assert widen(scopes(held), IMPLIES) == scopes(reached)


def test_without_implications_nothing_is_copied() -> None:
    held = scopes("w r")
    assert widen(held, {}) is held


# --- how long a token must live ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("unnamed", "skills", "skill", "needed"),
    [
        pytest.param("all", {}, "merge", 600.0, id="what the section says"),
        pytest.param("all", {"merge": 60.0}, "merge", 60.0, id="a skill's own wins, though shorter"),
        pytest.param("all", {"merge": 0.0}, "merge", 0.0, id="a skill may turn it off"),
        pytest.param("all", {"merge": 60.0}, "comment", 600.0, id="for itself only"),
        pytest.param("all", {"hidden": 60.0}, "hidden", 60.0, id="also one that no card has"),
        pytest.param("all", {"merge": 3600.0}, None, 3600.0, id="unnamed: the longest"),
        pytest.param("all", {"merge": 60.0, "comment": 90.0}, None, 90.0, id="unnamed: of the skills' own"),
        pytest.param("card", {"merge": 3600.0}, None, 600.0, id="card level only: the section's"),
        pytest.param("merge", {"merge": 3600.0}, None, 3600.0, id="the policy's skill"),
    ],
)
def test_how_long_a_token_must_live(
    unnamed: str, skills: dict[str, float], skill: str | None, needed: float
) -> None:
    policy = Scopes(
        unnamed_skill=unnamed,
        min_remaining_lifetime=600.0,
        skills={id_: Skill(min_remaining_lifetime=own) for id_, own in skills.items()},
    )
    assert need_of(compile_needs(policy, [TWO]), named(skill) if skill else None).lifetime == needed


def test_a_skill_may_ask_for_a_lifetime_where_the_section_does_not() -> None:
    policy = Scopes(skills={"merge": Skill(scopes=(), min_remaining_lifetime=60.0)})
    needs = compile_needs(policy, [TWO])
    assert need_of(needs, named("merge")) == Need((scopes(""),), lifetime=60.0)
    assert need_of(needs, named("comment")).lifetime == 0.0
    assert need_of(compile_needs(Scopes(min_remaining_lifetime=60.0), [a_card(W)])).lifetime == 60.0


# --- what a client certificate adds -----------------------------------------------------------------


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("card", "bearer", "certified"),
    [
        pytest.param([{"o": ["w"], "m": []}], None, "w", id="token and certificate, both"),
        pytest.param(
            [{"o": ["w"]}, {"m": ["x"]}], "w", "w x", id="either, and all that could be satisfied count"
        ),
        pytest.param([{"m": []}], None, "", id="a certificate alone"),
        pytest.param([{"m": [], "k": []}], None, None, id="and a key, which nobody shows beside a token"),
        pytest.param([{"o": ["w"]}], "w", "w", id="no certificate asked for"),
    ],
)
def test_a_certificate_satisfies_mutual_tls(
    card: list[Requirement], spelling: str, bearer: str | None, certified: str | None
) -> None:
    needs = compile_needs(Scopes(), [a_card(card, spelling, s=None)])
    for shown, needed in ((False, bearer), (True, certified)):
        found = needs.for_call(named("s"), certified=shown)
        assert not isinstance(found, UnknownSkill)
        assert found[0].satisfiable is (needed is not None)
        assert needed is None or found[0].options == (scopes(needed),)
