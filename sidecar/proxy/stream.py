"""A reply that is an event stream.

Owns: releasing each event only once it was admitted, in order and unchanged; what becomes of a stream whose caller left.
Never: buffers beyond one event, adds or drops a byte of what is released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from sidecar.bindings.refusals import NOT_FOUND_REASONS, encode_refusal, stream_failure
from sidecar.bindings.replies import Seen, Unclear, read_event
from sidecar.bindings.sse import EventTooLarge, SseEvent, SseParser, is_event_stream
from sidecar.model import Reason, Refused
from sidecar.proxy.tasks import Settling
from sidecar.proxy.upstream import UpstreamReply
from sidecar.proxy.watch import Watcher


class WatchedStream:
    """Iterate over what may be released. Close it when the caller leaves; what must go on goes on by itself."""

    def __init__(
        self,
        reply: UpstreamReply,
        watcher: Watcher,
        settling: Settling,
        draining: Settling,
        *,
        limit: int,
        drains: bool,
        decision_id: str,
    ) -> None:
        self._reply = reply
        self._watcher = watcher
        self._settling = settling
        self._draining = draining
        self._parser = SseParser(limit)
        self._pending: deque[SseEvent] = deque()
        self._drains = drains
        self._id = decision_id
        self._ended = False
        self._failure: Refused | None = None
        self._masks = watcher.call.task_id is not None and watcher.permit.enforcing
        self._first = True
        self._untouched = True  # no block was released yet
        self._last = b""  # what the agent left without a closing blank line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes that may be released. Raises Refused if the agent broke off (the caller must see that)."""
        while not self._ended:
            try:
                released = await self._next()
            except Refused as refused:
                return self._fail(refused)
            if released:
                return released
        if self._last:
            last, self._last = self._last, b""
            return last
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """The caller has left, or all is sent."""
        if self._ended:
            return
        owner = self._watcher.who.owner
        if not self._watcher.settled:
            self._settling.adopt(self._drain(), owner)
            return
        if self._drains and not self._draining.full(owner):
            self._draining.adopt(self._drain(), owner)
            return
        self._ended = True
        await self._watcher.unreserve()
        self._reply.close()

    async def _next(self) -> bytes:
        if self._failure is not None:
            raise self._failure
        if not self._pending:
            await self._read()
        released = b""
        while self._pending:
            event = self._pending[0]  # taken off once admitted: whoever goes on after a cancellation finds it
            if event.data is not None and released and not self._watcher.settled:
                return released  # comments do not wait until an owner is recorded
            try:
                self._check_lines(event.raw)
                if event.data is not None:
                    await self._admit(event.data)
            except Refused as refused:
                self._failure = refused
                if released:
                    return released  # what came before is the caller's
                raise
            self._untouched = False
            self._pending.popleft()
            released += event.raw
        return released

    async def _read(self) -> None:
        chunk = await self._reply.chunk()
        if not chunk:
            await self._finish()
            return
        try:
            self._pending.extend(self._parser.feed(chunk))
        except EventTooLarge:
            raise Refused(Reason.REPLY_TOO_LARGE, internal="one event of the stream is too large") from None

    async def _finish(self) -> None:
        """The agent ended the stream; what stands without its blank line must still be a whole event."""
        rest = self._parser.close()
        self._check_lines(rest)
        for event in SseParser(len(rest) + 2).feed(rest + b"\n\n") if rest.strip() else ():
            if event.data is None:
                continue
            try:
                await self._admit(event.data)
            except Refused as refused:
                raise Refused(
                    Reason.AGENT_FAILED, internal=f"ended within an event: {refused.refusal.reason.value}"
                ) from None
        self._ended = True
        self._reply.close()
        await self._watcher.unreserve()
        self._last = rest

    def _check_lines(self, raw: bytes) -> None:
        if self._watcher.permit.enforcing and not is_event_stream(raw, first=self._untouched):
            raise Refused(Reason.REPLY_UNREADABLE, internal="a line that is none of an event stream")

    async def _admit(self, data: bytes) -> None:
        try:
            seen: Seen = read_event(data, self._watcher.call)
        except Unclear as problem:
            if self._watcher.permit.enforcing:
                raise Refused(Reason.REPLY_UNREADABLE, internal=str(problem)) from None
            return
        if self._first and self._masks and seen.not_found:
            self._watcher.gone()
            raise Refused(Reason.NOT_FOUND)
        await self._watcher.admit(seen)
        self._first = False

    def _fail(self, refused: Refused) -> bytes:
        """End the stream with an error the caller can read; a broken connection shows as one."""
        self._ended = True
        self._reply.close()
        if refused.refusal.reason is Reason.AGENT_FAILED:
            self._watcher.note("stream_broken", refused.refusal.internal)
            raise refused
        form = self._watcher.call.form
        if refused.refusal.reason in NOT_FOUND_REASONS and form.sse:
            body = encode_refusal(refused.refusal, form, self._id).body
            assert isinstance(body, bytes)
            return body
        return stream_failure(refused.refusal, form, self._id)

    async def _drain(self) -> None:
        """Read on without a caller: to the end where leaving would harm the agent, else until the owner is recorded."""
        try:
            while not self._ended and (self._drains or not self._watcher.settled):
                await self._next()
        except Refused as refused:
            self._watcher.note("settling_failed", refused.refusal.reason.value)
        finally:
            self._ended = True
            self._reply.close()
        if not self._watcher.settled:
            await self._watcher.unreserve()
