"""Applications on the official clients, run in their own environments.

Owns: which client speaks to which agent and how, running one scenario, and making two runs comparable.
Never: interprets what a client showed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.e2e.deployment import AGENTS, SCRIPTS, environment
from tests.e2e.wire import HOOK, Names, without_repeats, without_ticks

TIMEOUT: Final = 40.0  # seconds for a whole scenario


@dataclass(frozen=True, slots=True)
class Client:
    """An official client over one binding, and the agents whose cards it can use."""

    environment: str
    script: str
    binding: str
    agents: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.environment} client over {self.binding}"


OF_0: Final = ("a2a-sdk-0.3", "a2a-js-0.3", "a2a-sdk-1", "a2a-js-1")
CLIENTS: Final = (
    # 0.2's card is where 0.3's clients look only if told to.
    Client("a2a-sdk-0.3", "python_0.py", "JSONRPC", ("a2a-sdk-0.2.16", *OF_0)),
    Client("a2a-sdk-0.3", "python_0.py", "HTTP+JSON", OF_0),
    Client("a2a-sdk-1", "python_1.py", "JSONRPC", ("google-adk", *OF_0)),
    Client("a2a-sdk-1", "python_1.py", "HTTP+JSON", OF_0),
    Client("a2a-js-0.3", "js_0.mjs", "JSONRPC", ("a2a-sdk-0.2.16", *OF_0)),
    # It reads each `data:` line as an event of its own; a2a-sdk 0.3 spreads one over many.
    Client("a2a-js-0.3", "js_0.mjs", "HTTP+JSON", tuple(name for name in OF_0 if name != "a2a-sdk-0.3")),
    Client("a2a-js-1", "js_1.mjs", "JSONRPC", ("google-adk", *OF_0)),
    Client("a2a-js-1", "js_1.mjs", "HTTP+JSON", OF_0),
)


def run(
    client: Client,
    agent: str,
    base: str,
    scenario: str,
    token: str,
    stranger: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The steps of `scenario` as an application saw them: `saw`, or `error` (a class) and `text`."""
    question = {
        "scenario": scenario,
        "base": base,
        "card_path": AGENTS[agent].card_path,
        "binding": client.binding,
        "token": token,
        "stranger": stranger,
        "hook": HOOK,
    }
    done = subprocess.run(
        environment(client.environment).command(SCRIPTS / "clients" / client.script),
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{client} failed: {done.stderr[-2000:]}"
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def comparable(steps: list[dict[str, Any]]) -> list[Any]:
    """`steps` with ids, times and addresses named, and without what only time decides."""
    text = Names().plain(json.dumps(without_ticks(steps), sort_keys=True))
    return [merged(step) for step in json.loads(text)]


def merged(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "saw": without_repeats(step["saw"])} if "saw" in step else step
