"""Agent cards: what they say, and the copy that is safe to hand out.

Owns: reading a card of any version into a Card, rewriting its interface addresses, its entity tag.
Never: fetches a card, looks at a request, or touches a URL that is no interface address.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import jiter
import orjson

from sidecar.model import Alternative, Binding, Card, Dialect, Interface, Scheme, Version

_T = TypeVar("_T")
_Object = dict[str, Any]


class CardUnreadable(ValueError):
    """The card cannot be used. The message tells an operator which member is wrong."""


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


# --- one table per thing a card spells in several ways -----------------------------------------

# 1.0 §5 and 0.3 §3.2; what is missing here is not fronted. HTTP+JSON came with 0.2.2, but its
# one wire form before 1.0 is the one we call 0.3.
_DIALECTS: Final[Mapping[tuple[str, Version | None], Dialect]] = {
    **{("JSONRPC", v): Dialect(Binding.JSONRPC, v) for v in Version},
    ("HTTP+JSON", Version.V0_2): Dialect(Binding.HTTP_JSON, Version.V0_3),
    ("HTTP+JSON", Version.V0_3): Dialect(Binding.HTTP_JSON, Version.V0_3),
    ("HTTP+JSON", Version.V1_0): Dialect(Binding.HTTP_JSON, Version.V1_0),
}

# 0.2 and 0.3 JSON: member `type`; `http` is told apart by its `scheme`.
_TYPES: Final[Mapping[str, Scheme]] = {
    "oauth2": Scheme.OAUTH2,
    "openIdConnect": Scheme.OPENID,
    "apiKey": Scheme.API_KEY,
    "mutualTLS": Scheme.MTLS,
}

# 1.0 and the protobuf form of 0.3: the member that is present (a oneof) tells the kind.
_ONEOF: Final[Mapping[str, Scheme]] = {
    "oauth2SecurityScheme": Scheme.OAUTH2,
    "openIdConnectSecurityScheme": Scheme.OPENID,
    "httpAuthSecurityScheme": Scheme.HTTP_OTHER,
    "apiKeySecurityScheme": Scheme.API_KEY,
    "mtlsSecurityScheme": Scheme.MTLS,
}

_EXTENDED_FLAGS: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")  # 0.3, 1.0 drafts
_LEGACY_MEMBERS: Final = ("url", "preferredTransport", "additionalInterfaces", "protocolVersion")
_PORTS: Final = {"http": 80, "https": 443}
_VERSION: Final = re.compile(r"(\d+\.\d+)(?:\.[0-9A-Za-z.+-]+)?")
_NO_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")
_BARE_AUTHORITY: Final = re.compile(r"(?:[^/?#:]+:\d+|\[[0-9A-Fa-f:.]+\](?::\d+)?)(?![^/?#])")
_KINDS: Final = {str: "a string", bool: "a boolean", list: "a list", dict: "an object"}
_MOST_COMBINATIONS: Final = 1024


# --- reading ---------------------------------------------------------------------------------


def read_card(body: bytes) -> Card:
    """Read an agent card of A2A 0.1 to 1.0, or a hybrid of 1.0 and 0.3 as the 1.x SDKs serve it.

    Raises CardUnreadable for what is no strict JSON (duplicate keys included) and for malformed
    members that matter to enforcement. Members we do not know are ignored.
    """
    return _read(_parse(body))


def _read(raw: _Object) -> Card:
    entries = [
        *(i for entry in _objects(raw, "supportedInterfaces") for i in _supported(entry)),
        *(_main(raw) or ()),
        *(i for entry in _objects(raw, "additionalInterfaces") for i in _additional(raw)(entry)),
    ]
    skills: dict[str, tuple[Alternative, ...]] = {}
    for skill in _objects(raw, "skills"):
        id_ = _member(skill, "id", str, "")
        if not id_:
            raise CardUnreadable("a skill has no `id`")
        if id_ in skills:
            raise CardUnreadable(f"two skills have the id `{id_}`")
        skills[id_] = _requirements(skill)
    return Card(
        interfaces=tuple(dict.fromkeys(entries)),
        schemes=_schemes(raw),
        requirements=_requirements(raw),
        skills=skills,
        offers_extended=_offers_extended(raw),
        offers_push=_capability(raw, "pushNotifications"),
    )


def _parse(body: bytes) -> _Object:
    try:
        # Lossless: a number we do not understand leaves with the digits it came with.
        raw = jiter.from_json(
            body, catch_duplicate_keys=True, allow_inf_nan=False, float_mode="lossless-float"
        )
    except ValueError as error:
        # The parser's own text may quote the card; an extended card is not everybody's.
        where = str(error).rpartition(" at ")[2]
        raise CardUnreadable(f"the card is no strict JSON, or repeats a member: {where}") from None
    if not isinstance(raw, dict):
        raise CardUnreadable("the card is no JSON object")
    return raw


def _key(holder: _Object, name: str) -> str | None:
    """The key `name` is written under: camelCase, or snake_case as ProtoJSON also reads it.

    Clients differ on what they make of twins and of wrong case, so both are refused.
    """
    alike = [key for key in holder if key.replace("_", "").casefold() == name.casefold()]
    if not alike:
        return None
    snake = re.sub(r"[A-Z]", lambda upper: f"_{upper[0].lower()}", name)
    if len(alike) > 1 or alike[0] not in (name, snake):
        raise CardUnreadable(f"`{name}` is written as {', '.join(f'`{key}`' for key in alike)}")
    return alike[0]


def _member(holder: _Object, name: str, kind: type[_T], default: _T) -> _T:
    """The member `name`, or `default` where it is absent or null (ProtoJSON: unset)."""
    key = _key(holder, name)
    value = None if key is None else holder[key]
    if value is None:
        return default
    if not isinstance(value, kind):
        raise CardUnreadable(f"`{name}` must be {_KINDS[kind]}")
    return value


def _objects(holder: _Object, name: str) -> list[_Object]:
    entries = _member(holder, name, list, [])
    if not all(isinstance(entry, dict) for entry in entries):
        raise CardUnreadable(f"`{name}` must hold objects")
    return entries


# --- interfaces ------------------------------------------------------------------------------


def _supported(entry: _Object) -> tuple[Interface, ...]:
    """One of 1.0's `supportedInterfaces`. Without a version it is 1.0's: earlier cards lack the list."""
    version = _version(_member(entry, "protocolVersion", str, "") or "1.0")
    return _interfaces(entry, _member(entry, "protocolBinding", str, ""), (version,))


def _main(raw: _Object) -> tuple[Interface, ...] | None:
    """`url` with `preferredTransport`, whose default is JSON-RPC; None where a card has no `url`."""
    key = _key(raw, "url")
    if key is None or raw[key] is None:
        return None
    return _interfaces(raw, _member(raw, "preferredTransport", str, "") or "JSONRPC", _legacy_versions(raw))


def _additional(raw: _Object) -> Callable[[_Object], tuple[Interface, ...]]:
    versions = _legacy_versions(raw)
    return lambda entry: _interfaces(entry, _member(entry, "transport", str, ""), versions)


def _legacy_versions(raw: _Object) -> tuple[Version | None, ...]:
    """What the 0.x members of a card speak; cards state it from 0.2.5 on."""
    stated = _member(raw, "protocolVersion", str, "")
    hybrid = bool(_objects(raw, "supportedInterfaces"))
    if hybrid and (not stated or _version(stated) is Version.V1_0):
        return (Version.V0_3,)
    if stated:
        return (_version(stated),)
    # `authentication` exists in 0.1 only; a card without version may be of any release before 0.2.5.
    first = () if _key(raw, "authentication") is None else (Version.V0_1,)
    return (*first, Version.V0_2, Version.V0_3)


def _version(text: str) -> Version | None:
    """`0.3.0` → 0.3: patch levels take no part (1.0 §3.6). None for a version we do not know."""
    match = _VERSION.fullmatch(text)
    return next((v for v in Version if match and v.value == match[1]), None)


def _interfaces(entry: _Object, binding: str, versions: tuple[Version | None, ...]) -> tuple[Interface, ...]:
    key = _key(entry, "url")
    if key is None or not isinstance(entry[key], str):
        raise CardUnreadable("an interface has no `url`")
    known = dict.fromkeys(_DIALECTS[binding, v] for v in versions if (binding, v) in _DIALECTS)
    # Only 1.0's entries have a tenant; on a 0.x card the member would mean nothing.
    tenant = _member(entry, "tenant", str, "") if _key(entry, "protocolBinding") else ""
    return tuple(Interface(entry[key], dialect, tenant) for dialect in known or (None,))


def _offers_extended(raw: _Object) -> bool:
    flags = [_member(raw, name, bool, False) for name in _EXTENDED_FLAGS]
    return any(flags) or _capability(raw, "extendedAgentCard")


def _capability(raw: _Object, name: str) -> bool:
    return _member(_member(raw, "capabilities", dict, {}), name, bool, False)


# --- security --------------------------------------------------------------------------------


def _schemes(raw: _Object) -> dict[str, Scheme]:
    found: dict[str, Scheme] = {}
    for name, scheme in _member(raw, "securitySchemes", dict, {}).items():
        if not isinstance(scheme, dict):
            raise CardUnreadable(f"security scheme `{name}` is no object")
        found[name] = _scheme(scheme)
    return found


def _scheme(scheme: _Object) -> Scheme:
    """1.0's member first; hybrid cards carry 0.3's `type` beside it. Two kinds at once are no kind.

    @a2a-js/sdk 1.x writes its own inside on the wire: `{"scheme": {"$case": "oauth2SecurityScheme", "value": …}}`.
    """
    chosen = scheme.get("scheme")
    if isinstance(chosen, dict) and isinstance(case := chosen.get("$case"), str):
        scheme = {case: chosen.get("value")}
    present = [name for name in _ONEOF if _key(scheme, name) is not None]
    if len(present) > 1:
        return Scheme.UNKNOWN
    if present:
        inner = _member(scheme, present[0], dict, {})
        kind = _ONEOF[present[0]]
        return _http(inner) if kind is Scheme.HTTP_OTHER else kind
    type_ = _member(scheme, "type", str, "")
    return _http(scheme) if type_ == "http" else _TYPES.get(type_, Scheme.UNKNOWN)


def _http(scheme: _Object) -> Scheme:
    # RFC 9110 §11.1: authentication scheme names are case-insensitive.
    bearer = _member(scheme, "scheme", str, "").casefold() == "bearer"
    return Scheme.HTTP_BEARER if bearer else Scheme.HTTP_OTHER


def _requirements(holder: _Object) -> tuple[Alternative, ...]:
    """The alternatives of a card or of a skill; empty means that nothing is declared.

    A hybrid has 1.0's `securityRequirements` and 0.3's `security`. Where the two differ we cannot
    know which one the agent enforces, so both must hold: each alternative here is one of the first
    list together with one of the second. To put the lists end to end would let a caller who
    satisfies the weaker list pass under `alternatives: any`. Lists that say the same stay as they are.
    """
    modern, legacy = _alternatives(holder, "securityRequirements"), _alternatives(holder, "security")
    if not modern or not legacy or (all(a in legacy for a in modern) and all(a in modern for a in legacy)):
        return modern or legacy
    if len(modern) * len(legacy) > _MOST_COMBINATIONS:
        raise CardUnreadable("`securityRequirements` and `security` differ and are too long to combine")
    nothing: frozenset[str] = frozenset()
    return tuple(
        {name: one.get(name, nothing) | other.get(name, nothing) for name in (*one, *other)}
        for one, other in product(modern, legacy)
    )


def _alternatives(holder: _Object, name: str) -> tuple[Alternative, ...]:
    return tuple(_alternative(name, entry) for entry in _objects(holder, name))


def _alternative(name: str, entry: _Object) -> Alternative:
    """`{"schemes": {…}}` (1.0, protobuf 0.3) or `{…}` (0.2, 0.3). Empty: OpenAPI's anonymous."""
    members = entry
    if isinstance(entry.get("schemes"), dict):  # a list there is a scheme of that name, in 0.3's form
        if len(entry) > 1:
            raise CardUnreadable(f"`{name}` has an entry of two forms at once")
        members = entry["schemes"]
    return {scheme: _scopes(name, value) for scheme, value in members.items()}


