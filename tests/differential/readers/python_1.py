"""How a2a-sdk 1 reads a request: its own routes, 0.3 compatibility on, before a handler that only records."""

from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.utils.errors import TaskNotFoundError
from asgi_lines import record, serve
from starlette.applications import Starlette


def send(operation, params, context):
    message, configuration = params.message, params.configuration
    pushes = []
    if configuration.HasField("task_push_notification_config"):
        pushes = [configuration.task_push_notification_config.url]
    record(
        operation,
        task=message.task_id,
        context=message.context_id,
        references=message.reference_task_ids,
        tenants=(params.tenant, context.tenant),
        pushes=pushes,
    )
    raise TaskNotFoundError


def other(operation, params, context, **read):
    record(operation, tenants=(params.tenant, context.tenant), **read)
    raise TaskNotFoundError


class Recorder(RequestHandler):
    async def on_message_send(self, params, context):
        send("send", params, context)

    async def on_message_send_stream(self, params, context):
        send("send-stream", params, context)
        yield

    async def on_get_task(self, params, context):
        other("get", params, context, task=params.id)

    async def on_list_tasks(self, params, context):
        other("list", params, context, context=params.context_id)

    async def on_cancel_task(self, params, context):
        other("cancel", params, context, task=params.id)

    async def on_subscribe_to_task(self, params, context):
        other("subscribe", params, context, task=params.id)
        yield

    async def on_create_task_push_notification_config(self, params, context):
        other("push-create", params, context, task=params.task_id, pushes=[params.url], config=params.id)

    async def on_get_task_push_notification_config(self, params, context):
        other("push-get", params, context, task=params.task_id, config=params.id)

    async def on_list_task_push_notification_configs(self, params, context):
        other("push-list", params, context, task=params.task_id)

    async def on_delete_task_push_notification_config(self, params, context):
        other("push-delete", params, context, task=params.task_id, config=params.id)

    async def on_get_extended_agent_card(self, params, context):
        other("extended-card", params, context)


recorder = Recorder()
rpc = Starlette(routes=create_jsonrpc_routes(recorder, "/", enable_v0_3_compat=True))
rest = Starlette(routes=create_rest_routes(recorder, enable_v0_3_compat=True))
serve("a2a-sdk-1", {"rpc": (rpc, "/"), "rest": (rest, None)})
