"""The console of all commands."""

from rich.console import Console
from rich.markup import escape


class PipedConsole(Console):
    """A console that says it when whoever read the output has gone; rich's own exits with 1."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled: let it pass."""
        self.quiet = True
        raise BrokenPipeError


def bold(text: object) -> str:
    """A path or other text from outside as bold markup; brackets in it stay what they are."""
    return f"[bold]{escape(str(text))}[/]"
