"""Progress of a download: a bar on a terminal, a plain line elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int, int], None]
"""Takes the number of bytes received, and how many more are expected."""


def print_line(console: "Console | None", line: str) -> None:
    """Print one plain line; nothing without a console."""
    if console is not None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def working(console: "Console | None", what: str) -> Iterator[Advance]:
    """Show ``what`` while the block runs; yields the function that advances the bar."""
    if console is None or not console.is_terminal:
        print_line(console, what)
        yield lambda _received, _expected: None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(escape(what), total=None)
        total_expected = 0

        def advance(received: int, expected: int) -> None:
            nonlocal total_expected
            total_expected += expected
            progress.update(task, advance=received, total=total_expected or None)

        yield advance
