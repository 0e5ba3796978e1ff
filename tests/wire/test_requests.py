"""Requests of the specification and of real clients, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.decode import decode
from sidecar.bindings.dialect import DIALECTS
from sidecar.bindings.surface import Surface
from sidecar.bindings.target import read_target
from sidecar.model import Call, Head, Other, Refused, Unreadable

HERE = Path(__file__).parent / "requests"
EVERYTHING = Surface(
    dialects=frozenset(DIALECTS.values()),
    rest_bases=((), ("rest",)),
    tenants=frozenset({"acme"}),
    skill_from=("metadata:skillId", "header:A2A-Skill"),
)


def spec_cases() -> Iterator[Any]:
    for case in json.loads((HERE / "spec.json").read_text()):
        body = b"" if case["body"] is None else json.dumps(case["body"]).encode()
        yield pytest.param(case, body, id=f"{case['name']} decodes as the specification means it")


@pytest.mark.parametrize(("case", "body"), list(spec_cases()))
def test_every_operation_of_the_specification(case: dict[str, Any], body: bytes) -> None:
    head = Head(case["method"], case["target"], CIMultiDictProxy(CIMultiDict(case["headers"])))
    expected = case["expect"]
    alone = replace(EVERYTHING, dialects=frozenset({DIALECTS[expected["dialect"]]}))
    call = decode(head, read_target(head.target), body, alone)
    assert isinstance(call, Call)
    assert call.operation == expected["operation"]
    assert str(call.dialect) == expected["dialect"]
    assert call.form.dialect == call.dialect
    assert call.target == case["target"]
    assert call.task_id == expected.get("task")
    assert call.context_id == expected.get("context")
    assert list(call.references) == expected.get("references", [])
    assert call.tenant == expected.get("tenant")
    assert [[p.url, list(p.header_values)] for p in call.push] == expected.get("push", [])
    assert call.form.sse == expected.get("sse", False)
    assert call.form.media_type == expected.get("media_type", "application/json")
    envelope = case["body"] if "jsonrpc" in (case["body"] or {}) else {}
    assert call.form.rpc_id == envelope.get("id")


def recorded_cases() -> Iterator[Any]:
    for name in ("recorded.jsonl", "hostile.jsonl"):
        for line in (HERE / name).read_text().splitlines():
            case = json.loads(line)
            yield pytest.param(case, id=f"{case['from']}: {case['name']}")


def outcome_of(case: dict[str, Any]) -> str:
    """What decoding makes of a recorded request, on one line."""
    head = Head(case["method"], case["target"], CIMultiDictProxy(CIMultiDict(case["headers"])))
    try:
        target = read_target(head.target)
    except Refused as refused:
        return refused.refusal.reason.value
    decoded = decode(head, target, case["body"].encode("latin-1"), EVERYTHING)
    match decoded:
        case Call():
            named = {
                "task": decoded.task_id,
                "context": decoded.context_id,
                "references": ",".join(decoded.references),
                "push": ",".join(p.url for p in decoded.push),
                "tenant": decoded.tenant,
                "sse": "yes" if decoded.form.sse else "",
            }
            told = "".join(f" {name}={value}" for name, value in named.items() if value)
            return f"{decoded.operation} {decoded.dialect}{told}"
        case Unreadable():
            return f"{decoded.reason.value} {decoded.form.dialect}"
        case Other():
            return "preflight" if decoded.preflight else "other"


@pytest.mark.parametrize("case", list(recorded_cases()))
def test_recorded_requests(case: dict[str, Any]) -> None:
    assert outcome_of(case) == case["outcome"]
