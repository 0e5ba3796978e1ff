"""The audit record: complete, without secrets, and never in the way."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

import pytest

from sidecar.model import Form, Miss, Operation, Other, Permit, Reason, Refusal, Unreadable, Watch
from sidecar.observe.audit import Audit
from tests.builders import JSONRPC_1, a_call, a_principal

CALL = a_call(task="t-1")
PERMIT = Permit(CALL, a_principal(), Watch.KEEP)


def told(out: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def audited(*decisions: tuple[Any, Any, Any], capacity: int = 100) -> list[dict[str, Any]]:
    out = io.BytesIO()
    audit = Audit(out, capacity, now=lambda: 5.0)
    for number, (call, who, made) in enumerate(decisions):
        audit.decision(f"id-{number}", "review", "hash", call, who, made)
    audit.close()
    return told(out)


NOBODY = Refusal(Reason.UNAUTHENTICATED, internal="expired")


@pytest.mark.parametrize(
    ("call", "who", "made", "holds"),
    [
        pytest.param(
            CALL, a_principal(), PERMIT,
            {"outcome": "permitted", "operation": "get", "dialect": "JSONRPC/1.0", "task": "t-1", "policy": "hash",
             "presented_by": "planner", "issuer": "https://idp.test", "decision_id": "id-0"},
            id="a permit",
        ),
        pytest.param(
            CALL, a_principal(), Refusal(Reason.NOT_FOUND, internal="task not the caller's"),
            {"outcome": "refused", "reason": "not_found", "internal": "task not the caller's"},
            id="a refusal",
        ),
        pytest.param(CALL, NOBODY, NOBODY, {"reason": "unauthenticated", "internal": "expired"}, id="a stranger"),
        pytest.param(
            Unreadable(Form(JSONRPC_1), "/", Reason.UNPARSABLE, "no JSON"), a_principal(), Refusal(Reason.UNPARSABLE),
            {"reason": "unparsable", "operation": None}, id="what could not be read",
        ),
        pytest.param(
            Other(Form(), "/x", "/x"), a_principal(), Permit(Other(Form(), "/x", "/x"), None, Watch.PASS),
            {"operation": "other", "dialect": None}, id="what is no A2A",
        ),
        pytest.param(
            a_call(Operation.SEND_MESSAGE), a_principal(),
            Permit(CALL, a_principal(), Watch.RECORD, skill="review", chosen_by="the only skill of the card"),
            {"skill": "review", "chosen_by": "the only skill of the card"}, id="which skill, and by which rule",
        ),
        pytest.param(
            CALL, a_principal(), Permit(CALL, a_principal(), Watch.KEEP, observed=Refusal(Reason.NOT_FOUND)),
            {"outcome": "permitted", "observed": {"reason": "not_found"}}, id="what observing let pass",
        ),
    ],
)  # fmt: skip
def test_one_record_a_decision(call: Any, who: Any, made: Any, holds: dict[str, Any]) -> None:
    (record,) = audited((call, who, made))
    assert {key: record[key] for key in holds} == holds


def test_the_subject_is_named_by_its_pseudonym_only() -> None:
    (record,) = audited((CALL, a_principal(), PERMIT))
    assert "alice" not in json.dumps(record)


class Stuck(io.BytesIO):
    """An output that takes nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.gate = threading.Event(), threading.Event()

    def write(self, data: Any) -> int:
        self.reached.set()
        self.gate.wait(10)
        return super().write(data)


def test_under_pressure_permits_go_first_refusals_last_and_the_gap_is_told() -> None:
    out = Stuck()
    audit = Audit(out, 10, now=lambda: 5.0)
    audit.decision("first", "review", "hash", CALL, a_principal(), PERMIT)
    assert out.reached.wait(10)  # the writer is stuck with the first; the buffer is empty
    for n in range(20):
        audit.decision(f"p-{n}", "review", "hash", CALL, a_principal(), PERMIT)
    for n in range(5):
        audit.decision(f"r-{n}", "review", "hash", CALL, a_principal(), Refusal(Reason.NOT_FOUND))
    out.gate.set()
    audit.close()
    records = told(out)
    kept = [r["decision_id"] for r in records if r["event"] == "decision"]
    assert kept == ["first", *(f"p-{n}" for n in range(8)), "r-0", "r-1"]
    assert [(r["permits"], r["refusals"]) for r in records if r["event"] == "gap"] == [(12, 3)]


def test_an_output_that_fails_stalls_nobody() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError("no space left")

    audit = Audit(Full(), 10, now=lambda: 5.0)
    audit.decision("x", "review", "hash", CALL, a_principal(), PERMIT)
    audit.miss("x", Miss.FOREIGN)
    audit.outcome("x", "review", "recorded")
    audit.failure("y", "review", Refusal(Reason.BAD_PATH))
    audit.close()


def test_disabled_keeps_nothing() -> None:
    audit = Audit(None, 10, now=lambda: 5.0)
    audit.decision("x", "review", "hash", CALL, a_principal(), PERMIT)
    audit.miss("x", Miss.ABSENT)
    audit.close()
