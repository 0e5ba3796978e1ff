"""Field cases of kind 2: the path, verb or name that was judged is not the one that is served.

Every path is written onto the wire as it stands here. Other paths are open to any valid caller in the usual scene, so
what slips past the routes would reach the agent.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from tests.edge.agent import a_task, answers
from tests.edge.conftest import Answer
from tests.field_cases.conftest import (
    SECRET,
    T_A,
    T_M,
    N,
    Scene,
    Scenes,
    envelope,
    http,
    read_answers,
    require_equal_to_nf,
    require_not_found,
    saying,
    speak,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

V1 = "A2A-Version: 1.0"
JSON = "Content-Type: application/json"
both_versions = pytest.mark.parametrize("version", [V1, "X-Other: 1"], ids=["1.0", "undeclared"])


def a_send(**message: Any) -> bytes:
    return json.dumps(
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], **message}}
    ).encode()


def body_for(line: str) -> bytes | None:
    return b"{}" if line.startswith(("POST", "PUT", "PATCH")) else None


async def refused(
    scene: Scene, line: str, *headers: str, statuses: tuple[int, ...] = (400, 404), **more: Any
) -> Answer:
    """The answer to what never reaches the agent, and says the same of alice's id, of nobody's and of the caller's own."""
    more.setdefault("body", body_for(line))
    answer = await scene.ask(line, *headers, **more)
    assert answer.status in statuses, (answer.status, answer.body)
    assert SECRET.encode() not in answer.body
    assert scene.untouched, scene.agent.received
    for other in (N, T_M):
        assert (await scene.ask(line.replace(T_A, other), *headers, **more)).shown == answer.shown
    scene.forget()
    return answer


# --- FC-019 --------------------------------------------------------------------------------------


@both_versions
@pytest.mark.parametrize(
    "line",
    [
        f"GET /tasks%2F{T_A}",
        f"GET /tasks%2f{T_A}",
        f"POST /tasks%2F{T_A}%3Acancel",
        f"POST /tasks%2F{T_A}:cancel",
        f"GET /tasks/{T_A}%2FpushNotificationConfigs",
        f"GET /tasks/{T_A}%2fpushNotificationConfigs%2fP_A",
        f"GET /x%2Ftasks/{T_A}",
        f"GET /x%2Ftasks%2F{T_A}",
        f"GET /%2Ftasks/{T_A}",
        f"GET %2Ftasks/{T_A}",
        f"GET /tasks%5C{T_A}",
        f"GET /tasks%5c{T_A}",
        f"GET /v1%2Ftasks/{T_A}",
        f"GET /v1/tasks%2F{T_A}",
        f"GET /tasks%252F{T_A}",
        f"GET /tasks%255C{T_A}",
        f"GET /tasks%25252F{T_A}",
        f"GET /tasks%c0%af{T_A}",
        f"GET /tasks%ef%bc%8f{T_A}",
        f"GET /x%ef%bc%8ftasks%ef%bc%8f{T_A}",
        f"GET /tasks%ef%bc%bc{T_A}",
        f"GET /tasks%u002f{T_A}",
        f"GET /tasks%2x{T_A}",
        "POST /message%2Fsend",
        f"GET /healthz%2F..%2Ftasks%2F{T_A}",
        f"GET /elsewhere%2Ftasks%2F{T_A}",
    ],
)
async def test_fc_019_an_escaped_slash(scene: Scene, line: str, version: str) -> None:
    await refused(scene, line, version)


# --- FC-020 --------------------------------------------------------------------------------------


