"""Strict reading: what two JSON parsers could read differently is refused."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings.strict import Body, fold, members, read_document, vocabulary
from sidecar.model import Reason, Refused

JSON = [("Content-Type", "application/json")]
CALL = '{"jsonrpc":"2.0","method":"GetTask"}'


def read(body: bytes | None, headers: list[tuple[str, str]] | None = None, depth: int = 100) -> Any:
    return read_document(CIMultiDictProxy(CIMultiDict(JSON if headers is None else headers)), body, depth)


def refused(body: bytes | None, headers: list[tuple[str, str]] | None = None, depth: int = 100) -> Reason:
    with pytest.raises(Refused) as problem:
        read(body, headers, depth)
    assert problem.value.refusal.detail
    return problem.value.refusal.reason


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"method":"a","method":"b"}', id="FC-001 a member twice"),
        pytest.param(b'{"a":[{"b":{"c":1,"c":1}}]}', id="FC-001 a member twice, deep below"),
        pytest.param(b'{"id":"mine","\\u0069d":"theirs"}', id="FC-011 a member twice, once escaped"),
        pytest.param(b"\xef\xbb\xbf{}", id="FC-007 a UTF-8 byte order mark"),
        pytest.param(CALL.encode("utf-16"), id="FC-007 UTF-16 with a mark"),
        pytest.param(CALL.encode("utf-16-le"), id="FC-007 UTF-16 little endian"),
        pytest.param(CALL.encode("utf-16-be"), id="FC-007 UTF-16 big endian"),
        pytest.param(CALL.encode("utf-32"), id="FC-007 UTF-32 with a mark"),
        pytest.param(CALL.encode("utf-32-be"), id="FC-007 UTF-32 big endian"),
        pytest.param((" \n" + CALL).encode("utf-16-le"), id="FC-007 UTF-16 after white space"),
        pytest.param(b'{"a":NaN}', id="FC-016 NaN"),
        pytest.param(b'{"a":-Infinity}', id="FC-016 minus infinity"),
        pytest.param(b'{"a":[[1e400]]}', id="FC-016 a number that becomes infinite"),
        pytest.param(b'{"a":{"b":[1,{"c":-1E+0400}]}}', id="FC-016 the same in other letters"),
        pytest.param(b"[1" + b"0" * 400 + b".0]", id="FC-016 a long mantissa"),
        pytest.param(b"[1" + b"0" * 250 + b"e99]", id="FC-016 a long mantissa and a short exponent"),
        pytest.param(b"[" + b"1" * 5000 + b"]", id="an integer of 5,000 digits"),
        pytest.param(b'{"a":"\\ud800"}', id="FC-016 a lone surrogate"),
        pytest.param(b'{"a":"\xc3\x28"}', id="FC-016 bytes that are no UTF-8"),
        pytest.param(b'{"a":"\xc0\x80"}', id="FC-016 an overlong NUL"),
        pytest.param(b'{"a":"\x01"}', id="FC-016 a control byte in a string"),
        pytest.param(b"{}{}", id="a second document"),
        pytest.param(b"{} x", id="trailing data"),
        pytest.param(b"{}\x00", id="a trailing NUL"),
        pytest.param(b'{"a":1,}', id="a trailing comma"),
        pytest.param(b'{"a":01}', id="a leading zero"),
        pytest.param(b"{'a':1}", id="single quotes"),
        pytest.param(b"{", id="half an object"),
        pytest.param(b"\x0b{}", id="white space that JSON has not"),
        pytest.param(b"\xc2\xa0{}", id="a no-break space"),
        pytest.param(b"\xe2\x80\x8b[]", id="a zero-width space"),
        pytest.param(b"[" * 300 + b"]" * 300, id="FC-133 deeper than the parser goes"),
    ],
)
def test_what_is_not_strict_json(body: bytes) -> None:
    assert refused(body) is Reason.UNPARSABLE


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b' \t\r\n{"a":1} \n', {"a": 1}, id="white space around"),
        pytest.param(b'{"a":"\\u0000\\ud83d\\ude00"}', {"a": "\0😀"}, id="escapes"),
        pytest.param(b"[9007199254740993]", [9007199254740993], id="large integers stay exact"),
        pytest.param(b"[1e300,1E+100,0.5e-999]", [1e300, 1e100, 0.0], id="large and small but finite"),
        pytest.param(b'["e999","1e400"]', ["e999", "1e400"], id="what only looks like a number"),
        pytest.param(b"[" + b"1" * 4000 + b"]", [int("1" * 4000)], id="an integer of 4,000 digits"),
    ],
)
def test_strict_json(body: bytes, value: Any) -> None:
    assert read(body) == value


@pytest.mark.parametrize(
    ("levels", "passes"),
    [
        pytest.param(5, True, id="as deep as allowed"),
        pytest.param(6, False, id="one deeper"),
    ],
)
def test_depth(levels: int, passes: bool) -> None:
    body = b'{"a":' * (levels - 1) + b"[1,2]" + b"}" * (levels - 1)
    if passes:
        assert read(body, depth=5)
    else:
        assert refused(body, depth=5) is Reason.UNPARSABLE


def test_many_shallow_objects_are_not_deep() -> None:
    assert len(read(b"[" + b"{}," * 1000 + b"[]]", depth=2)) == 1001


@pytest.mark.parametrize(
    ("body", "headers", "kind"),
    [
        pytest.param(b"", JSON, Body.NONE, id="no bytes"),
        pytest.param(b" \r\n", JSON, Body.NONE, id="nothing but white space"),
        pytest.param(None, [], Body.NONE, id="streamed, but nothing announced"),
        pytest.param(None, [("Content-Length", "0")], Body.NONE, id="streamed, announced as empty"),
        pytest.param(None, [("Content-Length", "5")], Body.OPAQUE, id="streamed with a length"),
        pytest.param(None, [("Transfer-Encoding", "chunked")], Body.OPAQUE, id="streamed in chunks"),
        pytest.param(b'"text"', JSON, Body.OPAQUE, id="FC-010 a top-level string"),
        pytest.param(b"null", JSON, Body.OPAQUE, id="FC-010 null"),
        pytest.param(b"a=b", JSON, Body.OPAQUE, id="a form"),
        pytest.param(b"\x00\x00\x00\x18ftyp", [], Body.OPAQUE, id="a binary file that begins with NUL"),
        pytest.param(b"\x00", [], Body.OPAQUE, id="a single NUL"),
        pytest.param(
            b"a=b", [("Content-Type", "text/plain; charset=iso-8859-1")], Body.OPAQUE, id="text in Latin-1"
        ),
    ],
)
def test_bodies_without_an_object(body: bytes | None, headers: list[tuple[str, str]], kind: Body) -> None:
    assert read(body, headers) is kind


@pytest.mark.parametrize(
    "content_type",
    [
        pytest.param("application/json; charset=utf-16", id="FC-007 utf-16"),
        pytest.param("application/json;charset=UTF-7", id="utf-7"),
        pytest.param('application/json; charset="utf-32"', id="quoted"),
        pytest.param("application/json; charset=utf-8; charset=utf-16", id="two charsets"),
        pytest.param("application/json; charset*=utf-16''", id="an extended parameter"),
        pytest.param("application/json; charset = ibm037", id="spaces around the sign"),
        pytest.param("application/json; charset=iso-8859-1", id="Latin-1 for JSON"),
        pytest.param("application/json; charset=", id="an empty name"),
    ],
)
def test_other_charsets(content_type: str) -> None:
    assert refused(b"{}", [("Content-Type", content_type)]) is Reason.UNPARSABLE


def test_a_second_content_type_counts_too() -> None:
    assert refused(b"{}", [*JSON, ("Content-Type", "text/plain; charset=utf-16")]) is Reason.UNPARSABLE


@pytest.mark.parametrize("body", [pytest.param(b"+AHs-", id="read"), pytest.param(None, id="streamed")])
def test_a_charset_that_hides_the_first_byte_is_refused(body: bytes | None) -> None:
    headers = [("Content-Type", "application/json; charset=utf-7"), ("Content-Length", "5")]
    assert refused(body, headers) is Reason.UNPARSABLE


@pytest.mark.parametrize("name", ["utf-8", "UTF-8", '"utf-8"', "us-ascii", "utf8"])
def test_utf_8_by_any_name(name: str) -> None:
    assert read(b"{}", [("Content-Type", f"application/json; charset={name}")]) == {}


# --- members -----------------------------------------------------------------------------------

KNOWN = vocabulary("taskId", "id", "message")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"taskId": "a", "task_id": "b"}, id="FC-005 camel and snake"),
        pytest.param({"task_id": "b", "taskId": "b"}, id="FC-005 snake and camel, even if equal"),
        pytest.param({"TASKID": "b"}, id="FC-003 only in a wrong case"),
        pytest.param({"id": "a", "ID": "b"}, id="FC-003 another case beside the right one"),
        pytest.param({"Task_Id": "b"}, id="snake case in a wrong case"),
        pytest.param({"meſſage": {}}, id="FC-003 a long s"),
        pytest.param({"tas\u212aId": "b"}, id="FC-003 a Kelvin sign"),
        pytest.param({"task-id": "b"}, id="kebab case"),
        pytest.param({"id ": "b"}, id="a trailing space"),
        pytest.param({"__proto__": {"taskId": "b"}}, id="a prototype to inherit from"),
    ],
)
def test_twins(value: dict[str, Any]) -> None:
    with pytest.raises(Refused) as problem:
        members(value, KNOWN, "params")
    assert problem.value.refusal.reason is Reason.INVALID_PARAMS
    assert "theirs" not in problem.value.refusal.detail


def test_known_members_get_their_canonical_name() -> None:
    assert members({"task_id": "a", "id": 1, "_id": 2, "other": 3}, KNOWN, "x") == {"taskId": "a", "id": 1}


def test_the_kelvin_sign_folds() -> None:
    assert fold("tas\u212aId") == "taskid"
