"""Valid requests of every operation and dialect, and what a hostile caller does to them.

Owns: the strategy `requests`, and what is done to text, path, query and headers.
Never: judges one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from sidecar.bindings.dialect import DIALECTS
from sidecar.bindings.surface import Surface
from sidecar.model import SENDS, Version
from tests.differential.documents import Object, objects, parsed, written
from tests.differential.reading import Asked
from tests.differential.tricks import ANY_PLACE, MINE, OPAQUE, THEIRS, TRICKS, Tools
from tests.matrix.requests import ROWS, Names, Request, Row

EVERYTHING: Final = Surface(
    dialects=frozenset(DIALECTS.values()), tenants=frozenset({"acme"}), methods=frozenset({"vendor/ping"})
)
ONLY: Final = {
    dialect: Surface(frozenset({dialect}), tenants=frozenset({"acme"})) for dialect in DIALECTS.values()
}
_NARROW: Final = 3  # one request in four meets a sidecar whose agent speaks its dialect alone

# --- tricks on the text ----------------------------------------------------------------------------

GAPS: Final = (*(12 * ("",)), " ", "\n\t", "\r\n", "\x0b", "\xa0", "\u2028", "\ufeff", "/**/")
WRAPPINGS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    *(40 * (lambda b: b,)),
    lambda b: b" \r\n\t" + b + b"\n ",
    lambda b: b"\xef\xbb\xbf" + b,
    lambda b: b + b,
    lambda b: b + b"\n" + b,
    lambda b: b + b"\x00",
    lambda b: b + b"]",
    lambda b: b + b" x",
    lambda b: b + b"}",
    lambda b: b"[" + b + b"]",
    lambda b: b"\x0c" + b,
    lambda b: b"\x00" + b,
    lambda b: b"\xc2\xa0" + b,
    lambda b: b")]}'\n" + b,
    lambda b: b"null" + b,
    lambda b: b[:-1],
    lambda b: b[:-1] + b",}",
    lambda b: b.replace(b"mine", b"mi\xffne"),
    lambda b: b.replace(b"mine", b"mi\xc0\xafne"),
    lambda b: b.replace(b"mine", b"mi\xed\xa0\x80ne"),
    lambda b: b.replace(b'":', b'" :').replace(b'"', b"'"),
    lambda b: b.decode("utf-8", "replace").encode("utf-16"),
    lambda b: b.decode("utf-8", "replace").encode("utf-16-le"),
    lambda b: b.decode("utf-8", "replace").encode("utf-16-be"),
    lambda b: b.decode("utf-8", "replace").encode("utf-32"),
    lambda b: b.decode("utf-8", "replace").encode("utf-32-be"),
    lambda b: b.decode("utf-8", "replace").encode("utf-7", "replace"),
)

# --- requests --------------------------------------------------------------------------------------

IN_PATHS: Final = (
    *(40 * (MINE,)),
    *("mi%6Ee", "mine%3Acancel", "mine:cancel", "mine:subscribe:cancel", "mine%3a", "a%2Fb", "mine%20", "mine+x"),
    *("mine%2Bx", "mine;x=1", "mine%3Bx", "..", "%2e%2e", ".", "%C3%A9", "tasks", "v1", "acme", "message:send"),
    *("extendedAgentCard", "extendedagentcard", "TASKS", "pushNotificationConfigs", "mine%2525", "mine%25", "MINE", "%ff", "mine%00", "mine&x", "mine=x", "mine,x"),
)  # fmt: skip
PREFIXES: Final = (*(24 * ("",)), "/acme", "/acme", "/v1", "/other", "/", "/tasks", "/.")
ASKED_FOR: Final = (
    *(24 * ("",)),
    *("tenant=acme", "tenant=other", "tenant=acme&Tenant=other", f"taskId={THEIRS}", f"task_id={THEIRS}"),
    *(f"id={THEIRS}", f"id={MINE}", f"contextId={THEIRS}", f"context_id={THEIRS}", f"CONTEXTID={THEIRS}"),
    *(f"contextId=c&contextId={THEIRS}", f"contextId=c&context_id={THEIRS}", f"contextId[]={THEIRS}"),
    *(f"context%49d={THEIRS}", f"contextId=c;contextId={THEIRS}", f"contextId.={THEIRS}", "A2A-Version=0.3"),
    *(f"name=tasks/{THEIRS}", "historyLength=1", "x=%zz", "=x", "&&", "contextId", "contextId=%ff", "a[contextId]=x"),
)  # fmt: skip
RPC_PATHS: Final = ("/", "/", "/", "/a2a", "/agents/x/", "/v1", "/acme", "/rpc")
VERSIONS: Final = (*(12 * ("",)), "1.0", "0.3", "2.0", None)  # nothing drawn: what the dialect sends
VERBS: Final = (*(30 * ("",)), "GET", "DELETE", "PUT", "PATCH", "OPTIONS")
CONTENT_TYPES: Final = (
    *(30 * ("application/json",)),
    *("application/a2a+json", "text/plain", "application/json; charset=utf-8", "application/json; charset=utf-16"),
    *("application/json; charset=utf-7", "application/json; charset=latin-1", "multipart/form-data", ""),
)  # fmt: skip
# An envelope that lacks something: a2a-sdk 0.2 takes the first method whose parameters fit.
STRIPPED: Final[tuple[frozenset[str], ...]] = (
    *(12 * (frozenset(),)),
    frozenset({'"jsonrpc"'}),
    frozenset({'"method"'}),
    *(2 * (frozenset({'"jsonrpc"', '"method"'}),)),
    frozenset({'"jsonrpc"', '"method"', '"id"'}),
)

_ANY_ROW: Final = st.sampled_from(ROWS)
_ANY_PATH: Final = st.sampled_from(RPC_PATHS)
_ANY_VERB: Final = st.sampled_from(VERBS)
_ANY_VERSION: Final = st.sampled_from(VERSIONS)
_ANY_CONTENT_TYPE: Final = st.sampled_from(CONTENT_TYPES)
_ANY_STRIPPED: Final = st.sampled_from(STRIPPED)
_ANY_GAP: Final = st.sampled_from(GAPS)
_ANY_WRAPPING: Final = st.sampled_from(WRAPPINGS)
_ANY_TRICK: Final = st.sampled_from(TRICKS)
_ANY_PREFIX: Final = st.sampled_from(PREFIXES)
_ANY_IN_PATH: Final = st.sampled_from(IN_PATHS)
_ANY_ASKED: Final = st.sampled_from(ASKED_FOR)
_ANY_REFERENCES: Final = st.sampled_from(((), ("ref-1",), ("ref-1", "ref-2")))
_HOW_MANY: Final = st.integers(0, 3)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Asked, Surface]:
    """A request, and what the sidecar knows of the agent it is for."""
    row = draw(_ANY_ROW)
    base = _base(row, draw)
    body = b"" if base.body is None else _hostile_body(base.body, row, draw)
    target = draw(_ANY_PATH) if row.jsonrpc else _hostile_target(base.target, draw)
    content_type = draw(_ANY_CONTENT_TYPE) if body else ""
    headers = {"Content-Type": content_type} if content_type else {}
    version = draw(_ANY_VERSION)
    if version == "" and row.dialect.version is Version.V1_0:
        version = "1.0"
    if version:
        headers["A2A-Version"] = version
    narrow = draw(_HOW_MANY) == _NARROW
    surface = ONLY[row.dialect] if narrow else EVERYTHING
    return Asked(draw(_ANY_VERB) or base.method, target, headers, body), surface


def _base(row: Row, draw: st.DrawFn) -> Request:
    if row.operation not in SENDS:
        return row.anyhow(MINE)
    named = draw(_HOW_MANY)
    names = Names(
        MINE if named or row.dialect.version is Version.V0_1 else None,
        draw(_ANY_REFERENCES),
        MINE if named > 1 else None,
    )
    return row.sending(names, snake=draw(st.booleans()))


def _hostile_body(body: bytes, row: Row, draw: st.DrawFn) -> bytes:
    document = parsed(json.loads(body))
    tools = Tools(draw)
    for _ in range(draw(_HOW_MANY)):
        places = list(objects(document, OPAQUE))
        if places:
            found = places[draw(ANY_PLACE) % len(places)]
            draw(_ANY_TRICK)(tools, found)
    if row.jsonrpc and isinstance(document, Object):
        lacking = draw(_ANY_STRIPPED)
        document.members = [member for member in document.members if member[0] not in lacking]
    text = written(document, draw(_ANY_GAP))
    return draw(_ANY_WRAPPING)(text.encode("utf-8", "surrogatepass"))


def _hostile_target(target: str, draw: st.DrawFn) -> str:
    path, _, query = target.partition("?")
    path = draw(_ANY_PREFIX) + path.replace(MINE, draw(_ANY_IN_PATH))
    asked = draw(_ANY_ASKED) or query
    return f"{path}?{asked}" if asked else path
