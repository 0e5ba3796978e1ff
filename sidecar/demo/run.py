"""The parts of the demo, started in order and ended in reverse.

Owns: which part is started when, and the temporary folder.
Never: tells the story.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
from a2a.utils.errors import A2AError

from sidecar.demo import agent, issuer, sidecar_process, story
from sidecar.demo.agent_scopes import READ, WRITE
from sidecar.demo.screen import Differed, Screen

OPENING: Final = f"""\
alice → orchestrator  {WRITE} {READ}
      → planner       {WRITE}; dropped read, "not needed to submit"
      → executor      its card asks for both scopes for code-review
Real parts, on this machine only: an issuer; an agent on the official SDK,
which checks one scope per endpoint; the sidecar, with a ledger on disk."""


def run() -> None:
    """Tell the whole story. Raises Differed, DidNotStart."""
    # The SDK warns of its own clean-up; the story is the only output.
    logging.getLogger("a2a").setLevel(logging.CRITICAL)
    try:
        _tell(Screen())
    except (A2AError, httpx.HTTPError) as error:
        raise Differed(f"a call failed: {type(error).__name__}: {error}") from error


def _tell(screen: Screen) -> None:
    screen.panel("a2a-sidecar demo: a task that nobody could finish", OPENING)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="a2a-sidecar-demo-")))
        idp = stack.enter_context(issuer.listening(agent.AUDIENCE))
        executor = stack.enter_context(agent.listening(idp.url, idp.jwks_uri))
        runner = stack.enter_context(asyncio.Runner())
        tokens = story.minted(idp)
        runner.run(story.before(executor, tokens, screen))
        with sidecar_process.running(
            folder, upstream=executor.url, issuer=idp.url, audience=agent.AUDIENCE
        ) as sidecar:
            asked = runner.run(story.after(executor, sidecar, tokens, screen))
        story.audited(sidecar, asked, screen)  # stopped, it has written all of it
    screen.chapter("every step went as told")
