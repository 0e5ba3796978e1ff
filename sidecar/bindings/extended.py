"""The extended card in its envelope.

Owns: asking for the caller's own extended card the way a call came, finding the card in a reply, and putting it back.
Never: reads the card itself (card.py does).
"""

from __future__ import annotations

import jiter
import orjson

from sidecar.bindings.own_requests import OwnRequest, extended_card_request
from sidecar.model import Binding, Call, Dialect, Version

_SEND_TAILS = ("/message:send", "/message:stream")


def request_for(call: Call) -> OwnRequest | None:
    """The request for the extended card beside a send; None in a dialect that has none (0.1)."""
    if call.dialect.version is Version.V0_1:
        return None
    path = call.target.partition("?")[0]
    for tail in _SEND_TAILS:
        path = path.removesuffix(tail)
    if call.dialect == Dialect(Binding.HTTP_JSON, Version.V0_3):
        path = path.removesuffix("/v1")
    # In JSON-RPC the tenant is a parameter, in HTTP+JSON the path already has it.
    tenant = call.tenant or "" if call.dialect.binding is Binding.JSONRPC else ""
    return extended_card_request(call.dialect, path, tenant=tenant)


def card_in(body: bytes, dialect: Dialect) -> bytes | None:
    """The card in a 2xx reply to a request for it, None where the reply is an error or no object."""
    try:
        read = jiter.from_json(body, catch_duplicate_keys=True)
        if dialect.binding is Binding.HTTP_JSON:
            return body if isinstance(read, dict) else None
        result = read.get("result") if isinstance(read, dict) else None
        # 0.2.1 to 0.2.6 serve the extended card of a JSON-RPC agent over plain GET, without an envelope.
        bare = isinstance(read, dict) and "jsonrpc" not in read and "name" in read
        return body if bare else orjson.dumps(result) if isinstance(result, dict) else None
    except (ValueError, TypeError):
        return None


def with_card(body: bytes, card: bytes, dialect: Dialect) -> bytes:
    """`body` with `card` in the place of the one found in it. `card_in(body, dialect)` was not None."""
    if dialect.binding is Binding.HTTP_JSON:
        return card
    envelope = jiter.from_json(body, catch_duplicate_keys=True)
    if "jsonrpc" not in envelope:
        return card
    return orjson.dumps({**envelope, "result": orjson.Fragment(card)})
