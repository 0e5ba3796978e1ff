// An ordinary agent on @a2a-js/sdk 0.3: JSON-RPC at `/`, REST at `/rest`.
// The first word of a message chooses what happens: hello, quick, input, art, long N, refs.
import { randomUUID } from "node:crypto";
import express from "express";
import { DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "@a2a-js/sdk/server/express";

const port = Number(process.env.PORT);
const url = `http://127.0.0.1:${port}`;
const known = ["a2a.tasks:write", "a2a.tasks:read"];
const needs = process.env.SCOPES === "1" ? [{ oauth: known }] : undefined;
const tick = 100; // milliseconds between two signs of life of a task that works

const card = {
  name: "worker",
  description: "an ordinary agent",
  version: "1",
  protocolVersion: "0.3.0",
  url: `${url}/`,
  preferredTransport: "JSONRPC",
  additionalInterfaces: [
    { url: `${url}/`, transport: "JSONRPC" },
    { url: `${url}/rest`, transport: "HTTP+JSON" },
  ],
  capabilities: { streaming: true, pushNotifications: true },
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  securitySchemes: {
    oauth: {
      type: "oauth2",
      flows: {
        clientCredentials: {
          tokenUrl: "https://issuer.invalid/token",
          scopes: Object.fromEntries(known.map((scope) => [scope, scope])),
        },
      },
    },
  },
  skills: [
    { id: "work", name: "work", description: "does what the first word says", tags: ["test"], security: needs },
  ],
};

const cancelled = new Map(); // task id → what tells the working task to stop

const executor = {
  async execute(context, bus) {
    const { taskId, contextId, userMessage } = context;
    const text = userMessage.parts.map((part) => part.text ?? "").join("\n");
    const [word, rest] = text.split(" ");
    const said = (text, more) => ({
      kind: "message", messageId: randomUUID(), role: "agent", parts: [{ kind: "text", text }], contextId, ...more,
    });
    const status = (state, message, final = false) =>
      bus.publish({
        kind: "status-update", taskId, contextId, final,
        status: { state, message, timestamp: new Date().toISOString() },
      });
    const artifact = (name, text, append = false, lastChunk = true) =>
      bus.publish({
        kind: "artifact-update", taskId, contextId, append, lastChunk,
        artifact: { artifactId: name, name, parts: [{ kind: "text", text }] },
      });
    const done = (state, message) => {
      status(state, message, true);
      bus.finished();
    };

    if (word === "hello") {
      bus.publish(said("hello to you"));
      return bus.finished();
    }
    if (!context.task) {
      const submitted = { state: "submitted", timestamp: new Date().toISOString() };
      bus.publish({ kind: "task", id: taskId, contextId, status: submitted, history: [userMessage] });
    }
    status("working");
    if (word === "input") return done("input-required", said("which one?", { taskId }));
    if (word === "art") for (const index of [0, 1, 2]) artifact("art", `chunk ${index}`, index > 0, index === 2);
    if (word === "long") {
      const stopped = new Promise((stop) => cancelled.set(taskId, stop));
      for (let count = 0; count < (Number(rest) * 1000) / tick; count++) {
        const pause = new Promise((wake) => setTimeout(wake, tick));
        if (await Promise.race([stopped, pause])) return;
        status("working", said(`tick ${count}`, { taskId }));
      }
      cancelled.delete(taskId);
    }
    if (word === "refs") artifact("refs", (userMessage.referenceTaskIds ?? []).join(","));
    artifact("answer", `did ${text}`);
    done("completed");
  },

  async cancelTask(taskId, bus) {
    cancelled.get(taskId)?.(true);
    cancelled.delete(taskId);
    const status = { state: "canceled", timestamp: new Date().toISOString() };
    bus.publish({ kind: "status-update", taskId, contextId: "", final: true, status });
    bus.finished();
  },
};

const requestHandler = new DefaultRequestHandler(
  card, new InMemoryTaskStore(), executor, undefined, new InMemoryPushNotificationStore(),
);
const served = { requestHandler, userBuilder: UserBuilder.noAuthentication };
const app = express();
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
app.use("/rest", restHandler(served));
app.use("/", jsonRpcHandler(served));
app.listen(port, "127.0.0.1", (error) => {
  if (error) throw error;
  console.log("ready");
});
