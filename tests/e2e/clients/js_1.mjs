// An application on the official client of @a2a-js/sdk 1, over either binding, also to agents of 0.3.
import { randomUUID } from "node:crypto";
import { Role } from "@a2a-js/sdk";
import {
  ClientFactory, createAuthenticatingFetchWithRetry, DefaultAgentCardResolver, JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";
import { credential, tell } from "./telling.mjs";

const transports = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory };
const legacyCompat = { enabled: true };

await tell((question, token) => {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, credential(token));
  const factory = new ClientFactory({
    transports: [new transports[question.binding]({ fetchImpl, legacyCompat })],
    preferredTransports: [question.binding],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
  });
  const said = (text, taskId = "", contextId = "") => ({
    tenant: "", configuration: undefined, metadata: undefined,
    message: {
      messageId: randomUUID(), contextId, taskId, role: Role.ROLE_USER, metadata: undefined, extensions: [],
      parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
      referenceTaskIds: [],
    },
  });
  let client;
  return {
    async card() {
      client = await factory.createFromUrl(question.base, question.card_path);
      return [await client.getAgentCard()];
    },
    send: async (text, taskId, contextId) => [await client.sendMessage(said(text, taskId, contextId))],
    async stream(text, onTask) {
      const saw = [];
      for await (const event of client.sendMessageStream(said(text))) {
        saw.push(event);
        if (onTask) saw.push(...(await onTask(event.payload.value.id)));
        onTask = undefined;
      }
      return saw;
    },
    get: async (id) => [await client.getTask({ tenant: "", id, historyLength: undefined })],
    cancel: async (id) => [await client.cancelTask({ tenant: "", id, metadata: undefined })],
    async list(contextId, pageSize) {
      const pages = [];
      let pageToken = "";
      do {
        const page = await client.listTasks({
          tenant: "", contextId, status: 0, pageSize, pageToken, historyLength: 1,
          statusTimestampAfter: undefined, includeArtifacts: true,
        });
        pageToken = page.nextPageToken;
        pages.push({ ...page, nextPageToken: pageToken ? "more" : "" }); // no two tokens are alike
      } while (pageToken);
      return pages;
    },
    push: async (taskId, url) => [
      await client.createTaskPushNotificationConfig({
        tenant: "", id: "hook-1", taskId, url, token: "", authentication: undefined,
      }),
      await client.listTaskPushNotificationConfig({ tenant: "", taskId, pageSize: 0, pageToken: "" }),
    ],
  };
});
