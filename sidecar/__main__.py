"""The command line: load the policy, build, run.

Owns: arguments, exit codes, and how problems are shown to a person.
Never: any logic.
"""

from __future__ import annotations

import asyncio
import sys
import typing
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from sidecar.config import Config, PolicyError, load
from sidecar.observe import log

WRONG_CONFIGURATION = 2

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Policy enforcement in front of an A2A agent."
)

Policies = Annotated[list[Path], typer.Option("--policy", help="A policy file; several layer in order.")]


@cli.callback()
def _main() -> None:
    """Policy enforcement in front of an A2A agent."""


@cli.command()
def run(policy: Policies) -> None:
    """Run the sidecar until SIGTERM."""
    from sidecar.app import CannotStart, serve

    config = _load(policy)
    log.configure(pretty=sys.stderr.isatty())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(config))
    except CannotStart as problem:
        _fail(str(problem))


@cli.command()
def demo() -> None:
    """The incident, before and after, on a real SDK agent. Nothing leaves this machine."""
    from sidecar.demo import main as play

    raise typer.Exit(play())


@cli.command()
def schema() -> None:
    """Print the JSON Schema of a policy file."""
    import orjson

    from sidecar.config import json_schema

    sys.stdout.buffer.write(
        orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )


def _load(paths: list[Path]) -> Config:
    try:
        return load(paths)
    except PolicyError as problem:
        _fail(str(problem))


def _fail(message: str) -> typing.NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(WRONG_CONFIGURATION)


def main() -> None:
    """Entry point of `a2a-sidecar`."""
    cli()


if __name__ == "__main__":
    main()