def _scopes(name: str, value: object) -> frozenset[str]:
    """`["read"]`, `{"list": ["read"]}` or `{}`. A member that might hold scopes may not be skipped."""
    if isinstance(value, dict) and value.keys() <= {"list"}:
        value = value.get("list", [])
    if not isinstance(value, list) or not all(isinstance(scope, str) for scope in value):
        raise CardUnreadable(f"`{name}` has an entry whose scopes are no list of strings")
    return frozenset(value)


# --- rewriting -------------------------------------------------------------------------------


def rewrite_card(body: bytes, fronting: Fronting) -> bytes:
    """The card as clients may see it: fronted interfaces only, each at our public address.

    Returns the very same object if nothing needs to change, so that a signature stays valid.
    Raises CardUnreadable as `read_card` does, and if no interface is left, if the card is signed
    and `signatures` is `refuse`, or if it has an integer that cannot be written back exactly.
    """
    raw = _parse(body)
    _read(raw)
    # Read before anything is dropped: whether a card is a hybrid decides what its 0.x members speak.
    main, additional = _main(raw), _additional(raw)
    changed = [
        _narrow(raw, "supportedInterfaces", _supported, fronting),
        _narrow(raw, "additionalInterfaces", additional, fronting),
        main is not None and _rewrite_main(raw, main, fronting),
    ]
    if not _read(raw).interfaces:
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
    raw: _Object, name: str, read: Callable[[_Object], tuple[Interface, ...]], fronting: Fronting
) -> bool:
    """Keep what we front of one list, at its public address. Tells whether anything changed."""
    key, entries = _key(raw, name), _objects(raw, name)
    kept = [entry for entry in entries if _fronted(read(entry), fronting)]
    changed = [_move(entry, fronting) for entry in kept]
    if key is None or len(kept) == len(entries):
        return any(changed)
    raw[key] = kept
    if not kept:
        del raw[key]  # an emptied list would tell 1.x clients to look no further
    return True


def _rewrite_main(raw: _Object, main: tuple[Interface, ...], fronting: Fronting) -> bool:
    """Put `url` at its public address, another fronted interface in its place, or nothing of 0.x."""
    if _fronted(main, fronting):
        return _move(raw, fronting)
    # Only fronted ones are left in the list by now, at their public addresses.
    if others := _objects(raw, "additionalInterfaces"):
        raw[_key(raw, "url") or "url"] = _member(others[0], "url", str, "")
        raw[_key(raw, "preferredTransport") or "preferredTransport"] = _member(
            others[0], "transport", str, ""
        )
        return True
    for name in _LEGACY_MEMBERS:
        raw.pop(_key(raw, name) or name, None)
    return True


def _move(entry: _Object, fronting: Fronting) -> bool:
    key = _key(entry, "url") or "url"
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
