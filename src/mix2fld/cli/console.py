"""The console of all commands."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from rich.table import Table


WIDEST = 1000
"""No table needs more columns of text."""


class PipedConsole(Console):
    """A console that raises ``BrokenPipeError``; rich's own exits with 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error again, for the caller to handle."""
        self.quiet = True
        raise BrokenPipeError


def bold(text: object) -> str:
    """Return text as bold markup; brackets in it are kept literally."""
    return f"[bold]{escape(str(text))}[/]"


def print_table(console: Console, table: "Table") -> None:
    """Print a table with every number whole, also where the terminal is narrower."""
    before = console.width
    wide = console.options.update(max_width=WIDEST)
    console.width = max(before, console.measure(table, options=wide).maximum)
    console.print(table, soft_wrap=False, crop=False)
    console.width = before