@both_versions
@pytest.mark.parametrize(
    ("escaped", "plain", "body"),
    [
        pytest.param(f"POST /tasks/{T_A}%3Acancel", f"POST /tasks/{T_A}:cancel", b"{}", id="cancel"),
        pytest.param(
            f"POST /tasks/{T_A}%3acancel", f"POST /tasks/{T_A}:cancel", b"{}", id="cancel, lower case"
        ),
        pytest.param(f"GET /tasks/{T_A}%3asubscribe", f"GET /tasks/{T_A}:subscribe", None, id="subscribe"),
        pytest.param(
            f"POST /tasks/{T_A}%3Asubscribe", f"POST /tasks/{T_A}:subscribe", b"{}", id="subscribe by POST"
        ),
        pytest.param(f"GET /%74%61sks/{T_A}", f"GET /tasks/{T_A}", None, id="letters of tasks"),
        pytest.param(
            f"GET /tasks/{T_A}:%73ubscribe", f"GET /tasks/{T_A}:subscribe", None, id="letters of subscribe"
        ),
        pytest.param(f"GET /tasks/%61{T_A[1:]}", f"GET /tasks/{T_A}", None, id="letters of the id"),
        pytest.param(
            f"GET /tasks/{T_A.replace('-', '%2D')}", f"GET /tasks/{T_A}", None, id="dashes of the id"
        ),
        pytest.param("POST /message%3Asend", "POST /message:send", a_send(taskId=T_A), id="send"),
        pytest.param("POST /message%3Astream", "POST /message:stream", a_send(taskId=T_A), id="stream"),
        pytest.param(
            "POST /%6Dessage:send", "POST /message:send", a_send(taskId=T_A), id="letters of message"
        ),
        pytest.param(
            f"GET /tasks/{T_A}/push%4EotificationConfigs",
            f"GET /tasks/{T_A}/pushNotificationConfigs",
            None,
            id="push",
        ),
        pytest.param(
            f"DELETE /tasks/{T_A}/pushNotificationConfigs/%50_A",
            f"DELETE /tasks/{T_A}/pushNotificationConfigs/P_A",
            None,
            id="letters of a config",
        ),
    ],
)
async def test_fc_020_escaped_letters_are_decoded_once_and_judged(
    scene: Scene, escaped: str, plain: str, body: bytes | None, version: str
) -> None:
    foreign = await scene.ask(escaped, version, body=body)
    require_not_found(foreign)
    assert foreign.shown == (await scene.ask(plain, version, body=body)).shown
    absent_body = body.replace(T_A.encode(), N.encode()) if body else None
    absent = await scene.ask(plain.replace(T_A, N), version, body=absent_body)
    require_equal_to_nf(foreign, absent)
    assert scene.untouched


@pytest.mark.parametrize(
    "path", ["/message%3Asend", "/message:%73end", "/message%3astream", "/v1/message%3Asend"]
)
async def test_fc_020_the_scope_guard_sees_through_them(scene: Scene, path: str) -> None:
    hidden = await scene.ask(f"POST {path}", body=a_send(), who="alice", scope="w")
    plain_path = path.replace("%3A", ":").replace("%3a", ":").replace("%73", "s")
    plain = await scene.ask(f"POST {plain_path}", body=a_send(), who="alice", scope="w")
    assert hidden.status == plain.status == 403
    assert hidden.header("WWW-Authenticate") == 'Bearer error="insufficient_scope", scope="r w"'
    assert scene.untouched


@pytest.mark.parametrize(
    "line",
    [
        f"POST /tasks/{T_A}%253Acancel",
        f"POST /tasks/{T_A}%253acancel",
        f"POST /tasks/{T_A}%25253Acancel",
        f"GET /%2574asks/{T_A}",
        f"GET /tasks%253A{T_A}",
        f"GET /tasks/{T_A}%253Asubscribe",
        f"GET /tasks/{T_A}:%2573ubscribe",
        "POST /message%253Asend",
        "POST /%256Dessage:send",
        "POST /%256Dessage%3Asend",
        f"GET /tasks/{T_A}%2",
        f"GET /tasks/{T_A}%zz",
        f"GET /tasks/{T_A}%",
        f"GET /tasks/{T_A}%u0061",
        f"GET /tasks/{T_A}%ff",
        f"GET /tasks/{T_A}%c1%81",
        f"GET /tasks/{T_A}%0a",
        f"GET /tasks/{T_A}%7f",
    ],
)
async def test_fc_020_double_and_broken_escapes(scene: Scene, line: str) -> None:
    """Refused where a second decoding would make another request of it; an id that holds a percent is nobody's."""
    answer = await scene.ask(line, V1, body=body_for(line))
    assert answer.status in (400, 404)
    assert scene.untouched
    if answer.status == 404:
        require_not_found(answer)


