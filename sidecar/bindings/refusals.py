"""Refusals as bytes.

Owns: the form of an error in each dialect, and the text and headers that tell missing scopes.
Never: free text per call beyond a refusal's own `detail`; a difference between causes that share a row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from multidict import CIMultiDict

from sidecar.bindings.jsonrpc import echoed, encodable
from sidecar.bindings.wire_errors import NOT_FOUND_REASONS, ON_THE_WIRE, WireError
from sidecar.model import Binding, Dialect, Divergence, Form, Reason, Refusal, Reply, RpcId, Version

__all__ = ["NOT_FOUND_REASONS", "ON_THE_WIRE", "WireError", "encode_refusal", "stream_failure"]

A2A_DOMAIN: Final = "a2a-protocol.org"  # of ErrorInfos the protocol defines (1.0 §9.5, §11.6)
OUR_DOMAIN: Final = "a2a-sidecar"
_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"

_JSON: Final = "application/json"
_MEDIA_TYPES: Final = frozenset({_JSON, "application/a2a+json"})
_LONGEST_TEXT: Final = 300  # characters of one text a caller or a token may have chosen
_LONGEST_HEADER: Final = 2000


def encode_refusal(refusal: Refusal, form: Form, decision_id: str) -> Reply:
    """The reply that tells `refusal` in the caller's dialect. Content-Length is the edge's to add.

    `decision_id` names the audit record; it appears only in the metadata of policy refusals.
    """
    row = ON_THE_WIRE[refusal.reason]
    body = _body(refusal, form, decision_id)
    jsonrpc = _binding(form) is Binding.JSONRPC
    status = 200 if jsonrpc and row.in_body else _rest_status(row, form.dialect)
    # A 0.x stream is refused as a stream: its clients read an error from an event only. What has an HTTP
    # status of its own keeps it, and with it a plain body.
    sse = jsonrpc and form.sse and status == 200
    headers = CIMultiDict({"Content-Type": "text/event-stream" if sse else media_type_of(form)})
    headers["Cache-Control"] = "no-store"  # a 404 is cacheable unless it says otherwise (RFC 9110 §15.5.5)
    if challenge := _challenge(refusal):
        headers["WWW-Authenticate"] = challenge
    if refusal.reason is Reason.UNAUTHENTICATED and _NONCE.fullmatch(refusal.nonce):
        headers["DPoP-Nonce"] = refusal.nonce
    if row.retry_after:
        headers["Retry-After"] = "1"
    if row.allow:  # RFC 9110 §15.5.6; which methods HTTP+JSON uses: 1.0 §11.1
        headers["Allow"] = "POST" if jsonrpc else "GET, POST, DELETE"
    return Reply(status, headers, b"data: " + body + b"\n\n" if sse else body)


def stream_failure(refusal: Refusal, form: Form, decision_id: str) -> bytes:
    """One event that ends a stream which has already begun; always whole, with its blank line.

    JSON-RPC clients read each event as a response; HTTP+JSON has no error event, so it is named `error`,
    as a2a-sdk and a2a-js do.
    """
    name = b"" if _binding(form) is Binding.JSONRPC else b"event: error\n"
    return name + b"data: " + _body(refusal, form, decision_id) + b"\n\n"


# --- bodies ----------------------------------------------------------------------------------


def _binding(form: Form) -> Binding | None:
    return form.dialect.binding if form.dialect else None


def _is_0x(dialect: Dialect | None) -> bool:
    return dialect is not None and dialect.version is not Version.V1_0


def _rest_status(row: WireError, dialect: Dialect | None) -> int:
    return row.http_0x if row.http_0x and _is_0x(dialect) else row.http


def media_type_of(form: Form) -> str:
    """The media type of an answer of ours. HTTP+JSON mirrors the caller's choice, if it is one of the two there are (1.0.1 §11.1)."""
    if _binding(form) is Binding.HTTP_JSON and form.media_type in _MEDIA_TYPES:
        return form.media_type
    return _JSON


