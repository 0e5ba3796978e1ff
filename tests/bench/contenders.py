"""Who is measured, each as one process that listens.

Owns: the command and the configuration of every contender.
Never: tunes one of them beyond what makes the comparison fair: one worker, kept-alive connections, no access log.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tests.bench.processes import (
    CannotMeasure,
    asked,
    found,
    free_port,
    pinned,
    process,
    require,
    until_answering,
    version_of,
)
from tests.bench.scene import (
    AUDIENCE,
    REPLY_HEADER,
    SEND,
    Ask,
    Scene,
    agent_file,
    compact,
    written,
)

SIDECAR: Final = "a2a-sidecar"


@dataclass(frozen=True, slots=True)
class Running:
    """A contender that answers. `pid` is None for the agent alone, whose time is not a proxy's."""

    name: str
    port: int
    pid: int | None
    admin: int = 0


Start = Callable[[Scene, int, ExitStack], Running]


def start_agent(scene: Scene, core: int | str, stack: ExitStack) -> Running:
    """The agent, asked without anything in front: what the load itself can do."""
    command = [found("nginx"), *_nginx(scene, "agent"), str(agent_file(scene))]
    started = stack.enter_context(process("agent", pinned(core, command), scene.folder))
    until_answering("agent", started, scene.folder, scene.agent)
    return Running("agent alone", scene.agent, None)


def start_sidecar(
    scene: Scene,
    core: int | str,
    stack: ExitStack,
    name: str = SIDECAR,
    *options: str,
    environment: Mapping[str, str] | None = None,
) -> Running:
    """The real command with every guard on; the task is made through it, so that alice owns it.

    `core` may be a list as taskset takes it. `name` tells several sidecars of one run apart.
    """
    port, admin = free_port(), free_port()
    policy = {
        "version": 1,
        "listen": f"127.0.0.1:{port}",
        "admin": f"127.0.0.1:{admin}",
        "agents": [{"name": "bench", "upstream": scene.issuer, "public_url": f"http://127.0.0.1:{port}"}],
        "identity": {
            "issuers": [{"issuer": scene.issuer, "audiences": [AUDIENCE], "jwks_uri": f"{scene.issuer}/keys"}]
        },
        "scopes": {"lifecycle": {"get": ["a2a.tasks:read"], "send": ["a2a.tasks:write"]}},
        "ledger": {"url": f"sqlite:///{scene.folder / name}.db"},
    }
    file = written(scene.folder / f"{name}.yaml", compact(policy))  # JSON is YAML
    command = [sys.executable, "-m", "sidecar", "run", "--policy", str(file), *options]
    audit = stack.enter_context(
        (scene.folder / f"{name}.jsonl").open("wb")
    )  # stdout, where it goes by default
    started = stack.enter_context(
        process(name, pinned(core, command), scene.folder, audit, environment=environment)
    )
    until_answering(name, started, scene.folder, admin, "/readyz")
    status, body = asked(port, "POST", "/", SEND, scene.headers | {REPLY_HEADER: "send"})
    if status != 200 or '"result"' not in body:
        raise CannotMeasure(f"the sidecar refused to create the task: {status} {body}")
    return Running(name, port, started.pid, admin)


def start_nginx(scene: Scene, core: int, stack: ExitStack) -> Running:
    """nginx as a plain proxy: looks at nothing."""
    port = free_port()
    text = _filled(_NGINX, scene, port)
    command = [found("nginx"), *_nginx(scene, "nginx")]
    command.append(str(written(scene.folder / "nginx.conf", text)))
    started = stack.enter_context(process("nginx", pinned(core, command), scene.folder))
    until_answering("nginx", started, scene.folder, port)
    return Running("nginx", port, started.pid)


def start_envoy(scene: Scene, core: int, stack: ExitStack) -> Running:
    """Envoy as a plain proxy: looks at nothing."""
    return _start_envoy("envoy", "", scene, core, stack)


def start_envoy_guarding(scene: Scene, core: int, stack: ExitStack) -> Running:
    """Envoy with jwt_authn and a Lua filter that compares an owner: by pattern, in one worker's memory."""
    return _start_envoy("envoy jwt+lua", _GUARDS, scene, core, stack)


# In the order of the table.
CONTENDERS: Final[Mapping[str, Start]] = {
    SIDECAR: start_sidecar,
    "envoy": start_envoy,
    "envoy jwt+lua": start_envoy_guarding,
    "nginx": start_nginx,
}