async def test_fc_020_what_goes_on_is_the_canonical_form(scene: Scene) -> None:
    scene.agent.script = saying(a_task(T_M))
    for written in (
        f"/%74asks/{T_M}",
        f"/tasks/%64{T_M[1:]}",
        f"/tasks/{T_M.replace('-', '%2d')}",
        f"/tasks/{T_M}",
    ):
        scene.forget()
        assert (await scene.ask(f"GET {written}", V1)).status == 200
        assert [r.target for r in scene.agent.received] == [f"/tasks/{T_M}"]
    scene.forget()
    await scene.ask(f"POST /tasks/{T_M}%3Acancel", V1, body=b"{}")
    assert [r.target for r in scene.agent.received] == [f"/tasks/{T_M}:cancel"]


# --- FC-021 --------------------------------------------------------------------------------------

ALIASES = [
    f"GET /x/tasks/{T_A}",
    f"GET /tasks/tasks/{T_A}",
    f"GET /x/v1/tasks/{T_A}",
    f"GET /v1/v1/tasks/{T_A}",
    f"GET /x/y/tasks/{T_A}",
    f"GET /X/TASKS/{T_A}",
    f"GET /tasks/{T_A}/x",
    f"GET /v2/tasks/{T_A}",
    f"GET /V1/tasks/{T_A}",
    f"GET /api/v1/tasks/{T_A}",
    f"GET /task/{T_A}",
    f"GET /TASKS/{T_A}",
    f"GET /Tasks/{T_A}:subscribe",
    f"POST /x/tasks/{T_A}:cancel",
    f"POST /tasks/{T_A}:Cancel",
    f"POST /tasks/{T_A}:CANCEL",
    f"POST /tasks/{T_A}/cancel",
    f"POST /x/tasks/{T_A}/pushNotificationConfigs",
    f"DELETE /x/tasks/{T_A}/pushNotificationConfigs/P_A",
    f"GET /agent/tasks/{T_A}",
    f"GET /.well-known/tasks/{T_A}",
    f"GET /message:send/tasks/{T_A}",
    "GET /x/tasks",
    "GET /x/extendedAgentCard",
    "GET /x/v1/card",
    "GET /EXTENDEDAGENTCARD",
    "GET /x/agent/authenticatedExtendedCard",
]


@both_versions
@pytest.mark.parametrize("line", ALIASES)
async def test_fc_021_no_other_prefix_leads_to_a_route(scene: Scene, line: str, version: str) -> None:
    await refused(scene, line, version, statuses=(404,))


@pytest.mark.parametrize(
    "path",
    [
        "/anything/message:send",
        "/x/message:stream",
        "/x/v1/message:send",
        "/MESSAGE:send",
        "/Message:Send",
        "/message:send/",
        "/message:sendx",
        "/v2/message:send",
        "/message:",
        "/message:send/x",
    ],
)
async def test_fc_021_nor_to_a_send(scene: Scene, path: str) -> None:
    for body in (a_send(), a_send(taskId=T_A)):
        answer = await scene.ask(f"POST {path}", V1, JSON, body=body, who="alice")
        assert answer.status == 404
    assert scene.untouched


async def test_fc_021_a_dot_is_no_tenant(scene: Scene) -> None:
    for line in (f"GET /%2e/tasks/{T_A}", f"GET /./tasks/{T_A}", f"GET /%2E%2e/tasks/{T_A}"):
        await refused(scene, line, V1, statuses=(400,))


async def test_fc_021_the_twin_of_the_older_version_is_the_same_operation(scene: Scene) -> None:
    """`/v1/…` is 0.3, judged as such; declared to be 1.0 it would be the tenant `v1` of some agents, and is refused."""
    for path in ("", ":subscribe"):
        foreign = await scene.ask(f"GET /v1/tasks/{T_A}{path}")
        require_not_found(foreign)
        require_equal_to_nf(foreign, await scene.ask(f"GET /v1/tasks/{N}{path}"))
    foreign = await scene.ask(f"POST /v1/tasks/{T_A}:cancel", body=b"{}")
    require_not_found(foreign)
    require_equal_to_nf(foreign, await scene.ask(f"POST /v1/tasks/{N}:cancel", body=b"{}"))
    for line in (f"GET /v1/tasks/{T_A}", "GET /v1/card"):
        await refused(scene, line, V1, statuses=(400,))
    assert scene.untouched
    assert (await scene.ask("GET /v1/card", who=None)).status == 401, "the extended card needs a caller"
    assert scene.untouched


