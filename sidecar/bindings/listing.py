"""A list of tasks, put together from the agent's own replies.

Owns: the raw text of the task in a GetTask reply, cutting it to what a list shows, and the list's form.
Never: parses a number or a string and writes it anew: what is kept of a task are the agent's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from json import JSONDecoder  # noqa: TID251 - it tells where a value ends; jiter does not
from typing import Final, NamedTuple

import orjson
from multidict import CIMultiDict

from sidecar.bindings.jsonrpc import echoed
from sidecar.bindings.refusals import media_type_of
from sidecar.bindings.shapes import Unclear
from sidecar.model import Binding, Call, Form, Reply, Selection


class _Member(NamedTuple):
    """One member of an object as offsets into the text."""

    name: str
    start: int  # of the name's quote
    value: int
    end: int


_NOTHING: Final = lambda _: None  # noqa: E731 - numbers are only measured
_DECODER: Final = JSONDecoder(parse_int=_NOTHING, parse_float=_NOTHING, parse_constant=_NOTHING, strict=False)
_IDS: Final = frozenset({"id", "taskId", "task_id"})
_BLANK: Final = " \t\r\n"


def listed_task(reply: bytes, call: Call, selection: Selection) -> bytes:
    """The task in the reply to the GetTask `call`, as a list shows it. Raises Unclear.

    Artifacts only where they were asked for, of the history the newest `history_length` messages (1.0 §3.1.4).
    """
    try:
        text = reply.decode()
        at = _start(text, 0)
        if call.dialect.binding is Binding.JSONRPC:
            at = _value(text, at, "result")
        wrapped = {m.name: m.value for m in _members(text, at) if text[m.value] == "{"}
        at = wrapped.get("task", at)  # fasta2a wraps it in the 0.3 dialect; no Task has such a member
        if _IDS.isdisjoint(member.name for member in _members(text, at)):
            raise KeyError("id")
        return _cut(text, at, selection).encode()
    except (ValueError, IndexError, KeyError, RecursionError) as problem:
        raise Unclear(f"no task to be found: {type(problem).__name__}") from None


def list_reply(tasks: Sequence[bytes], token: str, page_size: int, total: int, form: Form) -> Reply:
    """ListTasksResponse, the same in 1.0 (§3.1.4) and in 0.3-dev; `token` is empty on the last page."""
    tail = orjson.dumps({"nextPageToken": token, "pageSize": page_size, "totalSize": total})
    body = b'{"tasks":[' + b",".join(tasks) + b"]," + tail[1:]
    if form.dialect is not None and form.dialect.binding is Binding.JSONRPC:
        body = b'{"jsonrpc":"2.0","id":' + echoed(form.rpc_id) + b',"result":' + body + b"}"
    headers = CIMultiDict({"Content-Type": media_type_of(form), "Cache-Control": "no-store"})
    return Reply(200, headers, body)


def _cut(text: str, at: int, selection: Selection) -> str:
    kept = []
    for member in _members(text, at):
        if member.name == "artifacts" and not selection.include_artifacts:
            continue
        if member.name == "history" and selection.history_length is not None:
            if selection.history_length and text[member.value] == "[":
                newest = list(_elements(text, member.value))[-selection.history_length :]
                messages = ",".join(text[start:end] for start, end in newest)
                kept.append(f'"history":[{messages}]')
            continue
        kept.append(text[member.start : member.end])
    return "{" + ",".join(kept) + "}"


def _value(text: str, at: int, name: str) -> int:
    """Where the value of a member starts. Raises KeyError."""
    for member in _members(text, at):
        if member.name == name:
            return member.value
    raise KeyError(name)


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of the object that starts at `at`; the text has been read as JSON before."""
    at = _opened(text, at, "{")
    while text[at] != "}":
        start = at
        name, at = _DECODER.raw_decode(text, at)
        value = _start(text, _start(text, at) + 1)
        _, end = _DECODER.raw_decode(text, value)
        yield _Member(name, start, value, end)
        at = _next(text, end)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    at = _opened(text, at, "[")
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _next(text, end)


def _opened(text: str, at: int, bracket: str) -> int:
    if text[at] != bracket:
        raise ValueError(bracket)
    return _start(text, at + 1)


def _next(text: str, end: int) -> int:
    at = _start(text, end)
    return _start(text, at + 1) if text[at] == "," else at


def _start(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at
