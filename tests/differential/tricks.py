"""What a hostile caller does to a document.

Owns: names, spellings and values of which parsers think differently, and the tricks made of them.
Never: knows a valid request; judges one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from tests.differential.documents import Found, Node, Object, parsed, quoted

MINE, THEIRS = "mine", "theirs"
THEIR_HOOK: Final = "https://theirs.example.com/"
OPAQUE: Final = frozenset({'"metadata"', '"data"'})

# --- members that name something -------------------------------------------------------------------

_SCALAR: Final = quoted(THEIRS)
_MESSAGE: Final[dict[str, object]] = {
    "messageId": "m-2",
    "role": "user",
    "parts": [],
    "taskId": THEIRS,
    "contextId": THEIRS,
    "referenceTaskIds": [THEIRS],
}
_CONFIG: Final[dict[str, object]] = {"id": THEIRS, "taskId": THEIRS, "url": THEIR_HOOK}
_NAME: Final = f"tasks/{THEIRS}"
SPECIAL: Final[Mapping[str, object]] = {
    "referenceTaskIds": [THEIRS],
    "message": _MESSAGE,
    "request": _MESSAGE,
    "params": {"id": THEIRS, "taskId": THEIRS, "message": _MESSAGE},
    "configuration": {"pushNotificationConfig": _CONFIG, "taskPushNotificationConfig": _CONFIG},
    "pushNotification": _CONFIG,
    "pushNotificationConfig": _CONFIG,
    "taskPushNotificationConfig": _CONFIG,
    "config": {"name": f"{_NAME}/pushNotificationConfigs/c", "pushNotificationConfig": _CONFIG},
    "authentication": {"schemes": ["Bearer"], "credentials": THEIRS},
    "url": THEIR_HOOK,
    "name": _NAME,
    "parent": _NAME,
    "method": "tasks/cancel",
    "jsonrpc": "2.0",
    "metadata": {"taskId": THEIRS, "task_id": THEIRS, "TASKID": THEIRS},
    "historyLength": 1,
}
PLAIN: Final = ("id", "taskId", "contextId", "sessionId", "tenant", "configId", "pushNotificationConfigId")
NAMES: Final = (*PLAIN, *PLAIN, *SPECIAL)


def theirs(name: str) -> Node:
    """What a hostile caller writes under a name."""
    return parsed(SPECIAL.get(name, THEIRS))


# --- spellings -------------------------------------------------------------------------------------


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def escaped(name: str) -> str:
    """Every letter as an escape: the same name to all parsers."""
    return '"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"'


SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    quoted,
    quoted,
    lambda n: quoted(snake(n)),
    lambda n: quoted(snake(n)),
    escaped,
    lambda n: '"' + f"\\u{ord(n[0]):04x}" + quoted(n)[2:],
    lambda n: quoted(n.upper()),
    lambda n: quoted(n.lower()),
    lambda n: quoted(n[0].upper() + n[1:]),
    lambda n: quoted(snake(n).upper()),
    lambda n: quoted(n.replace("s", "ſ").replace("S", "ſ")),  # Go folds a long s
    lambda n: quoted(n.replace("k", "\u212a").replace("K", "\u212a")),  # and the Kelvin sign
    lambda n: quoted(snake(n).replace("s", "ſ").replace("k", "\u212a")),
    lambda n: quoted(snake(n).replace("_", "-")),
    lambda n: quoted(n + " "),
    lambda n: quoted(" " + n),
    lambda n: quoted("_" + n),
    lambda n: quoted(n + "\x00"),
    lambda n: quoted(n + "\u200b"),
    lambda n: quoted(n.replace("I", "İ").replace("i", "ı")),  # no parser folds these
    lambda n: quoted(n + "[]"),
    lambda n: '"\\\\u' + quoted(n)[1:],  # a backslash, no escape
    lambda n: '"' + n + '\\ud800"',
)
BARE: Final = ("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "$ref", "@type", "")

# Values in the place of an id. Some are the same id written otherwise, some none, some only to a lenient reader.
VALUES: Final = (
    *("null", "0", "1", "-0", "1.0", "true", "false", "[]", "{}", '""', "1e400", "-1e999", "NaN", "Infinity"),
    *("12345678901234567890123", "9007199254740993", f'["{MINE}"]', f'[["{THEIRS}"]]', f'{{"id":"{THEIRS}"}}'),
    *('" mine"', '"mine "', '"mine\\u0000"', '"m\\u0069ne"', '"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"', '"MINE"'),
    *('"mine\\/x"', '"m\u0456ne"', '"\xe9"', '"e\u0301"', '"tasks/theirs"', '"tasks/theirs/x"', '"mine%00"', "'mine'", "mine"),
    # and methods
    *('"vendor/ping"', '"tasks/get"', '" tasks/cancel"', '"tasks\\/get"', '"GetTask"', '"gettask"', '"message/send"'),
)  # fmt: skip

# --- tricks on a document --------------------------------------------------------------------------


_ANY_NAME: Final = st.sampled_from(NAMES)
_ANY_BARE: Final = st.sampled_from(BARE)
_ANY_VALUE: Final = st.sampled_from(VALUES)
_ANY_SPELLING: Final = st.sampled_from(SPELLINGS)
_ANY_HOLDER: Final = st.sampled_from(("params", "message", "request", "configuration", "config", "body", "0"))
ANY_PLACE: Final = st.integers(0, 7)


@dataclass(frozen=True, slots=True)
class Tools:
    """What a trick works with: its choices are hypothesis's, so that they shrink."""

    draw: st.DrawFn

    def place(self, members: list[tuple[str, Node]]) -> int:
        """Where a member may go in."""
        return self.draw(ANY_PLACE) % (len(members) + 1)

    def member(self, members: list[tuple[str, Node]]) -> int:
        """Which of the members."""
        return self.draw(ANY_PLACE) % len(members)

    def spelt(self, name: str) -> str:
        return self.draw(_ANY_SPELLING)(name)