@pytest.mark.parametrize("mount", ["/", "/review"])
async def test_fc_021_a_tenant_of_the_configuration_is_a_prefix(scenes: Scenes, mount: str) -> None:
    scene = await scenes(of_agent={"tenants": ["t1"], "mount": mount})
    at = mount.rstrip("/")
    for verb, rest, body in (
        ("GET", f"/tasks/{T_A}", None),
        ("GET", f"/tasks/{T_A}:subscribe", None),
        ("POST", f"/tasks/{T_A}:cancel", b"{}"),
        ("GET", f"/tasks/{T_A}/pushNotificationConfigs", None),
        ("POST", "/message:send", a_send(taskId=T_A)),
    ):
        foreign = await scene.ask(f"{verb} {at}/t1{rest}", V1, body=body)
        require_not_found(foreign)
        absent_body = body.replace(T_A.encode(), N.encode()) if body else None
        require_equal_to_nf(
            foreign, await scene.ask(f"{verb} {at}/t1{rest.replace(T_A, N)}", V1, body=absent_body)
        )
        assert foreign.shown == (await scene.ask(f"{verb} {at}{rest}", V1, body=body)).shown
        for other in ("t2", "T1", "t1x", "%74%32"):
            answer = await scene.ask(f"{verb} {at}/{other}{rest}", V1, body=body)
            assert answer.status == 404
            assert not answer.body.startswith(b'{"id"')
    assert scene.untouched


# --- FC-022 --------------------------------------------------------------------------------------

VERBS = [
    "HEAD",
    "OPTIONS",
    "TRACE",
    "PUT",
    "PATCH",
    "PROPFIND",
    "FOO",
    "get",
    "Get",
    "DELETE",
    "POST",
    "CONNECT",
    "QUERY",
    "M-SEARCH",
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "path",
    [
        "/tasks/{}",
        "/v1/tasks/{}",
        "/tasks/{}/pushNotificationConfigs",
        "/tasks/{}/pushNotificationConfigs/P_A",
    ],
)
async def test_fc_022_other_verbs_on_a_task(scene: Scene, verb: str, path: str) -> None:
    version = "X-Other: 1" if path.startswith("/v1") else V1
    told = []
    for task in (T_A, N, T_M):
        answer = await scene.ask(f"{verb} {path.format(task)}", version)
        told.append(answer.shown)
        if task == T_M and verb in ("POST", "DELETE") and "push" in path:
            continue  # a verb there is: of the caller's own task it is another matter
        assert answer.status in (400, 404, 405, 501)
        assert scene.untouched
    if verb in ("POST", "DELETE") and "push" in path:
        assert told[0] == told[1]
        return
    assert told[0] == told[1] == told[2], "an oracle"
    assert scene.untouched


@pytest.mark.parametrize("verb", ["HEAD", "OPTIONS", "PUT", "TRACE", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/tasks/{}:subscribe",
        "/v1/tasks/{}:subscribe",
        "/tasks/{}:cancel",
        "/message:send",
        "/message:stream",
        "/tasks",
        "/extendedAgentCard",
        "/v1/card",
        "/agent/authenticatedExtendedCard",
    ],
)
async def test_fc_022_no_stream_is_opened_by_another_verb(scene: Scene, verb: str, path: str) -> None:
    told = []
    for task in (T_A, N, T_M):
        answer = await scene.ask(f"{verb} {path.format(task)}")
        assert answer.status in (405, 400)
        assert answer.header("Content-Type") != "text/event-stream"
        told.append(answer.shown)
    assert told[0] == told[1] == told[2]
    assert scene.untouched


async def test_fc_022_head_answers_have_no_body(scene: Scene) -> None:
    """And say the length a body would have, the same for every id."""
    replies = []
    for task in (T_A, N, T_M):
        sent = http(
            f"HEAD /tasks/{task} HTTP/1.1", "Host: agents.test", *scene.bearer(), V1, "Connection: close"
        )
        replies.append((await speak(scene.port, sent)).split(b"\r\nDate: ")[0])
        head = read_answers(await speak(scene.port, sent), head=True)
        assert [(a.status, a.body) for a in head] == [(405, b"")]
    assert replies[0] == replies[1] == replies[2]
    assert scene.untouched


