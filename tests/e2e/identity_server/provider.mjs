// A real OpenID provider (oidc-provider) over TLS on loopback, and a second port to steer it by.
// A resource indicator says which token is asked for: `https://agent.test/?format=opaque&ttl=2`; without its query it
// is the audience. Who `login_hint` names is logged in, and has agreed to everything.
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import Provider from "oidc-provider";

const settings = JSON.parse(readFileSync(process.env.SETTINGS)); // tls: {cert, key, ca}, clients, scopes
const listening = (server, port) => new Promise((done) => server.listen(port, "127.0.0.1", () => done(server.address().port)));
const asked = {}; // path and query → how often
const keys = []; // what is published; the first one signs
const stored = new Map(); // outlives a change of keys, as a database would

let provider;

class Adapter { // the default one is lost with its provider
  constructor(model) { this.model = model; }
  key(id) { return `${this.model} ${id}`; }
  async upsert(id, payload) { stored.set(this.key(id), payload); }
  async find(id) { return stored.get(this.key(id)); }
  async findByUid(uid) { return [...stored.values()].find((each) => each.uid === uid && each.kind === this.model); }
  async consume(id) { stored.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { stored.delete(this.key(id)); }
  async revokeByGrantId(grantId) {
    for (const [key, { grantId: its }] of stored) if (its === grantId) stored.delete(key);
  }
}

const resource = (indicator) => {
  const { origin, pathname, searchParams } = new URL(indicator);
  return {
    audience: origin + pathname,
    scope: settings.scopes,
    accessTokenFormat: searchParams.get("format") ?? "jwt",
    accessTokenTTL: Number(searchParams.get("ttl") ?? 600),
  };
};

const seconds = (_, token) => token.resourceServer?.accessTokenTTL ?? 600;

const configuration = () => ({
  adapter: Adapter,
  jwks: { keys: structuredClone(keys) },
  clients: settings.clients,
  scopes: ["openid", "offline_access"],
  cookies: { keys: ["a key for cookies"] },
  ttl: { AccessToken: seconds, ClientCredentials: seconds, AuthorizationCode: 60, IdToken: 600, RefreshToken: 600, Grant: 600, Interaction: 60, Session: 600 },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true, allowedPolicy: (_, client, token) => client.clientId === token.clientId },
    dPoP: { enabled: true },
    mTLS: { enabled: true, certificateBoundAccessTokens: true, getCertificate: (ctx) => ctx.socket.getPeerX509Certificate() },
    jwtUserinfo: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true, // at the token endpoint, without naming it again
      getResourceServerInfo: (_, indicator) => resource(indicator),
    },
  },
  interactions: { url: (_, { uid }) => `/login/${uid}` },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  async loadExistingGrant({ oidc }) {
    const grant = new oidc.provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId });
    grant.addOIDCScope("openid offline_access");
    for (const each of [oidc.params.resource].flat()) if (each) grant.addResourceScope(each, settings.scopes);
    await grant.save();
    return grant;
  },
});

function open() {
  const made = new Provider(issuer, configuration());
  const answer = made.callback();
  return async (request, response) => {
    if (!request.url.startsWith("/login/")) return answer(request, response);
    const { params } = await made.interactionDetails(request, response);
    return made.interactionFinished(request, response, { login: { accountId: params.login_hint }, consent: {} });
  };
}

function addKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" });
}

const { tls } = settings;
const server = https.createServer({ ...tls, requestCert: true, rejectUnauthorized: false }, (request, response) => {
  asked[request.url] = (asked[request.url] ?? 0) + 1;
  provider(request, response);
});
const port = await listening(server, 0);
const issuer = `https://127.0.0.1:${port}`;

const orders = {
  "/asked": () => asked,
  "/rotate": () => { addKey(); provider = open(); },
  "/withdraw": () => { keys.splice(1); provider = open(); },
  "/down": () => { const closed = new Promise((done) => server.close(done)); server.closeAllConnections(); return closed; },
  "/up": () => listening(server, port),
  "/secret": ({ id, secret }) => { // a client gets another secret
    settings.clients.find(({ client_id }) => client_id === id).client_secret = secret;
    provider = open();
  },
  "/callback": () => {}, // where a browser ends up after a login
};
const control = http.createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://127.0.0.1");
  const said = await orders[pathname](Object.fromEntries(searchParams));
  response.end(JSON.stringify(said ?? null));
});

addKey();
provider = open();
const steering = await listening(control, 0);
console.log(JSON.stringify({ issuer, control: `http://127.0.0.1:${steering}` }));
