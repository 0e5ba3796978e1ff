"""Field cases of kind 1: what two parsers read differently, and where one request ends and the next begins.

Each is tried by mallory, who has a task of her own, on every dialect it can be written in. A stub that decodes as Go
does (the cases' G3) or takes the first of two members (G4) needs no bench here: nothing reaches any agent.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from sidecar.model import SENDS
from tests.edge.agent import a_task, answers
from tests.edge.conftest import Answer
from tests.field_cases.conftest import (
    C_A,
    C_M,
    T_A,
    T_M,
    N,
    Scene,
    Scenes,
    envelope,
    require_equal_to_nf,
    require_not_found,
    require_unparsed,
    saying,
)
from tests.field_cases.json_forms import (
    WITH_BODY,
    Asking,
    Pairs,
    beside,
    escaped,
    objects,
    of_alice,
    respelt,
    with_object,
    written,
)
from tests.matrix.requests import CARDS, LISTS, Request, in_snake_case

pytestmark = pytest.mark.asyncio(loop_scope="session")

JSON = "Content-Type: application/json"
V1 = "A2A-Version: 1.0"
ERRORS = re.compile(rb'"code": ?-32(700|600|602)')
every_request = pytest.mark.parametrize("asking", [pytest.param(a, id=a.id) for a in WITH_BODY])


async def sent(scene: Scene, request: Request, body: bytes | None = None, **who: Any) -> Answer:
    headers = [f"{name}: {value}" for name, value in request.headers.items()]
    written_ = request.body if body is None else body
    return await scene.ask(f"{request.method} {request.target}", *headers, body=written_, **who)


async def understood(scene: Scene, request: Request) -> dict[str, Any]:
    """The request as JSON, once it is shown that as it stands it is no case for refusing."""
    answer = await sent(scene, request)
    assert answer.status not in (400, 415)
    assert not ERRORS.search(answer.body), answer.body
    scene.forget()
    whole: dict[str, Any] = json.loads(request.body or b"")
    return whole


# --- FC-001 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("SendMessage", "ListTasks", id="1.0"),
        pytest.param("message/send", "tasks/list", id="0.3"),
        pytest.param("tasks/send", "tasks/get", id="0.1"),
        pytest.param("GetTask", "tasks/cancel", id="two versions"),
        pytest.param("SendMessage", "SendMessage", id="the same twice"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True], ids=["in this order", "swapped"])
@pytest.mark.parametrize("target", ["/", "/elsewhere"])
async def test_fc_001_two_methods(scene: Scene, first: str, second: str, swapped: bool, target: str) -> None:
    one, two = (second, first) if swapped else (first, second)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    call = Pairs(
        [("jsonrpc", "2.0"), ("id", 1), ("method", one), ("method", two), ("params", {"message": message})]
    )
    for headers in ((JSON, V1), (JSON,), ("Content-Type: text/plain",), ()):
        answer = await scene.ask(f"POST {target}", *headers, body=written(call), who="alice", scope="w")
        require_unparsed(answer)
    assert scene.untouched


@every_request
async def test_fc_001_no_member_is_repeated_at_any_depth(scene: Scene, asking: Asking) -> None:
    request = asking.request()
    whole = await understood(scene, request)
    places = [(path, name) for path, value in objects(whole, opaque=True) for name in value]
    assert len(places) > 0
    for path, name in places:
        for first in (True, False):

            def twice(value: dict[str, Any], name: str = name, first: bool = first) -> Pairs:
                return beside(name, name, of_alice(value[name]), first=first)(value)

            require_unparsed(await sent(scene, request, written(with_object(whole, path, twice))))
            assert scene.untouched, (path, name, first)


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(rb'{"id":1,"\u0069d":2}', id="one of them escaped"),
        pytest.param(b'{"a":{"b":[{"c":1,"c":1}]}}', id="equal ones in a list"),
        pytest.param('{"é":1,"\\u00e9":2}'.encode(), id="beyond ASCII"),
        pytest.param(b'{"":1,"":2}', id="without a name"),
    ],
)
@pytest.mark.parametrize("target", ["/", "/message:send", "/v1/message:send", "/elsewhere"])
async def test_fc_001_nor_where_only_the_agent_would_look(scene: Scene, twin: bytes, target: str) -> None:
    message = b'{"messageId":"m","role":"ROLE_USER","parts":[{"data":%b}],"metadata":%b}' % (twin, twin)
    body = b'{"message":%b}' % message
    if target == "/":
        body = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % body
    for sent_ in (body, twin):
        require_unparsed(await scene.ask(f"POST {target}", JSON, body=sent_))
    assert scene.untouched


# --- FC-003 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "GetTask",
                "Method": "CancelTask",
                "params": {"id": T_M},
                "Params": {"id": T_A},
            },
            id="method and params beside Method and Params",
        ),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "Method": "GetTask", "params": {"id": T_A}}, id="only Method"
        ),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "METHOD": "GetTask", "PARAMS": {"ID": T_A}}, id="all in upper case"
        ),
        pytest.param(
            {"JSONRPC": "2.0", "ID": 1, "METHOD": "GetTask", "PARAMS": {"ID": T_A}}, id="no lower case at all"
        ),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": T_M, "ID": T_A}},
            id="id beside ID",
        ),
        pytest.param({"Method": "GetTask", "Params": {"Id": T_A}}, id="without jsonrpc"),
    ],
)
@pytest.mark.parametrize("target", ["/", "/elsewhere"])
async def test_fc_003_names_that_differ_in_case(scene: Scene, body: dict[str, Any], target: str) -> None:
    for headers in ((JSON, V1), (JSON,), ()):
        require_unparsed(await scene.ask(f"POST {target}", *headers, body=written(body)))
    assert scene.untouched


def spellings(name: str) -> list[str]:
    """As Go's decoder and others like it would match `name`."""
    folded = name.replace("s", "ſ").replace("k", "\u212a")  # long s, Kelvin sign
    found = [name.upper(), name[:1].upper() + name[1:], name.lower(), folded, name.upper().replace("S", "ſ")]
    return [spelt for spelt in dict.fromkeys(found) if spelt != name]


