"""An agent on a2a-sdk 1.3 whose tasks end when a test wants them to: JSON-RPC at `/`, REST at `/rest`, 1.0 and 0.3.

The first word of a message chooses: `done`, `fail`, `hold` (works until it is cancelled), `race N M` (completes
N turns of the event loop after a cancel of it has arrived, which is read M turns after). Side doors, for tests alone: `GET /answers` tells what every cancel was
answered, `POST /purge/ID` makes the agent forget a task.
"""

import asyncio
import base64
import json
from collections import defaultdict

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from listening import URL, listen
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

ARRIVED = defaultdict(asyncio.Event)  # task id → a cancel of it has arrived
SLOW = defaultdict(int)  # task id → turns of the loop until a cancel of it is read
ANSWERS = defaultdict(list)  # task id → what its cancels were answered


async def turns(number):
    for _ in range(number):
        await asyncio.sleep(0)


class Executor(AgentExecutor):
    async def execute(self, context, queue):
        word, _, rest = context.get_user_input().partition(" ")
        if context.current_task is None:
            new = new_task_from_user_message(context.message)
            new.id, new.context_id = context.task_id, context.context_id
            await queue.enqueue_event(new)
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await task.start_work()
        if word == "hold":
            await asyncio.Event().wait()
        if word == "fail":
            await task.failed(task.new_agent_message([new_text_part("it broke")]))
            return
        if word == "race":
            ends, SLOW[context.task_id] = map(int, rest.split())
            await ARRIVED[context.task_id].wait()
            await turns(ends)
        await task.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


class Remembering:
    """Before the SDK: notices cancels as their last byte arrives, and keeps what they are answered."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        cancelled = task_cancelled(scope["path"], body)
        if cancelled:
            ARRIVED[cancelled].set()
            await turns(SLOW[cancelled])
        given, status, said = False, 0, b""

        async def replay():
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def tell(message):
            nonlocal status, said
            status = message.get("status", status)
            said += message.get("body", b"")
            if cancelled and message["type"] == "http.response.body" and not message.get("more_body"):
                ANSWERS[cancelled].append([status, base64.b64encode(said).decode()])
            await send(message)

        return await self.app(scope, replay, tell)


def task_cancelled(path, body):
    """The task a request cancels, None for any other request."""
    if path.endswith(":cancel"):
        return path.rpartition("/")[2].removesuffix(":cancel")
    try:
        call = json.loads(body)
    except ValueError:
        return None
    return call["params"]["id"] if call.get("method") in ("CancelTask", "tasks/cancel") else None


def card() -> pb.AgentCard:
    places = (("JSONRPC", f"{URL}/"), ("HTTP+JSON", f"{URL}/rest"))
    return pb.AgentCard(
        name="racer",
        description="ends when told",
        version="1",
        supported_interfaces=[
            pb.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, url in places
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=pb.AgentCapabilities(streaming=True),
        skills=[pb.AgentSkill(id="race", name="race", description="ends", tags=["test"])],
    )


STORE = InMemoryTaskStore()
HANDLER = DefaultRequestHandler(agent_executor=Executor(), task_store=STORE, agent_card=card())


async def answers(request):
    return JSONResponse(ANSWERS)


async def purge(request):
    await STORE.delete(request.path_params["task"], ServerCallContext())
    return JSONResponse({})


listen(
    Remembering(
        Starlette(
            routes=[
                Route("/answers", answers),
                Route("/purge/{task}", purge, methods=["POST"]),
                *create_agent_card_routes(card()),
                *create_jsonrpc_routes(HANDLER, "/", enable_v0_3_compat=True),
                *create_rest_routes(HANDLER, enable_v0_3_compat=True, path_prefix="/rest"),
            ]
        )
    )
)