def _body(refusal: Refusal, form: Form, decision_id: str) -> bytes:
    if form.dialect is None or form.dialect.binding is Binding.GRPC:
        return _plain_body(refusal)
    write = _BODIES[form.dialect.binding, _is_0x(form.dialect)]
    return write(refusal, form.rpc_id, decision_id)


def _plain_body(refusal: Refusal) -> bytes:
    row = ON_THE_WIRE[refusal.reason]
    error = {"code": row.http, "status": row.status, "message": _message(refusal)}
    return orjson.dumps({"error": error})


def _jsonrpc_1(refusal: Refusal, rpc_id: RpcId, decision_id: str) -> bytes:
    error: dict[str, Any] = {"code": ON_THE_WIRE[refusal.reason].jsonrpc, "message": _message(refusal)}
    if infos := _error_infos(refusal, decision_id):
        error["data"] = infos
    return _envelope(rpc_id, error)


def _jsonrpc_0(refusal: Refusal, rpc_id: RpcId, decision_id: str) -> bytes:
    row = ON_THE_WIRE[refusal.reason]
    error: dict[str, Any] = {"code": _code_0x(row), "message": _message(refusal)}
    if row.ours:
        error["data"] = _error_infos(refusal, decision_id)[-1:]
    return _envelope(rpc_id, error)


def _rest_1(refusal: Refusal, _: RpcId, decision_id: str) -> bytes:
    """google.rpc.Status (1.0 §11.6); `details` is mandatory."""
    row = ON_THE_WIRE[refusal.reason]
    error = {
        "code": row.http,
        "status": row.status,
        "message": _message(refusal),
        "details": _error_infos(refusal, decision_id),
    }
    return orjson.dumps({"error": error})


def _rest_0(refusal: Refusal, _: RpcId, __: str) -> bytes:
    """0.3 fixes no form. This is a2a-js 0.3's: its clients type an error by `code`, a2a-sdk's look at the status only."""
    row = ON_THE_WIRE[refusal.reason]
    return orjson.dumps({"code": _code_0x(row), "message": _message(refusal)})


_BODIES: Final[Mapping[tuple[Binding, bool], Callable[[Refusal, RpcId, str], bytes]]] = {
    (Binding.JSONRPC, False): _jsonrpc_1,
    (Binding.JSONRPC, True): _jsonrpc_0,
    (Binding.HTTP_JSON, False): _rest_1,
    (Binding.HTTP_JSON, True): _rest_0,
}


def _code_0x(row: WireError) -> int:
    return row.jsonrpc if row.jsonrpc_0x is None else row.jsonrpc_0x


def _envelope(rpc_id: RpcId, error: dict[str, Any]) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + echoed(rpc_id) + b',"error":' + orjson.dumps(error) + b"}"


def _error_infos(refusal: Refusal, decision_id: str) -> list[dict[str, Any]]:
    """The protocol's ErrorInfo first: it is the one the 1.x clients read; ours, where there is one, second."""
    row = ON_THE_WIRE[refusal.reason]
    metadata = _metadata(refusal.divergence, decision_id) if row.ours else {}
    named = [(row.a2a_reason, A2A_DOMAIN)] if row.a2a_reason else []
    if row.ours:
        named.append((refusal.reason.value.upper(), OUR_DOMAIN))
    return [
        {"@type": _ERROR_INFO, "reason": reason, "domain": domain, "metadata": metadata}
        for reason, domain in named
    ]


def _metadata(divergence: Divergence | None, decision_id: str) -> dict[str, str]:
    if divergence is None:
        return {"decision_id": _shown(decision_id)}
    chosen = {"skill": _shown(divergence.skill), "chosen_by": _shown(divergence.chosen_by)}
    if divergence.needed_lifetime:
        needed, remaining = _lifetimes(divergence)
        return {
            **chosen,
            "needed_seconds": str(needed),
            "remaining_seconds": str(remaining),
            "presented_by": _shown(divergence.presented_by),
            "decision_id": _shown(decision_id),
        }
    return {
        **chosen,
        "required": _listed(divergence.required),
        "held": _listed(divergence.held),
        "missing": _listed(divergence.missing),
        "presented_by": _shown(divergence.presented_by),
        "decision_id": _shown(decision_id),
    }


