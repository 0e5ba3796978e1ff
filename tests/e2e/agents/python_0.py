"""An ordinary agent on a2a-sdk 0.2.16 and 0.3: JSON-RPC at `/`, and where the SDK has it REST at `/rest`.

The first word of a message chooses what happens: hello, quick, input, art, long N, refs.
"""

import asyncio
from contextlib import suppress

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    ClientCredentialsOAuthFlow,
    OAuth2SecurityScheme,
    OAuthFlows,
    Part,
    SecurityScheme,
    TaskState,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
from listening import SCOPES, TICK, URL, listen

try:  # 0.3 brought the second binding
    from a2a.server.apps import A2ARESTFastAPIApplication
    from a2a.types import AgentInterface
except ImportError:
    A2ARESTFastAPIApplication = None


def text_part(text):
    return Part(root=TextPart(text=text))


class Executor(AgentExecutor):
    def __init__(self):
        self.working = {}  # task id → what tells it to stop, what tells that it has

    async def execute(self, context, queue):
        text = context.get_user_input()
        word, _, rest = text.partition(" ")
        if word == "hello":
            await queue.enqueue_event(new_agent_text_message("hello to you", context.context_id))
            return
        task = TaskUpdater(queue, context.task_id, context.context_id)
        if context.current_task is None:
            await queue.enqueue_event(new_task(context.message))
        await task.start_work()
        if word == "input":
            question = task.new_agent_message([text_part("which one?")])
            await task.update_status(TaskState.input_required, question, final=True)
            return
        if word == "art":
            for index in range(3):
                chunk, last = [text_part(f"chunk {index}")], index == 2
                await task.add_artifact(chunk, "art", "art", append=index > 0, last_chunk=last)
        if word == "long" and not await self.work(task, round(float(rest) / TICK)):
            await task.update_status(TaskState.canceled, final=True)
            self.working.pop(context.task_id)[1].set()
            return
        if word == "refs":
            referred = ",".join(context.message.reference_task_ids or [])
            await task.add_artifact([text_part(referred)], "refs", "refs")
        await task.add_artifact([text_part(f"did {text}")], "answer", "answer")
        await task.complete()

    async def work(self, task, ticks):
        """Tick until done; False if told to stop."""
        stop, _ = self.working[task.task_id] = asyncio.Event(), asyncio.Event()
        for tick in range(ticks):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK)
                return False
            said = task.new_agent_message([text_part(f"tick {tick}")])
            await task.update_status(TaskState.working, said)
        del self.working[task.task_id]
        return True

    async def cancel(self, context, queue):
        # The SDK cancels the coroutine of a working task as soon as this returns, and then no
        # stream of that task would ever end: let the work end itself first.
        if context.task_id in self.working:
            stop, stopped = self.working[context.task_id]
            stop.set()
            await stopped.wait()
            return
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await task.update_status(TaskState.canceled, final=True)


def card() -> AgentCard:
    needs = [{"oauth": SCOPES}] if SCOPES else None
    skill = {"id": "work", "name": "work", "description": "does what the first word says", "tags": ["test"]}
    more = {}
    if A2ARESTFastAPIApplication:
        skill["security"] = needs
        more["preferred_transport"] = "JSONRPC"
        more["additional_interfaces"] = [
            AgentInterface(url=f"{URL}/", transport="JSONRPC"),
            AgentInterface(url=f"{URL}/rest", transport="HTTP+JSON"),
        ]
    else:  # 0.2 knows no requirements of a skill
        more["security"] = needs
    known = {scope: scope for scope in ("a2a.tasks:write", "a2a.tasks:read")}
    flow = ClientCredentialsOAuthFlow(token_url="https://issuer.invalid/token", scopes=known)
    oauth = OAuth2SecurityScheme(flows=OAuthFlows(client_credentials=flow))
    return AgentCard(
        name="worker",
        description="an ordinary agent",
        version="1",
        url=f"{URL}/",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        skills=[AgentSkill(**skill)],
        security_schemes={"oauth": SecurityScheme(root=oauth)},
        **more,
    )


handler = DefaultRequestHandler(
    agent_executor=Executor(),
    task_store=InMemoryTaskStore(),
    push_config_store=InMemoryPushNotificationConfigStore(),
)
app = A2AStarletteApplication(agent_card=card(), http_handler=handler).build()
if A2ARESTFastAPIApplication:
    app.mount("/rest", A2ARESTFastAPIApplication(agent_card=card(), http_handler=handler).build())
listen(app)
