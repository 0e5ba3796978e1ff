"""The head of a reply as bytes, and the replies no request of a caller's was read for.

Owns, for both edges: status line, header fields, Date and Server; what may stand in a field; how a connection is broken off.
Never: waits, or decides what a reply says.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict, CIMultiDictProxy, istr

from sidecar.bindings.refusals import encode_refusal
from sidecar.model import Form, Reason, Refusal
from sidecar.proxy.headers import SERVER

HEAD_LIMIT: Final = (
    64 * 1024
)  # bytes of a request's head that is not complete; the parser bounds each line, not their sum
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
TIMEOUT_PAGE: Final = f"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nServer: {SERVER}\r\nConnection: close\r\n\r\n".encode()

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}

# RFC 9110 §5.5: no control character but TAB may stand in a field; CR and LF would begin another one.
_CONTROLS: Final = bytes({*range(0x20), 0x7F} - {0x09})

# What only the edge says of a reply, whoever made it.
_OURS: Final = tuple(map(istr, ("Content-Length", "Transfer-Encoding", "Connection", "Date", "Server")))

_REQUEST_ID: Final = istr("X-Request-Id")
_SANE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=")


def reply_head(
    status: int,
    version: tuple[int, int],
    headers: CIMultiDict[str],
    length: int | None,
    *,
    chunked: bool = False,
    keep: bool = True,
) -> bytes:
    """`version` is the caller's. `length` is of the body, or of the one a reply to HEAD stands for; None if not known.

    Raises ValueError for a field that would not be one, or that is no text (UTF-8, or bytes kept as they came).
    """
    for name in _OURS:
        if name in headers:
            headers.popall(name)
    own = f"Date: {rfc822_formatted_time()}\r\nServer: {SERVER}\r\n"
    if chunked:
        own = "Transfer-Encoding: chunked\r\n" + own
    elif length is not None and status >= 200 and status != 204:  # RFC 9110 §8.6
        own = f"Content-Length: {length}\r\n{own}"
    if not keep:
        own += "Connection: close\r\n"
    elif version < (1, 1):
        own += "Connection: keep-alive\r\n"
    return _joined(_status_line(status, version), headers, own)


def switch_head(headers: CIMultiDict[str]) -> bytes:
    """The head of a 101, which has no framing and is nobody's but the agent's. Raises ValueError like `reply_head`."""
    return _joined("HTTP/1.1 101 Switching Protocols\r\n", headers, "")


def _joined(line: str, headers: CIMultiDict[str], own: str) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"{line}{fields}{own}\r\n".encode("utf-8", "surrogateescape")
    # Each line has brought one CR and one LF; whatever is more came from a field.
    if len(head) - len(head.translate(None, _CONTROLS)) != 2 * (len(headers) + own.count("\n") + 2):
        raise ValueError("a control character in a header field")
    return head


@lru_cache(maxsize=1024)
def _status_line(status: int, version: tuple[int, int]) -> str:
    major, minor = version
    return f"HTTP/{major}.{minor} {status} {_REASONS.get(status, '')}\r\n"


def error_page(status: int, method: str = "") -> bytes:
    """What the parser refused, or a fault of ours; the connection ends with it. Nothing of the request is quoted.

    `method` is the request's, where there is one.
    """
    reason = Reason.INTERNAL if status >= 500 else Reason.INVALID_REQUEST
    reply = encode_refusal(Refusal(reason), Form(), "")
    assert isinstance(reply.body, bytes)
    head = reply_head(status, (1, 1), reply.headers, len(reply.body), keep=False)
    return head if method == "HEAD" else head + reply.body


def echo_request_id(sent: CIMultiDictProxy[str], headers: CIMultiDict[str]) -> None:
    """`X-Request-Id` comes back if the caller sent a sane one and the agent set none."""
    value = sent.get(_REQUEST_ID)
    if value is not None and 0 < len(value) <= 128 and _SANE.issuperset(value):
        headers.setdefault(_REQUEST_ID, value)


def break_off(transport: asyncio.Transport, *, framed: bool) -> None:
    """End a body so that nobody takes it for complete. Where only the end of the connection ends it (HTTP/1.0, as nginx
    speaks by default), a FIN would; so the connection is reset."""
    sock = transport.get_extra_info("socket")
    if not framed and sock is not None:
        with suppress(OSError):  # it is closed already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
