"""How much a command says, and to whom: people, or programs that read JSON."""

import json as json_format
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Output:
    """What is printed."""

    quiet: bool = False
    """Say nothing but warnings and errors."""
    json: bool = False
    """Print the result as JSON to standard output; progress goes to standard error."""

    def console(self) -> "Console":
        """For people: standard output, or standard error where that is for JSON."""
        from mix2fld.cli.console import PipedConsole

        return PipedConsole(stderr=self.json, quiet=self.quiet, soft_wrap=True, highlight=False)

    def warn(self, words: str) -> None:
        """A line on standard error, whatever else is said."""
        from mix2fld.cli.console import PipedConsole

        console = PipedConsole(stderr=True, soft_wrap=True, highlight=False)
        console.print("[yellow]note[/]:", end=" ")
        console.print(words, markup=False)

    def print_json(self, result: Any) -> None:
        """The result, if it was asked for as JSON."""
        if self.json:
            print(json_format.dumps(result, indent=2, default=str))

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show that something is being done, on a terminal."""
        console = self.console()
        if not console.is_terminal or self.quiet:
            yield
            return
        with console.status(what):
            yield