@every_request
async def test_fc_003_no_member_of_the_protocol_in_another_case(scene: Scene, asking: Asking) -> None:
    """Beside the right one in either order, and in its place."""
    request = asking.request()
    whole = await understood(scene, request)
    for path, value in objects(whole, opaque=False):
        for name in value:
            for spelt in spellings(name):
                changes: list[Callable[[dict[str, Any]], Any]] = [
                    beside(name, spelt, of_alice(value[name]), first=first) for first in (True, False)
                ]
                for change in (*changes, respelt(name, spelt)):
                    require_unparsed(await sent(scene, request, written(with_object(whole, path, change))))
                    assert scene.untouched, (path, name, spelt)


@pytest.mark.parametrize(
    ("line", "method"),
    [
        pytest.param("POST /", "SendMessage", id="JSON-RPC 1.0"),
        pytest.param("POST /", "message/send", id="JSON-RPC 0.3"),
        pytest.param("POST /message:send", None, id="HTTP+JSON 1.0"),
        pytest.param("POST /v1/message:send", None, id="HTTP+JSON 0.3"),
    ],
)
async def test_fc_003_what_is_the_agents_business_may_have_twins(
    scene: Scene, line: str, method: str | None
) -> None:
    """Design: twins are refused only among members of the protocol. Metadata and data go on as they are."""
    free = {
        "a": 1,
        "A": 2,
        "id": 1,
        "ID": 2,
        "taskId": "x",
        "task_id": "y",
        "message": {"TaskID": "z", "taskid": 1},
    }
    message = {"messageId": "m", "role": "user", "parts": [{"data": free}], "metadata": free}
    params = {"message": message, "metadata": free}
    body = json.dumps(envelope(method, params) if method else params, indent=2).encode()
    scene.agent.script = answers({"task": a_task("t-free", "c-free")})
    version = V1 if method == "SendMessage" or line == "POST /message:send" else "X-Other: 1"
    await scene.ask(line, JSON, version, body=body, who="alice")
    assert [r.body for r in scene.agent.received] == [body]