async def test_fc_022_head_of_the_endpoint_is_any_request(scene: Scene) -> None:
    """No operation is called by GET /, so HEAD / is judged as any other path is: for a valid caller it passes."""
    assert (await scene.ask("HEAD /", who=None)).status == 401
    assert scene.untouched
    await scene.ask("HEAD /")
    assert [r.method for r in scene.agent.received] == ["HEAD"]


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "FOO", "post"])
async def test_fc_022_json_rpc_is_called_by_post_only(scene: Scene, verb: str) -> None:
    for task in (T_A, N, T_M):
        for method, version in (("GetTask", V1), ("tasks/get", "X-Other: 1")):
            body = json.dumps(envelope(method, {"id": task})).encode()
            assert (await scene.ask(f"{verb} /", version, JSON, body=body)).status in (400, 405)
    assert scene.untouched


# --- FC-024 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["mallory", None])
@pytest.mark.parametrize(
    "path",
    [
        f"/a/../tasks/{T_A}",
        f"/a/%2e%2e/tasks/{T_A}",
        f"/a/.%2e/tasks/{T_A}",
        f"/a/%252e%252e/tasks/{T_A}",
        f"//tasks/{T_A}",
        f"///tasks/{T_A}",
        f"/tasks//{T_A}",
        f"/tasks/./{T_A}",
        f"/tasks/{T_A}/.",
        f"/tasks/{T_A}/..",
        f"/tasks/x/../{T_A}",
        f"/tasks/{T_A}//pushNotificationConfigs",
        f"/tasks/{T_A}/",
        f"/tasks/{T_A};x=1",
        f"/tasks;x=1/{T_A}",
        f"/a/..;/tasks/{T_A}",
        f"/a/..;x=1/tasks/{T_A}",
        f"/;x/tasks/{T_A}",
        f"/tasks/{T_A}%3Bx=1",
        f"/tasks/{T_A}%00",
        f"/tasks/%00{T_A}",
        f"/tasks/{T_A}%00/x",
        f"/tasks/{T_A}#/x",
        f"/x#/../tasks/{T_A}",
        f"/tasks\\{T_A}",
        f"/a\\..\\tasks\\{T_A}",
        f"/healthz/../tasks/{T_A}",
        f"/healthz/%2e%2e/tasks/{T_A}",
        f"/healthz/..;/tasks/{T_A}",
        f"/healthz;/../tasks/{T_A}",
        f"/healthz//../tasks/{T_A}",
        f"/healthz%2f..%2ftasks/{T_A}",
        f"/healthz/tasks/{T_A}",
        f"/.well-known/../tasks/{T_A}",
        f"/.well-known/tasks/{T_A}",
        f"/.well-known/agent-card.json/../../tasks/{T_A}",
        f"/.well-known/agent-card.json/..%2f..%2ftasks/{T_A}",
        f"/.well-known/agent-card.json/tasks/{T_A}",
        f"/tasks/{T_A}/.well-known/agent-card.json",
        f"/tasks/{T_A}%20",
        f"/tasks/{T_A}%09",
        f"/%20tasks/{T_A}",
        f"/tasks%20/{T_A}",
        f"/%EF%BB%BFtasks/{T_A}",
        f"/t\u00e4sks/../tasks/{T_A}",
    ],
)
async def test_fc_024_a_path_that_is_another_to_somebody_else(
    scene: Scene, path: str, who: str | None
) -> None:
    """Refused, or a miss; nothing is resolved, and no public prefix takes the place of a credential."""
    for verb in ("GET", "POST", "DELETE"):
        line = f"{verb} {path}"
        answer = await scene.ask(line, V1, who=who, body=body_for(line))
        assert answer.status in (400, 401, 404, 405), (verb, answer.status)
        assert SECRET.encode() not in answer.body
        absent = await scene.ask(line.replace(T_A, N), V1, who=who, body=body_for(line))
        require_equal_to_nf(answer, absent)
    assert scene.untouched


@pytest.mark.parametrize("tail", ["?", "?&", "?x", "?=", "?x=/../.."])
async def test_fc_024_an_empty_query_changes_nothing(scene: Scene, tail: str) -> None:
    foreign = await scene.ask(f"GET /tasks/{T_A}{tail}", V1)
    require_not_found(foreign)
    assert foreign.shown == (await scene.ask(f"GET /tasks/{T_A}", V1)).shown
    require_equal_to_nf(foreign, await scene.ask(f"GET /tasks/{N}{tail}", V1))
    assert scene.untouched


