// How JavaScript agents read a request. `node reader.mjs FOLDER VERSION`: the packages of FOLDER, @a2a-js/sdk 0 or 1.
// The SDK's own Express handlers stand before a handler that only records; `javascript` is an agent without an SDK.
import { once } from "node:events";
import http from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, version] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const express = require("express");
const { jsonRpcHandler, restHandler, UserBuilder } = require("@a2a-js/sdk/server/express");

let seen = [];
const set = (value) => value !== undefined && value !== null && value !== "";
const record = (operation, { task, context, references, tenants, pushes, config }) =>
  seen.push({
    operation,
    task: set(task) ? task : null,
    context: set(context) ? context : null,
    references: references ?? [],
    tenants: (tenants ?? []).filter(set),
    pushes: pushes ?? [],
    config: set(config) ? config : null,
  });

// --- what the SDKs hand to a handler ---------------------------------------------------------------

const sent = ({ message, configuration }) => ({
  task: message?.taskId,
  context: message?.contextId,
  references: message?.referenceTaskIds,
  pushes: [configuration?.taskPushNotificationConfig, configuration?.pushNotificationConfig].filter(set).map((c) => c.url),
});
const byId = ({ id }) => ({ task: id });
const byTaskId = ({ taskId, id }) => ({ task: taskId, config: id });
const byOldId = ({ id, pushNotificationConfigId }) => ({ task: id, config: pushNotificationConfigId });
const handlers = {
  sendMessage: ["send", sent],
  sendMessageStream: ["send-stream", sent],
  getTask: ["get", byId],
  listTasks: ["list", ({ contextId }) => ({ context: contextId })],
  cancelTask: ["cancel", byId],
  resubscribe: ["subscribe", byId],
  createTaskPushNotificationConfig: ["push-create", ({ taskId, id, url }) => ({ task: taskId, config: id, pushes: [url] })],
  setTaskPushNotificationConfig: [
    "push-create",
    ({ taskId, pushNotificationConfig: c }) => ({ task: taskId, config: c?.id, pushes: [c?.url].filter(set) }),
  ],
  getTaskPushNotificationConfig: ["push-get", version === "1" ? byTaskId : byOldId],
  listTaskPushNotificationConfigs: ["push-list", version === "1" ? byTaskId : byId],
  deleteTaskPushNotificationConfig: ["push-delete", version === "1" ? byTaskId : byOldId],
  getAuthenticatedExtendedAgentCard: ["extended-card", () => ({})],
};
const places = ["JSONRPC", "HTTP+JSON"];
const card = {
  name: "reader", description: "reads", version: "1", url: "http://127.0.0.1/", protocolVersion: "0.3.0",
  supportedInterfaces: ["1.0", "0.3"].flatMap((protocolVersion) =>
    places.map((protocolBinding) => ({ url: "http://127.0.0.1/", protocolBinding, protocolVersion, tenant: "" })),
  ),
  capabilities: { streaming: true, pushNotifications: true, extensions: [] },
  supportsAuthenticatedExtendedCard: true, defaultInputModes: [], defaultOutputModes: [], skills: [],
};
const requestHandler = new Proxy({}, {
  get: (_, name) => {
    if (name === "getAgentCard") return async () => card;
    const [operation, read] = handlers[name];
    return (params, context) => {
      const { config, ...rest } = read(params ?? {});
      const named = operation === "push-list" ? rest : { ...rest, config };
      record(operation, { ...named, tenants: [params?.tenant, context?.tenant] });
      throw new Error("recorded");
    };
  },
});
const served = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: true } };

// --- an agent that reads by hand -------------------------------------------------------------------

const operations = {
  "tasks/send": "send", "tasks/sendSubscribe": "send-stream", "message/send": "send", "message/stream": "send-stream",
  "tasks/get": "get", "tasks/cancel": "cancel", "tasks/resubscribe": "subscribe",
  "tasks/pushNotification/set": "push-create", "tasks/pushNotification/get": "push-get",
  "tasks/pushNotificationConfig/set": "push-create", "tasks/pushNotificationConfig/get": "push-get",
  "tasks/pushNotificationConfig/list": "push-list", "tasks/pushNotificationConfig/delete": "push-delete",
};
// Reads a member as code without types would: in either spelling, through the prototype, whatever its type.
const member = (object, camel) => {
  const snake = camel.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
  return object?.[camel] ?? object?.[snake];
};
const text = (value) => (set(value) ? String(value) : undefined);

function byHand(body) {
  const request = JSON.parse(body);
  const operation = Object.hasOwn(operations, request.method) ? operations[request.method] : undefined;
  if (operation === undefined) throw new Error("no such method");
  const params = Object.assign({}, request.params); // as many agents copy; it sets `__proto__`
  const message = Object.assign({}, params.message);
  const old = request.method.startsWith("tasks/send");
  const send = operation.startsWith("send");
  const asked = operation === "push-create" && !request.method.endsWith("Notification/set") ? "taskId" : "id";
  const config = send
    ? member(member(params, "configuration"), "pushNotificationConfig") ?? member(params, "pushNotification")
    : member(params, "pushNotificationConfig");
  const carries = send || operation === "push-create";
  record(operation, {
    task: text(send && !old ? member(message, "taskId") : member(params, asked)),
    context: send ? text(old ? member(params, "sessionId") : member(message, "contextId")) : undefined,
    references: send ? [...(member(message, "referenceTaskIds") ?? [])].map(String) : [],
    pushes: carries ? [text(config?.url)].filter(set) : [],
  });
}

// --- lines -----------------------------------------------------------------------------------------

console.error = console.warn = () => {}; // the SDKs tell of every refusal
const app = express();
app.use("/rpc", jsonRpcHandler(served));
app.use("/", restHandler(served));
const server = app.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address();
const agent = new http.Agent({ keepAlive: true });

const call = (method, path, headers, body) =>
  new Promise((done, failed) => {
    const request = http.request({ host: "127.0.0.1", port, agent, method, path }, async (answer) => {
      let said = "";
      for await (const chunk of answer) said += chunk;
      done([answer.statusCode, said.slice(0, 200)]);
    });
    for (const [name, value] of Object.entries(headers)) request.setHeader(name, value);
    request.setHeader("Content-Length", body.length);
    request.on("error", failed);
    request.end(body);
  });

async function read(reader) {
  seen = [];
  let why = "";
  try {
    why = await reader();
  } catch (error) {
    why = String(error);
  }
  return { seen, why };
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const { door, method, target, headers, body: encoded } = JSON.parse(line);
  const body = Buffer.from(encoded, "base64");
  const answers = {};
  answers[`a2a-js-${version}`] = await read(() => call(method, door === "rpc" ? "/rpc" : target, headers, body));
  if (version === "1" && door === "rpc") answers.javascript = await read(() => byHand(body.toString()));
  console.log(JSON.stringify(answers));
}
server.close();
agent.destroy();
