"""An application on the official client of a2a-sdk 0.3, over either binding."""

from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)
from telling import tell


def shown(thing):
    return thing.model_dump(mode="json", exclude_none=True)


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
                supported_transports=[self._question["binding"]],
                use_client_preference=True,
            )
            self._clients[streaming] = ClientFactory(config).create(card)
        return [shown(card)]

    async def send(self, text, task=None, streaming=False, on_task=None):
        said = Message(
            message_id=str(uuid4()), role=Role.user, parts=[Part(root=TextPart(text=text))], task_id=task
        )
        saw = []
        async for event in self._clients[streaming].send_message(said):
            if isinstance(event, Message):
                saw.append(shown(event))
                continue
            task_so_far, update = event
            saw.append(shown(update or task_so_far))
            if on_task:
                saw += await on_task(task_so_far.id)
                on_task = None
        return saw

    async def get(self, task):
        return [shown(await self._clients[False].get_task(TaskQueryParams(id=task)))]

    async def cancel(self, task):
        return [shown(await self._clients[False].cancel_task(TaskIdParams(id=task)))]

    async def push(self, task, hook):
        config = PushNotificationConfig(id="hook-1", url=hook)
        of_task = TaskPushNotificationConfig(task_id=task, push_notification_config=config)
        asked = GetTaskPushNotificationConfigParams(id=task, push_notification_config_id="hook-1")
        client = self._clients[False]
        return [shown(await client.set_task_callback(of_task)), shown(await client.get_task_callback(asked))]


async def life(question, told):
    app = Application(question, question["token"])
    await told.step("card", app.card())
    await told.step("hello", app.send("hello"))
    [quick] = await told.step("quick", app.send("quick"))
    await told.step("art", app.send("art", streaming=True))
    await told.step("get", app.get(quick["id"]))
    [asked] = await told.step("input", app.send("input"))
    await told.step("answer", app.send("quick", task=asked["id"]))
    await told.step("cancel", app.send("long 20", streaming=True, on_task=app.cancel))
    await told.step("push", app.push(quick["id"], question["hook"]))
    stranger = Application(question, question["stranger"]["token"])
    await stranger.card()
    await told.step("stranger", stranger.get(question["stranger"]["task"] or quick["id"]))


async def refusal(question, told):
    app = Application(question, question["token"])
    await app.card()
    await told.step("send", app.send("quick"))
    await told.step("stream", app.send("quick", streaming=True))


tell({"life": life, "refusal": refusal})
