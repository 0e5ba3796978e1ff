"""Where ids sit: every carrier of every version is read, and no two may disagree."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.model import Call, Operation, PushTarget, Unreadable

from .asking import EVERYTHING, INVALID_PARAMS, message, only, outcome, rpc, send

HOOK = {
    "url": "https://h.example/x",
    "token": "tok",
    "authentication": {"scheme": "Bearer", "credentials": "c"},
}
TARGET = PushTarget("https://h.example/x", ("tok", "c", "Bearer"))
OLD = {"url": "https://h.example/x", "authentication": {"schemes": ["Basic", "Bearer"]}}
OLD_TARGET = PushTarget("https://h.example/x", ("Basic", "Bearer"))
FIRST = only("JSONRPC/0.1")


def a_call(decoded: Any) -> Call:
    assert isinstance(decoded, Call), decoded
    return decoded


# --- the task ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("GetTask", {"id": "T"}, id="1.0 get: id"),
        pytest.param("CancelTask", {"id": "T", "metadata": {}}, id="1.0 cancel: id"),
        pytest.param("SubscribeToTask", {"id": "T"}, id="1.0 subscribe: id"),
        pytest.param("GetTaskPushNotificationConfig", {"taskId": "T", "id": "C"}, id="1.0 push get: taskId"),
        pytest.param("ListTaskPushNotificationConfigs", {"task_id": "T"}, id="1.0 push list: task_id"),
        pytest.param(
            "DeleteTaskPushNotificationConfig", {"id": "C", "taskId": "T"}, id="1.0 push delete: taskId"
        ),
        pytest.param(
            "CreateTaskPushNotificationConfig", {"taskId": "T", "id": "C", **HOOK}, id="1.0 push create"
        ),
        pytest.param("tasks/get", {"id": "T", "history_length": 1}, id="0.3 get: id"),
        pytest.param("tasks/cancel", {"id": "T"}, id="0.3 cancel: id"),
        pytest.param("tasks/resubscribe", {"id": "T"}, id="0.3 subscribe: id"),
        pytest.param(
            "tasks/pushNotificationConfig/get",
            {"id": "T", "pushNotificationConfigId": "C"},
            id="0.3 push get: id",
        ),
        pytest.param("tasks/pushNotificationConfig/list", {"id": "T"}, id="0.3 push list: id"),
        pytest.param("tasks/pushNotificationConfig/delete", {"id": "T"}, id="0.3 push delete: id"),
        pytest.param(
            "tasks/pushNotificationConfig/set",
            {"taskId": "T", "pushNotificationConfig": {"id": "C", **HOOK}},
            id="0.3 push set: taskId",
        ),
        pytest.param("SendMessage", {"message": message(taskId="T")}, id="1.0 send: message.taskId"),
        pytest.param("SendMessage", {"message": message(task_id="T")}, id="FC-005 1.0 send: message.task_id"),
        pytest.param("message/stream", {"message": message(taskId="T")}, id="0.3 stream: message.taskId"),
        pytest.param("message/send", {"message": message(task_id="T")}, id="0.3 send: message.task_id"),
        pytest.param(
            "SendMessage", {"message": message(taskId="T"), "id": "", "taskId": "T"}, id="places that agree"
        ),
    ],
)
def test_the_task_of_a_request(method: str, params: Any) -> None:
    assert a_call(rpc(method, params)).task_id == "T"


@pytest.mark.parametrize(
    ("method", "params", "task", "context"),
    [
        pytest.param("tasks/send", {"id": "T", "sessionId": "S", "message": {}}, "T", "S", id="send"),
        pytest.param("tasks/sendSubscribe", {"id": "T", "message": message()}, "T", None, id="stream"),
        pytest.param("tasks/get", {"id": "T"}, "T", None, id="get"),
        pytest.param(
            "tasks/pushNotification/set", {"id": "T", "pushNotificationConfig": OLD}, "T", None, id="push set"
        ),
        pytest.param("tasks/pushNotification/get", {"id": "T"}, "T", None, id="push get"),
    ],
)
def test_the_task_of_a_request_of_0_1(method: str, params: Any, task: str, context: str | None) -> None:
    call = a_call(rpc(method, params, FIRST))
    assert (call.task_id, call.context_id) == (task, context)
    assert call.creates_by_id == (
        call.operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE)
    )


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="FC-172 absent"),
        pytest.param({"id": None}, id="FC-172 null"),
        pytest.param({"id": ""}, id="FC-172 empty"),
        pytest.param({"id": 0}, id="FC-172 a number"),
        pytest.param({"id": []}, id="FC-172 a list"),
        pytest.param({"id": ["T"]}, id="an id in a list, which JavaScript makes a string of"),
        pytest.param({"id": True}, id="a boolean"),
        pytest.param({"id": {"id": "T"}}, id="an object"),
        pytest.param({"taskId": "T"}, id="FC-172 the wrong name"),
        pytest.param({"name": "tasks/T"}, id="FC-172 a resource name instead"),
        pytest.param({"ID": "T"}, id="FC-003 a wrong case"),
        pytest.param({"id": "T", "ID": "A"}, id="FC-003 a twin by case"),
        pytest.param({"id": "x" * 1025}, id="longer than any id"),
        pytest.param({"id": "T", "taskId": "A"}, id="another task beside it"),
        pytest.param({"id": "T", "task_id": "A"}, id="another task beside it, in snake case"),
        pytest.param({"id": "T", "taskId": 5}, id="a second place with a number"),
        pytest.param({"id": "T", "name": "tasks/A"}, id="another task by resource name"),
        pytest.param({"id": "T", "name": "tasks/T/x"}, id="a resource name that goes on"),
        pytest.param({"id": "T", "parent": "x/tasks/T"}, id="a resource name that starts earlier"),
        pytest.param({"id": "T", "tenant": 5}, id="a tenant that is no string"),
    ],
)
@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask", "tasks/get", "tasks/cancel"])
def test_no_task_is_guessed(method: str, params: Any) -> None:
    assert outcome(rpc(method, params)) == INVALID_PARAMS


def test_an_id_of_the_greatest_length_passes() -> None:
    assert a_call(rpc("GetTask", {"id": "x" * 1024})).task_id == "x" * 1024


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param(
            "GetTaskPushNotificationConfig", {"id": "T"}, id="1.0: the config's id is not the task's"
        ),
        pytest.param(
            "tasks/pushNotificationConfig/get", {"taskId": "T"}, id="0.3: taskId is not the task's id"
        ),
        pytest.param(
            "tasks/pushNotificationConfig/get", {"id": "T", "taskId": "A"}, id="0.3: but must not contradict"
        ),
        pytest.param(
            "tasks/pushNotificationConfig/set",
            {"id": "T", "pushNotificationConfig": HOOK},
            id="0.3 set: no taskId",
        ),
        pytest.param(
            "tasks/pushNotificationConfig/set",
            {"taskId": "T", "pushNotificationConfig": {"taskId": "A", **HOOK}},
            id="0.3 set: another task in the config",
        ),
    ],
)
def test_the_trap_of_push_ids(method: str, params: Any) -> None:
    assert outcome(rpc(method, params)) == INVALID_PARAMS


# --- sends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_id_in_a_send_is_no_id(empty: Any) -> None:
    """FC-172."""
    call = a_call(rpc("SendMessage", {"message": message(taskId=empty, contextId=empty), "tenant": empty}))
    assert (call.task_id, call.context_id, call.tenant) == (None, None, None)


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="no message"),
        pytest.param({"message": None}, id="null"),
        pytest.param({"message": []}, id="a list"),
        pytest.param({"message": "hi"}, id="a string"),
        pytest.param({"message": message(), "request": message()}, id="message and request"),
        pytest.param({"message": message(taskId="T", task_id="A")}, id="FC-005 twins"),
        pytest.param({"message": message(task_id="A", taskId="T")}, id="FC-005 twins, turned round"),
        pytest.param({"message": message(taskId=None, task_id="A")}, id="FC-005 twins, one null"),
        pytest.param({"message": message(contextId="C", context_id="C")}, id="FC-005 twins of the context"),
        pytest.param(
            {"message": message(referenceTaskIds=[], reference_task_ids=["A"])}, id="FC-005 references"
        ),
        pytest.param({"message": message(TASKID="A")}, id="FC-003 a wrong case"),
        pytest.param({"Message": message()}, id="FC-003 the message in a wrong case"),
        pytest.param(
            {"message": message(), "Configuration": {}}, id="FC-003 the configuration in a wrong case"
        ),
        pytest.param({"message": message(taskId=123)}, id="a task that is a number"),
        pytest.param({"message": message(taskId=["A"])}, id="a task in a list"),
        pytest.param({"message": message(contextId=1)}, id="a context that is a number"),
        pytest.param({"message": message(contextId="c" * 1025)}, id="a context that is too long"),
        pytest.param({"message": message(taskId="T"), "id": "A"}, id="another task in params.id"),
        pytest.param({"message": message(taskId="T"), "taskId": "A"}, id="another task in params.taskId"),
        pytest.param({"message": message(contextId="C"), "sessionId": "B"}, id="another context as session"),
        pytest.param({"message": message(contextId="C"), "context_id": "B"}, id="another context in params"),
        pytest.param({"message": message(referenceTaskIds="A")}, id="references that are no list"),
        pytest.param({"message": message(referenceTaskIds=["A", 1])}, id="a reference that is a number"),
        pytest.param({"message": message(referenceTaskIds=[""])}, id="a reference that is empty"),
        pytest.param({"message": message(referenceTaskIds=[None])}, id="a reference that is null"),
        pytest.param(
            {"message": message(referenceTaskIds=[str(n) for n in range(257)])}, id="too many references"
        ),
        pytest.param({"message": message(), "configuration": []}, id="a configuration that is a list"),
        pytest.param({"message": message(), "tenant": ["t"]}, id="a tenant in a list"),
    ],
)
@pytest.mark.parametrize("method", ["SendMessage", "message/stream"])
def test_sends_that_could_be_read_in_two_ways(method: str, params: Any) -> None:
    assert outcome(rpc(method, params)) == INVALID_PARAMS


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"message": {}}, id="no id"),
        pytest.param({"id": "", "message": {}}, id="an empty id"),
        pytest.param({"id": "T", "message": {"taskId": "A"}}, id="another task in the message"),
        pytest.param({"id": "T", "sessionId": "S", "message": {"contextId": "C"}}, id="another context"),
    ],
)
def test_sends_of_0_1_that_could_be_read_in_two_ways(params: Any) -> None:
    assert outcome(rpc("tasks/send", params, FIRST)) == INVALID_PARAMS


def test_references_in_either_spelling_once_each() -> None:
    call = a_call(rpc("SendMessage", {"message": message(reference_task_ids=["A", "B", "A"])}))
    assert call.references == ("A", "B")


def test_what_is_opaque_may_hold_any_member() -> None:
    odd = {"taskId": 1, "task_id": 2, "TASKID": 3}
    params = {"message": message(parts=[{"data": odd}], metadata=odd), "metadata": odd, "unknown": odd}
    assert a_call(rpc("SendMessage", params)).task_id is None


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("ListTasks", {"contextId": "C"}, id="1.0"),
        pytest.param("tasks/list", {"context_id": "C", "last_updated_after": 1}, id="0.3 in snake case"),
    ],
)
def test_a_list_by_context(method: str, params: Any) -> None:
    call = a_call(rpc(method, params))
    assert (call.operation, call.context_id, call.task_id) == (Operation.LIST_TASKS, "C", None)


@pytest.mark.parametrize(
    "params", [{"contextId": ["C"]}, {"contextId": "C", "context_id": "D"}, {"ContextId": "C"}]
)
def test_a_list_by_something_else(params: Any) -> None:
    assert outcome(rpc("ListTasks", params)) == INVALID_PARAMS


def test_a_tenant_is_told() -> None:
    assert a_call(rpc("GetTask", {"id": "T", "tenant": "acme"})).tenant == "acme"
    assert a_call(rpc("GetExtendedAgentCard", {"tenant": "acme"})).tenant == "acme"


# --- push configs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "push"),
    [
        pytest.param({"configuration": {"taskPushNotificationConfig": HOOK}}, TARGET, id="1.0"),
        pytest.param(
            {"configuration": {"task_push_notification_config": HOOK}}, TARGET, id="1.0 in snake case"
        ),
        pytest.param({"configuration": {"pushNotificationConfig": OLD}}, OLD_TARGET, id="0.3"),
        pytest.param(
            {"configuration": {"push_notification_config": OLD}}, OLD_TARGET, id="0.3 in snake case"
        ),
        pytest.param({"configuration": {"pushNotification": OLD}}, OLD_TARGET, id="0.3 ProtoJSON"),
        pytest.param(
            {"configuration": {"push_notification": OLD}}, OLD_TARGET, id="0.3 ProtoJSON in snake case"
        ),
        pytest.param({"pushNotification": OLD}, OLD_TARGET, id="0.1"),
        pytest.param(
            {"configuration": {"taskPushNotificationConfig": {"pushNotificationConfig": HOOK}}},
            TARGET,
            id="wrapped",
        ),
        pytest.param(
            {"configuration": {"taskPushNotificationConfig": {"url": "u", "taskId": ""}}},
            PushTarget("u"),
            id="only an address, and an empty task",
        ),
    ],
)
@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
def test_inline_configs_are_found(method: str, params: Any, push: PushTarget) -> None:
    assert a_call(rpc(method, {"message": message(), **params})).push == (push,)


def test_all_inline_configs_are_found() -> None:
    both = {"pushNotificationConfig": OLD, "taskPushNotificationConfig": HOOK}
    assert a_call(rpc("SendMessage", {"message": message(), "configuration": both})).push == (
        OLD_TARGET,
        TARGET,
    )


def test_null_is_no_config() -> None:
    params = {
        "message": message(),
        "configuration": {"pushNotificationConfig": None},
        "pushNotification": None,
    }
    assert a_call(rpc("message/send", params)).push == ()


@pytest.mark.parametrize(
    ("method", "params", "push"),
    [
        pytest.param("CreateTaskPushNotificationConfig", {"taskId": "T", **HOOK}, (TARGET,), id="1.0: flat"),
        pytest.param(
            "CreateTaskPushNotificationConfig",
            {"taskId": "T", "config": {"pushNotificationConfig": OLD}, **HOOK},
            (OLD_TARGET, TARGET),
            id="flat and nested: both are judged",
        ),
        pytest.param(
            "tasks/pushNotificationConfig/set",
            {"taskId": "T", "pushNotificationConfig": OLD},
            (OLD_TARGET,),
            id="0.3: nested",
        ),
        pytest.param(
            "tasks/pushNotificationConfig/set",
            {"taskId": "T", "push_notification_config": OLD},
            (OLD_TARGET,),
            id="0.3: nested, in snake case",
        ),
    ],
)
def test_created_configs_are_found(method: str, params: Any, push: tuple[PushTarget, ...]) -> None:
    assert a_call(rpc(method, params)).push == push


BAD_CONFIGS = [
    pytest.param({}, id="no address"),
    pytest.param({"url": 5}, id="an address that is a number"),
    pytest.param({"url": ""}, id="an empty address"),
    pytest.param({"url": "u", "URL": "v"}, id="FC-003 two addresses by case"),
    pytest.param({"url": "u", "token": 5}, id="a token that is a number"),
    pytest.param({"url": "u", "authentication": "x"}, id="authentication that is a string"),
    pytest.param({"url": "u", "authentication": {"schemes": "x"}}, id="schemes that are a string"),
    pytest.param({"url": "u", "authentication": {"schemes": [1]}}, id="a scheme that is a number"),
    pytest.param(
        {"url": "u", "authentication": {"Credentials": "x"}}, id="FC-003 credentials in a wrong case"
    ),
    pytest.param({"url": "u", "authentication": {"credentials": []}}, id="credentials that are a list"),
    pytest.param({"pushNotificationConfig": []}, id="wrapping a list"),
]


TWICE = {"pushNotificationConfig": {"pushNotificationConfig": {"url": "u"}}}
OTHER_CONFIGS = [
    pytest.param(TWICE, id="wrapped twice"),
    pytest.param([], id="a list"),
    pytest.param("u", id="a string"),
]


@pytest.mark.parametrize("config", [*BAD_CONFIGS, *OTHER_CONFIGS])
def test_bad_inline_configs(config: Any) -> None:
    params = {"message": message(), "configuration": {"taskPushNotificationConfig": config}}
    assert outcome(rpc("SendMessage", params)) == INVALID_PARAMS


@pytest.mark.parametrize("config", BAD_CONFIGS)
def test_bad_created_configs(config: Any) -> None:
    assert outcome(rpc("CreateTaskPushNotificationConfig", {"taskId": "T", **config})) == INVALID_PARAMS
    nested = {"taskId": "T", "pushNotificationConfig": config}
    assert outcome(rpc("tasks/pushNotificationConfig/set", nested)) == INVALID_PARAMS


@pytest.mark.parametrize(
    ("task", "config", "passes"),
    [
        pytest.param("T", {"taskId": "T"}, True, id="the same task"),
        pytest.param("T", {"taskId": "A"}, False, id="FC-096 another task"),
        pytest.param("T", {"task_id": "A"}, False, id="FC-096 another task, in snake case"),
        pytest.param("T", {"name": "tasks/A/pushNotificationConfigs/c"}, False, id="another task by name"),
        pytest.param("T", {"pushNotificationConfig": {"url": "v", "taskId": "A"}}, False, id="wrapped"),
        pytest.param("", {"taskId": "A"}, False, id="FC-096 a task where the message names none"),
        pytest.param("", {"taskId": 5}, False, id="a task that is a number"),
        pytest.param("", {"tenant": "other"}, False, id="another tenant"),
    ],
)
def test_an_inline_config_names_no_other_task(task: str, config: Any, passes: bool) -> None:
    inline = {"taskPushNotificationConfig": {"url": "u", **config}}
    decoded = rpc("SendMessage", {"message": message(taskId=task), "configuration": inline, "tenant": "acme"})
    assert outcome(decoded) == (Operation.SEND_MESSAGE if passes else INVALID_PARAMS)


# --- 0.3 bodies of HTTP+JSON -----------------------------------------------------------------------


@pytest.mark.parametrize("member", ["message", "request"])
def test_a_0_3_body_names_the_message_either_way(member: str) -> None:
    body = {member: {"message_id": "m", "task_id": "T", "content": []}}
    assert a_call(send("POST", "/v1/message:send", body)).task_id == "T"


@pytest.mark.parametrize(
    ("target", "body", "passes"),
    [
        pytest.param("/v1/tasks/T:cancel", {"name": "tasks/T"}, True, id="the same name"),
        pytest.param("/v1/tasks/T:cancel", {"name": "tasks/A"}, False, id="another name"),
        pytest.param("/v1/tasks/T:cancel", {"name": "T"}, False, id="a bare id as name"),
        pytest.param("/v1/tasks/T:cancel", {"name": 5}, False, id="a number as name"),
        pytest.param("/v1/tasks/T:cancel", {"id": "A"}, False, id="another id"),
        pytest.param("/v1/tasks/T:cancel", {"taskId": "A"}, False, id="another taskId"),
        pytest.param("/tasks/T:cancel", {"id": "T", "metadata": {}}, True, id="1.0: the same id"),
        pytest.param("/tasks/T:subscribe", {"id": "A"}, False, id="1.0: another id"),
        pytest.param("/v1/tasks/a%2520b:cancel", {"name": "tasks/a%20b"}, False, id="an escaped name"),
        pytest.param("/v1/tasks/T:cancel", {"name": "tasks/T%"}, False, id="a name with a percent sign"),
    ],
)
def test_a_body_agrees_with_the_path(target: str, body: Any, passes: bool) -> None:
    assert isinstance(send("POST", target, body), Call) == passes


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        pytest.param({"config": {"pushNotificationConfig": OLD}}, True, id="in config"),
        pytest.param({"pushNotificationConfig": OLD}, True, id="the config as the body"),
        pytest.param({"id": "c", **HOOK}, True, id="flat, with its own id"),
        pytest.param(
            {"parent": "tasks/T", "configId": "c", "config": {"pushNotificationConfig": OLD}}, True, id="all"
        ),
        pytest.param({"parent": "tasks/A", **HOOK}, False, id="another parent"),
        pytest.param({"taskId": "A", **HOOK}, False, id="another task"),
        pytest.param(
            {"config": {"name": "tasks/A/pushNotificationConfigs/c", "pushNotificationConfig": OLD}},
            False,
            id="another task in the config's name",
        ),
        pytest.param(
            {"config": {"name": "tasks/T/x/c", "pushNotificationConfig": OLD}},
            False,
            id="a name of another kind",
        ),
        pytest.param({}, False, id="nothing"),
    ],
)
@pytest.mark.parametrize(
    "target", ["/v1/tasks/T/pushNotificationConfigs", "/tasks/T/pushNotificationConfigs"]
)
def test_a_push_create_by_path(target: str, body: Any, passes: bool) -> None:
    decoded = send("POST", target, body)
    assert isinstance(decoded, Call) == passes
    if isinstance(decoded, Call):
        assert decoded.task_id == "T"
        assert [p.url for p in decoded.push] == ["https://h.example/x"]


SET, CREATE = "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"
NAMED = "tasks/T/pushNotificationConfigs/n"


@pytest.mark.parametrize(
    ("decoded", "config"),
    [
        pytest.param(rpc(CREATE, {"taskId": "T", "id": "c", **HOOK}), "c", id="1.0"),
        pytest.param(rpc(CREATE, {"taskId": "T", **HOOK}), None, id="1.0 without"),
        pytest.param(rpc(CREATE, {"taskId": "T", "id": "", **HOOK}), None, id="1.0, empty"),
        pytest.param(rpc(SET, {"taskId": "T", "pushNotificationConfig": {"id": "c", **OLD}}), "c", id="0.3"),
        pytest.param(rpc(SET, {"taskId": "T", "pushNotificationConfig": OLD}), None, id="0.3 without"),
        pytest.param(
            rpc("tasks/pushNotification/set", {"id": "T", "pushNotificationConfig": OLD}, FIRST),
            None,
            id="0.1, where the only id is the task's",
        ),
        pytest.param(
            send(
                "POST",
                "/v1/tasks/T/pushNotificationConfigs",
                {"config": {"name": NAMED, "pushNotificationConfig": OLD}},
            ),
            "n",
            id="0.3 ProtoJSON: in the name",
        ),
        pytest.param(
            send(
                "POST",
                "/v1/tasks/T/pushNotificationConfigs",
                {"config": {"name": NAMED, "pushNotificationConfig": {"id": "c", **OLD}}},
            ),
            "c",
            id="0.3 ProtoJSON: the config's own before the name's",
        ),
        pytest.param(
            rpc("SendMessage", {"message": message(), "configuration": {"taskPushNotificationConfig": HOOK}}),
            None,
            id="inline without",
        ),
        pytest.param(
            rpc(
                "message/send",
                {"message": message(), "configuration": {"pushNotificationConfig": {"id": "c", **OLD}}},
            ),
            "c",
            id="inline",
        ),
    ],
)
def test_the_id_of_a_config(decoded: Any, config: str | None) -> None:
    (target,) = a_call(decoded).push
    assert target.config_id == config


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("version", "params", "outcome_"),
    [
        pytest.param("1.0", {"taskId": "T", "id": "c"}, "c", id="1.0"),
        pytest.param("1.0", {"task_id": "T", "id": "c"}, "c", id="1.0 in snake case"),
        pytest.param("0.3", {"id": "T", "pushNotificationConfigId": "c"}, "c", id="0.3"),
        pytest.param("0.3", {"id": "T", "push_notification_config_id": "c"}, "c", id="0.3 in snake case"),
        pytest.param("0.3", {"id": "T"}, None, id="0.3 without"),
        pytest.param("1.0", {"taskId": "T", "id": 5}, INVALID_PARAMS, id="a number"),
        pytest.param("1.0", {"taskId": "T", "id": "c", "configId": "d"}, INVALID_PARAMS, id="two of them"),
    ],
)
def test_the_config_a_request_names(verb: str, version: str, params: Any, outcome_: Any) -> None:
    old, new = ("get", "Get") if verb == "GET" else ("delete", "Delete")
    named = {"0.3": f"tasks/pushNotificationConfig/{old}", "1.0": f"{new}TaskPushNotificationConfig"}
    decoded = rpc(named[version], params)
    assert (decoded.config_id if isinstance(decoded, Call) else outcome(decoded)) == outcome_


@pytest.mark.parametrize("base", ["/v1/tasks", "/tasks"])
def test_the_config_a_path_names(base: str) -> None:
    assert a_call(send("DELETE", f"{base}/T/pushNotificationConfigs/c%20d")).config_id == "c d"
    assert outcome(send("DELETE", f"{base}/T/pushNotificationConfigs/c?configId=d")) == INVALID_PARAMS


def test_nothing_the_caller_wrote_is_echoed() -> None:
    odd = "theirs"
    for params in ({"id": [odd]}, {"id": "T", odd.upper(): odd, "Id": odd}, {"id": "T", "name": odd}):
        decoded = rpc("GetTask", params, EVERYTHING)
        assert isinstance(decoded, Unreadable)
        assert odd not in decoded.detail.lower()