# --- FC-005 --------------------------------------------------------------------------------------


def snake(name: str) -> str:
    return next(iter(in_snake_case({name: 0})))


@every_request
async def test_fc_005_two_spellings_of_one_member(scene: Scene, asking: Asking) -> None:
    """`taskId` and `task_id`, and every other member that has two spellings, in both orders."""
    request = asking.request()
    whole = await understood(scene, request)
    for path, value in objects(whole, opaque=False):
        for name in value:
            if snake(name) == name:
                continue
            for theirs in (of_alice(value[name]), value[name], None):
                for first in (True, False):
                    changed = with_object(whole, path, beside(name, snake(name), theirs, first=first))
                    require_unparsed(await sent(scene, request, written(changed)))
                    assert scene.untouched, (path, name)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("SendMessage", {"message": {"task_id": T_A}}, id="1.0 task_id"),
        pytest.param("SendMessage", {"message": {"context_id": C_A}}, id="1.0 context_id"),
        pytest.param("SendMessage", {"message": {"reference_task_ids": [T_A]}}, id="1.0 reference_task_ids"),
        pytest.param("message/send", {"message": {"task_id": T_A}}, id="0.3 task_id"),
        pytest.param("message/send", {"message": {"context_id": C_A}}, id="0.3 context_id"),
        pytest.param("message/send", {"message": {"reference_task_ids": [T_A]}}, id="0.3 reference_task_ids"),
        pytest.param(
            "CreateTaskPushNotificationConfig",
            {"task_id": T_A, "url": "https://hooks.example.com/"},
            id="1.0 push task_id",
        ),
        pytest.param("GetTaskPushNotificationConfig", {"task_id": T_A, "id": "P_A"}, id="1.0 push get"),
        pytest.param("ListTaskPushNotificationConfigs", {"task_id": T_A}, id="1.0 push list"),
        pytest.param("DeleteTaskPushNotificationConfig", {"task_id": T_A, "id": "P_A"}, id="1.0 push delete"),
        pytest.param(
            "tasks/pushNotificationConfig/set",
            {"task_id": T_A, "push_notification_config": {"url": "https://hooks.example.com/"}},
            id="0.3 push task_id",
        ),
    ],
)
async def test_fc_005_only_the_snake_spelling_is_judged_like_the_camel_one(
    scene: Scene, method: str, params: dict[str, Any]
) -> None:
    if "message" in params:
        params = {
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]} | params["message"]
        }
    version = V1 if "/" not in method else "X-Other: 1"
    text = written(envelope(method, params))
    foreign = await scene.rpc(text, version)
    require_not_found(foreign)
    camel = text.decode()
    for name in ("taskId", "contextId", "referenceTaskIds", "pushNotificationConfig"):
        camel = camel.replace(f'"{snake(name)}"', f'"{name}"')
    assert foreign.shown == (await scene.rpc(camel.encode(), version)).shown
    if C_A.encode() not in text:  # a context that is nobody's is the caller's to pick
        require_equal_to_nf(foreign, await scene.rpc(text.replace(T_A.encode(), N.encode()), version))
    assert scene.untouched


@pytest.mark.parametrize("method", ["ListTasks", "tasks/list"])
@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        pytest.param("pageToken", "x", "y", id="page token"),
        pytest.param("contextId", C_M, C_A, id="context"),
        pytest.param("pageSize", 1, 100, id="page size"),
        pytest.param("historyLength", 1, 0, id="history length"),
    ],
)
async def test_fc_005_in_lists(scene: Scene, method: str, name: str, value: Any, other: Any) -> None:
    version = V1 if method == "ListTasks" else "X-Other: 1"
    for pairs in ([(name, value), (snake(name), other)], [(snake(name), other), (name, value)]):
        require_unparsed(await scene.rpc(written(envelope(method, Pairs(pairs))), version))
    assert scene.untouched
    one = await scene.rpc(envelope(method, {snake(name): other}), version)
    two = await scene.rpc(envelope(method, {name: other}), version)
    assert one.shown == two.shown


