"""The agent the A2A conformance kit drives, on a2a-sdk 1: `python conformance.py KIT/sut/a2a-python/sut_agent.py`.

The kit's own Python agent was written for an early 1.0 SDK and cannot be imported with 1.3; its executor, which does what
the kit's message ids ask for, can. PUSH=1 turns push notifications on, STREAMING=0 turns streams off.
"""

import ast
import contextlib
import os
import sys
from pathlib import Path

import httpx
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
)
from a2a.types import a2a_pb2 as pb
from listening import URL, listen
from starlette.applications import Starlette

PUSH = os.environ.get("PUSH") == "1"
STREAMING = os.environ.get("STREAMING", "1") == "1"


def kit_executor(path: Path) -> type:
    """The kit's executor class, without what its file imports for servers the SDK no longer has."""
    names: dict = {"__name__": "sut_agent"}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef):
            with contextlib.suppress(ImportError):
                exec(compile(ast.Module([node], []), str(path), "exec"), names)
    return names["TckAgentExecutor"]


class Executor(kit_executor(Path(sys.argv[1]))):
    async def execute(self, context, queue):
        """a2a-sdk 1.3 wants a task before its first status, which the kit's executor does not send."""
        if context.current_task is None and not context.message.message_id.startswith("tck-message-response"):
            new = new_task_from_user_message(context.message)
            new.id, new.context_id = context.task_id, context.context_id
            await queue.enqueue_event(new)
        await super().execute(context, queue)


card = pb.AgentCard(
    name="conformance",
    description="does what the kit's message ids say",
    version="1",
    supported_interfaces=[
        pb.AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
        for binding, url in (("JSONRPC", f"{URL}/"), ("HTTP+JSON", f"{URL}/rest"))
    ],
    capabilities=pb.AgentCapabilities(streaming=STREAMING, push_notifications=PUSH),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    provider=pb.AgentProvider(organization="none", url="https://provider.invalid"),
    skills=[pb.AgentSkill(id="kit", name="kit", description="everything", tags=["test"])],
)
configs = InMemoryPushNotificationConfigStore() if PUSH else None
handler = DefaultRequestHandler(
    agent_executor=Executor(),
    task_store=InMemoryTaskStore(),
    agent_card=card,
    push_config_store=configs,
    push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs) if configs else None,
)
listen(
    Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler, path_prefix="/rest"),
        ]
    )
)
