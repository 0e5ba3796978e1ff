"""Logs: structlog to stderr, one JSON object a line.

Owns: the log's form. Decisions are not logged here but audited.
Never: bodies, tokens, full subjects.
"""

from __future__ import annotations

import logging
import sys

# Wherever rich is installed (typer brings it along) structlog imports it, for tracebacks that are never shown here:
# 50 ms and 3 MB at every start.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]
else:
    import structlog


def configure(*, pretty: bool, worker: int | None = None) -> None:
    """Set logging up once, at start. `pretty` for a terminal; where there are workers, every line names its `worker`."""
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer() if pretty else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if worker is None else [_named(worker)]),
            renderer,
        ],
        # A line in one write: to an unbuffered stream `print` makes two, and another worker may write between them.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )


def _named(worker: int) -> structlog.types.Processor:
    def named(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        return {**event, "worker": worker}

    return named
