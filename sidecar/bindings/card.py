"""Agent cards: what they say.

Owns: reading a card of any version, or a hybrid, into a Card.
Never: fetches a card, looks at a request, or changes one (card_rewriting.py does).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final, TypeVar

import jiter

from sidecar.model import Alternative, Binding, Card, Dialect, Interface, Scheme, Version

_T = TypeVar("_T")
Object = dict[str, Any]


class CardUnreadable(ValueError):
    """The card cannot be used. The message tells an operator which member is wrong."""


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
_VERSION: Final = re.compile(r"(\d+\.\d+)(?:\.[0-9A-Za-z.+-]+)?")
_KINDS: Final = {str: "a string", bool: "a boolean", list: "a list", dict: "an object"}
_MOST_COMBINATIONS: Final = 1024


# --- reading ---------------------------------------------------------------------------------


def read_card(body: bytes) -> Card:
    """Read an agent card of A2A 0.1 to 1.0, or a hybrid of 1.0 and 0.3 as the 1.x SDKs serve it.

    Raises CardUnreadable for what is no strict JSON (duplicate keys included) and for malformed
    members that matter to enforcement. Members we do not know are ignored.
    """
    return card_of(parse_card(body))


def card_of(raw: Object) -> Card:
    entries = [
        *(i for entry in objects(raw, "supportedInterfaces") for i in supported(entry)),
        *(main_interfaces(raw) or ()),
        *(i for entry in objects(raw, "additionalInterfaces") for i in additional_interfaces(raw)(entry)),
    ]
    skills: dict[str, tuple[Alternative, ...]] = {}
    for skill in objects(raw, "skills"):
        id_ = member(skill, "id", str, "")
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


def parse_card(body: bytes) -> Object:
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


def key_of(holder: Object, name: str) -> str | None:
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


def member(holder: Object, name: str, kind: type[_T], default: _T) -> _T:
    """The member `name`, or `default` where it is absent or null (ProtoJSON: unset)."""
    key = key_of(holder, name)
    value = None if key is None else holder[key]
    if value is None:
        return default
    if not isinstance(value, kind):
        raise CardUnreadable(f"`{name}` must be {_KINDS[kind]}")
    return value


def objects(holder: Object, name: str) -> list[Object]:
    entries = member(holder, name, list, [])
    if not all(isinstance(entry, dict) for entry in entries):
        raise CardUnreadable(f"`{name}` must hold objects")
    return entries


# --- interfaces ------------------------------------------------------------------------------


def supported(entry: Object) -> tuple[Interface, ...]:
    """One of 1.0's `supportedInterfaces`. Without a version it is 1.0's: earlier cards lack the list."""
    version = _version(member(entry, "protocolVersion", str, "") or "1.0")
    return _interfaces(entry, member(entry, "protocolBinding", str, ""), (version,))


def main_interfaces(raw: Object) -> tuple[Interface, ...] | None:
    """`url` with `preferredTransport`, whose default is JSON-RPC; None where a card has no `url`."""
    key = key_of(raw, "url")
    if key is None or raw[key] is None:
        return None
    return _interfaces(raw, member(raw, "preferredTransport", str, "") or "JSONRPC", _legacy_versions(raw))


def additional_interfaces(raw: Object) -> Callable[[Object], tuple[Interface, ...]]:
    versions = _legacy_versions(raw)
    return lambda entry: _interfaces(entry, member(entry, "transport", str, ""), versions)


def _legacy_versions(raw: Object) -> tuple[Version | None, ...]:
    """What the 0.x members of a card speak; cards state it from 0.2.5 on."""
    stated = member(raw, "protocolVersion", str, "")
    hybrid = bool(objects(raw, "supportedInterfaces"))
    if hybrid and (not stated or _version(stated) is Version.V1_0):
        return (Version.V0_3,)
    if stated:
        return (_version(stated),)
    # `authentication` exists in 0.1 only; a card without version may be of any release before 0.2.5.
    first = () if key_of(raw, "authentication") is None else (Version.V0_1,)
    return (*first, Version.V0_2, Version.V0_3)


def _version(text: str) -> Version | None:
    """`0.3.0` → 0.3: patch levels take no part (1.0 §3.6). None for a version we do not know."""
    match = _VERSION.fullmatch(text)
    return next((v for v in Version if match and v.value == match[1]), None)


def _interfaces(entry: Object, binding: str, versions: tuple[Version | None, ...]) -> tuple[Interface, ...]:
    key = key_of(entry, "url")
    if key is None or not isinstance(entry[key], str):
        raise CardUnreadable("an interface has no `url`")
    known = dict.fromkeys(_DIALECTS[binding, v] for v in versions if (binding, v) in _DIALECTS)
    # Only 1.0's entries have a tenant; on a 0.x card the member would mean nothing.
    tenant = member(entry, "tenant", str, "") if key_of(entry, "protocolBinding") else ""
    return tuple(Interface(entry[key], dialect, tenant) for dialect in known or (None,))


def _offers_extended(raw: Object) -> bool:
    flags = [member(raw, name, bool, False) for name in _EXTENDED_FLAGS]
    return any(flags) or _capability(raw, "extendedAgentCard")


def _capability(raw: Object, name: str) -> bool:
    return member(member(raw, "capabilities", dict, {}), name, bool, False)


# --- security --------------------------------------------------------------------------------


def _schemes(raw: Object) -> dict[str, Scheme]:
    found: dict[str, Scheme] = {}
    for name, scheme in member(raw, "securitySchemes", dict, {}).items():
        if not isinstance(scheme, dict):
            raise CardUnreadable(f"security scheme `{name}` is no object")
        found[name] = _scheme(scheme)
    return found


def _scheme(scheme: Object) -> Scheme:
    """1.0's member first; hybrid cards carry 0.3's `type` beside it. Two kinds at once are no kind.

    @a2a-js/sdk 1.x writes its own inside on the wire: `{"scheme": {"$case": "oauth2SecurityScheme", "value": …}}`.
    """
    chosen = scheme.get("scheme")
    if isinstance(chosen, dict) and isinstance(case := chosen.get("$case"), str):
        scheme = {case: chosen.get("value")}
    present = [name for name in _ONEOF if key_of(scheme, name) is not None]
    if len(present) > 1:
        return Scheme.UNKNOWN
    if present:
        inner = member(scheme, present[0], dict, {})
        kind = _ONEOF[present[0]]
        return _http(inner) if kind is Scheme.HTTP_OTHER else kind
    type_ = member(scheme, "type", str, "")
    return _http(scheme) if type_ == "http" else _TYPES.get(type_, Scheme.UNKNOWN)


def _http(scheme: Object) -> Scheme:
    # RFC 9110 §11.1: authentication scheme names are case-insensitive.
    bearer = member(scheme, "scheme", str, "").casefold() == "bearer"
    return Scheme.HTTP_BEARER if bearer else Scheme.HTTP_OTHER


def _requirements(holder: Object) -> tuple[Alternative, ...]:
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


def _alternatives(holder: Object, name: str) -> tuple[Alternative, ...]:
    return tuple(_alternative(name, entry) for entry in objects(holder, name))


def _alternative(name: str, entry: Object) -> Alternative:
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
