"""Reading a request target: what is refused, what becomes of the rest, and taking off a mount."""

from __future__ import annotations

import pytest

from sidecar.bindings.surface import Target
from sidecar.bindings.target import below, read_target
from sidecar.model import Reason, Refused


@pytest.mark.parametrize(
    ("target", "path", "segments"),
    [
        pytest.param("/", "/", ("",), id="the root is one empty segment"),
        pytest.param("/tasks/T", "/tasks/T", ("tasks", "T"), id="a plain path stays"),
        pytest.param("/a/", "/a/", ("a", ""), id="a trailing slash stays"),
        pytest.param(
            "/tasks/T%3Acancel", "/tasks/T:cancel", ("tasks", "T:cancel"), id="FC-020 an escaped colon"
        ),
        pytest.param("/%74%61sks/T", "/tasks/T", ("tasks", "T"), id="FC-020 escaped letters"),
        pytest.param("/a%20b/%C3%A9", "/a%20b/%C3%A9", ("a b", "é"), id="what must be escaped is again"),
        pytest.param("/a%2520b", "/a%2520b", ("a%20b",), id="a harmless double escape is decoded once"),
        pytest.param("/a%3fb", "/a%3Fb", ("a?b",), id="an escaped question mark is data"),
        pytest.param("/f;v=1", "/f;v=1", ("f;v=1",), id="parameters on a path that is no A2A stay"),
        pytest.param("/f%3Bv", "/f%3Bv", ("f;v",), id="an escaped semicolon stays escaped"),
        pytest.param('/a"b|c', "/a%22b%7Cc", ('a"b|c',), id="what should have been escaped is now"),
        pytest.param(
            "/~u/a=b&c,d@e!$'()*+", "/~u/a=b&c,d@e!$'()*+", ("~u", "a=b&c,d@e!$'()*+"), id="pchar is kept"
        ),
    ],
)
def test_the_canonical_path(target: str, path: str, segments: tuple[str, ...]) -> None:
    read = read_target(target)
    assert (read.path, read.segments) == (path, segments)
    assert read_target(read.path).path == path  # reading is idempotent


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("http://evil.example/tasks/T", id="FC-026 absolute form"),
        pytest.param("*", id="asterisk form"),
        pytest.param("host:443", id="authority form"),
        pytest.param("", id="nothing"),
        pytest.param("?a", id="no path"),
        pytest.param("/tasks%2FT", id="FC-019 an escaped slash"),
        pytest.param("/tasks%2fT%3Acancel", id="FC-019 an escaped slash in lower case"),
        pytest.param("/tasks%5CT", id="FC-019 an escaped backslash"),
        pytest.param("/tasks\\T", id="FC-024 a backslash"),
        pytest.param("/tasks/T%253Acancel", id="FC-020 a doubly escaped colon"),
        pytest.param("/tasks%252FT", id="FC-020 a doubly escaped slash"),
        pytest.param("/tasks%25252FT", id="a slash escaped three times"),
        pytest.param("/%2574asks/T", id="a word of A2A that a second decoding shows"),
        pytest.param("/x/%2576%2531/card", id="v1 that a second decoding shows"),
        pytest.param("/%252e%252e/tasks/T", id="doubly escaped dots"),
        pytest.param("/a/../tasks/T", id="FC-024 dot segments"),
        pytest.param("/a/%2e%2e/tasks/T", id="FC-024 escaped dot segments"),
        pytest.param("/tasks/./T", id="FC-024 a single dot"),
        pytest.param("/.%2e/tasks", id="half escaped dots"),
        pytest.param("/..;/tasks/T", id="dots with parameters"),
        pytest.param("//tasks/T", id="FC-024 an empty segment first"),
        pytest.param("/tasks//T", id="FC-024 an empty segment"),
        pytest.param("//", id="two slashes"),
        pytest.param("/tasks/T;x=1", id="FC-024 parameters on the id"),
        pytest.param("/tasks;x=1/T", id="parameters on a word of A2A"),
        pytest.param("/tasks%3Bx/T", id="escaped parameters on a word of A2A"),
        pytest.param("/message:send;v=1", id="parameters on a send"),
        pytest.param("/a;b%3Bc", id="a semicolon bare and escaped"),
        pytest.param("/tasks/T%00", id="FC-024 NUL"),
        pytest.param("/tasks/T%0a", id="an escaped line feed"),
        pytest.param("/tasks/T#/x", id="FC-024 a fragment"),
        pytest.param("/a?b#c", id="a fragment after the query"),
        pytest.param("/a b", id="a space"),
        pytest.param("/a\tb", id="a tab"),
        pytest.param("/é", id="bytes beyond ASCII"),
        pytest.param("/a?é", id="bytes beyond ASCII in the query"),
        pytest.param("/a%", id="a lonely percent"),
        pytest.param("/a%zz", id="a broken escape"),
        pytest.param("/%ff", id="an escape that is no UTF-8"),
        pytest.param("/%c0%af", id="an overlong slash"),
        pytest.param("/%ed%a0%80", id="a surrogate"),
    ],
)
def test_refused_targets(target: str) -> None:
    with pytest.raises(Refused) as refused:
        read_target(target)
    assert refused.value.refusal.reason is Reason.BAD_PATH
    assert refused.value.refusal.detail


@pytest.mark.parametrize(
    ("target", "query"),
    [
        pytest.param("/a?x=1&x=2&y", (("x", "1"), ("x", "2"), ("y", "")), id="all pairs, in order"),
        pytest.param("/a?%63ontextId=C+D", (("contextId", "C D"),), id="names and values are decoded"),
        pytest.param("/a?", (), id="an empty query is none"),
        pytest.param("/a?f[b]=%zz", (("f[b]", "%zz"),), id="other APIs may write what A2A refuses"),
    ],
)
def test_the_query(target: str, query: tuple[tuple[str, str], ...]) -> None:
    read = read_target(target)
    assert read.query == query
    assert read.full == target.rstrip("?")


@pytest.mark.parametrize(
    ("target", "mount", "path"),
    [
        pytest.param("/x/y?q", (), "/x/y?q", id="no mount leaves everything"),
        pytest.param("/m/x?q", ("m",), "/x?q", id="the mount is taken off"),
        pytest.param("/m/n/x", ("m", "n"), "/x", id="a mount of two segments"),
        pytest.param("/%6d/%78", ("m",), "/x", id="segments are compared decoded"),
        pytest.param("/m/", ("m",), "/", id="a slash after the mount is the rest"),
        pytest.param("/m?q", ("m",), "?q", id="the mount itself leaves nothing"),
        pytest.param("/mm/x", ("m",), None, id="a longer first segment is another one"),
        pytest.param("/M/x", ("m",), None, id="case counts"),
        pytest.param("/x/m", ("m",), None, id="a mount is a prefix"),
        pytest.param("/", ("m",), None, id="above the mount"),
    ],
)
def test_below_a_mount(target: str, mount: tuple[str, ...], path: str | None) -> None:
    rest = below(read_target(target), mount)
    assert (rest.full if rest else None) == path
    if rest is not None:
        assert "/".join(("", *rest.segments)) == rest.path


def test_a_target_without_query_is_its_path() -> None:
    assert Target("/x", ("x",)).full == "/x"
