"""An ordinary agent on a2a-sdk 1 with 0.3's dialects on: JSON-RPC at `/`, HTTP+JSON at `/rest`.

It scopes nothing: to the SDK every caller is the owner `""`. The first word of a message chooses what happens:
hello (a message), input (asks back), hold (works until it is canceled), anything else (done at once). Whatever is
said comes back in an artifact, and so do the ids of referenced tasks.

Beside it, under `/control`, what only the test calls: `forget` loses tasks as an agent does that restarts, `made`
tells which tasks were made of which words, `round` ends and loses whatever is left.
"""

import asyncio
import ctypes
import os
import signal
import sys
from contextlib import suppress

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

PORT = int(os.environ["PORT"])
URL = f"http://127.0.0.1:{PORT}"
MADE: dict[str, list[str]] = {}  # task id → what was said to it, of this round
NOBODY = ServerCallContext()


class Executor(AgentExecutor):
    async def execute(self, context, queue):
        text = context.get_user_input()
        word, _, _ = text.partition(" ")
        if word == "hello":
            await queue.enqueue_event(new_text_message(f"you said {text}", context_id=context.context_id))
            return
        MADE.setdefault(context.task_id, []).append(text)
        if context.current_task is None:
            new = new_task_from_user_message(context.message)
            new.id, new.context_id = context.task_id, context.context_id
            await queue.enqueue_event(new)
        # Where a message names a task only, the SDK makes up a context for the request.
        old = context.current_task
        task = TaskUpdater(queue, context.task_id, old.context_id if old else context.context_id)
        await task.start_work()
        referred = " ".join(context.message.reference_task_ids)
        await task.add_artifact([new_text_part(f"you said {text} {referred}")], name="echo")
        if word == "input":
            await task.requires_input(task.new_agent_message([new_text_part(f"what about {text}?")]))
            return
        if word == "hold":
            await asyncio.Event().wait()
        await task.complete(task.new_agent_message([new_text_part(f"did {text}")]))

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def card(name: str) -> pb.AgentCard:
    return pb.AgentCard(
        name=name,
        description="an ordinary agent",
        version="1",
        supported_interfaces=[
            pb.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, url in (("JSONRPC", f"{URL}/"), ("HTTP+JSON", f"{URL}/rest"))
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=pb.AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        skills=[pb.AgentSkill(id="work", name="work", description="works", tags=["test"])],
    )


store, hooks = InMemoryTaskStore(), InMemoryPushNotificationConfigStore()
handler = DefaultRequestHandler(
    agent_executor=Executor(),
    task_store=store,
    agent_card=card("worker"),
    extended_agent_card=card("extended worker"),
    push_config_store=hooks,
)


async def forget(request):
    for task in await request.json():
        await store.delete(task, NOBODY)
    return JSONResponse(None)


async def tell(_):
    return JSONResponse(MADE)


async def end_round(_):
    """Cancel what is not finished, and forget everything."""
    made = [*MADE]
    MADE.clear()
    for task in made:
        with suppress(A2AError):  # it is finished, or was forgotten
            await handler.on_cancel_task(pb.CancelTaskRequest(id=task), NOBODY)
        await store.delete(task, NOBODY)
        if await hooks.get_info(task, NOBODY):
            await hooks.delete_info(task, NOBODY)
    return JSONResponse(None)


if sys.platform == "linux":  # a run that is killed leaves nothing behind: PR_SET_PDEATHSIG (prctl(2))
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("ready", flush=True)


app = Starlette(
    routes=[
        Route("/control/forget", forget, methods=["POST"]),
        Route("/control/made", tell, methods=["POST"]),
        Route("/control/round", end_round, methods=["POST"]),
        *create_agent_card_routes(card("worker")),
        *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True, path_prefix="/rest"),
    ]
)
config = uvicorn.Config(
    app, host="127.0.0.1", port=PORT, log_level="critical", timeout_graceful_shutdown=1, timeout_keep_alive=60
)
Announcing(config).run()
