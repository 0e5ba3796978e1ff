"""Strict YAML → tree.

Owns: reading one policy file, and what YAML may and may not do in it.
Never: knows a key of the policy, runs a tag, opens another file, replaces a `${VAR}`.

The tree is built from parser events, not by a constructor: no tag is ever carried out, an anchor is seen before
it can be expanded, both copies of a duplicate key are seen, and a scalar keeps its spelling next to its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from sidecar.policy_file.tree import Items, Key, Mark, Node, Odd, Problem, Scalar, Table, dotted

MAX_BYTES: Final = 2**20
MAX_DEPTH: Final = 32


def read(path: Path) -> tuple[Table | None, list[Problem]]:
    """One policy file as a tree, and every problem with its YAML. None where it cannot be read at all."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return None, [Problem(file, 1, "", f"cannot be read: {error.strerror or error}")]
    if len(data) > MAX_BYTES:
        return None, [Problem(file, 1, "", "is larger than 1 MiB; no policy needs that much")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return None, [Problem(file, line, "", "is not UTF-8; save the file in that encoding")]
    return _Composer(file).compose(text)


class _Stop(Exception):
    """The rest of the file cannot be made sense of."""


class _Composer:
    """One reading of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.events: Iterator[yaml.Event] = iter(())

    def compose(self, text: str) -> tuple[Table | None, list[Problem]]:
        self.events = yaml.parse(text, Loader=yaml.CSafeLoader)
        try:
            root = self._document()
        except _Stop:
            root = None
        except yaml.reader.ReaderError as error:
            line = text.encode().count(b"\n", 0, error.position) + 1
            self._tell(Mark(self.file, line), (), "holds a control character, which YAML does not allow")
            root = None
        except yaml.MarkedYAMLError as error:
            self._tell_syntax(error, text)
            root = None
        return root, self.problems

    def _document(self) -> Table:
        next(self.events)  # the stream's start
        start = next(self.events)
        if not isinstance(start, yaml.DocumentStartEvent):
            self._tell(
                Mark(self.file, 1),
                (),
                "is empty; write at least `version: 1`, `upstream`, `public_url`, `issuer` and `audience`",
            )
            raise _Stop
        if start.version or start.tags:
            self._tell(self._mark(start), (), "`%` directives are not allowed; remove the line")
        root = self._node(next(self.events), ())
        next(self.events)  # the document's end
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._tell(
                self._mark(after),
                (),
                "a second document starts here; write one document a file, and name several files to layer them",
            )
            raise _Stop
        if not isinstance(root, Table):
            self._tell(
                root.mark, (), "a policy is a mapping; write `key: value` lines, beginning with `version: 1`"
            )
            raise _Stop
        return root

    def _node(self, event: yaml.Event, key: Key) -> Node:
        mark = self._mark(event)
        if isinstance(event, yaml.AliasEvent):
            return self._spoiled(
                mark, key, f"aliases (`*{event.anchor}`) are not allowed; write the value out"
            )
        refused = self._refused_properties(event)
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(mark, event.value, Odd.SPOILED) if refused else self._scalar(event, mark, key)
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._table(mark, key)
        else:
            node = self._list(mark, key)
        return self._spoiled(mark, key, refused) if refused else node

    @staticmethod
    def _refused_properties(event: yaml.Event) -> str:
        if tag := getattr(event, "tag", None):
            return f"tags (`{tag.replace('tag:yaml.org,2002:', '!!')}`) are not allowed; write the plain value, a string in quotes"
        if anchor := getattr(event, "anchor", None):
            return f"anchors (`&{anchor}`) are not allowed; write the value out where it is needed"
        return ""

    def _list(self, mark: Mark, key: Key) -> Items:
        self._check_depth(mark, key)
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*key, len(items))))
        return Items(mark, tuple(items))

    def _table(self, mark: Mark, key: Key) -> Table:
        self._check_depth(mark, key)
        entries: dict[str, Node] = {}
        keys: dict[str, Mark] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            at = self._mark(event)
            name = self._key(event, at, key)
            if name is None:
                self._skip(key)
                continue
            value = self._node(next(self.events), (*key, name))
            if name in entries:
                self._tell(
                    at, (*key, name), f"is written twice, first in line {keys[name].line}; keep one of them"
                )
                continue
            entries[name], keys[name] = value, at
        return Table(mark, entries, keys)

    def _key(self, event: yaml.Event, mark: Mark, key: Key) -> str | None:
        """The key's name; None where a problem was told and the value is to be skipped."""
        if not isinstance(event, yaml.ScalarEvent):
            self._unread(event, (*key, "?"))
            self._tell(
                mark,
                key,
                "a key must be a plain word, not a list, mapping or alias (`{{ }}` templates are not replaced)",
            )
            return None
        if refused := self._refused_properties(event):
            self._tell(mark, key, f"in a key, {refused}")
            return None
        seems = _seems(event)
        if seems == "a merge key":
            self._tell(mark, key, "merge keys (`<<`) are not allowed; write the keys out")
            return None
        if seems:
            self._tell(
                mark, key, f'the key `{event.value}` reads as {seems} in YAML; write `"{event.value}"`'
            )
            return None
        return event.value

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark, key: Key) -> Scalar:
        text, seems = event.value, _seems(event)
        if seems == "nothing":
            return self._spoiled(mark, key, "has no value; write one, or remove the key for the default")
        if not seems and "${" in text:
            return self._spoiled(mark, key, "`${…}` is not replaced by anything; write the value itself")
        return Scalar(mark, text, _value(text, seems), seems)

    def _skip(self, key: Key) -> None:
        self._unread(next(self.events), key)

    def _unread(self, event: yaml.Event, key: Key) -> None:
        """Pass over a node whose problem is told by whoever calls."""
        before = len(self.problems)
        self._node(event, key)
        del self.problems[before:]

    def _check_depth(self, mark: Mark, key: Key) -> None:
        if len(key) > MAX_DEPTH:
            self._tell(mark, key[:3], f"is nested deeper than {MAX_DEPTH} levels")
            raise _Stop

    def _spoiled(self, mark: Mark, key: Key, message: str) -> Scalar:
        self._tell(mark, key, message)
        return Scalar(mark, "", Odd.SPOILED)

    def _tell(self, mark: Mark, key: Key, message: str) -> None:
        self.problems.append(Problem(mark.file, mark.line, dotted(key), message))

    def _tell_syntax(self, error: yaml.MarkedYAMLError, text: str) -> None:
        lines = text.splitlines()
        at = error.problem_mark.line if error.problem_mark else 0
        message = f"is no YAML: {error.problem or error.context or 'cannot be parsed'}"
        if at < len(lines) and re.match(r"\s*\t", lines[at]):
            message = "is indented with a tab; indent with blanks"
        self._tell(Mark(self.file, max(1, min(at + 1, len(lines)))), (), message)

    def _mark(self, event: yaml.Event) -> Mark:
        return Mark(self.file, event.start_mark.line + 1 if event.start_mark else 1)


# --- what an unquoted text means ---------------------------------------------------------------

_SEEMS: Final[Mapping[str, str]] = {
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
    "timestamp": "a date",
    "merge": "a merge key",
    "value": "a default value",
}
# YAML 1.2 (§10.3.2) and 1.1 differ; what either takes for no string is none here, so that no
# other tool that reads or writes the file can disagree with us.
_SEEMS_IN_OTHER_READERS: Final = (
    (re.compile(r"[yYnN]"), "a boolean"),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+"), "a number"),
)
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_RESOLVER: Final = yaml.resolver.Resolver()


def _seems(event: yaml.ScalarEvent) -> str:
    """What YAML takes the scalar for; empty for a string."""
    if not event.implicit[0]:
        return ""  # quoted, or a block
    tag = str(_RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False)))  # type: ignore[no-untyped-call]
    if seems := _SEEMS.get(tag.removeprefix("tag:yaml.org,2002:"), ""):
        return seems
    return next((seems for form, seems in _SEEMS_IN_OTHER_READERS if form.fullmatch(event.value)), "")


def _value(text: str, seems: str) -> str | int | bool | Odd:
    if not seems:
        return text
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if seems == "a number" and _WHOLE.fullmatch(text) else Odd.UNCLEAR
