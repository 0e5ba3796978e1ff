"""An ordinary google-adk agent, made with `to_a2a`: JSON-RPC 1.0 at `/`. No model is asked.

The first word of a message chooses what happens: input, art, long N; anything else is done at once.
Every send becomes a task, as always with this framework.
"""

import asyncio

from a2a.types import a2a_pb2 as pb
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types
from listening import PORT, SCOPES, TICK, listen


class Worker(BaseAgent):
    async def _run_async_impl(self, ctx):
        def said(*parts, **more):
            content = types.Content(role="model", parts=list(parts))
            return Event(author=self.name, invocation_id=ctx.invocation_id, content=content, **more)

        parts = ctx.user_content.parts or []
        text = " ".join(part.text or "" for part in parts)
        word, _, rest = text.partition(" ")
        if word == "input":
            question = types.FunctionCall(id="ask-1", name="ask", args={"question": "which one?"})
            yield said(types.Part(function_call=question), long_running_tool_ids={"ask-1"})
            return
        if word == "art":
            for index in range(3):
                yield said(types.Part(text=f"chunk {index}"))
        if word == "long":
            for tick in range(round(float(rest) / TICK)):
                await asyncio.sleep(TICK)
                yield said(types.Part(text=f"tick {tick}"))
        yield said(types.Part(text=f"did {text}"))


needs = [{"oauth": SCOPES}] if SCOPES else None
known = {scope: scope for scope in ("a2a.tasks:write", "a2a.tasks:read")}
flow = pb.ClientCredentialsOAuthFlow(token_url="https://issuer.invalid/token", scopes=known)
oauth = pb.OAuth2SecurityScheme(flows=pb.OAuthFlows(client_credentials=flow))
worker = Worker(name="worker", description="an ordinary agent")
listen(
    to_a2a(
        worker,
        host="127.0.0.1",
        port=PORT,
        security_schemes={"oauth": pb.SecurityScheme(oauth2_security_scheme=oauth)},
        default_skill_security=needs,
    )
)
