// An ordinary agent on @a2a-js/sdk 1: JSON-RPC at `/`, REST at `/rest`, with COMPAT=1 also in 0.3's dialects.
// The first word of a message chooses what happens: hello, quick, input, art, long N, refs.
import { randomUUID } from "node:crypto";
import express from "express";
import { Role, TaskState } from "@a2a-js/sdk";
import {
  AgentEvent, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore,
} from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "@a2a-js/sdk/server/express";

const port = Number(process.env.PORT);
const url = `http://127.0.0.1:${port}`;
const known = ["a2a.tasks:write", "a2a.tasks:read"];
const legacyCompat = { enabled: process.env.COMPAT === "1" };
const tick = 100; // milliseconds between two signs of life of a task that works

const places = [["JSONRPC", `${url}/`], ["HTTP+JSON", `${url}/rest`]];
const versions = legacyCompat.enabled ? ["1.0", "0.3"] : ["1.0"];
const card = {
  name: "worker",
  description: "an ordinary agent",
  version: "1",
  provider: undefined,
  documentationUrl: "",
  iconUrl: "",
  supportedInterfaces: versions.flatMap((protocolVersion) =>
    places.map(([protocolBinding, url]) => ({ url, protocolBinding, protocolVersion, tenant: "" })),
  ),
  capabilities: { streaming: true, pushNotifications: true, extensions: [] },
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  securityRequirements: [],
  signatures: [],
  securitySchemes: {
    oauth: {
      scheme: {
        $case: "oauth2SecurityScheme",
        value: {
          description: "",
          oauth2MetadataUrl: "",
          flows: {
            flow: {
              $case: "clientCredentials",
              value: {
                tokenUrl: "https://issuer.invalid/token",
                refreshUrl: "",
                scopes: Object.fromEntries(known.map((scope) => [scope, scope])),
              },
            },
          },
        },
      },
    },
  },
  skills: [
    {
      id: "work", name: "work", description: "does what the first word says", tags: ["test"],
      examples: [], inputModes: [], outputModes: [],
      securityRequirements: process.env.SCOPES === "1" ? [{ schemes: { oauth: { list: known } } }] : [],
    },
  ],
};

const working = new Map(); // task id → its context and what tells it to stop

const executor = {
  async execute(context, bus) {
    const { taskId, contextId, userMessage } = context;
    const text = userMessage.parts.map((part) => part.content?.value ?? "").join("\n");
    const [word, rest] = text.split(" ");
    const part = (value) => ({
      content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "text/plain",
    });
    const said = (text, taskId) => ({
      messageId: randomUUID(), role: Role.ROLE_AGENT, parts: [part(text)], contextId, taskId,
      metadata: undefined, extensions: [], referenceTaskIds: [],
    });
    const now = (state, message) => ({ state, message, timestamp: new Date().toISOString() });
    const status = (state, message) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: now(state, message), metadata: undefined }));
    const artifact = (name, text, append = false, lastChunk = true) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId, contextId, append, lastChunk, metadata: undefined,
          artifact: { artifactId: name, name, description: "", parts: [part(text)], metadata: undefined, extensions: [] },
        }),
      );

    if (word === "hello") {
      bus.publish(AgentEvent.message(said("hello to you", "")));
      return bus.finished();
    }
    const submitted = {
      id: taskId, contextId, status: now(TaskState.TASK_STATE_SUBMITTED),
      history: [userMessage], artifacts: [], metadata: undefined,
    };
    bus.publish(AgentEvent.task(context.task ?? submitted));
    status(TaskState.TASK_STATE_WORKING);
    if (word === "input") {
      status(TaskState.TASK_STATE_INPUT_REQUIRED, said("which one?", taskId));
      return bus.finished();
    }
    if (word === "art") for (const index of [0, 1, 2]) artifact("art", `chunk ${index}`, index > 0, index === 2);
    if (word === "long") {
      const stopped = new Promise((stop) => working.set(taskId, { contextId, stop }));
      for (let count = 0; count < (Number(rest) * 1000) / tick; count++) {
        const pause = new Promise((wake) => setTimeout(wake, tick));
        if (await Promise.race([stopped, pause])) return;
        status(TaskState.TASK_STATE_WORKING, said(`tick ${count}`, taskId));
      }
      working.delete(taskId);
    }
    if (word === "refs") artifact("refs", userMessage.referenceTaskIds.join(","));
    artifact("answer", `did ${text}`);
    status(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  },

  async cancelTask(taskId, bus) {
    const { contextId, stop } = working.get(taskId) ?? { contextId: "", stop: () => {} };
    stop(true);
    working.delete(taskId);
    const status = { state: TaskState.TASK_STATE_CANCELED, message: undefined, timestamp: new Date().toISOString() };
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
    bus.finished();
  },
};

const requestHandler = new DefaultRequestHandler(
  card, new InMemoryTaskStore(), executor, undefined, new InMemoryPushNotificationStore(),
);
const served = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat };
const app = express();
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }));
app.use("/rest", restHandler(served));
app.use("/", jsonRpcHandler(served));
app.listen(port, "127.0.0.1", (error) => {
  if (error) throw error;
  console.log("ready");
});
