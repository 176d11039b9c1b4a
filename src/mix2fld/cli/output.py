"""What a command prints, for people or as JSON for programs."""

import json as json_format
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Output:
    """What the command prints."""

    quiet: bool = False
    """Print only warnings and errors."""
    json: bool = False
    """Print the result as JSON to standard output; progress goes to standard error."""

    def console(self) -> "Console":
        """Return the console for people: standard output, or standard error with ``--json``."""
        from mix2fld.cli.console import PipedConsole

        return PipedConsole(stderr=self.json, quiet=self.quiet, soft_wrap=True, highlight=False)

    def warn(self, message: str) -> None:
        """Print a line to standard error, also with ``--quiet``."""
        from rich.markup import escape

        from mix2fld.cli.console import PipedConsole

        console = PipedConsole(stderr=True, soft_wrap=True, highlight=False)
        unbroken = not console.is_terminal
        console.print(f"[yellow]note[/]: {escape(message)}", soft_wrap=unbroken)

    def print_json(self, result: Any) -> None:
        """Print the result, with ``--json``."""
        if self.json:
            print(json_format.dumps(result, indent=2, default=str))

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show a status line while the block runs, on a terminal."""
        console = self.console()
        if not console.is_terminal or self.quiet:
            yield
            return
        with console.status(what):
            yield
