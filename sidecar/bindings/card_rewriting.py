"""The copy of an agent card that is safe to hand out.

Owns: rewriting interface addresses, dropping interfaces we do not front, the entity tag of what is served.
Never: fetches a card, looks at a request, or touches a URL that is no interface address.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

import jiter
import orjson

from sidecar.bindings.card import (
    CardUnreadable,
    Object,
    additional_interfaces,
    card_of,
    key_of,
    main_interfaces,
    member,
    objects,
    parse_card,
    supported,
)
from sidecar.model import Binding, Card, Dialect, Interface

_LEGACY_MEMBERS: Final = ("url", "preferredTransport", "additionalInterfaces", "protocolVersion")
_PORTS: Final = {"http": 80, "https": 443}
_NO_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")
_BARE_AUTHORITY: Final = re.compile(r"(?:[^/?#:]+:\d+|\[[0-9A-Fa-f:.]+\](?::\d+)?)(?![^/?#])")


@dataclass(frozen=True, slots=True)
class Fronting:
    """What we front, and where clients reach it.

    `upstream` and `public_url` are absolute http(s) URLs without query. `dialects` None means every
    JSON-RPC and HTTP+JSON dialect. `signatures` says what happens to a signed card whose bytes change.
    """

    upstream: str
    public_url: str
    dialects: frozenset[Dialect] | None = None
    signatures: Literal["strip", "refuse"] = "strip"


def rewrite_card(body: bytes, fronting: Fronting) -> bytes:
    """The card as clients may see it: fronted interfaces only, each at our public address.

    Returns the very same object if nothing needs to change, so that a signature stays valid.
    Raises CardUnreadable as `read_card` does, and if no interface is left, if the card is signed
    and `signatures` is `refuse`, or if it has an integer that cannot be written back exactly.
    """
    raw = parse_card(body)
    card_of(raw)
    # Read before anything is dropped: whether a card is a hybrid decides what its 0.x members speak.
    main, additional = main_interfaces(raw), additional_interfaces(raw)
    changed = [
        _narrow(raw, "supportedInterfaces", supported, fronting),
        _narrow(raw, "additionalInterfaces", additional, fronting),
        main is not None and _rewrite_main(raw, main, fronting),
    ]
    if not card_of(raw).interfaces:
        raise CardUnreadable("the card has no interface we front")
    if not any(changed):
        return body
    if raw.get("signatures"):
        if fronting.signatures == "refuse":
            raise CardUnreadable("the card is signed and its addresses would have to be rewritten")
        del raw["signatures"]  # it covers the addresses (1.0 §8.4.1): kept, it would be a false one
    try:
        return orjson.dumps(raw, default=_digits)
    except orjson.JSONEncodeError as error:
        raise CardUnreadable(f"the card cannot be written back unchanged: {error}") from None


def etag(body: bytes) -> str:
    """Strong entity tag over the served bytes (RFC 9110 §8.8.3), quotes included."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def rest_bases(card: Card, fronting: Fronting) -> tuple[tuple[str, ...], ...]:
    """Decoded path segments below the mount under which HTTP+JSON routes live; `()` always is one.

    Interfaces outside `fronting.dialects` count too: a door we do not open is still recognised.
    Raises CardUnreadable for an address that is no URL.
    """
    found: dict[tuple[str, ...], None] = {(): None}
    for interface in card.interfaces:
        if interface.dialect and interface.dialect.binding is Binding.HTTP_JSON:
            url = _split(_front(interface.url, fronting))
            below = _below(url.path, urlsplit(fronting.public_url).path) or ()
            found[tuple(unquote(segment) for segment in below if segment)] = None
    return tuple(found)


def _digits(number: jiter.LosslessFloat) -> orjson.Fragment:
    """The one type orjson does not know of those a strict reading gives."""
    return orjson.Fragment(bytes(number))


def _fronted(interfaces: tuple[Interface, ...], fronting: Fronting) -> bool:
    dialects = [i.dialect for i in interfaces if i.dialect is not None]
    return any(fronting.dialects is None or dialect in fronting.dialects for dialect in dialects)


