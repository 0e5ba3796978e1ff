"""The request target, read once and strictly.

Owns: request target → Target (canonical path, decoded segments, query), and taking off a mount.
Never: knows an operation; normalises what two servers could resolve differently.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes

from sidecar.bindings.methods import is_nearly_a_method, looks_like_a_route
from sidecar.bindings.surface import Target
from sidecar.model import Reason, Refused

_PCHAR: Final = "!$&'()*+,=:@"  # RFC 3986 §3.3 beside the unreserved; `;` is handled apart
_PLAIN: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]*")
_VISIBLE: Final = re.compile(r"[!-~]+")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SEPARATING: Final = "/\\.:;?#\x00"  # what a second decoding must not bring to light


_MOST_ESCAPES: Final = 3  # rounds of decoding anybody could want; each costs the length of the path


def read_target(target: str) -> Target:
    """Read the target of an HTTP/1.1 request line (RFC 9112 §3.2), origin-form only.

    Each segment is decoded once and encoded again with pchar kept, so `/%74asks/T%3Acancel`
    becomes `/tasks/T:cancel`. A trailing slash stays, as an empty last segment.
    Raises Refused(BAD_PATH) for what servers are known to read in different ways.
    """
    if not target.startswith("/"):
        raise _bad("the request target is not in origin form")
    if not _VISIBLE.fullmatch(target):
        raise _bad("the request target holds bytes that must be percent-encoded")
    path, _, query = target.partition("?")
    if "#" in target:
        raise _bad("the request target has a fragment")
    if "\\" in path:
        raise _bad("the path holds a backslash")
    raw = path[1:].split("/")
    if _PLAIN.fullmatch(path):
        segments, canonical = tuple(raw), path
    else:
        segments = tuple(_decoded(segment) for segment in raw)
        canonical = "".join("/" + _encoded(s, r) for s, r in zip(segments, raw, strict=True))
        _check_compatible_forms("/".join(segments))
    _check_segments(segments)
    return Target(canonical, segments, _pairs(query), query)


def below(target: Target, mount: tuple[str, ...]) -> Target | None:
    """The rest of `target` below the decoded segments of a mount, None if it is not under it.

    A request for the mount itself, without a slash, has the empty path: appended to the
    upstream's path it names that path and no other.
    """
    depth = len(mount)
    if not depth:
        return target
    if target.segments[:depth] != mount:
        return None
    at = 0
    for _ in range(depth):
        at = target.path.find("/", at + 1)
    rest = target.path[at:] if at >= 0 else ""
    return Target(rest, target.segments[depth:], target.query, target.raw_query)


def _decoded(segment: str) -> str:
    if _BAD_ESCAPE.search(segment):
        raise _bad("the path holds a broken percent escape")
    try:
        decoded = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise _bad("the path is not UTF-8 after decoding") from None
    if "/" in decoded or "\\" in decoded or _CONTROL.search(decoded):
        raise _bad("the path holds an escaped separator or control character")
    if "%" in decoded:
        _check_second_decoding(decoded)
    return decoded


def _check_second_decoding(decoded: str) -> None:
    again = decoded
    for _ in range(_MOST_ESCAPES):
        last, again = again, unquote(again)
        if again == last:
            break
    else:
        raise _bad("the path is escaped over and over")
    if any(again.count(c) != decoded.count(c) for c in _SEPARATING):
        raise _bad("the path holds a doubly escaped separator")
    if looks_like_a_route([again]) or is_nearly_a_method(again) or again.casefold() in ("v1", "card"):
        raise _bad("the path holds a doubly escaped word of A2A")


def _encoded(decoded: str, raw: str) -> str:
    """Canonical form; an escaped `;` stays escaped, since some servers cut parameters at a bare one."""
    if ";" not in decoded:
        return quote(decoded, safe=_PCHAR)
    if ";" in raw and "%3b" in raw.lower():
        raise _bad("the path holds `;` both bare and escaped")
    return quote(decoded, safe=_PCHAR + ";" if ";" in raw else _PCHAR)


def _check_segments(segments: tuple[str, ...]) -> None:
    if "" in segments[:-1]:
        raise _bad("the path has an empty segment")
    if "." in segments or ".." in segments:
        raise _bad("the path has a dot segment")
    if any(";" in segment for segment in segments):
        if any(segment.partition(";")[0].strip() in ("", ".", "..") for segment in segments if segment):
            raise _bad("the path has a dot segment with parameters")
        if looks_like_a_route(segments):
            raise _bad("the path has parameters")


def _check_compatible_forms(path: str) -> None:
    """A slash in full width is one to whoever normalises (Unicode NFKC) before routing."""
    normal = unicodedata.normalize("NFKC", path).replace("\\", "/")
    if normal.count("/") != path.count("/") and looks_like_a_route(normal.split("/")):
        raise _bad("the path has a separator in a compatibility form")


def _pairs(query: str) -> tuple[tuple[str, str], ...]:
    # Bytes that are no UTF-8 become U+FFFD here: other APIs may have them, A2A routes refuse them.
    return tuple(parse_qsl(query, keep_blank_values=True)) if query else ()


def has_bad_escape(query: str) -> bool:
    """Whether a raw query holds a `%` that starts no escape; servers keep, drop or refuse it."""
    return _BAD_ESCAPE.search(query) is not None


def _bad(detail: str) -> Refused:
    return Refused(Reason.BAD_PATH, detail)
