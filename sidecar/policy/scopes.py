"""Scope arithmetic and the life-cycle requirement.

Owns: widening scope sets, and what a submission needs, by skill, from policy and cards: scopes, and how long a token
must live.
Never: reads a token, fetches a card, or decides; nothing here is computed per call but set operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from sidecar.config import Scopes, Skill
from sidecar.model import Alternative, Card, NamedSkill, Scheme

# What a bearer credential can satisfy (OpenAPI 3.2 §4.27): OAuth 2, OpenID Connect, HTTP bearer.
SATISFIED_BY_BEARER: Final = frozenset({Scheme.OAUTH2, Scheme.OPENID, Scheme.HTTP_BEARER})

_MOST_OPTIONS: Final = 256
_NOTHING: Final[frozenset[str]] = frozenset()

_ONLY_SKILL: Final = "the only skill of the card"
_UNNAMED: Final = {
    "all": "no skill named: union of all skills",
    "card": "no skill named: card level only",
}


def widen(held: frozenset[str], implies: Mapping[str, Collection[str]]) -> frozenset[str]:
    """`held` with everything it implies, directly or through others. Cycles are fine."""
    if not implies:
        return held
    reached, waiting = set(held), list(held)
    while waiting:
        further = set(implies.get(waiting.pop(), ())) - reached
        reached |= further
        waiting += further
    return frozenset(reached)


# --- what one submission needs -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Need:
    """What one skill's whole life cycle needs.

    `options` is never empty: covering any one of them is enough (under `alternatives: all` there
    is one). `satisfiable` False: no alternative that a bearer credential could satisfy.
    `lifetime`: for how many seconds a token must still be valid when the task is submitted.
    """

    options: tuple[frozenset[str], ...]
    satisfiable: bool = True
    lifetime: float = 0.0

    def missing(self, held: frozenset[str]) -> frozenset[str] | None:
        """None if `held` covers the need, else what it lacks of the option it lacks least of.

        Compare with `is None`: of a need that is not satisfiable nothing nameable may be missing,
        and the answer is then an empty set, which is a refusal.
        """
        lacking = self.required(held) - held
        return None if self.satisfiable and not lacking else lacking

    def required(self, held: frozenset[str]) -> frozenset[str]:
        """The option `missing` speaks of: the one `held` lacks least of, the first of several."""
        return min(self.options, key=lambda option: len(option - held))


@dataclass(frozen=True, slots=True)
class UnknownSkill:
    """No card has this skill and no policy lists it: nobody knows what it needs."""

    skill: str
    chosen_by: str


@dataclass(frozen=True, slots=True)
class Needs:
    """Every answer of `for_call`, worked out beforehand.

    `certified`: the same for a caller who shows a client certificate as well; None where that makes no difference.
    """

    by_skill: Mapping[str, Need]
    unnamed: tuple[Need, str, str] | UnknownSkill
    certified: Needs | None = None

    def for_call(
        self, skill: NamedSkill | None, *, certified: bool = False
    ) -> tuple[Need, str, str] | UnknownSkill:
        """The need, the skill's id (`""` if none was chosen) and the rule that chose it."""
        if certified and self.certified is not None:
            return self.certified.for_call(skill)
        if skill is None:
            return self.unnamed
        return _chosen(self.by_skill, skill.id, f"named by {skill.named_by}")


def compile_needs(scopes: Scopes, cards: Sequence[Card]) -> Needs:
    """What submissions need under this policy, all of `cards` together (versions, an extended card).

    Raises ValueError without cards: nothing to judge by is not the same as nothing needed.
    """
    if not cards:
        raise ValueError("no card to judge submissions by")
    needs, shown = _compiled(scopes, cards), [_with_certificate(card) for card in cards]
    return needs if shown == list(cards) else replace(needs, certified=_compiled(scopes, shown))


def _with_certificate(card: Card) -> Card:
    """The card as it is to who shows a client certificate beside the token: `mutualTLS` is satisfied like a bearer scheme."""
    schemes = {
        name: Scheme.HTTP_BEARER if scheme is Scheme.MTLS else scheme for name, scheme in card.schemes.items()
    }
    return replace(card, schemes=schemes) if Scheme.MTLS in card.schemes.values() else card


def _compiled(scopes: Scopes, cards: Sequence[Card]) -> Needs:
    declared = list(dict.fromkeys(id_ for card in cards for id_ in card.skills))
    by_skill = {id_: _skill_need(id_, scopes, cards) for id_ in dict.fromkeys([*declared, *scopes.skills])}
    return Needs(by_skill, _unnamed(scopes, cards, declared, by_skill))


