"""A policy document as a tree that knows its lines.

Owns: the nodes, where each was written, how a key is named in a message, and laying one tree over another.
Never: reads a file, or knows a key of the policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

MAX_TEXT: Final = 600  # characters of one problem; a value may be as long as the file

Key: TypeAlias = tuple[str | int, ...]


class Odd(Enum):
    """Values no field accepts."""

    UNCLEAR = "reads as something else than it looks"
    SPOILED = "a problem with it has been told already"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Where something is written. Lines count from 1."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct: where, under which key, what is wrong and what to write instead."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}: {f'{self.key}: ' if self.key else ''}{self.message}"
        one_line = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
        return one_line if len(one_line) <= MAX_TEXT else f"{one_line[:MAX_TEXT]}…"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `seems` says what YAML takes an unquoted text for; empty for a string."""

    mark: Mark
    text: str
    value: str | int | bool | Odd
    seems: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    mark: Mark
    items: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping. `keys` has the mark of every key."""

    mark: Mark
    entries: Mapping[str, Node] = field(default_factory=dict)
    keys: Mapping[str, Mark] = field(default_factory=dict)


Node: TypeAlias = Scalar | Items | Table


def dotted(key: Key) -> str:
    """`("agents", 0, "card")` as `agents[0].card`; a key that is no plain word in brackets and quotes."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def plain(node: Node) -> object:
    """What the node says, as dict, tuple, str, int, bool or Odd."""
    if isinstance(node, Table):
        return {key: plain(value) for key, value in node.entries.items()}
    if isinstance(node, Items):
        return tuple(plain(item) for item in node.items)
    return node.value


def layered(under: Table, over: Table) -> Table:
    """`over` on top of `under`: mappings are merged key by key, lists and single values replaced."""
    entries = dict(under.entries)
    for key, value in over.entries.items():
        below = entries.get(key)
        entries[key] = (
            layered(below, value) if isinstance(below, Table) and isinstance(value, Table) else value
        )
    return Table(over.mark, entries, {**under.keys, **over.keys})


def node_at(root: Table, key: Key) -> Node | None:
    """What is written at `key`, None where nothing is."""
    node: Node | None = root
    for part in key:
        if isinstance(node, Table):
            node = node.entries.get(str(part))
        elif isinstance(node, Items) and isinstance(part, int):
            node = node.items[part]
        else:
            return None
    return node


def at(root: Table, *key: str | int, default: Any = None) -> Any:
    """The plain value at `key`."""
    node = node_at(root, key)
    return default if node is None else plain(node)


def items(root: Table, *key: str | int) -> tuple[Any, ...]:
    """The plain list at `key`, empty where there is none."""
    value = at(root, *key)
    return value if isinstance(value, tuple) else ()