# --- texts and headers -----------------------------------------------------------------------


def _message(refusal: Refusal) -> str:
    row = ON_THE_WIRE[refusal.reason]
    parts = [row.message]
    if refusal.divergence and refusal.divergence.after_creation:
        named = row.message.partition(":")[0]
        parts = [f"{named}: the agent made a new task and was asked to cancel it"]
    if row.ours and refusal.divergence:
        parts.append(_told(refusal.divergence, refusal.reason))
    if row.detail and refusal.detail:
        parts.append(_shown(refusal.detail))
    return ": ".join(parts)


def _told(divergence: Divergence, reason: Reason) -> str:
    chosen = f" ({_shown(divergence.chosen_by)})" if divergence.chosen_by else ""
    if reason is Reason.TOKEN_LIFETIME_TOO_SHORT:
        what = f'skill "{_shown(divergence.skill)}"{chosen}' if divergence.skill else f"the agent{chosen}"
        needed, remaining = map(_span, _lifetimes(divergence))
        by = f"presented by {_shown(divergence.presented_by)}" if divergence.presented_by else "it was sent"
        return (
            f"{what} needs a token that is valid for at least {needed}; the one {by} expires in "
            f"{remaining}; obtain one that is valid for longer"
        )
    needs = _listed(divergence.required) or "another kind of credential"
    if divergence.skill:
        first = f'skill "{_shown(divergence.skill)}"{chosen} needs {needs}'
    else:
        what = "the card" if reason is Reason.SCOPE_DIVERGENCE else "the operation"
        first = f"{what} needs {needs}{chosen}"
    presented = f" presented by {_shown(divergence.presented_by)}" if divergence.presented_by else ""
    told = [first, f"the token{presented} holds {_listed(divergence.held) or 'no scopes'}"]
    if divergence.missing:
        told.append(f"missing {_listed(divergence.missing)}")
    return "; ".join(told)


def _lifetimes(divergence: Divergence) -> tuple[int, int]:
    """What is needed and what is left, in whole seconds on the safe side: a token that fits the first is good."""
    return math.ceil(divergence.needed_lifetime), max(0, math.floor(divergence.remaining_lifetime))


def _span(seconds: int) -> str:
    """`1h 30m`."""
    parts, left = [], seconds
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts) or "0s"


def _listed(scopes: frozenset[str]) -> str:
    return " ".join(encodable(scope) for scope in sorted(scopes))


def _shown(text: str) -> str:
    text = encodable(text)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


_SCOPE_TOKEN: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749 §3.3
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]+")
_NONCE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 9449 §8.1


def _challenge(refusal: Refusal) -> str | None:
    """WWW-Authenticate: with a 401 (RFC 9110 §15.5.2), and with missing scopes or an early end (RFC 6750 §3.1)."""
    if refusal.reason is Reason.UNAUTHENTICATED:
        given = refusal.challenge or ""
        usable = _HEADER_TEXT.fullmatch(given) and len(given) <= _LONGEST_HEADER
        return given if usable else "Bearer"
    if refusal.divergence is None or not ON_THE_WIRE[refusal.reason].ours:
        return None
    if refusal.reason is Reason.TOKEN_LIFETIME_TOO_SHORT:
        needed = _span(_lifetimes(refusal.divergence)[0])
        told = f"the token expires too early; one that is valid for at least {needed} is needed"
        return f'Bearer error="invalid_token", error_description="{told}"'
    # `scope` names what is needed to succeed, not only what is missing. A cut list would send the caller
    # for a token that is refused again, so a list too long is left out; the body has it.
    scopes = " ".join(s for s in sorted(refusal.divergence.required) if _SCOPE_TOKEN.fullmatch(s))
    listed = f', scope="{scopes}"' if 0 < len(scopes) <= _LONGEST_HEADER else ""
    return f'Bearer error="insufficient_scope"{listed}'
