"""The command line: load the policy, build, run.

Owns: arguments, exit codes, and how problems are shown to a person.
Never: any logic.
"""

from __future__ import annotations

import asyncio
import sys
import typing
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sidecar.config import Config, PolicyError, load
from sidecar.observe import log

if TYPE_CHECKING:
    from sidecar.starting import Handed

WRONG_CONFIGURATION = 2

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Policy enforcement in front of an A2A agent."
)

Policies = Annotated[list[Path], typer.Option("--policy", help="A policy file; several layer in order.")]


@cli.callback()
def _main() -> None:
    """Policy enforcement in front of an A2A agent."""


@cli.command()
def run(
    policy: Policies,
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, help="Processes that share the port and the ledger, about one a core."),
    ] = 1,
    as_worker: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the sidecar until SIGTERM."""
    from sidecar.starting import CannotStart, handed_down

    try:
        if as_worker is not None:  # the supervisor says everything else
            _run_worker(handed_down(as_worker))
            return
        config = _load(policy)
        log.configure(pretty=sys.stderr.isatty())
        if workers > 1:
            from sidecar.workers.supervisor import supervise

            asyncio.run(supervise(config, workers, [sys.executable, *sys.orig_argv[1:]]))
        else:
            from sidecar.app import serve

            _on_uvloop(serve(config))
    except CannotStart as problem:
        _fail(str(problem))


def _run_worker(handed: Handed) -> None:
    from sidecar.workers.worker import work

    log.configure(pretty=sys.stderr.isatty(), worker=handed.worker)
    _on_uvloop(work(handed))


def _on_uvloop(work: Coroutine[Any, Any, None]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


@cli.command()
def demo() -> None:
    """The incident, before and after, on a real SDK agent. Nothing leaves this machine."""
    from sidecar.demo import main as play

    raise typer.Exit(play())


@cli.command()
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE_OR_FOLDER...",
            help="Policies, case files, or folders: of one every *.yaml is a policy, every cases/*.yaml below it is run.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    expand: Annotated[
        bool,
        typer.Option("--effective", help="Print each policy written out in full; findings go to stderr."),
    ] = False,
) -> None:
    """Check policies and run their cases, without a network. Exit code 1: a case failed; 2: a file is wrong."""
    import orjson

    from sidecar import cases
    from sidecar.cases import report as told

    report = cases.check(paths)
    if as_json:
        document = told.document(report, expand=expand)
        sys.stdout.buffer.write(
            orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )
    else:
        for document_text in told.expansions(report) if expand else ():
            print(document_text, end="")
        for line in told.lines(report):
            print(line, file=sys.stderr if expand else sys.stdout)
    raise typer.Exit(report.exit_code)


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
