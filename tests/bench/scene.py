"""What every contender is asked, and what the agent behind it answers.

Owns: one task, one caller, the request for it, and the files nginx needs to play agent and issuer.
Never: measures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.issuer import jwk, private_key, sign

AUDIENCE: Final = "agent"
KID: Final = "bench"
REPLY_HEADER: Final = (
    "X-Bench-Reply"  # `send` asks the agent for the reply to a send, `new` for one with a new task
)
SCOPES: Final = ("a2a.tasks:read", "a2a.tasks:write")
BLOB: Final = 10 * 2**20  # bytes of what is no A2A and passes
TASK_ID: Final = "7c1f6a52-5a0e-4a55-9b6f-0d3b6c9c2e11"

# An ordinary finished task: one artifact, one message of history, as the 1.0 SDKs write it.
TASK: Final[dict[str, Any]] = {
    "id": TASK_ID,
    "contextId": "0b9d3b0e-5b0a-4c35-8a57-0a2f4a1ff3d8",
    "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T10:00:00.000Z"},
    "artifacts": [{"artifactId": "a-1", "name": "review", "parts": [{"text": "Two findings. " * 8}]}],
    "history": [{"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Review the change."}]}],
}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def rpc(method: str, params: dict[str, Any]) -> bytes:
    return compact({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


GET: Final = rpc("GetTask", {"id": TASK_ID})
SEND: Final = rpc(
    "SendMessage",
    {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Review the change."}]}},
)
ANSWER_TO_GET: Final = compact({"jsonrpc": "2.0", "id": 1, "result": TASK})
ANSWER_TO_SEND: Final = compact({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})
_NEW_TASK: Final = compact(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"task": TASK | {"id": "t-$request_id", "contextId": "c-$request_id"}},
    }
)

_AGENT: Final = """\
daemon off; master_process off; worker_processes 1; pid @FOLDER@/agent.pid; error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; client_body_temp_path @FOLDER@/agent-body;
  map $http_x_bench_reply $answer { default '@GET@'; send '@SEND@'; new '@NEW@'; }
  server {
    listen 127.0.0.1:@PORT@; default_type application/json;
    location / { return 200 $answer; }
    location = /.well-known/agent-card.json { return 200 '@CARD@'; }
    location = /keys { return 200 '@KEYS@'; }
    location = /blob { alias @FOLDER@/blob; default_type application/octet-stream; }
    location = /taken { return 200 'taken'; }
    location = /sink {  # answers once it has read all
      client_max_body_size 0; client_body_buffer_size 16m; proxy_pass_request_body off;
      proxy_set_header Content-Length ""; proxy_set_header Expect ""; proxy_pass http://127.0.0.1:@PORT@/taken;
    }
  }
}
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """`folder` is scratch space, `agent` the port of the agent, which is the issuer as well."""

    folder: Path
    agent: int
    issuer: str
    keys: str  # the JWKS, one line
    token: str
    narrow: str  # a token that may write and not read

    @property
    def headers(self) -> dict[str, str]:
        """Of every request, whoever is asked: to the rivals they are only bytes to pass on."""
        return {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "A2A-Version": "1.0",
        }


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as wrk repeats it. Every reply must be a 200, and the one that is looked at must hold `told`."""

    name: str
    body: bytes
    headers: Mapping[str, str]
    told: str
    method: str = "POST"
    path: str = "/"


def guarded_get(scene: Scene) -> Ask:
    return Ask("get", GET, scene.headers, ANSWER_TO_GET)


def set_scene(folder: Path, agent: int) -> Scene:
    """A fresh key and a token of it that outlives the run. `agent` is a free port."""
    key, issuer, now = private_key("RS256"), f"http://127.0.0.1:{agent}", int(time.time())
    claims = {"iss": issuer, "sub": "alice", "aud": AUDIENCE, "iat": now, "exp": now + 86400}

    def token(*scopes: str) -> str:
        said = claims | {"client_id": "planner", "scope": " ".join(scopes)}
        return sign(said, key, header={"alg": "RS256", "typ": "at+jwt", "kid": KID})

    keys = compact({"keys": [jwk(key, kid=KID, use="sig", alg="RS256")]})
    return Scene(folder, agent, issuer, keys, token(*SCOPES, "repo:read"), token(SCOPES[1]))


def agent_file(scene: Scene) -> Path:
    """nginx as agent: `return` is the cheapest reply there is, so that the load's core holds out longest."""
    text = (
        _AGENT.replace("@FOLDER@", str(scene.folder))
        .replace("@PORT@", str(scene.agent))
        .replace("@GET@", ANSWER_TO_GET)
        .replace("@SEND@", ANSWER_TO_SEND)
        .replace("@NEW@", _NEW_TASK)
        .replace("@CARD@", compact(card(scene)))
        .replace("@KEYS@", scene.keys)
    )
    (scene.folder / "blob").write_bytes(b"x" * BLOB)
    return written(scene.folder / "agent.conf", text)


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def card(scene: Scene) -> dict[str, Any]:
    return {
        "name": "bench",
        "description": "answers at once",
        "version": "1",
        "supportedInterfaces": [
            {
                "url": f"http://127.0.0.1:{scene.agent}/",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            }
        ],
        "capabilities": {"streaming": True},
        "securitySchemes": {"o": {"oauth2SecurityScheme": {"flows": {}}}},
        "securityRequirements": [{"schemes": {"o": {"list": [*SCOPES]}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "review", "name": "review", "description": "reviews", "tags": []}],
    }
