"""Tell a person that something takes a while: a bar on a terminal, else a plain line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int, int], None]
"""Takes the bytes that just came, and how many more are now expected to come."""


def say(console: "Console | None", line: str) -> None:
    """One plain line; nothing without a console."""
    if console is not None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def working(console: "Console | None", what: str) -> Iterator[Advance]:
    """Show ``what`` while the block runs; gives the function that moves the bar."""
    if console is None or not console.is_terminal:
        say(console, what)
        yield lambda _came, _expected: None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(escape(what), total=None)
        expected_in_all = 0

        def advance(came: int, expected: int) -> None:
            nonlocal expected_in_all
            expected_in_all += expected
            progress.update(task, advance=came, total=expected_in_all or None)

        yield advance
