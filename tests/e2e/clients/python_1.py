"""An application on the official client of a2a-sdk 1, over either binding, also to agents of 0.3."""

from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict
from telling import tell


class Application:
    def __init__(self, question, token):
        self._http = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20)
        self._question = question
        self._clients = {}

    async def card(self):
        resolver = A2ACardResolver(self._http, self._question["base"], self._question["card_path"])
        card = await resolver.get_agent_card()
        for streaming in (False, True):
            config = ClientConfig(
                streaming=streaming,
                httpx_client=self._http,
                supported_protocol_bindings=[self._question["binding"]],
                use_client_preference=True,
            )
            self._clients[streaming] = ClientFactory(config).create(card)
        return [MessageToDict(card)]

    async def send(self, text, task="", context="", streaming=False, on_task=None):
        said = pb.Message(
            message_id=str(uuid4()),
            role=pb.ROLE_USER,
            parts=[pb.Part(text=text)],
            task_id=task,
            context_id=context,
        )
        saw = []
        async for event in self._clients[streaming].send_message(pb.SendMessageRequest(message=said)):
            saw.append(MessageToDict(event))
            if on_task:
                saw += await on_task(event.task.id)
                on_task = None
        return saw

    async def get(self, task):
        return [MessageToDict(await self._clients[False].get_task(pb.GetTaskRequest(id=task)))]

    async def cancel(self, task):
        return [MessageToDict(await self._clients[False].cancel_task(pb.CancelTaskRequest(id=task)))]

    async def list(self, context, size):
        asked = pb.ListTasksRequest(
            context_id=context, page_size=size, history_length=1, include_artifacts=True
        )
        pages = []
        while not pages or asked.page_token:
            pages.append(await self._clients[False].list_tasks(asked))
            asked.page_token = pages[-1].next_page_token
            pages[-1].next_page_token = "more" if asked.page_token else ""  # no two tokens are alike
        return [MessageToDict(page) for page in pages]

    async def push(self, task, hook):
        client = self._clients[False]
        config = pb.TaskPushNotificationConfig(task_id=task, id="hook-1", url=hook)
        created = await client.create_task_push_notification_config(config)
        asked = pb.ListTaskPushNotificationConfigsRequest(task_id=task)
        listed = await client.list_task_push_notification_configs(asked)
        return [MessageToDict(created), MessageToDict(listed)]


async def life(question, told):
    app = Application(question, question["token"])
    await told.step("card", app.card())
    await told.step("hello", app.send("hello"))
    [quick] = await told.step("quick", app.send("quick"))
    await told.step("art", app.send("art", streaming=True))
    await told.step("get", app.get(quick["task"]["id"]))
    [asked] = await told.step("input", app.send("input"))
    await told.step("answer", app.send("quick", task=asked["task"]["id"]))
    await told.step("cancel", app.send("long 20", streaming=True, on_task=app.cancel))
    await told.step("push", app.push(quick["task"]["id"], question["hook"]))
    stranger = Application(question, question["stranger"]["token"])
    await stranger.card()
    await told.step("stranger", stranger.get(question["stranger"]["task"] or quick["task"]["id"]))


async def lists(question, told):
    app = Application(question, question["token"])
    await app.card()
    [first] = await told.step("quick", app.send("quick"))
    context = first["task"]["contextId"]
    for text in ("art", "input"):
        await told.step(text, app.send(text, context=context))
    await told.step("list", app.list(context, 2))
    await told.step("empty", app.list(str(uuid4()), 2))


async def refusal(question, told):
    app = Application(question, question["token"])
    await app.card()
    await told.step("send", app.send("quick"))
    await told.step("stream", app.send("quick", streaming=True))


tell({"life": life, "lists": lists, "refusal": refusal})