# --- FC-007 --------------------------------------------------------------------------------------

ENCODED = {
    "UTF-16 with BOM": lambda text: text.encode("utf-16"),
    "UTF-16LE": lambda text: text.encode("utf-16-le"),
    "UTF-16BE": lambda text: text.encode("utf-16-be"),
    "UTF-32 with BOM": lambda text: text.encode("utf-32"),
    "UTF-32LE": lambda text: text.encode("utf-32-le"),
    "UTF-32BE": lambda text: text.encode("utf-32-be"),
    "UTF-8 with BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16LE after blanks": lambda text: (" " * 2000 + text).encode("utf-16-le"),
    "UTF-8 with BOM after blanks": lambda text: b" \r\n\xef\xbb\xbf" + text.encode(),
    "UTF-7": lambda text: text.replace("{", "+AHs-").encode(),
}
READ_AS = {
    "application/json": JSON,
    "charset utf-16": "Content-Type: application/json; charset=utf-16",
    "charset utf-8": 'Content-Type: application/json; charset="UTF-8"',
    "charset utf-7": "Content-Type: application/json; charset=utf-7",
    "text": "Content-Type: text/plain",
    "a2a": "Content-Type: application/a2a+json",
    "nothing said": "X-Other: 1",
}
GET = json.dumps(envelope("GetTask", {"id": T_A}))
OLD_GET = json.dumps(envelope("tasks/get", {"id": T_A}))
SEND = json.dumps(
    {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": T_A}}
)


WAYS = {
    "JSON-RPC 1.0": ("POST /", V1, GET),
    "JSON-RPC 0.x": ("POST /", "X-Other: 1", OLD_GET),
    "HTTP+JSON 1.0": ("POST /message:send", V1, SEND),
    "HTTP+JSON 0.3": ("POST /v1/message:send", "X-Other: 1", SEND),
    "JSON-RPC on another path": ("POST /some/other/path", V1, GET),
}


def unread() -> Iterator[Any]:
    for (name, (line, version, text)), encoding, said in product(WAYS.items(), ENCODED, READ_AS):
        if encoding == "UTF-7" and said != "charset utf-7" and not line.endswith(":send"):
            continue  # JSON to nobody who was not told
        yield pytest.param(line, version, text, encoding, READ_AS[said], id=f"{name}, {encoding}, {said}")


@pytest.mark.parametrize(("line", "version", "text", "encoding", "content_type"), [*unread()])
async def test_fc_007_a_body_not_in_plain_utf_8(
    scene: Scene, line: str, version: str, text: str, encoding: str, content_type: str
) -> None:
    require_unparsed(await scene.ask(line, content_type, version, body=ENCODED[encoding](text)))
    assert scene.untouched


@pytest.mark.parametrize(
    "charset",
    ["utf-16", "UTF-16LE", "utf-32", "utf-7", "ebcdic-cp-us", "cp037", "x", "", "utf-8;charset=utf-16"],
)
async def test_fc_007_nor_may_the_header_say_so_of_a_plain_one(scene: Scene, charset: str) -> None:
    """An agent that believes the header would read other words than we did."""
    for line, text in (("POST /", GET), ("POST /message:send", SEND), ("POST /elsewhere", GET)):
        said = f"Content-Type: application/json; charset={charset}"
        require_unparsed(await scene.ask(line, said, V1, body=text.encode()))
    assert scene.untouched


# --- FC-009 --------------------------------------------------------------------------------------

NEW = json.dumps({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}})
DOORS = [
    pytest.param("POST /", json.dumps(envelope("SendMessage", json.loads(NEW))).encode(), id="JSON-RPC"),
    pytest.param("POST /message:send", NEW.encode(), id="HTTP+JSON 1.0"),
    pytest.param("POST /upload", b"\x00\x01 no JSON at all", id="another path"),
]


def bare_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


