"""Strict YAML → any frozen model, with every problem at its place.

Owns: reading what is no policy but stands beside one (case files) by a policy's rules, and the wording of what is wrong.
Never: knows which document it is, or reads a policy (`load` does).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sidecar.policy_file.explain import locate
from sidecar.policy_file.model import Model
from sidecar.policy_file.strict_yaml import read
from sidecar.policy_file.tree import Items, Key, Mark, Node, Odd, Problem, Scalar, Table, dotted, plain

Content = TypeVar("Content", bound=Model)

_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "tuple_type": "a list",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


@dataclass(frozen=True, slots=True)
class Document(Generic[Content]):
    """One file. `content` is None where the file could not be read as its model; `problems` then says why."""

    file: str
    content: Content | None
    problems: tuple[Problem, ...]
    root: Table

    def line(self, *key: str | int) -> int:
        """The line of a key, or of the nearest one above it that is written."""
        return locate(self.root, key)[0].line

    def problem(self, message: str, *key: str | int) -> Problem:
        return Problem(self.file, self.line(*key), dotted(key), message)


def read_document(path: Path, model: type[Content]) -> Document[Content]:
    """`path` as `model`. Booleans and whole numbers are themselves, all else that is no text must be quoted."""
    root, found = read(path)
    problems = list(found)
    if root is None:
        return Document(str(path), None, tuple(problems), Table(Mark(str(path), 1)))
    problems += _unclear(root, ())
    content = None
    try:
        content = model.model_validate(plain(root))
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            mark, key, node = locate(root, detail["loc"])
            if not (isinstance(node, Scalar) and isinstance(node.value, Odd)):  # else told already
                problems.append(_told(detail, mark, key, node, model))
    whole = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))
    return Document(str(path), None if whole else content, whole, root)


def _unclear(node: Node, key: Key) -> Iterator[Problem]:
    """Values that are no text to YAML, and which nothing in such a file may be."""
    if isinstance(node, Table):
        for name, inner in node.entries.items():
            yield from _unclear(inner, (*key, name))
    elif isinstance(node, Items):
        for index, inner in enumerate(node.items):
            yield from _unclear(inner, (*key, index))
    elif node.value is Odd.UNCLEAR:
        message = f'YAML reads `{node.text}` as {node.seems}; write `"{node.text}"` if text is meant'
        yield Problem(node.mark.file, node.mark.line, dotted(key), message)


def _told(error: ErrorDetails, mark: Mark, key: Key, node: Node, model: type[Model]) -> Problem:
    kind, own = error["type"], error.get("ctx", {}).get("error")
    if kind == "missing":
        key, message = (*key, str(error["loc"][-1])), "is missing"
    elif kind == "extra_forbidden":
        message = _unknown_key(str(key[-1]), _model_at(model, key[:-1]))
    elif kind == "too_short":
        message = "must not be empty"
    elif kind == "literal_error":
        message = f"is not known; write {error['ctx']['expected']}".replace("'", "`")
    elif expected := _EXPECTED.get(kind):
        message = f"{expected} is expected, {_instead(node, expected)}"
    else:
        message = str(own) if isinstance(own, Exception) else error["msg"]
    return Problem(mark.file, mark.line, dotted(key), message)


def _unknown_key(name: str, model: type[Model]) -> str:
    known = list(model.model_fields)
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        return f"unknown key; did you mean `{near[0]}`?"
    return f"unknown key; known here: {', '.join(f'`{word}`' for word in known)}"


def _instead(node: Node, expected: str) -> str:
    if not isinstance(node, Scalar):
        return f"not {'a mapping' if isinstance(node, Table) else 'a list'}"
    if expected == "a string":
        return f'and YAML reads `{node.text}` as {node.seems}; write `"{node.text}"`'
    return "not a single value"


def _model_at(model: type[Model], key: Key) -> type[Model]:
    """The model of the mapping at `key`; no field of such a document holds two."""
    for part in key:
        if isinstance(part, str):
            model = next(_models(model.model_fields[part].annotation))
    return model


def _models(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
