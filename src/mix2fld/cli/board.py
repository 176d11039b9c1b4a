"""The live table of many runs: a table on a terminal, a line for every run that ends elsewhere."""

from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mix2fld.report.tables import PLAIN
from mix2fld.sweep.schedule import Board, Progress, Track

MOST_ROWS = 16
HEADINGS = ("running", "where", "round", "try")


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

    def __exit__(self, *error: object) -> None:
        if self._shows:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Redraw the table."""
        if self._shows:
            table = running_table(progress, self._console.width)
            self._live.update(Group(table, Text(counts(progress))))

    def ended(self, track: Track, progress: Progress) -> None:
        """Print a line, except for a run that succeeds on a terminal."""
        reason = f"failed: {track.reason}" if track.status == "failed" else ""
        if self._shows:
            if reason:
                self.note(f"{track.job.name}: {reason}")
            return
        line = f"{track.job.name}: {reason or track.status}; {counts(progress)}"
        self._console.print(escape(line), highlight=False)

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


def running_table(progress: Progress, width: int) -> Table:
    """The runs in progress, within a width."""
    table = Table(**PLAIN)
    running = progress.of("running")
    rows = [
        (t.where, f"{t.rounds}/{t.job.config.rounds}", str(t.tries + 1) if t.tries else "")
        for t in running[:MOST_ROWS]
    ]
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=True)
    columns = zip(HEADINGS[1:], *rows, strict=True)
    left = width - sum(max(map(len, column)) + 1 for column in columns) - 1
    for track, row in zip(running, rows, strict=False):
        table.add_row(escape(_end_of(track.job.name, left)), *map(escape, row))
    if len(running) > MOST_ROWS:
        table.add_row(f"and {len(running) - MOST_ROWS} more")
    return table


def _end_of(name: str, width: int) -> str:
    """A name that fits; its end, with protocol and seed, tells most."""
    return name if len(name) <= width else f"…{name[-max(1, width - 1) :]}"