@pytest.mark.parametrize("mount", ["/review", "/a/b"])
async def test_fc_024_nor_does_a_mount_end_by_dots(scenes: Scenes, mount: str) -> None:
    scene = await scenes(of_agent={"mount": mount})
    for path in (
        f"{mount}/../tasks/{T_A}",
        f"{mount}/..{mount}/tasks/{T_A}",
        f"/x/..{mount}/tasks/{T_A}",
        f"{mount}//tasks/{T_A}",
        f"{mount};x/tasks/{T_A}",
        f"{mount}%2ftasks/{T_A}",
        f"{mount.upper()}/tasks/{T_A}",
        f"/tasks/{T_A}",
        f"{mount}x/tasks/{T_A}",
    ):
        await refused(scene, f"GET {path}", V1)
    foreign = await scene.ask(f"GET {mount}/tasks/{T_A}", V1)
    require_not_found(foreign)
    require_equal_to_nf(foreign, await scene.ask(f"GET {mount}/tasks/{N}", V1))
    assert scene.untouched


async def test_fc_024_a_public_path_is_itself_and_no_prefix(scene: Scene) -> None:
    scene.agent.script = saying({"healthy": True})
    for path in ("/healthz", "/%68ealthz"):
        scene.forget()
        assert (await scene.ask(f"GET {path}", who=None)).status == 200
        assert [r.target for r in scene.agent.received] == ["/healthz"]
    scene.forget()
    for path in (
        "/healthz/",
        "/healthz/x",
        "/HEALTHZ",
        "/healthz.json",
        "/healthz%00",
        "/healthz;x",
        "/healthzx",
    ):
        assert (await scene.ask(f"GET {path}", who=None)).status in (400, 401, 404)
    assert (
        await scene.ask(
            "POST /healthz", V1, JSON, body=json.dumps(envelope("GetTask", {"id": T_A})).encode(), who=None
        )
    ).status == 401
    assert scene.untouched


# --- FC-026 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["mallory", None])
@pytest.mark.parametrize(
    "target",
    [
        f"http://evil.example/tasks/{T_A}",
        f"http://agents.test/tasks/{T_A}",
        f"HTTP://agents.test/tasks/{T_A}",
        f"https://evil.example:443/tasks/{T_A}",
        f"http://evil.example@agents.test/tasks/{T_A}",
        f"http:///tasks/{T_A}",
        f"http:/tasks/{T_A}",
        "http://evil.example/.well-known/agent-card.json",
        "http://agents.test/.well-known/agent-card.json",
        "http://evil.example/healthz",
        "file:///etc/passwd",
        f"tasks/{T_A}",
        "*",
        "agents.test:443",
        f"?x=/tasks/{T_A}",
        f"@evil.example/tasks/{T_A}",
    ],
)
async def test_fc_026_only_the_origin_form_is_read(scene: Scene, target: str, who: str | None) -> None:
    for verb in ("GET", "OPTIONS", "POST"):
        line = f"{verb} {target}"
        answer = await scene.ask(line, V1, who=who, body=body_for(line))
        assert answer.status in (400, 401)
        assert b"evil" not in answer.body
    assert scene.untouched


HOSTS = [
    "AGENT.Example",
    "agent.example.",
    "agent.example:80@evil",
    "",
    "evil.example",
    "127.0.0.1",
    "[::1]",
    "x, y",
    "../x",
]


@pytest.mark.parametrize("host", HOSTS)
async def test_fc_026_the_name_a_caller_uses_decides_nothing(scene: Scene, host: str) -> None:
    """Routing, tenant and card go by path and policy; the agent gets its own name."""

    async def told(line: str, name: str, **more: Any) -> list[Answer]:
        body = more.pop("body", b"")
        headers = (V1, f"Content-Length: {len(body)}", "Connection: close")
        sent = http(f"{line} HTTP/1.1", f"Host: {name}", *scene.bearer(**more), *headers, body=body)
        return read_answers(await speak(scene.port, sent))

    for line in (f"GET /tasks/{T_A}", "GET /.well-known/agent-card.json", f"GET /tasks/{N}"):
        (odd,), (usual,) = await told(line, host), await told(line, "agents.test")
        if odd.status == 400:  # no name at all
            continue
        assert odd.shown == usual.shown
        assert b"evil" not in odd.body
    assert scene.untouched

    async def elsewhere(request: web.Request, _: bytes) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": f"http://{request.headers['Host']}/there"})

    scene.agent.script = elsewhere
    for answer in await told("GET /redirected", host):
        if answer.status != 400:
            assert answer.header("Location") == "https://agents.test/review/there"
            assert [r.values("Host") for r in scene.agent.received] == [
                [scene.agent.url.removeprefix("http://")]
            ]


