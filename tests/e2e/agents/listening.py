"""What the Python agents share: where they listen, and telling when they do.

Owns: the port, the environment switches and the word `ready`.
Never: behaviour of an agent.
"""

import os

import uvicorn

PORT = int(os.environ["PORT"])
URL = f"http://127.0.0.1:{PORT}"
SCOPES = ["a2a.tasks:write", "a2a.tasks:read"] if os.environ.get("SCOPES") == "1" else []
COMPAT = os.environ.get("COMPAT") == "1"
TICK = 0.1  # seconds between two signs of life of a task that works


class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("ready", flush=True)


def listen(app) -> None:
    # Streams a test left open must not hold up the end of the process.
    config = uvicorn.Config(
        app, host="127.0.0.1", port=PORT, log_level="warning", timeout_graceful_shutdown=1
    )
    Announcing(config).run()
