// An application on the official client of @a2a-js/sdk 0.3, over either binding.
import { randomUUID } from "node:crypto";
import {
  ClientFactory, createAuthenticatingFetchWithRetry, JsonRpcTransportFactory, RestTransportFactory,
} from "@a2a-js/sdk/client";
import { credential, tell } from "./telling.mjs";

const transports = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory };

await tell((question, token) => {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, credential(token));
  const factory = new ClientFactory({
    transports: [new transports[question.binding]({ fetchImpl })],
    preferredTransports: [question.binding],
  });
  const said = (text, taskId) => ({
    message: { kind: "message", messageId: randomUUID(), role: "user", parts: [{ kind: "text", text }], taskId },
  });
  let client;
  return {
    async card() {
      client = await factory.createFromUrl(question.base, question.card_path);
      return [await client.getAgentCard()];
    },
    send: async (text, taskId) => [await client.sendMessage(said(text, taskId))],
    async stream(text, onTask) {
      const saw = [];
      for await (const event of client.sendMessageStream(said(text))) {
        saw.push(event);
        if (onTask) saw.push(...(await onTask(event.id)));
        onTask = undefined;
      }
      return saw;
    },
    get: async (id) => [await client.getTask({ id })],
    cancel: async (id) => [await client.cancelTask({ id })],
    push: async (taskId, url) => [
      await client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: { id: "hook-1", url } }),
      await client.listTaskPushNotificationConfig({ id: taskId }),
    ],
  };
});