def verify(running: Running, ask: Ask) -> None:
    """The contender answers as it must; else there is nothing to measure."""
    status, body = asked(running.port, ask.method, ask.path, ask.body, ask.headers)
    if status != 200 or ask.told not in body:
        raise CannotMeasure(f"{running.name} answered {status} {body[:500]} to `{ask.name}`")


def tool_versions(names: Iterable[str], *, profiles: bool) -> dict[str, str]:
    """What is needed beside the sidecar, with its version. Raises CannotMeasure for all that is missing."""
    envoy = any(name.startswith("envoy") for name in names)
    further = [*(["envoy"] if envoy else []), *(["py-spy"] if profiles else [])]
    require(["wrk", "nginx", "taskset", "setpriv", *further])
    told = {
        "wrk": version_of(found("wrk"), "-v").partition(" Copyright")[0],
        "nginx": version_of(found("nginx"), "-v").rpartition(" ")[2],
    }
    if envoy:
        told["envoy"] = version_of(found("envoy"), "--version").rpartition("version: ")[2]
    return told


def _start_envoy(name: str, guards: str, scene: Scene, core: int, stack: ExitStack) -> Running:
    port = free_port()
    text = _filled(_ENVOY.replace("@GUARDS@", guards), scene, port)
    file = written(scene.folder / f"{name.replace(' ', '-')}.yaml", text)
    options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"]
    command = [found("envoy"), "-c", str(file), *options]
    started = stack.enter_context(process(name, pinned(core, command), scene.folder))
    until_answering(name, started, scene.folder, port)
    return Running(name, port, started.pid)


def _nginx(scene: Scene, name: str) -> list[str]:
    return ["-p", str(scene.folder), "-e", str(scene.folder / f"{name}-error.log"), "-c"]


def _filled(text: str, scene: Scene, port: int) -> str:
    values = {
        "@PORT@": str(port),
        "@AGENT@": str(scene.agent),
        "@FOLDER@": str(scene.folder),
        "@ISSUER@": scene.issuer,
        "@AUDIENCE@": AUDIENCE,
        "@KEYS@": scene.keys,
    }
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


_NGINX: Final = """\
daemon off; master_process off; worker_processes 1; pid @FOLDER@/nginx.pid; error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path @FOLDER@/nginx-body; proxy_temp_path @FOLDER@/nginx-proxy;
  upstream agent { server 127.0.0.1:@AGENT@; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:@PORT@;
    location / { proxy_pass http://agent; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
"""

_ENVOY: Final = """\
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: @PORT@}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: agent, timeout: 0s}}]}
          http_filters:
@GUARDS@
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: agent
    type: STATIC
    load_assignment:
      cluster_name: agent
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: @AGENT@}}}
"""

# What one would put together from Envoy's own parts. It reads both bodies, as an ownership guard must.
_GUARDS: Final = """\
          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
                idp:
                  issuer: "@ISSUER@"
                  audiences: [@AUDIENCE@]
                  local_jwks: {inline_string: '@KEYS@'}
                  payload_in_metadata: jwt
                  forward: true
                  jwt_cache_config: {jwt_cache_size: 1000}
              rules: [{match: {prefix: "/"}, requires: {provider_name: idp}}]
          - name: envoy.filters.http.lua
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
              default_source_code:
                inline_string: |
                  local owners = {}
                  local function subject(handle)
                    return handle:streamInfo():dynamicMetadata():get("envoy.filters.http.jwt_authn")["jwt"]["sub"]
                  end
                  local function text(handle)
                    local body = handle:body()
                    return body:getBytes(0, body:length())
                  end
                  function envoy_on_request(handle)
                    local sent = text(handle)
                    local method = string.match(sent, '"method":"([^"]+)"')
                    local id = string.match(sent, '"id":"([^"]+)"')
                    local sub = subject(handle)
                    if id and owners[id] and owners[id] ~= sub then
                      handle:respond({[":status"] = "200"}, '{"jsonrpc":"2.0","error":{"code":-32001}}')
                    end
                  end
                  function envoy_on_response(handle)
                    local id = string.match(text(handle), '"id":"([^"]+)"')
                    if id and not owners[id] then owners[id] = subject(handle) end
                  end
"""