@pytest.mark.parametrize(("line", "body"), DOORS)
@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        pytest.param("gzip", gzip.compress, id="gzip"),
        pytest.param("x-gzip", gzip.compress, id="x-gzip"),
        pytest.param("GZip", gzip.compress, id="GZip"),
        pytest.param("deflate", zlib.compress, id="deflate"),
        pytest.param("identity", bytes, id="identity"),
        pytest.param("identity, gzip", gzip.compress, id="identity and gzip"),
    ],
)
async def test_fc_009_one_layer_is_taken_off_and_what_was_judged_goes_on(
    scene: Scene, line: str, body: bytes, coding: str, encode: Callable[[bytes], bytes]
) -> None:
    made = {"task": a_task("t-zip", "c-zip")}
    scene.agent.script = answers(made) if line == "POST /" else saying(made)
    answer = await scene.ask(
        line,
        f"Content-Encoding: {coding}",
        JSON if "upload" not in line else "X: 1",
        V1,
        body=encode(body),
        who="alice",
    )
    assert answer.status == 200
    (got,) = scene.agent.received
    assert got.body == body
    assert got.values("Content-Encoding") in ([], ["identity"])
    assert got.values("Content-Length") == [str(len(body))] or got.values("Transfer-Encoding") == ["chunked"]


@pytest.mark.parametrize(("line", "body"), DOORS)
@pytest.mark.parametrize(
    ("codings", "encode"),
    [
        pytest.param(["gzip, gzip"], lambda b: gzip.compress(gzip.compress(b)), id="gzip, gzip"),
        pytest.param(["gzip", "gzip"], lambda b: gzip.compress(gzip.compress(b)), id="two headers"),
        pytest.param(["gzip, deflate"], lambda b: zlib.compress(gzip.compress(b)), id="gzip, deflate"),
        pytest.param(["br"], bytes, id="br"),
        pytest.param(["zstd"], bytes, id="zstd"),
        pytest.param(["compress"], bytes, id="compress"),
        pytest.param(["aws-chunked"], bytes, id="aws-chunked"),
        pytest.param(["gzip"], bytes, id="a lie"),
        pytest.param(["deflate"], gzip.compress, id="gzip called deflate"),
        pytest.param(["deflate"], bare_deflate, id="deflate without its frame"),
        pytest.param(["gzip"], lambda b: gzip.compress(b)[:-6], id="cut short"),
        pytest.param(["gzip"], lambda b: gzip.compress(b) + gzip.compress(b" "), id="two members"),
        pytest.param(["gzip"], lambda b: gzip.compress(b) + b"x", id="something follows"),
    ],
)
async def test_fc_009_any_other_coding_is_refused(
    scene: Scene, line: str, body: bytes, codings: list[str], encode: Callable[[bytes], bytes]
) -> None:
    headers = [f"Content-Encoding: {coding}" for coding in codings]
    answer = await scene.ask(line, *headers, JSON, V1, body=encode(body), who="alice")
    assert answer.status in (400, 415)
    assert scene.untouched


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
async def test_fc_009_what_is_inside_is_judged(scene: Scene, encode: Callable[[bytes], bytes]) -> None:
    coding = "Content-Encoding: gzip" if encode is gzip.compress else "Content-Encoding: deflate"
    for line, text in (("POST /", GET), ("POST /message:send", SEND), (f"POST /tasks/{T_A}:cancel", "{}")):
        foreign = await scene.ask(line, coding, V1, JSON, body=encode(text.encode()))
        require_not_found(foreign)
        absent = await scene.ask(
            line.replace(T_A, N), coding, V1, JSON, body=encode(text.replace(T_A, N).encode())
        )
        require_equal_to_nf(foreign, absent)
        assert foreign.shown == (await scene.ask(line, V1, JSON, body=text.encode())).shown
    assert scene.untouched


# --- FC-010 --------------------------------------------------------------------------------------

