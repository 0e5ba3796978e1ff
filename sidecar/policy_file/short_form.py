"""One agent, written short.

Owns: turning `upstream, public_url, name, issuer, audience` at the top level into `agents` and `identity.issuers`,
and calling a key by the name its author wrote.
Never: lets a short key and its long form stand side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar.policy_file.tree import Items, Key, Mark, Node, Problem, Scalar, Table

AGENT_KEYS: Final[tuple[str, ...]] = ("name", "upstream", "public_url")
ISSUER_KEYS: Final[tuple[str, ...]] = ("issuer", "audience")
SHORT_KEYS: Final = AGENT_KEYS + ISSUER_KEYS
DEFAULT_NAME: Final = "agent"

# How a key of the long form is called where the document was written in the short one.
_SHORT_FOR: Final[Mapping[Key, Key]] = {
    ("agents", 0): (),
    ("identity", "issuers", 0, "audiences", 0): ("audience",),
    ("identity", "issuers", 0, "audiences"): ("audience",),
    ("identity", "issuers", 0): (),
}


def expanded(document: Table) -> tuple[Table, frozenset[str], list[Problem]]:
    """The document in its long form, the top-level keys that were expanded, and what was written in both forms."""
    rest = {key: node for key, node in document.entries.items() if key not in SHORT_KEYS}
    keys = dict(document.keys)
    identity = rest.get("identity", Table(document.mark))
    problems: list[Problem] = []
    short: set[str] = set()
    if agent := _given(document, AGENT_KEYS):
        if "agents" in rest:
            problems += _mixed(document, agent, "agents")
        else:
            rest["agents"], keys["agents"] = _long_agent(document, agent)
            short.add("agents")
    if (issuer := _given(document, ISSUER_KEYS)) and isinstance(identity, Table):
        if "issuers" in identity.entries:
            problems += _mixed(document, issuer, "identity.issuers")
        else:
            rest["identity"], mark = _long_identity(document, identity, issuer)
            keys.setdefault("identity", mark)
            short.add("identity")
    return Table(document.mark, rest, keys), frozenset(short), problems


def as_written(key: Key, short: frozenset[str]) -> Key:
    """What the author of the document calls `key`."""
    if key and key[0] in short:
        for long, written in _SHORT_FOR.items():
            if key[: len(long)] == long:
                return written + key[len(long) :]
    return key


def _given(document: Table, names: tuple[str, ...]) -> dict[str, Node]:
    return {name: document.entries[name] for name in names if name in document.entries}


def _long_agent(document: Table, agent: Mapping[str, Node]) -> tuple[Items, Mark]:
    mark = document.keys[next(iter(agent))]
    entries = {"name": Scalar(mark, DEFAULT_NAME, DEFAULT_NAME), **agent}
    return Items(mark, (Table(mark, entries, {"name": mark, **document.keys}),)), mark


def _long_identity(document: Table, identity: Table, issuer: Mapping[str, Node]) -> tuple[Table, Mark]:
    mark = document.keys[next(iter(issuer))]
    entries = {name: node for name, node in issuer.items() if name == "issuer"}
    keys = dict(document.keys)
    if audience := issuer.get("audience"):
        entries["audiences"] = Items(audience.mark, (audience,))
        keys["audiences"] = document.keys["audience"]
    issuers = Items(mark, (Table(mark, entries, keys),))
    return Table(
        identity.mark, {**identity.entries, "issuers": issuers}, {**identity.keys, "issuers": mark}
    ), mark


def _mixed(document: Table, given: Mapping[str, Node], long: str) -> list[Problem]:
    message = f"is the short form of `{long}`, which is given too; keep one of them"
    return [Problem(document.keys[name].file, document.keys[name].line, name, message) for name in given]
