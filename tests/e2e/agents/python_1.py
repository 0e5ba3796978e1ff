"""An ordinary agent on a2a-sdk 1: JSON-RPC at `/`, REST at `/rest`, with COMPAT=1 also in 0.3's dialects.

The first word of a message chooses what happens: hello, quick, input, art, long N, refs.
"""

import asyncio

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from listening import COMPAT, SCOPES, TICK, URL, listen
from starlette.applications import Starlette


class Executor(AgentExecutor):
    async def execute(self, context, queue):
        text = context.get_user_input()
        word, _, rest = text.partition(" ")
        if word == "hello":
            await queue.enqueue_event(new_text_message("hello to you", context_id=context.context_id))
            return
        if context.current_task is None:
            new = new_task_from_user_message(context.message)
            new.id, new.context_id = context.task_id, context.context_id
            await queue.enqueue_event(new)
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await task.start_work()
        if word == "input":
            await task.requires_input(task.new_agent_message([new_text_part("which one?")]))
            return
        if word == "art":
            for index in range(3):
                chunk, last = [new_text_part(f"chunk {index}")], index == 2
                await task.add_artifact(chunk, "art", "art", append=index > 0, last_chunk=last)
        if word == "long":
            for tick in range(round(float(rest) / TICK)):
                await asyncio.sleep(TICK)
                said = task.new_agent_message([new_text_part(f"tick {tick}")])
                await task.update_status(pb.TASK_STATE_WORKING, message=said)
        if word == "refs":
            referred = ",".join(context.message.reference_task_ids)
            await task.add_artifact([new_text_part(referred)], "refs", "refs")
        await task.add_artifact([new_text_part(f"did {text}")], "answer", "answer")
        await task.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def card() -> pb.AgentCard:
    versions = ["1.0", "0.3"] if COMPAT else ["1.0"]
    places = (("JSONRPC", f"{URL}/"), ("HTTP+JSON", f"{URL}/rest"))
    needs = pb.SecurityRequirement(schemes={"oauth": pb.StringList(list=SCOPES)})
    known = {scope: scope for scope in ("a2a.tasks:write", "a2a.tasks:read")}
    flow = pb.ClientCredentialsOAuthFlow(token_url="https://issuer.invalid/token", scopes=known)
    oauth = pb.OAuth2SecurityScheme(flows=pb.OAuthFlows(client_credentials=flow))
    return pb.AgentCard(
        name="worker",
        description="an ordinary agent",
        version="1",
        supported_interfaces=[
            pb.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in versions
            for binding, url in places
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=pb.AgentCapabilities(streaming=True, push_notifications=True),
        security_schemes={"oauth": pb.SecurityScheme(oauth2_security_scheme=oauth)},
        skills=[
            pb.AgentSkill(
                id="work",
                name="work",
                description="does what the first word says",
                tags=["test"],
                security_requirements=[needs] if SCOPES else [],
            )
        ],
    )


handler = DefaultRequestHandler(
    agent_executor=Executor(),
    task_store=InMemoryTaskStore(),
    agent_card=card(),
    push_config_store=InMemoryPushNotificationConfigStore(),
)
listen(
    Starlette(
        routes=[
            *create_agent_card_routes(card()),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=COMPAT),
            *create_rest_routes(handler, enable_v0_3_compat=COMPAT, path_prefix="/rest"),
        ]
    )
)