CALL = envelope("GetTask", {"id": T_A})
NOTIFICATION = {"jsonrpc": "2.0", "method": "GetTask", "params": {"id": T_A}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(written([CALL]), id="one call"),
        pytest.param(written([CALL, CALL]), id="two calls"),
        pytest.param(b"[]", id="none"),
        pytest.param(written([[CALL]]), id="in two arrays"),
        pytest.param(b" \t\r\n" + written([CALL]), id="after blanks"),
        pytest.param(b" " * 3000 + written([CALL]), id="after many blanks"),
        pytest.param(written([NOTIFICATION]), id="one notification"),
        pytest.param(written([1, CALL]), id="after a number"),
        pytest.param(written([{"message": {"parts": []}}]), id="no envelope in it"),
    ],
)
@pytest.mark.parametrize(
    "headers", [(JSON, V1), (JSON,), ("Content-Type: text/plain",)], ids=["1.0", "0.x", "as text"]
)
async def test_fc_010_batches(scene: Scene, body: bytes, headers: tuple[str, ...]) -> None:
    before = await decisions(scene)
    answer = await scene.ask("POST /", *headers, body=body)
    assert answer.status == 200
    assert answer.json["error"]["code"] == -32600
    assert answer.json["id"] is None
    after = await decisions(scene)
    assert sum(after.values()) - sum(before.values()) == 1, "one request"
    assert refused(after) - refused(before) == 1
    if b"jsonrpc" in body:
        require_unparsed(await scene.ask("POST /elsewhere", *headers, body=body))
    for line in ("POST /message:send", "POST /v1/message:send", f"POST /tasks/{T_M}:cancel"):
        require_unparsed(await scene.ask(line, body=body))
    assert scene.untouched


async def decisions(scene: Scene) -> dict[str, float]:
    """The counters of decisions, by their labels."""
    async with scene.running.session.get(scene.running.admin_url + "/metrics") as reply:
        lines = (await reply.text()).splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("a2a_sidecar_decisions_total{")]
    return {labels: float(value) for labels, value in pairs}


def refused(counted: dict[str, float]) -> float:
    return sum(n for labels, n in counted.items() if 'outcome="refused"' in labels)


@pytest.mark.parametrize("body", [b'"x"', b"5", b"null", b"true", b'"{\\"jsonrpc\\":\\"2.0\\"}"'])
async def test_fc_010_a_body_that_is_no_object_is_no_call(scenes: Scenes, body: bytes) -> None:
    """Design §2.2: what begins with neither brace nor bracket is no A2A, and is treated as any other request."""
    strict = await scenes(other_paths={"default": "refuse"})
    assert (await strict.ask("POST /", JSON, V1, body=body)).status == 404
    for line in ("POST /message:send", "POST /v1/message:send", f"POST /tasks/{T_M}:cancel"):
        require_unparsed(await strict.ask(line, body=body))
    assert strict.untouched
    scene = await scenes()
    assert (await scene.ask("POST /", JSON, V1, body=body, who=None)).status == 401
    assert scene.untouched


# --- FC-011 --------------------------------------------------------------------------------------


async def test_fc_011_escapes_inside_the_words_of_the_protocol(scene: Scene) -> None:
    text = r'{"jsonrpc":"2.0","id":1,"\u006dethod":"\u0043ancelTask","params":{"\u0069d":"%s"}}'
    foreign = await scene.rpc((text % T_A).encode(), V1)
    plain = await scene.rpc(envelope("CancelTask", {"id": T_A}), V1)
    require_not_found(foreign)
    assert foreign.shown == plain.shown
    require_equal_to_nf(foreign, await scene.rpc((text % N).encode(), V1))
    assert scene.untouched


@pytest.mark.parametrize(
    "asking", [pytest.param(a, id=a.id) for a in WITH_BODY if a.row.key not in LISTS | CARDS]
)
async def test_fc_011_a_request_all_in_escapes_is_judged_as_the_same(scene: Scene, asking: Asking) -> None:
    """Every letter of every string, the task id included."""
    picks = asking.row.operation in SENDS and asking.row.dialect.version.value == "0.1"
    answered = []
    for task in (T_A, T_A if picks else N):  # whoever names a task in 0.1 makes it
        request = asking.request(task)
        plain = await sent(scene, request)
        hidden = await sent(scene, request, escaped((request.body or b"").decode()).encode())
        assert hidden.shown == plain.shown
        answered.append(hidden)
    require_equal_to_nf(*answered)
    assert scene.untouched


