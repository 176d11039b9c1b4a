"""The console of all commands."""

from rich.console import Console


class PipedConsole(Console):
    """A console that says it when whoever read the output has gone; rich's own exits with 1."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled: let it pass."""
        self.quiet = True
        raise BrokenPipeError
