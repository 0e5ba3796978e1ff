"""The executor: an ordinary agent on the official SDK that knows nothing of the sidecar.

Owns: the `code-review` skill, the card, and listening on loopback.
Never: imports anything of ours that enforces.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette

from sidecar.demo.agent_scopes import READ, WRITE, ScopePerEndpoint, Tokens

AUDIENCE: Final = "executor"
SKILL: Final = "code-review"
QUESTION: Final = "Which branch should be reviewed?"


class CodeReview(AgentExecutor):
    """Asks for the branch first, reviews it then."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        known = context.current_task is not None
        task = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if not known and context.message is not None:
            submitted = new_task_from_user_message(context.message)
            submitted.id, submitted.context_id = task.task_id, task.context_id
            await event_queue.enqueue_event(submitted)
        await task.start_work()
        if not known:
            await task.requires_input(task.new_agent_message([new_text_part(QUESTION)]))
            return
        review = f"no findings on {context.get_user_input()}"
        await task.add_artifact([new_text_part(review)], name="review")
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def card(url: str) -> pb.AgentCard:
    """The card: one skill, and the two scopes it needs."""
    flow = pb.ClientCredentialsOAuthFlow(
        token_url="https://issuer.example/token",  # noqa: S106 (an address, no secret)
        scopes={WRITE: "submit tasks", READ: "read, answer and cancel tasks"},
    )
    oauth = pb.OAuth2SecurityScheme(flows=pb.OAuthFlows(client_credentials=flow))
    needs = pb.SecurityRequirement(schemes={"a2a_oauth": pb.StringList(list=[WRITE, READ])})
    return pb.AgentCard(
        name="executor",
        description="Reviews code.",
        version="1.0.0",
        supported_interfaces=[
            pb.AgentInterface(url=f"{url}/", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=pb.AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        security_schemes={"a2a_oauth": pb.SecurityScheme(oauth2_security_scheme=oauth)},
        skills=[
            pb.AgentSkill(
                id=SKILL,
                name="Code review",
                description="Reviews a branch.",
                tags=["code"],
                security_requirements=[needs],
            )
        ],
    )


class Executor:
    """The running agent. `received` names the A2A calls that reached it, in order of arrival."""

    def __init__(self, url: str, received: list[str]) -> None:
        self.url = url
        self.received = received


@contextmanager
def listening(issuer: str, jwks_uri: str) -> Iterator[Executor]:
    """The agent on a free loopback port, in a thread with an event loop of its own."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        shown = card(url)
        handler = DefaultRequestHandler(
            agent_executor=CodeReview(), task_store=InMemoryTaskStore(), agent_card=shown
        )
        routes = [*create_agent_card_routes(shown), *create_jsonrpc_routes(handler, "/")]
        tokens = Tokens(issuer, jwks_uri, AUDIENCE)
        received: list[str] = []
        app = ScopePerEndpoint(Starlette(routes=routes), tokens, received)
        server = uvicorn.Server(
            uvicorn.Config(
                app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=2
            )
        )
        # Outside the main thread uvicorn installs no signal handlers: Ctrl-C stays the demo's.
        thread = Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield Executor(url, received)
        finally:
            server.should_exit = True
            thread.join()
