"""The agents behind this sidecar.

Owns: one guarded agent (its upstream, card, compiled policy and surface) and finding it by mount.
Never: decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import quote

from cachetools import LRUCache
from multidict import CIMultiDict

from sidecar import config
from sidecar.bindings.card_rewriting import Fronting, rest_bases
from sidecar.bindings.surface import Surface, Target
from sidecar.bindings.target import below, read_target
from sidecar.model import Binding, Call, Card, Dialect, Head, Principal, Reason, Refused, Reply, Version
from sidecar.policy.rules import Policy, compile_policy, with_extended_card
from sidecar.policy.scopes import Needs
from sidecar.proxy.cards import WELL_KNOWN, Cards, CardSet
from sidecar.proxy.onward import Onward, TokenRefused
from sidecar.proxy.upstream import Upstream

KNOWN_DIALECTS = frozenset(
    {Dialect(Binding.JSONRPC, v) for v in Version}
    | {Dialect(Binding.HTTP_JSON, v) for v in (Version.V0_3, Version.V1_0)}
)
_UNSEEN = frozenset(d for d in KNOWN_DIALECTS if d.version is not Version.V0_1)


_CARD_NAMES = frozenset({"agent-card.json", "agent.json"})


@dataclass(frozen=True, slots=True)
class View:
    """What policy and card say now: computed when either changes."""

    policy: Policy
    surface: Surface
    cards: CardSet | None
    drains_streams: bool  # a subscriber who leaves must not be passed on to the agent


class GuardedAgent:
    """One upstream agent as this sidecar fronts it."""

    def __init__(self, agent: config.Agent, whole: config.Config, now: Callable[[], float]) -> None:
        self.name = agent.name
        self.audiences = agent.audiences
        self.mount = tuple(segment for segment in agent.mount.split("/") if segment)
        self.upstream_url, self.public_url = agent.upstream.rstrip("/"), agent.public_url.rstrip("/")
        self.upstream = Upstream(agent.upstream, whole.limits, agent.tls, f"agents[{agent.name}].tls")
        self.onward = Onward(agent, whole)
        self._config = agent
        self._whole = whole
        self.cards = Cards(
            self.upstream,
            fronting_of(agent),
            refresh=agent.card.refresh,
            max_stale=agent.card.max_stale,
            now=now,
            changed=self._compile,
        )
        self._extended: LRUCache[int, tuple[Card, Needs]] = LRUCache(1000)
        self._unseen = build_view(agent, whole, None)
        self._seen = self._unseen

    def public_address(self, target: str) -> str:
        """Where a request for `target`, as sent, was sent to by its caller, who knows us by `public_url`; without query."""
        path = target.partition("?")[0]
        for _ in self.mount:
            path = path[path.find("/", 1) :] if "/" in path[1:] else ""
        return self.public_url + path

    async def view(self) -> View:
        """What holds now; without a usable card a view in which nothing can be created."""
        return self._seen if await self.cards.current() is not None else self._unseen

    async def needs_with_extended(self, call: Call, who: Principal, head: Head, view: View) -> Needs | None:
        """What a send needs once the caller's own extended card is judged too; None if the agent gives them none."""
        card = await self._extended_card(call, who, head)
        if card is None:
            return None
        known = self._extended.get(id(card))
        if known is None or known[0] is not card:
            known = self._extended[id(card)] = (card, with_extended_card(view.policy, card))
        return known[1]

    async def _extended_card(self, call: Call, who: Principal, head: Head) -> Card | None:
        def accepted(status: int, got: Mapping[str, str]) -> None:
            self.onward.require_accepted(who, status, got)

        try:
            return await self.cards.extended(call, self.onward.identifying(head.headers, who), accepted)
        except TokenRefused as refused:  # not that this caller has none
            raise Refused(Reason.CARD_UNAVAILABLE, internal=refused.refusal.internal) from None

    def _compile(self, cards: CardSet) -> None:
        self._extended.clear()
        self._seen = build_view(self._config, self._whole, cards)