def _narrow(
    raw: Object, name: str, read: Callable[[Object], tuple[Interface, ...]], fronting: Fronting
) -> bool:
    """Keep what we front of one list, at its public address. Tells whether anything changed."""
    key, entries = key_of(raw, name), objects(raw, name)
    kept = [entry for entry in entries if _fronted(read(entry), fronting)]
    changed = [_move(entry, fronting) for entry in kept]
    if key is None or len(kept) == len(entries):
        return any(changed)
    raw[key] = kept
    if not kept:
        del raw[key]  # an emptied list would tell 1.x clients to look no further
    return True


def _rewrite_main(raw: Object, main: tuple[Interface, ...], fronting: Fronting) -> bool:
    """Put `url` at its public address, another fronted interface in its place, or nothing of 0.x."""
    if _fronted(main, fronting):
        return _move(raw, fronting)
    # Only fronted ones are left in the list by now, at their public addresses.
    if others := objects(raw, "additionalInterfaces"):
        raw[key_of(raw, "url") or "url"] = member(others[0], "url", str, "")
        raw[key_of(raw, "preferredTransport") or "preferredTransport"] = member(
            others[0], "transport", str, ""
        )
        return True
    for name in _LEGACY_MEMBERS:
        raw.pop(key_of(raw, name) or name, None)
    return True


def _move(entry: Object, fronting: Fronting) -> bool:
    key = key_of(entry, "url") or "url"
    before, entry[key] = entry[key], _front(entry[key], fronting)
    return bool(before != entry[key])


def _front(url: str, fronting: Fronting) -> str:
    """Where a client reaches `url` through us; `url` itself where it points there already.

    Which host a card names says nothing: agents name loopback, `0.0.0.0`, or their service.
    """
    there, here, home = _split(url, fronting), urlsplit(fronting.public_url), urlsplit(fronting.upstream)
    if _origin(there) == _origin(here) and _below(there.path, here.path) is not None:
        return url
    path = there.path
    if (
        not there.scheme and not there.netloc and not path.startswith("/")
    ):  # relative: below the upstream, as below a folder
        path = f"{home.path.rstrip('/')}/{path}" if path else home.path
    below = _below(path, home.path)
    if below is None:
        return fronting.public_url
    query = f"?{there.query}" if there.query else ""
    return fronting.public_url.rstrip("/") + "".join(f"/{segment}" for segment in below) + query


def _split(url: str, fronting: Fronting | None = None) -> SplitResult:
    if _NO_URL.search(url):
        raise CardUnreadable("an interface address holds a blank, a control character or a backslash")
    host = urlsplit(fronting.upstream).hostname if fronting else None
    if _BARE_AUTHORITY.match(url) or re.split(r"[/?#]", url, maxsplit=1)[0].lower() == host:
        url = f"//{url}"  # `host:port` without a scheme must not be taken for a path
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise CardUnreadable(f"an interface address is no URL: {error}") from None
    return parts


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None, bool]:
    user = "@" in parts.netloc
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme), user


def _below(path: str, base: str) -> tuple[str, ...] | None:
    """The segments of `path` below `base`, as written; None if it is not below. `/a/` leaves `("",)` of `/a`."""
    segments, prefix = _segments(path), _segments(base.rstrip("/"))
    if [*map(unquote, segments[: len(prefix)])] != [*map(unquote, prefix)]:
        return None
    return segments[len(prefix) :]


def _segments(path: str) -> tuple[str, ...]:
    """Segments without dots (RFC 3986 §5.2.4); encoded dots are dots, as browsers have it."""
    kept: list[str] = []
    written = path.split("/")[1:]
    dots = [unquote(segment) for segment in written]
    for segment, dot in zip(written, dots, strict=True):
        if dot == "..":
            kept = kept[:-1]
        elif dot != ".":
            kept.append(segment)
    return (*kept, "") if dots and dots[-1] in {".", ".."} else tuple(kept)
