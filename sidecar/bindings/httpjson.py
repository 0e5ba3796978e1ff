"""HTTP+JSON routes.

Owns: decoded path segments → Place (route, task, config, tenant), and the checks of query and body
that a route asks for.
Never: decides anything; reads a JSON-RPC envelope.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidecar.bindings.dialect import HTTP_0_3, HTTP_1_0, is_0x
from sidecar.bindings.ids import MAX_ID
from sidecar.bindings.methods import (
    EXTENDED_CARD_PATH,
    RESERVED,
    ROUTES,
    SUFFIXES,
    looks_like_a_route,
)
from sidecar.bindings.payload import QUERY, Given
from sidecar.bindings.strict import Body, members
from sidecar.bindings.surface import Surface, Target
from sidecar.bindings.target import has_bad_escape
from sidecar.model import Dialect, Operation, Reason, Refused, Version

MEDIA_TYPE_1_0: Final = "application/a2a+json"

_DIALECT_OF: Final = {Version.V0_3: HTTP_0_3, Version.V1_0: HTTP_1_0}
_NEEDS_BODY: Final = frozenset(
    {Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG}
)
_UNDER_V1 = "/v1/"
# No task ids: what may follow a tenant. To a2a-js 1.x, which takes any first segment for one and
# ignores case, `/tasks/extendedAgentCard` is the card of the tenant `tasks`.
_AFTER_A_TENANT: Final = frozenset({"tasks", "message:send", "message:stream", "extendedagentcard"})
# Parameters from which frameworks take the verb, in place of the one that was judged (FC-027).
_VERBS: Final = frozenset({"_method", "x-http-method", "x-http-method-override", "x-method-override"})


@dataclass(frozen=True, slots=True)
class Route:
    """One reading of a path: a row of the route table, whatever the verb."""

    pattern: str
    task_id: str | None = None
    config_id: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A path on which some agent might serve A2A. Without routes it only looks like one."""

    routes: tuple[Route, ...]
    segments: tuple[str, ...]

    def guess(self, version: str) -> Dialect:
        """The dialect to answer in, where no route was chosen."""
        return HTTP_0_3 if "v1" in self.segments and is_0x(version) else HTTP_1_0


def place_of(segments: tuple[str, ...], surface: Surface) -> Place | None:
    """What a path could be as HTTP+JSON, None where it is clearly something else."""
    if len(segments) < 2 and segments in ((), ("",)):
        return None
    found: dict[Route, None] = {}
    for rest, tenant in _readings(segments, surface):
        route = _route(rest, tenant)
        if route is not None:
            found[route] = None
    if found or looks_like_a_route(segments):
        return Place(tuple(found), segments)
    return None


def _readings(segments: tuple[str, ...], surface: Surface) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """The path without its base, and without a tenant after it or (a2a-sdk 1.x) before it."""
    tenants = surface.tenants
    first = segments[0]
    for base in surface.rest_bases:
        n = len(base)
        if segments[:n] == base and len(segments) > n:
            yield segments[n:], None
            if segments[n] in tenants and segments[n] not in RESERVED:
                yield segments[n + 1 :], segments[n]
        if n and first in tenants and first not in RESERVED and segments[1 : n + 1] == base:
            yield segments[n + 1 :], first
    if () not in surface.rest_bases and segments == ("agent", "authenticatedExtendedCard"):
        yield segments, None


def _route(rest: tuple[str, ...], tenant: str | None) -> Route | None:
    """The row a path fits, whatever the verb. The suffix is cut from the end of the last segment:
    ids may contain colons."""
    at = 1 if rest[:1] == ("v1",) else 0
    task = config = None
    words = list(rest)
    if len(rest) > at + 1 and rest[at] in ("tasks", "task"):
        task, suffix = rest[at + 1], ""
        if len(rest) == at + 2:
            suffix = next((s for s in SUFFIXES if task.endswith(s)), "")
            task = task.removesuffix(suffix)
            if not suffix and task.casefold().endswith(SUFFIXES):  # Express ignores case
                return None
        if task.casefold() in _AFTER_A_TENANT:
            return None
        words[at + 1] = "{id}" + suffix
        if len(rest) == at + 4:
            config, words[at + 3] = rest[at + 3], "{cid}"
    if task == "" or config == "":
        return None
    pattern = "/" + "/".join(words)
    if pattern not in ROUTES or (tenant is not None and _dialect(pattern) is HTTP_0_3):
        return None  # tenants came with 1.0
    return Route(pattern, task, config, tenant)