# --- FC-029 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "code"),
    [
        pytest.param("GetTask ", -32601, id="a blank after it"),
        pytest.param(" GetTask", -32601, id="a blank before it"),
        pytest.param("gettask", -32601, id="in lower case"),
        pytest.param("GETTASK", -32601, id="in upper case"),
        pytest.param("GetTask\x00", -32601, id="NUL"),
        pytest.param("GetTask\n", -32601, id="a line end"),
        pytest.param("Get\u200bTask", -32601, id="a space of no width"),
        pytest.param("\ufeffGetTask", -32601, id="a BOM"),
        pytest.param("Ｇｅｔ\uff34ask", -32601, id="full width"),
        pytest.param("Get\u017fTask", -32601, id="a letter too many"),
        pytest.param("get_task", -32601, id="snake"),
        pytest.param("Tasks/Get", -32601, id="0.3 in capitals"),
        pytest.param("tasks/get/", -32601, id="0.3 with a slash"),
        pytest.param("tasks//get", -32601, id="0.3 with two slashes"),
        pytest.param("tasks.get", -32601, id="0.3 with a dot"),
        pytest.param("tasks\\get", -32601, id="0.3 with a backslash"),
        pytest.param("/tasks/get", -32601, id="0.3 with a slash before it"),
        pytest.param("a2a.v1.A2AService/GetTask", -32601, id="gRPC 0.3"),
        pytest.param("lf.a2a.v1.A2AService/GetTask", -32601, id="gRPC 1.0"),
        pytest.param("", -32601, id="empty"),
        pytest.param(1, -32600, id="a number"),
        pytest.param(["GetTask"], -32600, id="an array"),
        pytest.param({"name": "GetTask"}, -32600, id="an object"),
        pytest.param(True, -32600, id="a boolean"),
        pytest.param(None, -32600, id="null"),
        pytest.param("rpc.discover", -32601, id="rpc.discover"),
        pytest.param("system.listMethods", -32601, id="system.listMethods"),
        pytest.param("vendor/run", -32601, id="a vendor's"),
    ],
)
async def test_fc_029_names_that_are_nearly_right(scene: Scene, method: Any, code: int) -> None:
    for version in (V1, "X-Other: 1"):
        for target in ("/", "/elsewhere"):
            for task in (T_A, T_M):
                body = json.dumps(envelope(method, {"id": task}), ensure_ascii=False).encode()
                answer = await scene.ask(f"POST {target}", version, JSON, body=body)
                assert answer.status == 200
                assert answer.json["error"]["code"] == code
                assert answer.json["id"] == 1
    assert scene.untouched


async def test_fc_029_the_exact_name_may_be_allowed(scenes: Scenes) -> None:
    scene = await scenes(other_paths={"methods": ["vendor/run"]})
    scene.agent.script = answers({"ran": True})
    assert (await scene.rpc(envelope("vendor/run", {}))).json["result"] == {"ran": True}
    scene.forget()
    for method in ("vendor/run ", "Vendor/Run", "vendor/run\x00", "vendor/runs", "vendor"):
        assert (await scene.rpc(envelope(method, {}))).json["error"]["code"] == -32601
    assert (await scene.rpc(envelope("vendor/run", {}), who=None)).status == 401
    assert scene.untouched


# --- FC-031 --------------------------------------------------------------------------------------

SIDE_DOORS = [
    "/docs", "/openapi.json", "/metrics", "/debug", "/admin", "/a2a", "/rpc", "/v1/chat/completions", "/favicon.ico", "/x",
    "/run", "/run_sse", "/apps/x/users/alice/sessions", "/redoc", "/docs/oauth2-redirect", "/static/../docs", "/list-apps",
    "/graphql", "/ws", "/mcp", "/invoke", "/stream", "/agent", "/.well-known/openid-configuration", "/.git/config", "/card",
]  # fmt: skip


