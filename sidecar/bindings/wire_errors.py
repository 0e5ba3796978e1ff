"""Reason → what it is on the wire.

Owns: the table from every Reason to HTTP status, google.rpc name, JSON-RPC code and text.
Never: writes a body; a difference between causes that must look alike: they share a row.

Which form which official client can show was measured; the choices that look odd are explained at the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sidecar.model import Reason


@dataclass(frozen=True, slots=True)
class WireError:
    """What a reason is on the wire. `status` is the name of a google.rpc.Code.

    `in_body`: JSON-RPC tells it in the body alone, with HTTP 200, as the SDKs do (the specification fixes
    no status); otherwise `http` holds there too. `a2a_reason` is the protocol's own ErrorInfo, empty for none.
    `http_0x` and `jsonrpc_0x` are what 0.x uses where it differs. `ours`: a decision of the policy, told with
    an ErrorInfo of our own beside the protocol's. `allow`: the reply lists the methods there are.
    """

    http: int
    status: str
    jsonrpc: int
    message: str
    in_body: bool = False
    retry_after: bool = False
    allow: bool = False
    detail: bool = True  # whether a refusal's `detail` may be shown
    a2a_reason: str = ""
    ours: bool = False
    http_0x: int | None = None
    jsonrpc_0x: int | None = None


def _unreadable(jsonrpc: int, message: str) -> WireError:
    return WireError(400, "INVALID_ARGUMENT", jsonrpc, message, in_body=True)


def _unavailable(message: str) -> WireError:
    """Before forwarding: the caller may try again."""
    return WireError(503, "UNAVAILABLE", -32603, message, retry_after=True)


def _failed(message: str, http: int = 500, *, detail: bool = True) -> WireError:
    """After forwarding: never 503, never Retry-After, since meshes repeat those calls."""
    return WireError(http, "INTERNAL", -32603, message, detail=detail)


def _policy(message: str) -> WireError:
    # -32004 because the 1.x clients keep text and metadata only of an error the protocol knows. The 0.3
    # client of JavaScript replaces the text of -32004 by its own, so 0.x gets a code no client knows.
    return WireError(
        403,
        "PERMISSION_DENIED",
        -32004,
        message,
        in_body=True,
        a2a_reason="UNSUPPORTED_OPERATION",
        ours=True,
        jsonrpc_0x=-31403,
    )


# Absent, foreign and purged are one answer (1.0 §3.3.2): one row, and no detail.
NOT_FOUND: Final = WireError(
    404, "NOT_FOUND", -32001, "Task not found", in_body=True, detail=False, a2a_reason="TASK_NOT_FOUND"
)
_NOTHING_HERE: Final = WireError(404, "NOT_FOUND", -32601, "there is nothing at this path", detail=False)

ON_THE_WIRE: Final[Mapping[Reason, WireError]] = MappingProxyType(
    {
        Reason.UNAUTHENTICATED: WireError(401, "UNAUTHENTICATED", -31401, "authentication required"),
        Reason.KEYS_UNAVAILABLE: _unavailable("the keys that verify credentials are unavailable"),
        Reason.UNPARSABLE: _unreadable(-32700, "the request cannot be parsed"),
        Reason.INVALID_REQUEST: _unreadable(-32600, "the request is not valid"),
        Reason.INVALID_PARAMS: _unreadable(-32602, "the parameters are not valid"),
        Reason.UNKNOWN_OPERATION: WireError(404, "UNIMPLEMENTED", -32601, "no such operation", in_body=True),
        Reason.UNSUPPORTED_OPERATION: WireError(
            400,
            "FAILED_PRECONDITION",  # 1.0.1 §5.4; UNIMPLEMENTED in 1.0.0
            -32004,
            "This operation is not supported",
            in_body=True,
            a2a_reason="UNSUPPORTED_OPERATION",
            http_0x=501,  # as a2a-sdk 0.3 answers it
        ),
        Reason.METHOD_NOT_ALLOWED: WireError(
            405, "UNIMPLEMENTED", -32600, "this HTTP method is not served here", allow=True
        ),
        Reason.UNKNOWN_PATH: _NOTHING_HERE,
        Reason.BAD_PATH: WireError(400, "INVALID_ARGUMENT", -32600, "the path can be read in two ways"),
        Reason.ENCODING_REFUSED: WireError(
            415, "INVALID_ARGUMENT", -32600, "the content encoding or charset is not accepted"
        ),
        Reason.UPGRADE_REFUSED: WireError(
            400, "INVALID_ARGUMENT", -32600, "protocol upgrades are not accepted"
        ),
        Reason.BODY_TOO_LARGE: WireError(413, "RESOURCE_EXHAUSTED", -32600, "the request is too large"),
        Reason.BODY_TOO_SLOW: WireError(408, "DEADLINE_EXCEEDED", -32600, "the request took too long"),
        Reason.OVERLOADED: WireError(
            429, "RESOURCE_EXHAUSTED", -32603, "too many requests at once", retry_after=True
        ),
        Reason.SCOPE_DIVERGENCE: _policy("CapabilityScopeDivergence: refused before any task was created"),
        Reason.INSUFFICIENT_SCOPE: _policy("InsufficientScope: refused before the agent was asked"),
        Reason.UNKNOWN_SKILL: _policy("UnknownSkill: refused before any task was created"),
        # No 401: the credential is good, only not for this, and a 401 has clients ask for one just like it.
        Reason.TOKEN_LIFETIME_TOO_SHORT: _policy(
            "TokenLifetimeTooShort: refused before any task was created"
        ),
        Reason.PUSH_TARGET_REFUSED: _unreadable(-32602, "the push notification target is not allowed"),
        # No 429, which meshes repeat: only the caller can make room.
        Reason.PUSH_LIMIT_REACHED: WireError(
            400,
            "FAILED_PRECONDITION",
            -32602,
            "the task has as many push configs as it may have",
            in_body=True,
        ),
        Reason.NOT_FOUND: NOT_FOUND,
        Reason.TENANT_MISMATCH: NOT_FOUND,
        Reason.CONTEXT_MISMATCH: NOT_FOUND,
        Reason.CONTEXT_NOT_ISSUED: NOT_FOUND,
        # A miss too, and no less uniform: it depends on operation and card alone, never on the id.
        Reason.PUSH_NOT_OFFERED: WireError(
            400,
            "FAILED_PRECONDITION",  # 1.0.1 §5.4; UNIMPLEMENTED in 1.0.0
            -32003,
            "Push notifications are not supported by the agent",  # a2a-sdk's own words
            in_body=True,
            detail=False,
            a2a_reason="PUSH_NOTIFICATION_NOT_SUPPORTED",
            http_0x=501,
        ),
        Reason.AGENT_NOT_FOUND: _NOTHING_HERE,  # no mount matches: no A2A yet, and no task
        Reason.LEDGER_UNAVAILABLE: _unavailable("the record of owners is unavailable"),
        Reason.CARD_UNAVAILABLE: _unavailable("the agent's card is unavailable"),
        Reason.AGENT_UNAVAILABLE: _unavailable("the agent is unavailable"),
        Reason.AGENT_FAILED: _failed("the agent failed while it answered"),
        Reason.REPLY_UNREADABLE: _failed("the agent's reply cannot be read", 502),
        Reason.REPLY_TOO_LARGE: _failed("the agent's reply is too large", 502),
        # What these three could tell is somebody else's.
        Reason.COLLISION: _failed("the agent answered with an id that is already taken", detail=False),
        Reason.SHARED_CONTEXT: _failed(
            "the agent gives one context id to several callers; "
            "list it under ownership.shared_context_ids or fix the agent",
            detail=False,
        ),
        Reason.FOREIGN_REPLY: _failed("the agent answered about something else", detail=False),
        Reason.RECORDING_FAILED: _failed("the owner could not be recorded; the task is withheld"),
        Reason.INTERNAL: _failed("internal error", detail=False),
    }
)

NOT_FOUND_REASONS: Final = frozenset(reason for reason, row in ON_THE_WIRE.items() if row is NOT_FOUND)
