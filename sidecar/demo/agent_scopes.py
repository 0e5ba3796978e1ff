"""How the executor guards itself: a token check and one scope per endpoint, as in the incident.

Owns: verifying the bearer token, which call needs which scope, the 401 and 403.
Never: looks at what the card says the skill needs. That is the gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx
import jwt
import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

WRITE: Final = "a2a.tasks:write"
READ: Final = "a2a.tasks:read"
SENDS: Final = frozenset({"SendMessage", "SendStreamingMessage"})


class Tokens:
    """Verifies tokens of one issuer for one audience. The keys are fetched once, at the first token."""

    def __init__(self, issuer: str, jwks_uri: str, audience: str) -> None:
        self._issuer = issuer
        self._audience = audience
        self._jwks_uri = jwks_uri
        self._keys: jwt.PyJWKSet | None = None

    async def scopes(self, authorization: str) -> frozenset[str]:
        """The scopes of a bearer token. Raises jwt.PyJWTError or KeyError for one that is not valid."""
        token = authorization.removeprefix("Bearer ")
        if self._keys is None:
            async with httpx.AsyncClient(trust_env=False) as client:
                self._keys = jwt.PyJWKSet.from_dict((await client.get(self._jwks_uri)).json())
        key = self._keys[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(token, key, ["ES256"], audience=self._audience, issuer=self._issuer)
        return frozenset(str(claims.get("scope", "")).split())


class ScopePerEndpoint:
    """ASGI middleware: creating needs write; reading, answering and cancelling need read.

    Every call is noted in `received` before it is judged, so that a refused one counts as well.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, received: list[str]) -> None:
        self._app = app
        self._tokens = tokens
        self._received = received

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/.well-known/"):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        call = orjson.loads(body)
        self._received.append(call["method"])
        try:
            held = await self._tokens.scopes(request.headers.get("authorization", ""))
        except (jwt.PyJWTError, KeyError):
            await _refusal(401, "invalid_token")(scope, receive, send)
            return
        needed = scope_for(call)
        if needed not in held:
            await _refusal(403, "insufficient_scope", needed)(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)


def scope_for(call: Mapping[str, Any]) -> str:
    """The one scope this agent asks for a call: write for a new task, read for everything else."""
    creates = call["method"] in SENDS and not call.get("params", {}).get("message", {}).get("taskId")
    return WRITE if creates else READ


def _refusal(status: int, error: str, scope: str = "") -> JSONResponse:
    challenge = f'Bearer error="{error}"' + (f', scope="{scope}"' if scope else "")
    content = {"error": error} | ({"scope": scope} if scope else {})
    return JSONResponse(content, status, {"WWW-Authenticate": challenge})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever the server has to say."""
    left = [body]

    async def replay() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replay
