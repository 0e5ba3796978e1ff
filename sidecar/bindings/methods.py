"""Tables: wire name or route → Operation.

Owns: every JSON-RPC method and every HTTP+JSON route of every version, and which words of a path
belong to A2A.
Never: an if per method, knows where ids sit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from sidecar.bindings.dialect import JSONRPC
from sidecar.model import STREAMS, Dialect, Operation, Version

V0_1, V0_2, V0_3, V1_0 = Version.V0_1, Version.V0_2, Version.V0_3, Version.V1_0

# 0.1 §7, 0.2 §7 and 0.3 §7 with the JSON schema of each tag, 1.0 §5.3 and §9.4. One row per wire name.
JSONRPC_METHODS: Final[Mapping[tuple[Version, str], Operation]] = {
    (V0_1, "tasks/send"): Operation.SEND_MESSAGE,
    (V0_1, "tasks/sendSubscribe"): Operation.SEND_STREAMING_MESSAGE,
    (V0_1, "tasks/get"): Operation.GET_TASK,
    (V0_1, "tasks/cancel"): Operation.CANCEL_TASK,
    (V0_1, "tasks/resubscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V0_1, "tasks/pushNotification/set"): Operation.CREATE_PUSH_CONFIG,
    (V0_1, "tasks/pushNotification/get"): Operation.GET_PUSH_CONFIG,
    (V0_2, "message/send"): Operation.SEND_MESSAGE,
    (V0_2, "message/stream"): Operation.SEND_STREAMING_MESSAGE,
    (V0_2, "tasks/get"): Operation.GET_TASK,
    (V0_2, "tasks/cancel"): Operation.CANCEL_TASK,
    (V0_2, "tasks/resubscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V0_2, "tasks/pushNotificationConfig/set"): Operation.CREATE_PUSH_CONFIG,
    (V0_2, "tasks/pushNotificationConfig/get"): Operation.GET_PUSH_CONFIG,
    (V0_2, "tasks/pushNotificationConfig/list"): Operation.LIST_PUSH_CONFIGS,  # since 0.2.5
    (V0_2, "tasks/pushNotificationConfig/delete"): Operation.DELETE_PUSH_CONFIG,  # since 0.2.5
    (V0_2, "agent/authenticatedExtendedCard"): Operation.GET_EXTENDED_CARD,  # only in the 0.2.6 table
    (V0_3, "message/send"): Operation.SEND_MESSAGE,
    (V0_3, "message/stream"): Operation.SEND_STREAMING_MESSAGE,
    (V0_3, "tasks/get"): Operation.GET_TASK,
    (V0_3, "tasks/list"): Operation.LIST_TASKS,  # after the 0.3.0 tag; a2a-go 0.3 serves it
    (V0_3, "tasks/cancel"): Operation.CANCEL_TASK,
    (V0_3, "tasks/resubscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V0_3, "tasks/pushNotificationConfig/set"): Operation.CREATE_PUSH_CONFIG,
    (V0_3, "tasks/pushNotificationConfig/get"): Operation.GET_PUSH_CONFIG,
    (V0_3, "tasks/pushNotificationConfig/list"): Operation.LIST_PUSH_CONFIGS,
    (V0_3, "tasks/pushNotificationConfig/delete"): Operation.DELETE_PUSH_CONFIG,
    (V0_3, "agent/getAuthenticatedExtendedCard"): Operation.GET_EXTENDED_CARD,
    (V0_3, "agent/authenticatedExtendedCard"): Operation.GET_EXTENDED_CARD,  # 0.3 §11.1.3 still has it
    (V1_0, "SendMessage"): Operation.SEND_MESSAGE,
    (V1_0, "SendStreamingMessage"): Operation.SEND_STREAMING_MESSAGE,
    (V1_0, "GetTask"): Operation.GET_TASK,
    (V1_0, "ListTasks"): Operation.LIST_TASKS,
    (V1_0, "CancelTask"): Operation.CANCEL_TASK,
    (V1_0, "SubscribeToTask"): Operation.SUBSCRIBE_TO_TASK,
    (V1_0, "CreateTaskPushNotificationConfig"): Operation.CREATE_PUSH_CONFIG,
    (V1_0, "GetTaskPushNotificationConfig"): Operation.GET_PUSH_CONFIG,
    (V1_0, "ListTaskPushNotificationConfigs"): Operation.LIST_PUSH_CONFIGS,
    (V1_0, "DeleteTaskPushNotificationConfig"): Operation.DELETE_PUSH_CONFIG,
    (V1_0, "GetExtendedAgentCard"): Operation.GET_EXTENDED_CARD,
}

# 0.2 – 0.3: proto annotations and 0.3 §3.5.6; 1.0: §5.3 and §11.3. Where proto and text disagree
# (subscribe is GET in one and POST in the other; 0.3 has `task` in the singular) both rows stand.
HTTP_ROUTES: Final[Mapping[tuple[Version, str, str], Operation]] = {
    (V0_3, "POST", "/v1/message:send"): Operation.SEND_MESSAGE,
    (V0_3, "POST", "/v1/message:stream"): Operation.SEND_STREAMING_MESSAGE,
    (V0_3, "GET", "/v1/tasks"): Operation.LIST_TASKS,
    (V0_3, "GET", "/v1/tasks/{id}"): Operation.GET_TASK,
    (V0_3, "POST", "/v1/tasks/{id}:cancel"): Operation.CANCEL_TASK,
    (V0_3, "GET", "/v1/tasks/{id}:subscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V0_3, "POST", "/v1/tasks/{id}:subscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V0_3, "POST", "/v1/tasks/{id}/pushNotificationConfigs"): Operation.CREATE_PUSH_CONFIG,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotificationConfigs"): Operation.LIST_PUSH_CONFIGS,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotificationConfigs/{cid}"): Operation.GET_PUSH_CONFIG,
    (V0_3, "DELETE", "/v1/tasks/{id}/pushNotificationConfigs/{cid}"): Operation.DELETE_PUSH_CONFIG,
    (V0_3, "POST", "/v1/task/{id}/pushNotificationConfigs"): Operation.CREATE_PUSH_CONFIG,
    (V0_3, "POST", "/v1/task/{id}/pushNotifications"): Operation.CREATE_PUSH_CONFIG,
    (V0_3, "POST", "/v1/tasks/{id}/pushNotifications"): Operation.CREATE_PUSH_CONFIG,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotifications"): Operation.LIST_PUSH_CONFIGS,
    (V0_3, "GET", "/v1/tasks/{id}/pushNotifications/{cid}"): Operation.GET_PUSH_CONFIG,
    (V0_3, "GET", "/v1/card"): Operation.GET_EXTENDED_CARD,
    (V0_3, "GET", "/agent/authenticatedExtendedCard"): Operation.GET_EXTENDED_CARD,
    (V1_0, "POST", "/message:send"): Operation.SEND_MESSAGE,
    (V1_0, "POST", "/message:stream"): Operation.SEND_STREAMING_MESSAGE,
    (V1_0, "GET", "/tasks"): Operation.LIST_TASKS,
    (V1_0, "GET", "/tasks/{id}"): Operation.GET_TASK,
    (V1_0, "POST", "/tasks/{id}:cancel"): Operation.CANCEL_TASK,
    (V1_0, "GET", "/tasks/{id}:subscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V1_0, "POST", "/tasks/{id}:subscribe"): Operation.SUBSCRIBE_TO_TASK,
    (V1_0, "POST", "/tasks/{id}/pushNotificationConfigs"): Operation.CREATE_PUSH_CONFIG,
    (V1_0, "GET", "/tasks/{id}/pushNotificationConfigs"): Operation.LIST_PUSH_CONFIGS,
    (V1_0, "GET", "/tasks/{id}/pushNotificationConfigs/{cid}"): Operation.GET_PUSH_CONFIG,
    (V1_0, "DELETE", "/tasks/{id}/pushNotificationConfigs/{cid}"): Operation.DELETE_PUSH_CONFIG,
    (V1_0, "GET", "/extendedAgentCard"): Operation.GET_EXTENDED_CARD,
}

# The extended card of JSON-RPC agents of 0.2 and 0.3, beside the card's URL (0.2.1 §7.8): it exists
# where any such dialect does, and outside the base of HTTP+JSON.
EXTENDED_CARD_PATH: Final = "/agent/authenticatedExtendedCard"

# Words that are never a tenant: with them a path would have two readings.
RESERVED: Final = frozenset(
    {"tasks", "task", "message:send", "message:stream", "extendedAgentCard", "v1", "agent", ".well-known"}
)

SUFFIXES: Final = (":cancel", ":subscribe")

_WORDS = frozenset({"tasks", "task", "extendedagentcard", "authenticatedextendedcard"})
_SERVICE = "a2a.v1.a2aservice"  # the gRPC service of 0.3 and, with `lf.` before it, of 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """What a JSON-RPC method means in one dialect."""

    operation: Operation
    dialect: Dialect
    sse: bool  # 0.x clients of a stream read an error as an event only


@lru_cache(maxsize=64)
def rows(dialects: frozenset[Dialect]) -> Mapping[str, Row]:
    """Method name → Row, as far as `dialects` are enabled; of shared names the highest version."""
    found: dict[str, Row] = {}
    for dialect in JSONRPC:
        if dialect in dialects:
            for (version, name), operation in JSONRPC_METHODS.items():
                if version is dialect.version:
                    sse = operation in STREAMS and version is not V1_0
                    found.setdefault(name, Row(operation, dialect, sse))
    return MappingProxyType(found)


def _by_pattern() -> Mapping[str, Mapping[str, tuple[Version, Operation]]]:
    patterns: dict[str, dict[str, tuple[Version, Operation]]] = {}
    for (version, verb, pattern), operation in HTTP_ROUTES.items():
        patterns.setdefault(pattern, {})[verb] = (version, operation)
    return MappingProxyType(patterns)


# Pattern → verb → what it is. A pattern belongs to one version: `/v1` marks 0.3.
ROUTES: Final = _by_pattern()


def plain(name: str) -> str:
    """A method name or path word as the most lenient server would read it."""
    if name.isascii() and name.isalnum():
        return name.lower()
    folded = name if name.isascii() else unicodedata.normalize("NFKC", name)
    return "".join(c for c in folded if c.isprintable() and not c.isspace()).casefold()


METHOD_NAMES: Final = frozenset(name for _, name in JSONRPC_METHODS)
_PLAIN_METHOD_NAMES = frozenset(plain(name) for name in METHOD_NAMES)


def is_nearly_a_method(name: str) -> bool:
    """Whether a server that trims or folds case would run one of our methods (FC-029)."""
    return plain(name) in _PLAIN_METHOD_NAMES


def ends_like_a_method(segments: Sequence[str]) -> bool:
    """Whether the last one or two segments spell a method name, as python-a2a's aliases do."""
    return any(is_nearly_a_method("/".join(segments[-n:])) for n in (1, 2, 3) if len(segments) >= n)


def looks_like_a_route(segments: Sequence[str]) -> bool:
    """Whether some agent might serve A2A under this path, wherever it is mounted.

    Letter case, a trailing slash, path parameters and unknown prefixes do not matter: Express
    ignores the first two, and a2a-sdk 1.x takes any first segment for a tenant.
    """
    words = [plain(segment.partition(";")[0]).strip(".") for segment in segments if segment]
    if not words:
        return False
    if any(w in _WORDS or w.startswith("message:") or w.endswith(_SERVICE) for w in words):
        return True
    return words[-2:] == ["v1", "card"]
