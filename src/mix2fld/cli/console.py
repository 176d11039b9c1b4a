"""The console of all commands."""

from rich.console import Console
from rich.markup import escape


class PipedConsole(Console):
    """A console that raises ``BrokenPipeError``; rich's own exits with 1."""

    def on_broken_pipe(self) -> None:
        """Let the error pass."""
        self.quiet = True
        raise BrokenPipeError


def bold(text: object) -> str:
    """Return text as bold markup; brackets in it are kept literally."""
    return f"[bold]{escape(str(text))}[/]"
