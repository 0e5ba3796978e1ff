"""JSON as no honest encoder writes it, made from the requests honest clients send.

Owns: objects with repeated members, respelt members, escaped strings; and every request of every dialect to start from.
Never: sends anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sidecar.model import SENDS
from tests.field_cases.conftest import T_A, T_M
from tests.matrix.requests import ROWS, Names, Request, Row

Path = tuple[str | int, ...]
OPAQUE = frozenset({"metadata", "parts", "content"})  # what is below is nobody's business but the agent's


class Pairs(dict[str, Any]):
    """An object written as the pairs say, repeats included."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def items(self) -> Any:
        return self.pairs


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def objects(value: Any, *, opaque: bool, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every object in a value with the way to it; what is the agent's own business only if `opaque`."""
    if isinstance(value, dict):
        yield path, value
        for name, content in value.items():
            if opaque or name not in OPAQUE:
                yield from objects(content, opaque=opaque, path=(*path, name))
    elif isinstance(value, list):
        for n, content in enumerate(value):
            yield from objects(content, opaque=opaque, path=(*path, n))


def with_object(value: Any, path: Path, change: Callable[[dict[str, Any]], Any]) -> Any:
    """The same value with the object at `path` changed."""
    if not path:
        return change(value)
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        return [with_object(v, rest, change) if n == first else v for n, v in enumerate(value)]
    return {k: with_object(v, rest, change) if k == first else v for k, v in value.items()}


def beside(name: str, other: str, theirs: Any, *, first: bool) -> Callable[[dict[str, Any]], Pairs]:
    """Add a second member `other` next to `name`, before it or after it."""

    def change(value: dict[str, Any]) -> Pairs:
        pairs: list[tuple[str, Any]] = []
        for k, v in value.items():
            mine = [(k, v)]
            if k == name:
                mine = [(other, theirs), (k, v)] if first else [(k, v), (other, theirs)]
            pairs += mine
        return Pairs(pairs)

    return change


def respelt(name: str, other: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda value: {other if k == name else k: v for k, v in value.items()}


def of_alice(value: Any) -> Any:
    """What mallory would put in the second copy: alice's task for her own, another word for any other."""
    if isinstance(value, str):
        return value.replace(T_M, T_A) if T_M in value else value + "x"
    if isinstance(value, dict):
        return {k: of_alice(v) for k, v in value.items()}
    if isinstance(value, list):
        return [of_alice(v) for v in value]
    return value


def escaped(text: str) -> str:
    """A JSON text in which every letter of every string is an escape."""
    out, inside = [], False
    skip = False
    for c in text:
        if skip:
            skip = False
            out.append(c)
        elif c == "\\":
            skip = True
            out.append(c)
        elif c == '"':
            inside = not inside
            out.append(c)
        else:
            out.append(f"\\u{ord(c):04x}" if inside else c)
    return "".join(out)


@dataclass(frozen=True)
class Asking:
    """One request of one dialect that has a body, about mallory's own task in every place that can name one."""

    row: Row

    @property
    def id(self) -> str:
        return f"{self.row.dialect} {self.row.name}"

    def request(self, task: str = T_M) -> Request:
        if self.row.operation in SENDS:
            inline = task if self.row.dialect.version.value != "0.1" else None  # its configs name no task
            return self.row.sending(Names(task, (task,), inline))
        return self.row.anyhow(task)


WITH_BODY = [one for one in map(Asking, ROWS) if one.request().body not in (None, b"{}")]
