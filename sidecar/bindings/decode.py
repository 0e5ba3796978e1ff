"""One request → Call, Other or Unreadable.

Owns: the order in which a request is recognised, and the form of an answer to what is refused.
Never: raises for anything a caller can send, guesses; lets pass what might be A2A and has no name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from multidict import CIMultiDictProxy

from sidecar.bindings.dialect import HTTP, JSONRPC, VERSION_NAME, declared_version, jsonrpc_guess
from sidecar.bindings.httpjson import Place, choose, media_type, place_of, read_body, read_given
from sidecar.bindings.jsonrpc import (
    holds_envelope,
    is_envelope,
    names_something,
    open_envelope,
    read_method,
    read_params,
    read_rpc_id,
    resembles_a_request,
)
from sidecar.bindings.methods import Row, ends_like_a_method
from sidecar.bindings.payload import Payload, read_payload
from sidecar.bindings.strict import Body, read_document
from sidecar.bindings.surface import Surface, Target
from sidecar.model import (
    SENDS,
    Call,
    Decoded,
    Dialect,
    Form,
    Head,
    NamedSkill,
    Operation,
    Other,
    Reason,
    Refused,
    RpcId,
    Unreadable,
)

_NO_FORM: Final = Form()
_ROOT: Final = ((), ("",))
_NONE: Final = Body.NONE


def form_of(head: Head, target: Target, surface: Surface) -> Form:
    """The form of an answer to a request whose body could not be had."""
    return _guess(head, place_of(target.segments, surface), surface)


def decode(head: Head, target: Target, body: bytes | None, surface: Surface) -> Decoded:
    """Recognise one request by its content.

    `target` is below the mount. `body` is inflated and whole, or None where it is streamed without
    having been read. An A2A operation is recognised on every path, verb and content type: as
    JSON-RPC by its envelope, as HTTP+JSON by its route.
    """
    place = place_of(target.segments, surface)
    try:
        document = read_document(head.headers, body, surface.depth)
    except Refused as refused:
        return _unreadable(_guess(head, place, surface), target, refused)
    if type(document) is dict and is_envelope(document):
        return _decode_jsonrpc(head, target, document, surface, place)
    if document is _NONE and _is_preflight(head):
        return _other(head, target, preflight=True)
    if place is not None:
        return _decode_httpjson(head, target, document, surface, place)
    try:
        _refuse_the_nameless(document, target)
    except Refused as refused:
        return _unreadable(_guess(head, place, surface), target, refused)
    return _other(head, target)


def _decode_jsonrpc(
    head: Head, target: Target, document: dict[str, Any], surface: Surface, place: Place | None
) -> Decoded:
    rpc_id: RpcId = None
    row: Row | None = None
    try:
        envelope = open_envelope(document)
        rpc_id = read_rpc_id(envelope)
        if head.method != "POST":
            raise Refused(Reason.METHOD_NOT_ALLOWED, "JSON-RPC needs POST")
        if place is not None:
            reason = Reason.INVALID_REQUEST if place.routes else Reason.UNKNOWN_PATH
            raise Refused(reason, "a JSON-RPC envelope on a path of HTTP+JSON")
        row = read_method(envelope, surface)
        if row is None:
            return _other(head, target, Form(jsonrpc_guess(head.headers), rpc_id), listed_method=True)
        declared_version(head.headers, target.query)
        if row.operation in SENDS and "id" not in envelope:
            raise Refused(Reason.INVALID_REQUEST, "a send needs an `id`")
        payload = read_payload(read_params(envelope, row), row.operation, row.dialect.version)
        form = Form(row.dialect, rpc_id, row.sse)
        return _call(head, target, row.operation, form, row.dialect, payload, surface)
    except Refused as refused:
        dialect, sse = (row.dialect, row.sse) if row else (jsonrpc_guess(head.headers), False)
        return _unreadable(Form(dialect, rpc_id, sse), target, refused)


def _decode_httpjson(
    head: Head, target: Target, document: Any | Body, surface: Surface, place: Place
) -> Decoded:
    form = _http_form(head, place.guess(head.headers.get(VERSION_NAME, "")))
    try:
        version = declared_version(head.headers, target.query)
        chosen = choose(place, head.method, version, surface)
        form = _http_form(head, chosen.dialect)
        content = read_body(chosen, head.method, document)
        given = read_given(chosen, target)
        payload = read_payload(content, chosen.operation, chosen.dialect.version, given)
        return _call(head, target, chosen.operation, form, chosen.dialect, payload, surface)
    except Refused as refused:
        return _unreadable(form, target, refused)


def _refuse_the_nameless(document: Any | Body, target: Target) -> None:
    """Refuse a body that might be A2A although nothing names an operation (design: any door)."""
    if type(document) is list and (target.segments in _ROOT or holds_envelope(document)):
        raise Refused(Reason.INVALID_REQUEST, "batches are not accepted")
    if type(document) is dict and (
        resembles_a_request(document) or (ends_like_a_method(target.segments) and names_something(document))
    ):
        raise Refused(Reason.UNKNOWN_PATH, "an A2A request without an envelope, on a path that is no route")


def _call(
    head: Head,
    target: Target,
    operation: Operation,
    form: Form,
    dialect: Dialect,
    payload: Payload,
    surface: Surface,
) -> Call:
    if _upgrades(head.headers):
        raise Refused(Reason.UPGRADE_REFUSED, "an A2A request cannot change the protocol")
    skill = None
    if operation in SENDS and surface.skill_from:
        skill = skill_named(payload.metadata, head.headers, surface.skill_from)
    return Call(
        operation,
        form,
        dialect,
        target.full,
        payload.task_id,
        payload.context_id,
        payload.references,
        payload.tenant,
        payload.push,
        skill,
        payload.selection,
        payload.config_id,
    )


def skill_named(
    metadata: Iterable[Mapping[str, Any]], headers: CIMultiDictProxy[str], skill_from: tuple[str, ...]
) -> NamedSkill | None:
    """The skill a caller names, by the first source of `scopes.skill_from` that has one.

    Only non-empty strings name a skill. Raises Refused(INVALID_REQUEST) for a repeated header, and
    for one that `Connection` lists: it would not reach the agent, which would then judge by another.
    """
    objects = tuple(metadata)
    for source in skill_from:
        kind, _, key = source.partition(":")
        if kind == "metadata":
            for values in objects:
                found = values.get(key)
                if type(found) is str and found:
                    return NamedSkill(found, f"metadata {key}")
        elif kind == "header":
            sent = headers.getall(key, ())
            if len(sent) > 1:
                raise Refused(Reason.INVALID_REQUEST, f"the header `{key}` is repeated")
            if sent and sent[0]:
                if key.lower() in ",".join(headers.getall("Connection", ())).lower().replace(" ", "").split(
                    ","
                ):
                    raise Refused(Reason.INVALID_REQUEST, f"`Connection` may not list `{key}`")
                return NamedSkill(sent[0], f"header {key}")
    return None


# --- what is no call -------------------------------------------------------------------------


def _other(
    head: Head,
    target: Target,
    form: Form = _NO_FORM,
    *,
    preflight: bool = False,
    listed_method: bool = False,
) -> Other:
    path = "/" + "/".join(target.segments)
    upgrade = head.method == "CONNECT" or _upgrades(head.headers)
    return Other(form, target.full, path, upgrade, preflight, listed_method)


def _unreadable(form: Form, target: Target, refused: Refused) -> Unreadable:
    return Unreadable(form, target.full, refused.refusal.reason, refused.refusal.detail)


def _is_preflight(head: Head) -> bool:
    return head.method == "OPTIONS" and "Access-Control-Request-Method" in head.headers


def _upgrades(headers: CIMultiDictProxy[str]) -> bool:
    """Whether the caller asks for another protocol.

    An offer of h2c alone does not count: Java's HTTP client makes it with every first request over
    clear text, and a server may ignore it (RFC 9110 §7.8). It never reaches the agent.
    """
    if "Upgrade" not in headers:
        return False
    offered = ",".join(headers.getall("Upgrade")).split(",")
    return any(offer.strip().lower() not in ("h2c", "") for offer in offered)


# --- the form of an answer -------------------------------------------------------------------


def _http_form(head: Head, dialect: Dialect) -> Form:
    headers = head.headers
    content_type = ",".join(headers.getall("Content-Type", ()))
    accept = ",".join(headers.getall("Accept", ()))
    return Form(dialect, media_type=media_type(content_type, accept))


def _guess(head: Head, place: Place | None, surface: Surface) -> Form:
    """The best form for what could not be read: by the path, else JSON-RPC where it is served."""
    if place is not None:
        return _http_form(head, place.guess(head.headers.get(VERSION_NAME, "")))
    if any(dialect in surface.dialects for dialect in JSONRPC):
        return Form(jsonrpc_guess(head.headers))
    served = next((dialect for dialect in HTTP if dialect in surface.dialects), None)
    return Form(served)