def _unnamed(
    scopes: Scopes, cards: Sequence[Card], declared: Sequence[str], by_skill: Mapping[str, Need]
) -> tuple[Need, str, str] | UnknownSkill:
    if len(declared) == 1:
        return by_skill[declared[0]], declared[0], _ONLY_SKILL
    rule = scopes.unnamed_skill
    if rule not in _UNNAMED:
        return _chosen(by_skill, rule, f"no skill named: policy says {rule}")
    card_level = [_level(card.requirements, card, scopes) for card in cards]
    if rule == "card" or not by_skill:
        return _together([*card_level, _lifecycle(scopes, None)]), "", _UNNAMED[rule]
    # Each skill brings the operations its own tasks traverse, and the card level where that is its own; the task will be
    # one of theirs. So whoever could name every skill need not name one.
    return _together([*(() if declared else card_level), *by_skill.values()]), "", _UNNAMED[rule]


def _chosen(by_skill: Mapping[str, Need], id_: str, chosen_by: str) -> tuple[Need, str, str] | UnknownSkill:
    need = by_skill.get(id_)
    return UnknownSkill(id_, chosen_by) if need is None else (need, id_, chosen_by)


def _skill_need(id_: str, scopes: Scopes, cards: Sequence[Card]) -> Need:
    """Policy wins over the cards; the life cycle is added to either."""
    listed = scopes.skills.get(id_)
    lifecycle = _lifecycle(scopes, listed)
    if listed and listed.scopes is not None:
        return _together([Need((frozenset(listed.scopes),)), lifecycle])
    return _together([*_card_needs(id_, scopes, cards), lifecycle])


def _card_needs(id_: str, scopes: Scopes, cards: Sequence[Card]) -> Iterable[Need]:
    """Card level of every card, skill level of those that have the skill; all must hold.

    Under `levels: skill` only the cards that have the skill count, and there its own list, if it
    declares one, replaces the card's. A skill no card has leaves the card level of all.
    """
    having = [card for card in cards if id_ in card.skills]
    replaces = scopes.levels == "skill"
    for card in having if replaces and having else cards:
        own = card.skills.get(id_, ())
        if not (replaces and own):
            yield _level(card.requirements, card, scopes)
        yield _level(own, card, scopes)


def _level(alternatives: Sequence[Alternative], card: Card, scopes: Scopes) -> Need:
    """One list of alternatives. Inside one, all schemes and all scopes are needed."""
    if not alternatives:
        return Need((_NOTHING,))
    # A scheme the card does not declare is `None` here, and satisfied by nothing.
    covered = [
        _union(alternative.values())
        for alternative in alternatives
        if SATISFIED_BY_BEARER.issuperset(card.schemes.get(scheme) for scheme in alternative)
    ]
    if not covered:
        return Need((_NOTHING,), satisfiable=False)
    return Need(_options(covered) if scopes.alternatives == "any" else (_union(covered),))


def _lifecycle(scopes: Scopes, skill: Skill | None) -> Need:
    """The scopes of every operation a task may go through (all of them by default), and how long that takes."""
    traverses = skill.traverses if skill else None
    own = skill.min_remaining_lifetime if skill else None
    names = (names for op, names in scopes.lifecycle.items() if traverses is None or op in traverses)
    return Need((_union(names),), lifetime=scopes.min_remaining_lifetime if own is None else own)


def _together(needs: Iterable[Need]) -> Need:
    """All of `needs` at once: one option of each, in every combination, and the longest lifetime."""
    options: tuple[frozenset[str], ...] = (_NOTHING,)
    satisfiable, lifetime = True, 0.0
    for need in needs:
        satisfiable, lifetime = satisfiable and need.satisfiable, max(lifetime, need.lifetime)
        if len(options) * len(need.options) > _MOST_OPTIONS:
            options = (_union([*options, *need.options]),)
        else:
            options = _options([one | other for one, other in product(options, need.options)])
    return Need(options, satisfiable, lifetime)


def _options(sets: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """`sets` without those that ask for more than another of them. Too many: their union, the safe side."""
    if len(sets) > _MOST_OPTIONS:
        return (_union(sets),)
    distinct = list(dict.fromkeys(sets))
    return tuple(one for one in distinct if not any(other < one for other in distinct))


def _union(sets: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