@pytest.mark.parametrize("path", SIDE_DOORS)
async def test_fc_031_under_refuse_there_is_nothing_at_any_other_path(scenes: Scenes, path: str) -> None:
    """Design: so `other_paths: refuse` says, as the strict example does. For a valid caller 404, for nobody 401."""
    scene = await scenes(other_paths={"default": "refuse", "anonymous": ["/healthz"]})
    for verb in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
        line = f"{verb} {path}"
        assert (await scene.ask(line, body=body_for(line))).status in ((404,) if ".." not in path else (400,))
        assert (await scene.ask(line, body=body_for(line), who=None)).status in (
            (401,) if ".." not in path else (400,)
        )
    assert scene.untouched
    assert (await scene.ask("GET /healthz", who=None)).status == 200, "unless it is listed"


@pytest.mark.parametrize("path", SIDE_DOORS)
async def test_fc_031_otherwise_they_need_a_caller(scene: Scene, path: str) -> None:
    """Design: the default is `authenticated`. A call written to such a path is judged as the call it is."""
    for verb in ("GET", "HEAD", "POST", "PUT", "DELETE"):
        line = f"{verb} {path}"
        assert (await scene.ask(line, body=body_for(line), who=None)).status in (400, 401)
    if ".." not in path:
        for method, version in (("GetTask", V1), ("tasks/cancel", "X-Other: 1")):
            foreign, absent = [
                await scene.ask(
                    f"POST {path}", version, JSON, body=json.dumps(envelope(method, {"id": t})).encode()
                )
                for t in (T_A, N)
            ]
            require_not_found(foreign)
            require_equal_to_nf(foreign, absent)
    assert scene.untouched


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/tasks/get", {"id": T_A}, id="python-a2a get"),
        pytest.param("/a2a/tasks/get", {"id": T_A}, id="python-a2a get under a2a"),
        pytest.param(
            "/tasks/send", {"id": T_A, "message": {"role": "user", "parts": []}}, id="python-a2a send"
        ),
        pytest.param("/stream", {"message": {"role": "user", "parts": []}}, id="python-a2a stream"),
        pytest.param(
            "/x", {"message": {"messageId": "m", "role": "user", "taskId": T_A}}, id="a message anywhere"
        ),
        pytest.param(
            "/a2a", {"params": {"message": {"parts": [], "taskId": T_A}}}, id="params without an envelope"
        ),
        pytest.param("/rpc/GetTask", {"id": T_A}, id="a method as a path"),
        pytest.param("/lf.a2a.v1.A2AService/GetTask", {"id": T_A}, id="gRPC's path"),
        pytest.param("/twirp/a2a.v1.A2AService/GetTask", {"name": f"tasks/{T_A}"}, id="a transcoder's path"),
    ],
)
async def test_fc_031_nor_is_a_call_without_an_envelope_let_through(
    scene: Scene, path: str, body: dict[str, Any]
) -> None:
    for content_type in (JSON, "Content-Type: text/plain", "X-Other: 1"):
        answer = await scene.ask(f"POST {path}", content_type, body=json.dumps(body).encode())
        assert answer.status in (400, 404, 405)
    assert scene.untouched


async def test_fc_031_the_extended_card_of_older_agents_is_an_operation(scenes: Scenes) -> None:
    """`/agent/authenticatedExtendedCard` is guarded where 0.2 or 0.3 is served, and nothing where it is not."""
    scene = await scenes()
    assert (await scene.ask("GET /agent/authenticatedExtendedCard", who=None)).status == 401
    assert scene.untouched
    modern = await scenes(of_agent={"dialects": ["JSONRPC/1.0", "HTTP+JSON/1.0"]})
    for line in ("GET /agent/authenticatedExtendedCard", "GET /v1/card", f"GET /v1/tasks/{T_M}"):
        assert (await modern.ask(line)).status == 404
    assert modern.untouched


@pytest.mark.parametrize(
    "path",
    [
        "/agent-card.json",
        "/.well-known/agent-card.json/",
        "/x/agent.json",
        "/a2a/.well-known/agent-card.json",
        "/.WELL-KNOWN/AGENT-CARD.JSON",
        "/.well-known/agent-card.json/x",
        "/Agent.json",
    ],
)
async def test_fc_031_nor_a_second_place_of_the_card(scene: Scene, path: str) -> None:
    """There the agent's own addresses would stand, which lead around the sidecar."""
    for who in ("mallory", None):
        assert (await scene.ask(f"GET {path}", who=who)).status == 404
    assert scene.untouched
