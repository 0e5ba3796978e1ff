"""How a2a-sdk 0.2.16 and 0.3 read a request: the SDK's own applications before a handler that only records."""

import sys

from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import AgentCapabilities, AgentCard, TaskNotFoundError
from a2a.utils.errors import ServerError
from asgi_lines import record, serve

try:  # 0.3 brought the second binding
    from a2a.server.apps import A2ARESTFastAPIApplication
except ImportError:
    A2ARESTFastAPIApplication = None


def told(operation, **read):
    record(operation, **read)
    raise ServerError(error=TaskNotFoundError())


def send(operation, params):
    message, configuration = params.message, params.configuration
    config = configuration.push_notification_config if configuration else None
    told(
        operation,
        task=message.task_id,
        context=message.context_id,
        references=message.reference_task_ids or (),
        pushes=[config.url] if config else (),
    )


def config_of(params):
    return getattr(params, "push_notification_config_id", None)


class Recorder(RequestHandler):
    async def on_message_send(self, params, context=None):
        send("send", params)

    async def on_message_send_stream(self, params, context=None):
        send("send-stream", params)
        yield

    async def on_get_task(self, params, context=None):
        told("get", task=params.id)

    async def on_cancel_task(self, params, context=None):
        told("cancel", task=params.id)

    async def on_resubscribe_to_task(self, params, context=None):
        told("subscribe", task=params.id)
        yield

    async def on_set_task_push_notification_config(self, params, context=None):
        config = params.push_notification_config
        told("push-create", task=params.task_id, pushes=[config.url], config=config.id)

    async def on_get_task_push_notification_config(self, params, context=None):
        told("push-get", task=params.id, config=config_of(params))

    async def on_list_task_push_notification_config(self, params, context=None):
        told("push-list", task=params.id)

    async def on_delete_task_push_notification_config(self, params, context=None):
        told("push-delete", task=params.id, config=config_of(params))


card = AgentCard(
    name="reader",
    description="reads",
    version="1",
    url="http://127.0.0.1/",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=True, push_notifications=True),
    skills=[],
)
recorder = Recorder()
doors = {"rpc": (A2AStarletteApplication(agent_card=card, http_handler=recorder).build(), "/")}
if A2ARESTFastAPIApplication:
    doors["rest"] = (A2ARESTFastAPIApplication(agent_card=card, http_handler=recorder).build(), None)
serve(sys.argv[1], doors)
