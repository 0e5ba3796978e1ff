// A client on oauth4webapi that knows nothing of the sidecar: discovery, a key-bound token in its own name, then the
// requests it was given, each sent again if, and only if, the library says that a nonce was asked for.
// Prints what it saw: {"challenges": […], "answers": [{"status", "body"}, …]}.
import * as oauth from "oauth4webapi";

const { issuer, client_id, client_secret, resource, scope, url, headers, bodies } = JSON.parse(process.env.ORDER);
const at = new URL(issuer);
const server = await oauth.processDiscoveryResponse(at, await oauth.discoveryRequest(at));
const client = { client_id };
const options = { DPoP: oauth.DPoP(client, await oauth.generateKeyPair("ES256")) };
const secret = oauth.ClientSecretBasic(client_secret);
const grant = await oauth.clientCredentialsGrantRequest(server, client, secret, { resource, scope }, options);
const { access_token, token_type } = await oauth.processClientCredentialsResponse(server, client, grant);
if (token_type !== "dpop") throw new Error(`a token of type ${token_type}`);

const challenges = [];
const answers = [];
for (const body of bodies) {
  const send = () => oauth.protectedResourceRequest(
    access_token, "POST", new URL(url), new Headers(headers), body, { ...options, [oauth.allowInsecureRequests]: true },
  );
  const reply = await send().catch((error) => {
    if (!oauth.isDPoPNonceError(error)) throw error;
    challenges.push(...error.cause);
    return send();
  });
  answers.push({ status: reply.status, body: await reply.json() });
}
console.log(JSON.stringify({ challenges, answers }));
