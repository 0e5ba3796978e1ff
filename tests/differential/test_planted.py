"""The readers find what they are there to find: a check is taken away, and somebody is seen to read another task."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.bindings import decode, payload, strict
from sidecar.bindings.strict import Vocabulary
from sidecar.model import Call, Other
from tests.differential.hostile_requests import EVERYTHING
from tests.differential.judging import compared, judged
from tests.differential.reading import Asked, Readers

Fault = Callable[[pytest.MonkeyPatch], None]


def without_folding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strict, "fold", lambda name: name)


def with_the_first_of_two(patch: pytest.MonkeyPatch) -> None:
    def read(body: bytes, **_: Any) -> Any:
        return json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs)))

    patch.setattr(strict, "jiter", SimpleNamespace(from_json=read))


def in_camel_case_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(payload, "MESSAGE", Vocabulary({"taskId": "taskId"}, frozenset()))


def whatever_has_no_method(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decode, "resembles_a_request", lambda value: False)


def with_prototypes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strict, "PROTOTYPE", "")


def without_references(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(payload, "read_references", lambda value, where: ())


def rpc(method: str, params: str, version: str = "") -> Asked:
    body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'
    return asked(body, {"A2A-Version": version} if version else {})


def asked(body: str, headers: Mapping[str, str]) -> Asked:
    return Asked("POST", "/", {"Content-Type": "application/json", **headers}, body.encode())


def message(more: str, new: bool = False) -> str:
    role, part = ("ROLE_USER", "") if new else ("user", '"kind":"text",')
    return f'{{"message":{{"messageId":"m","role":"{role}","parts":[{{{part}"text":"x"}}],{more}}}}}'


@pytest.mark.parametrize(
    ("fault", "request_", "finders"),
    [
        pytest.param(
            without_folding,
            rpc("GetTask", '{"id":"mine","ID":"theirs"}', "1.0"),
            {"go-structs"},
            id="a twin in capitals is let pass: Go takes it",
        ),
        pytest.param(
            without_folding,
            rpc("message/send", message('"taſkId":"theirs"')),
            {"go-structs", "go-maps"},
            id="a long s is let pass: Go folds it",
        ),
        pytest.param(
            with_the_first_of_two,
            rpc("tasks/cancel", '{"id":"mine","id":"theirs"}'),
            {"a2a-sdk-1", "a2a-sdk-0.3", "a2a-sdk-0.2.16", "a2a-js-1", "a2a-js-0"}
            | {"javascript", "go-structs", "go-maps"},
            id="of two equal names the first is judged: everybody takes the last",
        ),
        pytest.param(
            in_camel_case_only,
            rpc("SendMessage", message('"task_id":"theirs"', new=True), "1.0"),
            {"a2a-sdk-1", "a2a-js-1", "go-maps"},
            id="snake case is not known: ProtoJSON takes it",
        ),
        pytest.param(
            whatever_has_no_method,
            asked('{"id":1,"params":{"id":"theirs"}}', {}),
            {"a2a-sdk-0.2.16"},
            id="a request without a method passes: a2a-sdk 0.2 takes it for a get",
        ),
        pytest.param(
            with_prototypes,
            rpc("message/send", message('"__proto__":{"taskId":"theirs"}')),
            {"javascript"},
            id="a prototype is let pass: JavaScript inherits from it",
        ),
        pytest.param(
            without_references,
            rpc("message/send", message('"referenceTaskIds":["theirs"]')),
            {"a2a-sdk-1", "a2a-sdk-0.3", "a2a-sdk-0.2.16", "a2a-js-1", "a2a-js-0"}
            | {"javascript", "go-structs", "go-maps"},
            id="references are not judged",
        ),
    ],
)
def test_a_planted_fault_is_found(
    fault: Fault, request_: Asked, finders: set[str], readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    unharmed = judged(request_, EVERYTHING)
    assert not isinstance(unharmed, Call | Other) or compared(request_, unharmed, readers)[0] == []
    fault(monkeypatch)
    decoded = judged(request_, EVERYTHING)
    assert isinstance(decoded, Call | Other)
    problems, _ = compared(request_, decoded, readers)
    assert {problem.partition(" ")[0] for problem in problems} == finders
