"""JSON as text, so that it may say what no dict can.

Owns: Object and Array, whose names and scalars are the JSON text they are written as, and writing them out.
Never: knows A2A.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(slots=True)
class Array:
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Object:
    """Members in order. A name is JSON text with its quotes, and may come twice."""

    members: list[tuple[str, Node]] = field(default_factory=list)


Node: TypeAlias = Object | Array | str  # a str is the text of a scalar


@dataclass(frozen=True, slots=True)
class Found:
    """An object within a document. `opaque`: below a member that is the caller's own business."""

    object: Object
    opaque: bool


def parsed(value: Any) -> Node:
    """A plain value as a document."""
    if isinstance(value, dict):
        return Object([(quoted(name), parsed(content)) for name, content in value.items()])
    if isinstance(value, list):
        return Array([parsed(item) for item in value])
    return json.dumps(value, ensure_ascii=False)


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def written(node: Node, gap: str = "") -> str:
    """The text, with `gap` wherever JSON allows white space."""
    if isinstance(node, str):
        return node
    if isinstance(node, Array):
        inner = f"{gap},{gap}".join(written(item, gap) for item in node.items)
        return f"[{gap}{inner}{gap}]"
    pairs = (f"{name}{gap}:{gap}{written(content, gap)}" for name, content in node.members)
    return "{" + gap + f"{gap},{gap}".join(pairs) + gap + "}"


def objects(node: Node, opaque_names: frozenset[str], *, opaque: bool = False) -> Iterator[Found]:
    """Every object, outermost first."""
    if isinstance(node, Object):
        yield Found(node, opaque)
        for name, content in node.members:
            yield from objects(content, opaque_names, opaque=opaque or name in opaque_names)
    elif isinstance(node, Array):
        for item in node.items:
            yield from objects(item, opaque_names, opaque=opaque)
