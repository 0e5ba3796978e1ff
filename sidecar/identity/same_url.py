"""Whether two spellings are one URL.

Owns: the normalisation a DPoP proof's `htu` is compared by (RFC 9449 §4.3; RFC 3986 §6.2.2, §6.2.3).
Never: guesses. What is not plainly the same is another URL: no dot segments, names of hosts or user parts are resolved.
"""

from __future__ import annotations

import re
from typing import Final

from sidecar.config import DEFAULT_PORTS

_URL: Final = re.compile(r"(https?)://([^/?#]+)([^?#]*)(?:\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]*))?")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")  # RFC 3986 §2.3


def comparable(url: str) -> str | None:
    """`url` in its one spelling, without query and fragment; None for what is no plain web address."""
    parts = _URL.fullmatch(url) if _VISIBLE.fullmatch(url) else None
    authority = _AUTHORITY.fullmatch(parts[2].lower()) if parts else None
    if parts is None or authority is None:
        return None
    scheme, host, port = parts[1].lower(), authority[1], authority[2] or ""
    if any(found[1] is None for found in _ESCAPE.finditer(parts[3])):
        return None
    path = _ESCAPE.sub(_unescaped, parts[3]) or "/"
    named = f":{port}" if port and port != str(DEFAULT_PORTS[scheme]) else ""
    return f"{scheme}://{host}{named}{path}"


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if _UNRESERVED.fullmatch(character) else escape[0].upper()
