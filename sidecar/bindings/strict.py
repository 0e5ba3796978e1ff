"""Strict reading of JSON: what two parsers could read differently is refused.

Owns: bytes → JSON value, and known members of an object → their canonical names.
Never: knows an operation, changes or repairs what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import jiter
from multidict import CIMultiDictProxy

from sidecar.model import Reason, Refused


class Body(Enum):
    """A body without a JSON object or array in it."""

    NONE = "none"  # absent, or nothing but JSON white space
    OPAQUE = "opaque"  # bytes that cannot be read as an object or an array


_BLANK: Final = b" \t\n\r"
# What a lenient reader may skip or drop before the first brace: controls, byte order marks of UTF-8,
# UTF-16 and UTF-32, no-break and zero-width spaces. JSON allows none of them but `_BLANK`.
_SKIPPED: Final = bytes(range(0x21)) + b"\x7f\x85\xa0\xc2\xe2\x80\x8b\xef\xbb\xbf\xfe\xff"

# Charsets in which the bytes of a JSON body mean what UTF-8 says they mean.
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
# Charsets in which `{` and `[` are the ASCII bytes, so that the first byte tells JSON apart.
# utf-7 is none of them: body-parser of Express decodes it.
_ASCII_BASED: Final = ("iso-8859-", "iso8859-", "windows-125", "cp125", "latin1", "latin-1", "koi8-")
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]*)")

# A number can be infinite only with an exponent of three digits or a mantissa of two hundred: looked
# for in the raw bytes with every digit a 0, since a search is many times faster than walking the value.
_LONG: Final = b"0" * 200
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")


def _may_overflow(body: bytes) -> bool:
    shape = body.translate(_DIGITS)
    return b"e000" in shape or b"e+000" in shape or _LONG in shape


def read_document(headers: CIMultiDictProxy[str], body: bytes | None, depth: int) -> Any | Body:
    """A request body as a JSON value, or a Body.

    `body` is None where the proxy streams it; then the framing headers tell whether there is one.
    Raises Refused(UNPARSABLE) for whatever starts like an object or an array and is not strict
    JSON in UTF-8 within `depth`, and for a charset that hides the first byte.
    """
    if body is None:
        if "Transfer-Encoding" not in headers and headers.get("Content-Length", "0").strip() == "0":
            return Body.NONE
        _check_charset(headers, json=False)
        return Body.OPAQUE
    if body[:1] in (b"{", b"["):
        return _parse(headers, body, depth)
    if not body.strip(_BLANK):
        return Body.NONE
    if body.lstrip(_SKIPPED)[:1] in (b"{", b"["):
        return _parse(headers, body, depth)
    _check_charset(headers, json=False)
    return Body.OPAQUE


def _parse(headers: CIMultiDictProxy[str], body: bytes, depth: int) -> Any:
    _check_charset(headers, json=True)
    try:
        # Only member names are cached: values are the caller's own business.
        value = jiter.from_json(body, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="keys")
    except ValueError:
        raise Refused(
            Reason.UNPARSABLE, "the body is not strict JSON in UTF-8 (or names a member twice)"
        ) from None
    numbers = _may_overflow(body)
    if numbers or body.count(b"{") + body.count(b"[") > depth:
        _check_values(value, depth, numbers=numbers)
    return value


def _check_charset(headers: CIMultiDictProxy[str], *, json: bool) -> None:
    for value in headers.getall("Content-Type", ()):
        lowered = value.lower()
        if "charset" not in lowered:
            continue
        named = _CHARSET.findall(lowered)
        known = all(n in _UTF8 or (not json and n.startswith(_ASCII_BASED)) for n in named)
        if not known or len(named) != lowered.count("charset"):
            raise Refused(Reason.UNPARSABLE, "`Content-Type` names a charset other than UTF-8")


def _check_values(value: Any, depth: int, *, numbers: bool) -> None:
    level = [value]
    for _ in range(depth):
        below: list[Any] = []
        for node in level:
            members = node.values() if type(node) is dict else node
            for member in members:
                if type(member) is dict or type(member) is list:
                    below.append(member)
                elif numbers and type(member) is float and not isfinite(member):
                    raise Refused(Reason.UNPARSABLE, "the body holds a number too large for a double")
        if not below:
            return
        level = below
    raise Refused(Reason.UNPARSABLE, f"the body is nested more than {depth} levels deep")


# --- members -----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """A member name as the most lenient parser would match it.

    Go's decoder ignores case by Unicode simple folding (`ſ` is s, `K` is k), which `casefold`
    includes; others turn snake_case and kebab-case into camelCase. A leading underscore is kept:
    it marks names of somebody else.
    """
    if len(name) > _LONGEST_NAME:
        return name  # no spelling of a name of ours is so long, and folding costs the length
    folded = name.casefold()
    return folded if folded.startswith("_") else folded.translate(_SEPARATORS)


# JavaScript that copies an object with this member reads in it what the object itself does not have.
PROTOTYPE: Final = "__proto__"
_LONGEST_NAME: Final = 128
MOST_MEMBERS: Final = 1000  # of one protocol object; metadata and data are not counted

_SEPARATORS: Final = str.maketrans("", "", "_- \t\n\r\x00")
_SEPARATORS_IN_LINES: Final = str.maketrans("", "", "_- \t\r\x00")


def words_of(names: Iterable[str]) -> set[str]:
    """Every name of a large object, folded at once; a name with a line end in it counts as several."""
    return set("\n".join(names).casefold().translate(_SEPARATORS_IN_LINES).split("\n"))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The members one kind of protocol object may have: every accepted spelling → canonical name."""

    spellings: Mapping[str, str]
    folded: frozenset[str]


def vocabulary(*names: str, also: Mapping[str, str] | None = None) -> Vocabulary:
    """Members by their camelCase names; the snake_case ones are ProtoJSON's (1.0 §5.5)."""
    spellings = {spelt: name for name in names for spelt in (name, _snake(name))} | dict(also or {})
    return Vocabulary(spellings, frozenset(fold(name) for name in spellings))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def members(
    value: Mapping[str, Any], known: Vocabulary, where: str, reason: Reason = Reason.INVALID_PARAMS
) -> dict[str, Any]:
    """The known members of an object by canonical name; unknown ones are left alone.

    Raises Refused(reason) for two spellings of one member, for a member in a spelling that only a
    lenient parser would match, and for a prototype.
    """
    if len(value) > MOST_MEMBERS:
        raise Refused(reason, f"`{where}` has more than {MOST_MEMBERS} members")
    found: dict[str, Any] = {}
    spellings = known.spellings
    for spelt, content in value.items():
        name = spellings.get(spelt)
        if name is None:
            if fold(spelt) in known.folded:
                raise Refused(reason, f"a member of `{where}` is a known name in a wrong spelling")
            if spelt == PROTOTYPE:
                raise Refused(reason, f"`{where}` has a prototype")
        elif name in found:
            raise Refused(reason, f"`{where}.{name}` is given in two spellings")
        else:
            found[name] = content
    return found
