"""What the Python readers share: one request a line in, what the SDK read out of it a line out.

Owns: the line format, and calling an application as a server would.
Never: knows an SDK.
"""

import asyncio
import base64
import json
import logging
import os
import sys
from urllib.parse import unquote

seen = []  # what the recording handler was asked for by the request under way


def record(operation, *, task=None, context=None, references=(), tenants=(), pushes=(), config=None):
    seen.append(
        {
            "operation": operation,
            "task": task or None,
            "context": context or None,
            "references": [*references],
            "tenants": [tenant for tenant in tenants if tenant],
            "pushes": [*pushes],
            "config": config or None,
        }
    )


async def call(app, method, target, headers, body):
    """One request, as uvicorn would hand it over. Returns the status and the start of the answer."""
    path, _, query = target.partition("?")
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*pairs, (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    status, said, given = 0, b"", False

    async def receive():
        nonlocal given
        if given:
            await asyncio.Event().wait()  # the caller stays until the answer is whole
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        nonlocal status, said
        status = message.get("status", status)
        said += message.get("body", b"")

    await app(scope, receive, send)
    return status, said[:200].decode("utf-8", "replace")


def serve(name, doors):
    """Answer lines until there are no more. `doors`: word in the request → application and path (None: the caller's)."""
    logging.disable(logging.CRITICAL)
    print("ready", flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the SDKs print a trace for every refusal
    loop = asyncio.new_event_loop()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        app, path = doors.get(request["door"], (None, None))
        seen.clear()
        why = "no such door"
        if app is not None:
            body = base64.b64decode(request["body"])
            target = request["target"] if path is None else path
            try:
                why = loop.run_until_complete(call(app, request["method"], target, request["headers"], body))
            except Exception as error:
                why = repr(error)
        print(json.dumps({name: {"seen": seen, "why": why}}), flush=True)
