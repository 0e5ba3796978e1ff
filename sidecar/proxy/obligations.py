"""Carrying out what a permit obliges us to do.

Owns: the way of one permitted call to the agent and of its reply back: record owner, keep owned, rewrite card.
Never: decides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing

from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.extended import card_in, with_card
from sidecar.bindings.own_requests import cancel_request
from sidecar.bindings.refusals import encode_refusal
from sidecar.bindings.replies import LongReply, Seen, Shape, Unclear, read_failed_stream, read_reply
from sidecar.model import (
    SENDS,
    STREAMS,
    Call,
    Exchange,
    Operation,
    Other,
    Permit,
    Reason,
    Refusal,
    Refused,
    Reply,
    Watch,
)
from sidecar.policy.scopes import Needs
from sidecar.proxy import headers
from sidecar.proxy.agents import GuardedAgent, View
from sidecar.proxy.body import Body, inflate
from sidecar.proxy.deps import Deps
from sidecar.proxy.listing import Listing
from sidecar.proxy.onward import TokenRefused
from sidecar.proxy.stream import WatchedStream
from sidecar.proxy.tunnel import PROTOCOL, open_tunnel
from sidecar.proxy.upstream import UpstreamReply
from sidecar.proxy.watch import Watcher

# The agent's own not-found is put into our form where the task was named (design §2.6).
_MASKED = SENDS | {Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK}

_EVENT_STREAM = "text/event-stream"


class Carrier:
    """One permitted call on its way."""

    def __init__(
        self, permit: Permit, exchange: Exchange, body: Body, agent: GuardedAgent, view: View, deps: Deps
    ) -> None:
        self._permit = permit
        self._exchange = exchange
        self._body = body
        self._agent = agent
        self._view = view
        self._deps = deps

    async def carry_out(self) -> Reply:
        """Forward the call and answer with what may be released. Raises Refused, LedgerUnavailable."""
        if isinstance(self._permit.call, Other) and self._permit.call.upgrade:
            return await self._upgrade()
        if self._permit.watch is Watch.PASS:
            return self._pass(
                await self._forward(self._body.whole if self._body.rest is None else self._body.rest)
            )
        if self._permit.watch is Watch.LIST:
            return await Listing(self._permit, self._exchange, self._agent, self._view, self._deps).answer()
        if self._permit.watch is not Watch.RECORD and self._permit.webhooks is None:
            return await self._watched()
        # What must be recorded of a reply is waited for, also where the caller does not.
        assert self._permit.who is not None
        owner = self._permit.who.owner
        if self._deps.settling.full(owner):
            raise Refused(Reason.OVERLOADED, internal="limits.settling reached")
        return await self._deps.settling.see_through(self._watched(), owner)

    async def _upgrade(self) -> Reply:
        head = self._exchange.head
        offered = [value.strip().lower() for value in head.headers.getall("Upgrade", ())]
        if head.method != "GET" or offered != [PROTOCOL]:
            raise Refused(Reason.UPGRADE_REFUSED, "only WebSocket may be switched to")
        tunnel, got = await open_tunnel(
            self._agent.upstream_url,
            self._permit,
            self._sent(),
            self._deps.limits,
            self._agent.upstream.tls_options(),
            self._require_accepted,
        )
        out = headers.to_downstream(CIMultiDictProxy(got), self._agent.upstream_url, self._agent.public_url)
        out.update({"Connection": "Upgrade", "Upgrade": PROTOCOL})
        return Reply(101, out, tunnel=tunnel)

    async def _watched(self) -> Reply:
        watcher = Watcher(
            self._permit, self._view.policy, self._deps, self._exchange.id, self._abandon, self._needs
        )
        if self._permit.reserve or self._permit.webhooks is not None:
            await watcher.reserve()
        try:
            reply = await self._forward(self._body.whole)
        except Refused as refused:
            # Nothing was sent, or nothing came of it.
            if refused.refusal.reason is Reason.AGENT_UNAVAILABLE or isinstance(refused, TokenRefused):
                await watcher.unreserve()
            raise
        if _media_type(reply) == _EVENT_STREAM and reply.status < 300:
            return self._stream(reply, watcher)
        return await self._unary(reply, watcher)

    def _sent(self) -> CIMultiDict[str]:
        return self._agent.onward.forwarded(
            self._exchange.head.headers,
            self._permit.who,
            plain_reply=self._permit.watch is not Watch.PASS,
            inflated=self._body.inflated,
        )

    async def _forward(self, body: bytes | AsyncIterator[bytes] | None) -> UpstreamReply:
        head, sent = self._exchange.head, self._sent()
        if isinstance(body, AsyncIterator) and "Content-Length" in head.headers:
            sent["Content-Length"] = head.headers["Content-Length"]
        # Nobody has read the body of what is no A2A. An agent that does not either could take it for its next request.
        unread = isinstance(self._permit.call, Other) and not self._permit.call.listed_method
        reply = await self._agent.upstream.forward(
            self._permit, head.method, sent, body or None, last=unread and bool(body)
        )
        try:
            self._require_accepted(reply.status, reply.headers)
        except TokenRefused:
            reply.close()
            raise
        return reply

    def _require_accepted(self, status: int, got: Mapping[str, str]) -> None:
        self._agent.onward.require_accepted(self._permit.who, status, got)

    def _down(self, reply: UpstreamReply) -> CIMultiDict[str]:
        return headers.to_downstream(reply.headers, self._agent.upstream_url, self._agent.public_url)

    def _pass(self, reply: UpstreamReply) -> Reply:
        return Reply(reply.status, self._down(reply), reply, reply.length)

    def _stream(self, reply: UpstreamReply, watcher: Watcher) -> Reply:
        streams = watcher.call.operation in SENDS | STREAMS and not _coding(reply.headers)
        if not streams and self._permit.enforcing:
            reply.close()
            raise Refused(Reason.REPLY_UNREADABLE, internal="an event stream where none can be read")
        stream = WatchedStream(
            reply,
            watcher,
            self._deps.settling,
            self._deps.draining,
            limit=self._deps.limits.event,
            drains=self._view.drains_streams and watcher.call.operation is Operation.SUBSCRIBE_TO_TASK,
            decision_id=self._exchange.id,
        )
        return Reply(reply.status, self._down(reply), stream)

    async def _unary(self, reply: UpstreamReply, watcher: Watcher) -> Reply:
        raw = await self._read(reply, watcher)
        seen = self._seen(reply, raw, watcher)
        if seen.shape is Shape.ERROR or reply.status >= 300:
            await watcher.unreserve()
            if seen.not_found and self._masks(watcher.call):
                watcher.gone()
                return encode_refusal(Refusal(Reason.NOT_FOUND), watcher.call.form, self._exchange.id)
        else:
            await watcher.admit(seen)
            if self._permit.watch is Watch.RECORD and seen.shape not in (
                Shape.TASK,
                Shape.MESSAGE,
                Shape.STATUS,
            ):
                watcher.note("reply_unreadable", "neither task nor message")
                if self._permit.enforcing:
                    raise Refused(
                        Reason.REPLY_UNREADABLE, internal="a send answered with neither task nor message"
                    )
        out = self._down(reply)
        if self._permit.watch is Watch.CARD and seen.shape is not Shape.ERROR:
            raw = self._rewritten(raw, out)
        # A reply to HEAD or a 204 keeps the length the agent declared.
        return Reply(reply.status, out, raw)

    async def _read(self, reply: UpstreamReply, watcher: Watcher) -> bytes:
        limit = self._deps.limits.reply
        if (whole := reply.arrived(limit)) is not None:
            return whole
        parts: list[bytes] = []
        size = 0
        async with aclosing(reply):
            async for chunk in reply:
                parts.append(chunk)
                size += len(chunk)
                if size > limit:
                    await self._read_long(reply, parts, watcher)
        return b"".join(parts) if len(parts) != 1 else parts[0]

    async def _read_long(self, reply: UpstreamReply, parts: list[bytes], watcher: Watcher) -> None:
        """Past the limit only the ids are looked for, so that the task still gets its owner. Always raises."""
        if self._permit.watch is Watch.RECORD and reply.status < 300 and not _coding(reply.headers):
            scan = LongReply(reply.status, watcher.call)
            try:
                for part in parts:
                    scan.feed(part)
                parts.clear()
                async for chunk in reply:
                    scan.feed(chunk)
                await watcher.admit(scan.close())
            except Unclear as problem:
                watcher.note("reply_unreadable", str(problem))
        raise Refused(Reason.REPLY_TOO_LARGE)

    def _seen(self, reply: UpstreamReply, raw: bytes, watcher: Watcher) -> Seen:
        coding = _coding(reply.headers)
        try:
            plain = inflate(raw, coding, self._deps.limits.reply) if coding else raw
            if _media_type(reply) == _EVENT_STREAM:
                return read_failed_stream(plain, watcher.call)
            return read_reply(plain, reply.status, watcher.call)
        except (Unclear, Refused) as problem:
            if not self._permit.enforcing:
                return Seen(Shape.ERROR if reply.status >= 300 else Shape.NOTHING)
            watcher.note("reply_unreadable", str(problem))
            raise Refused(Reason.REPLY_UNREADABLE, internal=str(problem)) from None

    def _masks(self, call: Call) -> bool:
        return self._permit.enforcing and call.task_id is not None and call.operation in _MASKED

    def _rewritten(self, raw: bytes, out: CIMultiDict[str]) -> bytes:
        assert isinstance(self._permit.call, Call)
        if coding := out.popall("Content-Encoding", None):
            raw = inflate(raw, ",".join(coding).strip().lower(), self._deps.limits.reply)
        card = card_in(raw, self._permit.call.dialect)
        if card is None:
            return raw
        rewritten = self._agent.cards.rewrite(card)
        if rewritten is card:
            return raw
        for name in ("ETag", "Last-Modified", "Content-MD5", "Digest"):
            out.popall(name, None)
        return with_card(raw, rewritten, self._permit.call.dialect)

    async def _needs(self) -> Needs | None:
        """What a task of this caller needs, their extended card included (design §4). Raises Refused."""
        call, who, policy = self._permit.call, self._permit.who, self._view.policy
        assert isinstance(call, Call)
        assert who is not None
        if not policy.offers_extended_card or who.scopes is None:
            return policy.needs
        own = await self._agent.needs_with_extended(call, who, self._exchange.head, self._view)
        return own or policy.needs

    def _abandon(self, task_id: str) -> None:
        """Nobody can be given this new task: ask the agent to cancel it, on the side (design §2.3)."""
        self._deps.background.start(self._cancel(task_id))

    async def _cancel(self, task_id: str) -> None:
        assert isinstance(self._permit.call, Call)
        request = cancel_request(self._permit.call, task_id)
        sent = self._agent.onward.own_request(self._exchange.head.headers, self._permit.who, request.headers)
        limits = self._deps.limits
        try:
            status, got, _ = await self._agent.upstream.ask(
                request.method,
                request.target,
                sent,
                request.body,
                limit=limits.reply,
                timeout=limits.connect_timeout * 4,
            )
            self._require_accepted(status, got)
        except Refused as refused:
            outcome, detail = "cancel_failed", refused.refusal.reason.value
        else:
            outcome, detail = ("cancel_asked", str(status))
        self._deps.audit.outcome(self._exchange.id, self._agent.name, outcome, detail, task=task_id)


def _media_type(reply: UpstreamReply) -> str:
    return reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _coding(got: CIMultiDictProxy[str]) -> str:
    if "Content-Encoding" not in got:
        return ""
    coding = ",".join(got.getall("Content-Encoding")).strip().lower()
    return "" if coding == "identity" else coding