# --- choosing one --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chosen:
    """The reading that counts."""

    operation: Operation
    dialect: Dialect
    route: Route


def choose(place: Place, method: str, version: str, surface: Surface) -> Chosen:
    """The one operation that path, verb and declared version name.

    `/v1/…` is 0.3 unless the request declares another version; then it could be a tenant called
    `v1`, and is refused. Raises Refused.
    """
    enabled: list[tuple[Route, Dialect]] = []
    contradicted = False
    for route in place.routes:
        dialect = _dialect(route.pattern)
        if route.pattern.startswith(_UNDER_V1) and not is_0x(version):
            contradicted = True
        elif dialect in surface.dialects or (
            route.pattern == EXTENDED_CARD_PATH and _serves_0x(surface.dialects)
        ):
            enabled.append((route, dialect))
    if len(enabled) > 1:
        # Only a base that ends in `v1` gives two readings without contradiction: the version decides.
        enabled = [(r, d) for r, d in enabled if (d is HTTP_0_3) == is_0x(version)] or enabled
    if len(enabled) > 1:
        raise Refused(Reason.INVALID_REQUEST, "the path can be read in two ways")
    if not enabled:
        if contradicted:
            raise Refused(Reason.INVALID_REQUEST, "the path is of A2A 0.3, the declared version is not")
        raise Refused(Reason.UNKNOWN_PATH, "the path is no route of a dialect that is served here")
    route, dialect = enabled[0]
    verbs = ROUTES[route.pattern]
    if method not in verbs:
        raise Refused(Reason.METHOD_NOT_ALLOWED, f"the route allows {', '.join(sorted(verbs))}")
    for named in (route.task_id, route.config_id):
        if named is not None and len(named) > MAX_ID:
            raise Refused(Reason.INVALID_PARAMS, f"an id in the path is longer than {MAX_ID} characters")
    return Chosen(verbs[method][1], dialect, route)


def _dialect(pattern: str) -> Dialect:
    version, _ = next(iter(ROUTES[pattern].values()))
    return _DIALECT_OF[version]


def _serves_0x(dialects: frozenset[Dialect]) -> bool:
    return any(d.version in (Version.V0_2, Version.V0_3) for d in dialects)


# --- query and body ------------------------------------------------------------------------------


def read_given(chosen: Chosen, target: Target) -> Given:
    """What path and query name. Raises Refused(INVALID_PARAMS) for a query that frameworks read
    differently: repeated names, `;`, brackets, broken escapes (FC-018)."""
    route = chosen.route
    query: dict[str, str] | None = None
    if target.raw_query:
        query = _read_query(target)
    return Given(route.task_id, route.config_id, route.tenant, query)


def _read_query(target: Target) -> dict[str, str]:
    raw = target.raw_query
    names = [name for name, _ in target.query]
    if ";" in raw or has_bad_escape(raw) or any("�" in part for pair in target.query for part in pair):
        raise _invalid("the query can be read in two ways")
    if any("[" in name or "]" in name for name in names):
        raise _invalid("the query has a name with brackets")
    if len(set(names)) != len(names):
        raise _invalid("the query repeats a parameter")
    if any(name.casefold() in _VERBS for name in names):
        raise _invalid("the query names another HTTP method")
    return members(dict(target.query), QUERY, "query")


def read_body(chosen: Chosen, method: str, document: Any | Body) -> Mapping[str, Any]:
    """The JSON object a route asks for, empty where it may be left out.

    Raises Refused: a body on GET or DELETE is read by some frameworks and ignored by others.
    """
    if method != "POST":
        if document is not Body.NONE:
            raise Refused(Reason.INVALID_REQUEST, f"{method} must not have a body")
        return {}
    if document is Body.OPAQUE or (document is Body.NONE and chosen.operation in _NEEDS_BODY):
        raise Refused(Reason.UNPARSABLE, "the body must be a JSON object")
    if document is Body.NONE:
        return {}
    if type(document) is not dict:
        raise Refused(Reason.INVALID_REQUEST, "the body must be a JSON object")
    return document


def media_type(content_type: str, accept: str) -> str:
    """The media type of our own answers: the caller's (1.0 §11.1)."""
    named = MEDIA_TYPE_1_0 in content_type.lower() or MEDIA_TYPE_1_0 in accept.lower()
    return MEDIA_TYPE_1_0 if named else "application/json"


def _invalid(detail: str) -> Refused:
    return Refused(Reason.INVALID_PARAMS, detail)
