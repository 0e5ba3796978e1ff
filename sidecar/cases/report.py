"""A Report as lines for people, and as one JSON document for programs.

Owns: how files, cases and decisions are worded.
Never: checks anything, writes anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sidecar.cases import CheckedCases, CheckedPolicy, Report
from sidecar.cases.document import NOTHING, Case, Expectation
from sidecar.cases.judge import Outcome, Result
from sidecar.config import Problem, effective, to_yaml
from sidecar.model import Divergence


def lines(report: Report) -> Iterator[str]:
    """One line a file, one a case, under a case that failed what was expected, decided and why; a summary."""
    yield from map(str, report.problems)
    for policy in report.policies:
        yield f"{policy.file}: {_state(policy.problems)}"
        yield from (f"  {problem}" for problem in policy.problems)
    for checked in report.cases:
        yield f"{checked.file}: {_state(checked.problems) if checked.problems else f'under {checked.policy}'}"
        yield from (f"  {problem}" for problem in checked.problems)
        for result in checked.results:
            yield from _case(checked, result)
    yield _summary(report)


def document(report: Report, *, expand: bool) -> dict[str, Any]:
    """The same as plain mappings and lists; with `expand` every good policy written out in full."""
    return {
        "good": report.exit_code == 0,
        "exit_code": report.exit_code,
        "problems": [_problem(problem) for problem in report.problems],
        "policies": [_policy(policy, expand) for policy in report.policies],
        "case_files": [
            {
                "file": checked.file,
                "policy": checked.policy,
                "problems": [_problem(problem) for problem in checked.problems],
                "cases": [_result(result) for result in checked.results],
            }
            for checked in report.cases
        ],
    }


def expansions(report: Report) -> Iterator[str]:
    """Every good policy written out as a YAML document that loads as the same policy."""
    for policy in report.policies:
        if policy.config is not None:
            yield f"---\n# {policy.file} ({policy.config.hash})\n{to_yaml(effective(policy.config))}"


# --- for people ----------------------------------------------------------------------------------


def _state(problems: tuple[Problem, ...]) -> str:
    return _count(len(problems), "problem") if problems else "ok"


def _summary(report: Report) -> str:
    run = len(report.results)
    said = f"{_count(len(report.policies), 'policy', 'policies')}, {_count(run, 'case')}"
    found = [_count(report.failed, "case failed", "cases failed")] if report.failed else []
    if report.wrong:
        found.append(f"{_count(report.wrong, 'file')} with problems")
    return f"{said}: {', '.join(found) or 'all good'}"


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or f'{one}s'}"


def _case(checked: CheckedCases, result: Result) -> Iterator[str]:
    if result.good:
        yield f"  ✓ {result.case.name}"
        return
    yield f"  ✗ {result.case.name}"
    yield f"      {checked.file}:{result.line}"
    yield f"      expected: {_expected(result.case)}"
    yield f"      decided:  {_decided(result.outcome)}"
    yield from (f"      {line}" for line in _why(result.outcome))


def _expected(case: Case) -> str:
    expect = case.expect
    if isinstance(expect, str):
        return expect
    parts = {
        "observed": expect.observed,
        "missing": None if expect.missing is None else _listed(expect.missing),
        "skill": None if expect.skill is None else f'"{expect.skill}"',
    }
    return _joined(expect.decision, expect.reason or "", parts)


def _decided(outcome: Outcome) -> str:
    divergence = outcome.divergence
    parts = {
        "observed": outcome.observed or None,
        "missing": _listed(divergence.missing) if divergence else None,
        "skill": f'"{outcome.skill}"' if outcome.skill else None,
    }
    return _joined(outcome.decision, outcome.reason, parts)


def _joined(decision: str, reason: str, parts: dict[str, str | None]) -> str:
    said = [f"{name} {value}" for name, value in parts.items() if value is not None]
    return ", ".join([f"{decision} {reason}".strip(), *said])


def _why(outcome: Outcome) -> Iterator[str]:
    if outcome.operation:
        yield f"read as:  {outcome.operation} ({outcome.dialect})"
    if outcome.divergence:
        yield f"scopes:   needs {_listed(outcome.divergence.required)}; holds {_listed(outcome.divergence.held)}"
    if outcome.divergence and outcome.divergence.needed_lifetime:
        needed, left = outcome.divergence.needed_lifetime, outcome.divergence.remaining_lifetime
        yield f"lifetime: needs {needed:.0f}s; {left:.0f}s left"
    if outcome.chosen_by:
        yield f"skill:    {outcome.chosen_by}"
    for said in dict.fromkeys(filter(None, (outcome.detail, outcome.internal))):
        yield f"because:  {_printable(said)}"


def _listed(scopes: Iterable[str]) -> str:
    return " ".join(sorted(scopes)) or NOTHING


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


# --- for programs --------------------------------------------------------------------------------


def _problem(problem: Problem) -> dict[str, Any]:
    return {"file": problem.file, "line": problem.line, "key": problem.key, "message": problem.message}


def _policy(policy: CheckedPolicy, expand: bool) -> dict[str, Any]:
    config = policy.config
    told: dict[str, Any] = {
        "file": policy.file,
        "hash": config.hash if config else None,
        "problems": [_problem(problem) for problem in policy.problems],
    }
    if expand and config is not None:
        told["effective"] = effective(config)
    return told


def _result(result: Result) -> dict[str, Any]:
    expect = result.case.expect
    return {
        "name": result.case.name,
        "line": result.line,
        "good": result.good,
        "expected": _expectation(expect) if isinstance(expect, Expectation) else expect,
        "decided": _outcome(result.outcome),
    }


def _expectation(expect: Expectation) -> dict[str, Any]:
    return {name: value for name, value in expect.model_dump().items() if value is not None}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "decision": outcome.decision,
        "reason": outcome.reason or None,
        "observed": outcome.observed or None,
        "operation": outcome.operation or None,
        "dialect": outcome.dialect or None,
        "skill": outcome.skill,
        "chosen_by": outcome.chosen_by,
        **_divergence(outcome.divergence),
        "detail": outcome.detail,
        "internal": outcome.internal,
    }


def _divergence(divergence: Divergence | None) -> dict[str, Any]:
    names = ("required", "held", "missing")
    return {name: sorted(getattr(divergence, name)) if divergence else None for name in names}
