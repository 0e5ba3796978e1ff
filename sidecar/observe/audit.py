"""The audit record of every decision, and of what came of it.

Owns: the record's form, and getting it out without ever delaying a reply (design §2.9).
Never: influences a decision, sees a token or a body.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

import orjson

from sidecar.model import Call, Decoded, Miss, Other, Permit, Principal, Refusal

# Permits may fill this share of the buffer; the rest is kept for refusals.
_PERMIT_SHARE = 0.8


class Audit:
    """Buffered records, written by a thread of their own. With no `out`, nothing is kept."""

    def __init__(self, out: BinaryIO | None, capacity: int, now: Callable[[], float]) -> None:
        self._out = out
        self._now = now
        self._capacity = capacity
        self._lines: deque[bytes] = deque()
        self._dropped_permits = 0
        self._dropped_refusals = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._write, name="audit", daemon=True)
        if out is not None:
            self._thread.start()

    def decision(
        self,
        id_: str,
        agent: str,
        policy_hash: str,
        call: Decoded,
        who: Principal | Refusal,
        made: Permit | Refusal,
    ) -> None:
        """One record a decision, handed over before the call goes on."""
        if self._out is None:
            return
        record: dict[str, object] = {
            "event": "decision",
            "time": self._now(),
            "decision_id": id_,
            "agent": agent,
            "policy": policy_hash,
            "outcome": "refused" if isinstance(made, Refusal) else "permitted",
            "operation": _operation(call),
            "dialect": str(call.form.dialect) if call.form.dialect else None,
        }
        if isinstance(call, Call):
            record["task"] = call.task_id
        if isinstance(who, Principal):
            record |= {"issuer": who.owner.issuer, "tenant": who.owner.tenant, "subject": who.pseudonym}
            record |= (
                {"presented_by": who.presented_by, "actors": who.actors}
                if who.presented_by or who.actors
                else {}
            )
        if isinstance(made, Refusal):
            record |= _told(made)
        else:
            record |= {"skill": made.skill, "chosen_by": made.chosen_by} if made.chosen_by else {}
            record |= {"observed": _told(made.observed)} if made.observed else {}
        self._add(record, refusal=isinstance(made, Refusal) or made.observed is not None)

    def outcome(self, id_: str, agent: str, what: str, detail: str = "", **more: object) -> None:
        """What came of a permitted call: recorded, collision, failure. Same decision id."""
        record = {
            "event": "outcome",
            "time": self._now(),
            "decision_id": id_,
            "agent": agent,
            "outcome": what,
        }
        self._add(record | ({"detail": detail} if detail else {}) | more, refusal=what != "recorded")

    def miss(self, id_: str, cause: Miss) -> None:
        """Why something was not found; written after the reply has left."""
        self._add(
            {"event": "miss", "time": self._now(), "decision_id": id_, "cause": cause.value}, refusal=True
        )

    def failure(self, id_: str, agent: str, refusal: Refusal) -> None:
        """A request that was refused outside a decision: unreadable target, no such agent, a fault of ours."""
        record = {
            "event": "decision",
            "time": self._now(),
            "decision_id": id_,
            "agent": agent,
            "outcome": "refused",
        }
        self._add(record | _told(refusal), refusal=True)

    def close(self) -> None:
        """Write what is buffered and stop."""
        self._closing = True
        self._wake.set()
        if self._out is not None:
            self._thread.join(timeout=5.0)

    def _add(self, record: dict[str, object], *, refusal: bool) -> None:
        if self._out is None:
            return
        room = self._capacity if refusal else self._capacity * _PERMIT_SHARE
        if len(self._lines) >= room:
            if refusal:
                self._dropped_refusals += 1
            else:
                self._dropped_permits += 1
            return
        self._lines.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE, default=str))
        if len(self._lines) == 1:
            self._wake.set()

    def _write(self) -> None:
        assert self._out is not None
        while not (self._closing and not self._lines):
            self._wake.wait()
            if not self._closing:
                threading.Event().wait(0.02)  # gather a batch
            self._wake.clear()
            batch = [self._lines.popleft() for _ in range(len(self._lines))]
            if gap := self._gap():
                batch.append(gap)
            try:
                self._out.write(b"".join(batch))
                self._out.flush()
            except OSError:
                self._dropped_refusals += len(batch)  # a full disk or a closed pipe stalls nobody

    def _gap(self) -> bytes | None:
        permits, refusals = self._dropped_permits, self._dropped_refusals
        if not permits and not refusals:
            return None
        self._dropped_permits -= permits
        self._dropped_refusals -= refusals
        gap = {"event": "gap", "time": self._now(), "permits": permits, "refusals": refusals}
        return orjson.dumps(gap, option=orjson.OPT_APPEND_NEWLINE)


def _operation(call: Decoded) -> str | None:
    if isinstance(call, Call):
        return call.operation.value
    return "other" if isinstance(call, Other) else None


def _told(refusal: Refusal) -> dict[str, object]:
    told: dict[str, object] = {"reason": refusal.reason.value}
    if refusal.detail:
        told["detail"] = refusal.detail
    if refusal.internal:
        told["internal"] = refusal.internal
    if refusal.divergence is not None:
        d = refusal.divergence
        told |= {
            "skill": d.skill,
            "chosen_by": d.chosen_by,
            "missing": sorted(d.missing),
            "required": sorted(d.required),
        }
        if d.needed_lifetime:
            told |= {"needed_seconds": d.needed_lifetime, "remaining_seconds": d.remaining_lifetime}
    return told
