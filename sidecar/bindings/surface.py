"""What decoding must know of one agent.

Owns: Surface, computed when policy or card changes, and Target, a request target read once.
Never: anything per call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sidecar.model import Dialect


class Target(NamedTuple):
    """A request target after one strict reading.

    `path` is canonical and still percent-encoded (what is forwarded), `segments` are decoded
    once, `query` holds decoded pairs in order, `raw_query` the query as sent (without `?`).
    """

    path: str
    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    raw_query: str = ""

    @property
    def full(self) -> str:
        """Path and query, as forwarded."""
        return f"{self.path}?{self.raw_query}" if self.raw_query else self.path


@dataclass(frozen=True, slots=True)
class Surface:
    """`rest_bases` are decoded path segments below the mount under which HTTP+JSON routes live,
    e.g. `((), ("rest",))`; `tenants` those a path may start with after (or, a2a-sdk 1.x, before) a base;
    `skill_from` is `scopes.skill_from` in order; `methods` is `other_paths.methods`."""

    dialects: frozenset[Dialect]
    rest_bases: tuple[tuple[str, ...], ...] = ((),)
    tenants: frozenset[str] = frozenset()
    skill_from: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()
    depth: int = 100
