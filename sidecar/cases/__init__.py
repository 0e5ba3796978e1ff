"""Policies and their cases, checked without a network: what `a2a-sidecar check` does.

Owns: which files are policies and which are cases, running all of them, and the exit code.
Never: layers one policy over another, asks a network, a ledger or a clock, prints.

The line: find → load each policy → read each case file (`document`) → run its cases (`judge`) → Report, told by `report`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.cases.document import Case, CaseFile
from sidecar.cases.judge import Result, Standing, identity_of, judge, stand_in
from sidecar.config import Config, PolicyError, Problem, load, read_document

CASES: Final = "cases"  # what lies in a folder of this name is a case file

GOOD, CASE_FAILED, WRONG_FILE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CheckedPolicy:
    """One policy file on its own. `config` is None where it has problems."""

    file: str
    config: Config | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedCases:
    """One case file. `results` is empty where the file or its policy has problems."""

    file: str
    policy: str
    problems: tuple[Problem, ...] = ()
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found. `problems` are those of no file: a path that leads nowhere."""

    problems: tuple[Problem, ...] = ()
    policies: tuple[CheckedPolicy, ...] = ()
    cases: tuple[CheckedCases, ...] = ()

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for checked in self.cases for result in checked.results)

    @property
    def wrong(self) -> int:
        """How many files or paths have problems."""
        found = [checked.problems for checked in self.policies] + [checked.problems for checked in self.cases]
        return len(self.problems) + sum(map(bool, found))

    @property
    def failed(self) -> int:
        """How many cases were decided otherwise than expected."""
        return sum(not result.good for result in self.results)

    @property
    def exit_code(self) -> int:
        if self.wrong:
            return WRONG_FILE
        return CASE_FAILED if self.failed else GOOD


def check(paths: Sequence[Path]) -> Report:
    """Check files and folders: of a folder every `*.yaml` is a policy and every `cases/*.yaml` below it is run.

    Never raises for what a file holds, or for one that cannot be read.
    """
    problems: list[Problem] = []
    policies: dict[str, CheckedPolicy] = {}
    files: list[str] = []
    for path in paths:
        found = [os.path.normpath(file) for file in _files(path)]
        if not found:
            problems.append(_nothing_at(path))
        files += found
    for file in files:
        if not _holds_cases(file):
            _policy(file, policies)
    case_files = [file for file in dict.fromkeys(files) if _holds_cases(file)]
    checked = tuple(_run(file, policies) for file in case_files)
    return Report(tuple(problems), tuple(policies.values()), checked)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        below = sorted(file for file in path.rglob("*.yaml") if file.parent.name == CASES)
        return [file for file in sorted(path.glob("*.yaml")) if file not in below] + below
    return [path] if path.is_file() else []


def _holds_cases(file: str) -> bool:
    return Path(file).resolve().parent.name == CASES


def _nothing_at(path: Path) -> Problem:
    message = "the folder holds no `*.yaml` file" if path.is_dir() else "there is no such file or folder"
    return Problem(str(path), 1, "", message)


def _policy(file: str, known: dict[str, CheckedPolicy]) -> CheckedPolicy:
    if file not in known:
        try:
            config = load([Path(file)])
            identity_of(config)  # the start would stop at what it refuses
            known[file] = CheckedPolicy(file, config)
        except PolicyError as error:
            known[file] = CheckedPolicy(file, None, error.problems)
        except ValueError as error:
            told = tuple(Problem(file, 1, "identity", line) for line in str(error).splitlines())
            known[file] = CheckedPolicy(file, None, told)
    return known[file]


def _run(file: str, policies: dict[str, CheckedPolicy]) -> CheckedCases:
    document = read_document(Path(file), CaseFile)
    if document.content is None:
        return CheckedCases(file, "", document.problems)
    content = document.content
    named = os.path.normpath(Path(file).parent / content.policy)
    if not Path(named).is_file():
        message = f"there is no file `{named}`; write the policy's path relative to this file's folder"
        return CheckedCases(file, named, (document.problem(message, "policy"),))
    policy = _policy(named, policies)
    if policy.config is None:
        return CheckedCases(
            file, named, (document.problem(f"`{named}` has problems; no case was run", "policy"),)
        )
    standing, problems = stand_in(policy.config, document)
    if standing is None:
        return CheckedCases(file, named, problems)
    lines = (document.line("cases", index) for index in range(len(content.cases)))
    return CheckedCases(file, named, (), asyncio.run(_judged(content.cases, standing, lines)))


async def _judged(cases: Sequence[Case], standing: Standing, lines: Iterable[int]) -> tuple[Result, ...]:
    return tuple([await judge(case, standing, line) for case, line in zip(cases, lines, strict=True)])
