"""Policy files → one checked Config, or one error that lists every problem.

Owns: the order of the steps, and the policy's hash.
Never: lets a document through that has a problem, or stops at the first one.

The line: read (`strict_yaml`) → layer (`tree`) → expand (`short_form`) → validate (`document`), worded by `explain` →
`checks` over several keys → Config.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

import orjson
from pydantic import ValidationError

from sidecar.policy_file.checks import checks
from sidecar.policy_file.document import Config
from sidecar.policy_file.explain import MISSING, document_fields, explain, locate
from sidecar.policy_file.schema import json_schema
from sidecar.policy_file.short_form import as_written, expanded
from sidecar.policy_file.strict_yaml import read
from sidecar.policy_file.tree import Key, Mark, Odd, Problem, Scalar, Table, dotted, layered, plain
from sidecar.policy_file.values import FROM_FILE

__all__ = ["PolicyError", "Problem", "digest", "document_fields", "json_schema", "load"]


class PolicyError(Exception):
    """The policy cannot be used. `str()` lists every problem, one a line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def load(paths: Sequence[Path]) -> Config:
    """The policy that `paths` hold, later files laid over earlier ones.

    Mappings are merged key by key, lists and single values are replaced. Raises PolicyError with every problem of
    every file, also of values a later file replaces.
    """
    read_files = [read(path) for path in paths]
    problems = [problem for _, found in read_files for problem in found]
    layers = [table for table, _ in read_files if table is not None]
    for layer in layers:
        problems += _version(layer)
        problems += _validated(layer, whole=False)[1]
    config = None
    if not paths:
        problems.append(Problem("policy", 1, "", "no policy file is given; name at least one"))
    elif len(layers) == len(paths):  # what an unreadable file would have said is not guessed at
        config, found = _validated(reduce(layered, layers), whole=True)
        problems += found
    if problems or config is None:
        order = {str(path): index for index, path in enumerate(paths)}
        raise PolicyError(sorted(dict.fromkeys(problems), key=lambda p: (order.get(p.file, 0), p.line)))
    return config.model_copy(update={"hash": digest(config)})


def digest(config: Config) -> str:
    """16 hexadecimal digits that name what `config` says, however it was written."""
    said = orjson.dumps(config.model_dump(mode="json", exclude={"hash"}), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(said).hexdigest()[:16]


def _version(layer: Table) -> Iterator[Problem]:
    """Every file states its version: one written for another form must not be laid over this one."""
    node = layer.entries.get("version")
    if node is None:
        yield Problem(layer.mark.file, 1, "version", f"is missing; {MISSING['version']}")
    elif plain(node) not in (1, Odd.SPOILED) or plain(node) is True:
        at, found = layer.keys["version"], f"`{node.text}`" if isinstance(node, Scalar) else "this"
        quoted = " without quotes" if plain(node) == "1" else ""
        message = f"{found} is no version this release reads; write `version: 1`{quoted}"
        yield Problem(at.file, at.line, "version", message)


def _validated(document: Table, *, whole: bool) -> tuple[Config | None, list[Problem]]:
    """The document as Config, and its problems. Of a part, what is missing may be in another file."""
    root, short, mixed = expanded(document)
    problems = list(mixed)

    def tell(mark: Mark, key: Key, message: str) -> None:
        problems.append(Problem(mark.file, mark.line, dotted(as_written(key, short)), message))

    if whole:
        for key, message in checks(root):
            tell(locate(root, key)[0], key, message)
    try:
        return Config.model_validate(plain(root), context=FROM_FILE), problems
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            if detail["loc"] == ("version",) or (detail["type"] == "missing" and not whole):
                continue
            if told := explain(detail, root):
                tell(*told)
    return None, problems