def build_view(agent: config.Agent, whole: config.Config, cards: CardSet | None) -> View:
    """What `agent` of the policy `whole` is under `cards`; None while no usable card is known."""
    fronting = fronting_of(agent)
    read = cards.cards if cards else ()
    policy = compile_policy(agent, whole, read)
    listed = _dialects(agent)
    shown = frozenset(i.dialect for card in read for i in card.interfaces if i.dialect)
    bases = {base for card in read for base in rest_bases(card, fronting)} | {()}
    surface = Surface(
        dialects=listed if listed is not None else (shown or _UNSEEN),
        rest_bases=tuple(sorted(bases, key=len, reverse=True)),
        tenants=policy.tenants,
        skill_from=policy.rules.skill_from,
        methods=frozenset((agent.other_paths or whole.other_paths).methods),
        depth=whole.limits.depth,
    )
    modern = bool(shown) and all(d.version is Version.V1_0 for d in shown)
    drains = agent.abandoned_streams
    return View(policy, surface, cards, drains == "drain" if drains else not modern)


def fronting_of(agent: config.Agent) -> Fronting:
    """How the card of `agent` is rewritten."""
    return Fronting(agent.upstream, agent.public_url, _shown(agent), agent.card.signatures)


class Agents:
    """Every guarded agent, the longest mount first."""

    def __init__(self, agents: Sequence[GuardedAgent]) -> None:
        self._agents = sorted(agents, key=lambda agent: len(agent.mount), reverse=True)
        # Where JSON-RPC is asked for: read once. Only paths that name nothing of anybody's may be remembered.
        self._roots = {
            root: self._find(read_target(root))
            for agent in self._agents
            for root in ("/" + "/".join(map(quote, agent.mount)),)
        }
        self._stack = AsyncExitStack()

    def __iter__(self) -> Iterator[GuardedAgent]:
        return iter(self._agents)

    def at(self, target: str) -> tuple[GuardedAgent, Target]:
        """The agent a request target as sent is for, and the target below its mount. Raises Refused."""
        return self._roots.get(target) or self._find(read_target(target))

    def _find(self, target: Target) -> tuple[GuardedAgent, Target]:
        for agent in self._agents:
            rest = below(target, agent.mount)
            if rest is not None:
                return agent, rest
        raise Refused(Reason.AGENT_NOT_FOUND)

    async def __aenter__(self) -> Agents:
        """Raises ValueError: what is wrong with the files of an agent's `tls`, or with its `authorization_file`."""
        async with AsyncExitStack() as entered:
            for agent in self._agents:
                await entered.enter_async_context(agent.onward)
                await entered.enter_async_context(agent.upstream)
                entered.push_async_callback(agent.cards.close)
            self._stack = entered.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()


def public_card(head: Head, target: Target, view: View) -> Reply | None:
    """The reply to a request for the public card, None for any other request. Raises Refused while there is none to serve."""
    if target.path not in WELL_KNOWN or head.method not in ("GET", "HEAD"):
        names = {segment.casefold() for segment in target.segments[-2:]}
        if names & _CARD_NAMES:  # an agent may serve its card there, with addresses nobody rewrote
            raise Refused(Reason.UNKNOWN_PATH)
        return None
    if view.cards is None:
        raise Refused(Reason.CARD_UNAVAILABLE)
    served = view.cards.serve(head.headers.get("A2A-Version"))
    headers = CIMultiDict(
        {"Content-Type": "application/json", "Cache-Control": "no-cache", "ETag": served.tag}
    )
    if view.cards.varies:
        headers["Vary"] = "A2A-Version"
    tags = {tag.strip().removeprefix("W/") for tag in head.headers.get("If-None-Match", "").split(",")}
    if served.tag in tags or "*" in tags:
        return Reply(304, headers)
    return Reply(200, headers, served.body)


def _dialects(agent: config.Agent) -> frozenset[Dialect] | None:
    if agent.dialects is None:
        return None
    by_name = {str(dialect): dialect for dialect in KNOWN_DIALECTS}
    return frozenset(by_name[name] for name in agent.dialects)


def _shown(agent: config.Agent) -> frozenset[Dialect] | None:
    """Which interfaces stay on the card. Agents that speak 0.1 say 0.2 or 0.3 there, if anything."""
    listed = _dialects(agent)
    if listed is None or Dialect(Binding.JSONRPC, Version.V0_1) not in listed:
        return listed
    return listed | {Dialect(Binding.JSONRPC, Version.V0_2), Dialect(Binding.JSONRPC, Version.V0_3)}
