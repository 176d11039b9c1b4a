"""The live table of many runs: a table on a terminal, a line for every run that ends elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mix2fld.report.tables import PLAIN
from mix2fld.sweep.schedule import Board, Progress, Track

MOST_ROWS = 16


class TableBoard(Board):
    """Running, waiting, failed, time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=2, transient=True)
        self._shows = console.is_terminal and not console.quiet

    def __enter__(self) -> Self:
        if self._shows:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shows:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Redraw the table."""
        if self._shows:
            self._live.update(Group(_table(progress), Text(counts(progress))))

    def ended(self, track: Track, progress: Progress) -> None:
        """Print a line, except for a run that succeeds on a terminal."""
        if track.status == "failed":
            self.note(f"{track.job.name}: failed: {track.reason}")
        if not self._shows:
            self._console.print(
                f"{escape(track.job.name)}: {track.status}; {counts(progress)}", highlight=False
            )

    def note(self, line: str) -> None:
        """Print above the table."""
        self._console.print(f"[yellow]note[/]: {escape(line)}", highlight=False)


def counts(progress: Progress) -> str:
    """How many runs are in which state, and the time left."""
    words = [
        f"{len(found)} {status}"
        for status in ("finished", "running", "waiting", "failed")
        if (found := progress.of(status))
    ]
    left = progress.seconds_left()
    if left is not None and (progress.of("running") or progress.of("waiting")):
        words.append(f"{clock(left)} left")
    return ", ".join(words)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _table(progress: Progress) -> Table:
    table = Table(**PLAIN)
    for heading in ("running", "where", "round", "tries"):
        table.add_column(heading, no_wrap=True)
    running = progress.of("running")
    for track in running[:MOST_ROWS]:
        rounds = f"{track.rounds}/{track.job.config.rounds}"
        tries = str(track.tries + 1) if track.tries else ""
        table.add_row(escape(track.job.name), track.where, rounds, tries)
    if len(running) > MOST_ROWS:
        table.add_row(f"and {len(running) - MOST_ROWS} more")
    return table