# --- FC-016 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"Infinity", id="Infinity"),
        pytest.param(b"-Infinity", id="-Infinity"),
        pytest.param(b"1e400", id="1e400"),
        pytest.param(b"-1E+999", id="-1E+999"),
        pytest.param(b"1" * 310 + b".0", id="a mantissa of 310 digits"),
        pytest.param(b"1" * 5000, id="an integer of 5000 digits"),
        pytest.param(rb'"\ud800"', id="half a surrogate pair"),
        pytest.param(b'"a\x01b"', id="a control byte"),
        pytest.param(b'"a\nb"', id="a bare line end"),
        pytest.param(b'"a\x00b"', id="NUL"),
        pytest.param(b'"\xc3\x28"', id="no UTF-8"),
        pytest.param(b'"\xc0\x80"', id="an overlong NUL"),
        pytest.param(b'"\xed\xa0\x80"', id="a surrogate in UTF-8"),
        pytest.param(b"01", id="a leading nought"),
        pytest.param(b"+1", id="a plus"),
        pytest.param(b"'x'", id="single quotes"),
        pytest.param(b"1/**/", id="a comment"),
        pytest.param(b"[1,]", id="a comma too many"),
        pytest.param(b"\xc2\xa01", id="a no-break space"),
        pytest.param(rb'"\x41"', id="no escape of JSON"),
    ],
)
async def test_fc_016_values_that_one_side_refuses(scene: Scene, value: bytes) -> None:
    message = b'{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"n":%b}}]}' % value
    new = b'{"message":%b}' % message
    for line, headers, body in (
        ("POST /", (JSON, V1), b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % new),
        ("POST /", (JSON,), b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":%b}' % new),
        ("POST /message:send", (JSON, V1), new),
        ("POST /v1/message:send", (JSON,), new),
        ("POST /", (JSON, V1), b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%b}}' % value),
        ("POST /", (JSON,), b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":%b}}' % value),
        ("POST /", (JSON, V1), b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{"id":"x"}}' % value),
        ("POST /elsewhere", (JSON,), b'{"n":%b}' % value),
    ):
        require_unparsed(await scene.ask(line, *headers, body=body))
        assert scene.untouched


@pytest.mark.parametrize(
    "id_",
    [
        pytest.param(T_A + r"\u0000", id="NUL after it"),
        pytest.param(r"\u0000" + T_A, id="NUL before it"),
        pytest.param(T_A + r"\n", id="a line end after it"),
        pytest.param(" " + T_A, id="a blank before it"),
        pytest.param(T_A + r"\u200b", id="a space of no width"),
        pytest.param(T_A.upper(), id="in upper case"),
        pytest.param(r"\ufeff" + T_A, id="a BOM before it"),
        pytest.param(T_A.replace("a", r"\uff41"), id="in full width"),
        pytest.param(r"\ud83d\ude00", id="a whole surrogate pair"),
        pytest.param("%61" + T_A[1:], id="percent escaped"),
    ],
)
async def test_fc_016_ids_nearly_those_of_alice_are_nobodys(scene: Scene, id_: str) -> None:
    for method, version in (("GetTask", V1), ("tasks/get", "X-Other: 1"), ("CancelTask", V1)):
        text = '{"jsonrpc":"2.0","id":1,"method":"%s","params":{"id":"%s"}}'
        odd = await scene.rpc((text % (method, id_)).encode(), version)
        absent = await scene.rpc((text % (method, N)).encode(), version)
        assert odd.shown == absent.shown
        require_not_found(odd)
    assert scene.untouched


async def test_fc_016_large_numbers_come_to_no_harm(scene: Scene) -> None:
    body = (
        b'{"jsonrpc":"2.0","id":36893488147419103232,"method":"SendMessage","params":{"message":'
        b'{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"n":1180591620717411303424,"x":1.10,"y":1e2,"z":-0}}]}}}'
    )
    scene.agent.script = answers({"task": a_task("t-large", "c-large")})
    answer = await scene.rpc(body, V1, who="alice")
    assert b"36893488147419103232" in answer.body
    assert [r.body for r in scene.agent.received] == [body]


# --- FC-018 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/tasks", "/v1/tasks", f"/tasks/{T_M}", f"/v1/tasks/{T_M}"])
@pytest.mark.parametrize(
    "query",
    [
        pytest.param(f"contextId={C_M}&contextId={C_A}", id="a context twice"),
        pytest.param(f"contextId={C_A}&contextId={C_M}", id="the other way round"),
        pytest.param("pageToken=a&pageToken=b", id="a page token twice"),
        pytest.param("pageSize=1&pageSize=100", id="a page size twice"),
        pytest.param("historyLength=1&historyLength=1", id="equal ones"),
        pytest.param("A2A-Version=0.3&A2A-Version=1.0", id="a version twice"),
        pytest.param("A2A-Version=1.0&a2a-version=0.3", id="a version in two cases"),
        pytest.param(f"contextId={C_M};contextId={C_A}", id="parted by a semicolon"),
        pytest.param(f"contextId={C_M}&%63ontextId={C_A}", id="one of them escaped"),
        pytest.param(f"contextId={C_M}&context_id={C_A}", id="two spellings"),
        pytest.param(f"contextid={C_A}", id="in another case"),
        pytest.param(f"contextId[]={C_A}", id="brackets"),
        pytest.param(f"contextId%5B%5D={C_A}", id="escaped brackets"),
        pytest.param(f"contextId[0]={C_A}", id="an index"),
        pytest.param("x=1&x=2", id="an unknown one twice"),
        pytest.param(f"contextId={C_M}%26contextId={C_A}&contextId={C_A}", id="an escaped ampersand"),
        pytest.param(f"contextId={C_M}&contextId", id="one of them without a value"),
        pytest.param("pageToken=%zz", id="a broken escape"),
        pytest.param("pageToken=%ff", id="no UTF-8"),
    ],
)
async def test_fc_018_a_query_that_can_be_read_in_two_ways(scene: Scene, path: str, query: str) -> None:
    answer = await scene.ask(f"GET {path}?{query}")
    assert answer.status == 400
    assert scene.untouched


async def test_fc_018_versions_that_disagree(scene: Scene) -> None:
    for query, header in (
        ("A2A-Version=1.0", "A2A-Version: 0.3"),
        ("a2a-version=0.3", "A2A-Version: 1.0"),
        ("A2A-Version=0.3&A2A-Version=1.0", "X-Other: 1"),
    ):
        for line, body in (
            (f"POST /?{query}", GET.encode()),
            (f"POST /message:send?{query}", SEND.encode()),
            (f"GET /tasks/{T_A}?{query}", None),
        ):
            require_unparsed(await scene.ask(line, header, body=body))
    two = await scene.ask("POST /", "A2A-Version: 1.0", "A2A-Version: 0.3", body=GET.encode())
    require_unparsed(two)
    assert scene.untouched


async def test_fc_018_an_escaped_name_is_the_same_parameter(scene: Scene) -> None:
    for path in ("/tasks", "/v1/tasks"):
        one = await scene.ask(f"GET {path}?%63ontextId={C_A}")
        two = await scene.ask(f"GET {path}?contextId={C_A}")
        assert one.shown == two.shown
    assert scene.untouched


async def test_fc_018_what_goes_on_says_what_was_judged(scene: Scene) -> None:
    scene.agent.script = saying(a_task(T_M, C_M))
    answer = await scene.ask(f"GET /tasks/{T_M}?historyLength=2&%68=%31", V1)
    assert answer.status == 200
    (got,) = scene.agent.received
    assert got.target == f"/tasks/{T_M}?historyLength=2&%68=%31"
