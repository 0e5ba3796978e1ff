"""Push configs inside requests, wherever the versions put them.

Owns: where webhooks are named, and what of a config ends up in outbound headers.
Never: judges an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sidecar.bindings.ids import Place, agreed, config_in_name, invalid, read_id, read_object, task_in_name
from sidecar.bindings.strict import members, vocabulary
from sidecar.model import PushTarget

PUSH_CONFIG: Final = vocabulary(
    *("id", "taskId", "tenant", "name", "url", "token", "authentication", "pushNotificationConfig"),
)
AUTHENTICATION: Final = vocabulary("scheme", "schemes", "credentials")

# 0.3 ProtoJSON and 0.1; 0.2 and 0.3; 1.0. All are read everywhere.
_CONFIGS: Final = ("pushNotification", "pushNotificationConfig", "taskPushNotificationConfig")


class Push:
    """Push configs of one request, wherever they sit: targets, and the tasks and tenants they name."""

    def __init__(self) -> None:
        self.targets: list[PushTarget] = []
        self.tasks: list[Place] = []
        self.tenants: list[Place] = []

    def read_inline(self, fields: dict[str, Any], root: str) -> None:
        """The configs a send may carry, under the name of any version."""
        for name in _CONFIGS:
            if fields.get(name) is not None:
                self.read(fields[name], f"{root}.{name}")

    def read_created(self, fields: dict[str, Any], root: str) -> None:
        """The config of a push create: flat (1.0), nested (0.x), or in `config` (0.3 REST)."""
        if fields.get("config") is not None:
            self.read(fields["config"], f"{root}.config")
        self.read_inline(fields, root)
        if "url" in fields or not self.targets:
            self._add(fields, root, read_id(f"{root}.id", fields.get("id")))

    def read(self, value: Any, where: str) -> None:
        """One config object, which may wrap the real one once (a2a.v1 TaskPushNotificationConfig)."""
        config = self._open(value, where)
        wrapped = config.get("pushNotificationConfig")
        if wrapped is not None:
            inner = f"{where}.pushNotificationConfig"
            content = self._open(wrapped, inner)
            if content.get("pushNotificationConfig") is not None:
                raise invalid(f"`{inner}` wraps another config")
            # The wrapper's own `id` is a task's in 0.1; its name ends in the config's (a2a.v1).
            outer = config_in_name(config.get("name"))
            self._add(content, inner, read_id(f"{inner}.id", content.get("id")) or outer)
        if wrapped is None or "url" in config:
            self._add(config, where, read_id(f"{where}.id", config.get("id")))

    def _open(self, value: Any, where: str) -> dict[str, Any]:
        config = members(read_object(value, where), PUSH_CONFIG, where)
        self.tasks.append((f"{where}.taskId", config.get("taskId")))
        self.tasks.append((f"{where}.name", task_in_name(f"{where}.name", config.get("name"))))
        self.tenants.append((f"{where}.tenant", config.get("tenant")))
        return config

    def _add(self, config: dict[str, Any], where: str, config_id: str | None) -> None:
        url = config.get("url")
        if type(url) is not str or not url:
            raise invalid(f"`{where}.url` must be a string")
        inner = f"{where}.authentication"
        authentication = members(read_object(config.get("authentication"), inner), AUTHENTICATION, inner)
        schemes = authentication.get("schemes")
        if schemes is not None and not isinstance(schemes, list):
            raise invalid(f"`{inner}.schemes` must be a list of strings")
        values = (
            (f"{where}.token", config.get("token")),
            (f"{inner}.credentials", authentication.get("credentials")),
            (f"{inner}.scheme", authentication.get("scheme")),
            *((f"{inner}.schemes[]", scheme) for scheme in schemes or ()),
        )
        self.targets.append(PushTarget(url, tuple(_header_values(values)), config_id))

    def checked(self, task_id: str | None) -> tuple[PushTarget, ...]:
        """The targets of a send; its configs must name no other task than `task_id`.

        A config that names a task in a send that names none would add a webhook to that task.
        """
        if self.tasks and agreed("task", *self.tasks) not in (None, task_id):
            raise invalid("a push config names a task that the message does not")
        return tuple(self.targets)


def _header_values(values: tuple[Place, ...]) -> Iterator[str]:
    for where, value in values:
        if value is None:
            continue
        if type(value) is not str:
            raise invalid(f"`{where}` must be a string")
        yield value
