"""What the demo shows, and the check that every step went as told.

Owns: the form of a step (one line within 80 columns), chapters, and the error of a step that differed.
Never: needs a terminal, moves the cursor, or calls anybody.
"""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

WIDTH: Final = 80


class Differed(Exception):
    """A step did not go as told."""


def expect(step: str, expected: object, found: object) -> None:
    """Raises Differed unless what was found is what was expected."""
    if expected != found:
        raise Differed(f"{step}: expected {expected!r}, found {found!r}")


class Screen:
    """Writes to standard output; colours only where it is a terminal."""

    def __init__(self) -> None:
        self._console = Console(width=WIDTH, highlight=False, emoji=False)
        self._number = 0

    def chapter(self, title: str) -> None:
        """A new part of the story; steps count on."""
        self._console.print()
        self._console.rule(Text(title, "bold"), align="left", characters="─")

    def panel(self, title: str, text: str) -> None:
        """Several lines that belong together, as they are."""
        self._console.print(Panel(Text(text), title=Text(title), title_align="left", width=WIDTH))

    def step(self, who: str, did: str, answer: str, told: str, *, good: bool) -> None:
        """One call: who made it, what it was, what the answer was, and what that means."""
        self._number += 1
        line = Text.assemble(
            f"{self._number:>3} ",
            (f"{who:<13}", "cyan"),
            f"{did:<20}",
            (f"{answer:<8}", "green" if good else "red"),
            told,
        )
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def conclusion(self, text: str, *, good: bool) -> None:
        """What the steps above come to."""
        self._console.print(Text(f"  → {text}", "bold green" if good else "bold red"))