def add(tools: Tools, found: Found) -> None:
    """A known name in some spelling, of this version or another, anywhere among the members."""
    name = tools.draw(_ANY_NAME)
    members = found.object.members
    members.insert(tools.place(members), (tools.spelt(name), theirs(name)))


def twin(tools: Tools, found: Found) -> None:
    """A member once more: before or behind, spelt the same or another way, meaning something else."""
    members = found.object.members
    if members:
        name = json.loads(members[tools.member(members)][0], strict=False)
        spelt = tools.spelt(name) if name.isidentifier() else quoted(name)
        members.insert(tools.place(members), (spelt, theirs(name)))


def respell(tools: Tools, found: Found) -> None:
    """A member in another spelling."""
    members = found.object.members
    if members:
        at = tools.member(members)
        name, content = members[at]
        plain = json.loads(name, strict=False)
        members[at] = (tools.spelt(plain) if plain.isidentifier() else name, content)


def revalue(tools: Tools, found: Found) -> None:
    """Another value."""
    members = found.object.members
    if members:
        at = tools.member(members)
        members[at] = (members[at][0], tools.draw(_ANY_VALUE))


def remove(tools: Tools, found: Found) -> None:
    members = found.object.members
    if members:
        del members[tools.member(members)]


def inherit(tools: Tools, found: Found) -> None:
    """Members that some language gives a meaning of its own."""
    name = tools.draw(_ANY_NAME)
    below = Object([(quoted(name), theirs(name))])
    members = found.object.members
    members.insert(tools.place(members), (quoted(tools.draw(_ANY_BARE)), below))


def nest(tools: Tools, found: Found) -> None:
    """The object inside itself: an envelope in `params`, params in `params`, a message in `message`."""
    name = tools.draw(_ANY_HOLDER)
    members = found.object.members
    members.insert(tools.place(members), (quoted(name), Object([*members])))


def free(tools: Tools, found: Found) -> None:
    """Metadata full of twins: none of it means anything to the protocol."""
    spelt = (quoted, lambda n: quoted(snake(n)), lambda n: quoted(n.upper()))
    inner = Object([(spell(name), _SCALAR) for name in ("taskId", "contextId") for spell in spelt])
    if quoted("metadata") not in (name for name, _ in found.object.members):
        found.object.members.append((quoted("metadata"), Object([(quoted("data"), inner)])))


def extend(tools: Tools, found: Found) -> None:
    """A member nobody knows, which names something inside."""
    members = found.object.members
    members.insert(tools.place(members), (quoted("x-vendor"), parsed({"taskId": THEIRS, "id": THEIRS})))


TRICKS: Final = (add, add, twin, twin, respell, revalue, revalue, remove, inherit, nest, free, free, extend)
