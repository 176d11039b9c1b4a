"""Progress of runs: bars or a table of many runs on a terminal, lines elsewhere."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.engine.info import RoundInfo
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.report.tables import PLAIN
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult
from mix2fld.runs.summary import device_scores
from mix2fld.sweep.schedule import Board, SweepProgress, Track
from mix2fld.tasks.metric import metric_of


class Watchers(Watcher):
    """Forwards to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def note(self, line: str) -> None:
        """Forward to the first only: a note is printed once."""
        self._watchers[0].note(line)

    def begin(self, config: Config, rounds_done: int) -> None:
        for watcher in self._watchers:
            watcher.begin(config, rounds_done)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        for watcher in self._watchers:
            watcher.round_done(config, info)

    def end(self, result: RunResult) -> None:
        for watcher in self._watchers:
            watcher.end(result)


def _first_news(config: Config, rounds_done: int) -> str:
    return "done" if rounds_done >= config.rounds else f"running round {rounds_done + 1}"


class RichWatcher(Watcher):
    """Shows round, score, delivered uploads and time left of every run."""

    def __init__(self, console: Console, settings: Config | Grid) -> None:
        self._console, singles = console, single_runs(settings)
        self._several_seeds = len({single.seed for single in singles}) > 1
        self._rounds_left = settings.rounds * len(singles)
        self._rounds_done = 0
        self._started = time.monotonic()
        self._progress = RichProgress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]:<42}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bars = {
            single.run_name: self._progress.add_task(
                self._title(single), total=settings.rounds, start=False, news="waiting"
            )
            for single in singles
        }
        self._whole = self._progress.add_task("all runs", total=self._rounds_left, news="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def begin(self, config: Config, rounds_done: int) -> None:
        bar = self._bars[config.run_name]
        self._progress.start_task(bar)
        self._progress.update(bar, completed=rounds_done, news=_first_news(config, rounds_done))
        self._rounds_left -= rounds_done
        self._progress.advance(self._whole, rounds_done)
        if rounds_done and not self._console.is_terminal:
            self._console.print(
                f"{self._title(config)}: {rounds_done} of {config.rounds} rounds already done"
            )

    def round_done(self, config: Config, info: RoundInfo) -> None:
        news = _news(info.scores, float(device_scores(info.scores).mean()), info.uploads)
        self._progress.update(self._bars[config.run_name], completed=info.round, news=news)
        self._rounds_done += 1
        self._rounds_left -= 1
        self._progress.update(self._whole, advance=1, news=f"{self._time_left()} left")
        if not self._console.is_terminal:
            place = f"round {info.round}/{config.rounds}"
            self._console.print(
                f"{self._title(config)}: {place}, {news}, {self._time_left()} left", highlight=False
            )

    def end(self, result: RunResult) -> None:
        scores = result.summary["scores"]
        news = _news(scores, scores["mean"], result.summary["uploads"])
        self._progress.update(self._bars[result.config.run_name], news=news)

    def _time_left(self) -> str:
        """Return the time left for all runs, from the pace so far."""
        pace = (time.monotonic() - self._started) / self._rounds_done
        left = round(pace * self._rounds_left)
        return f"{left // 60} min {left % 60:02d} s" if left >= 60 else f"{left} s"

    def _title(self, config: Config) -> str:
        title = escape(get_protocol(config.protocol).title)
        return f"{title} s{config.seed}" if self._several_seeds else title


def _news(scores: dict[str, Any], mean: float, uploads: Mapping[str, Any]) -> str:
    metric = metric_of(scores)
    delivered = f"{uploads['delivered']}/{uploads['attempted']}" if uploads["attempted"] else "none"
    return f"mean {metric.name} {metric.text(mean)}, uploads {delivered}"


MOST_ROWS = 16
HEADINGS = ("running", "where", "round", "try")


class TableBoard(Board):
    """A live table of jobs: running, waiting, failed, and the time left."""

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

    def show(self, progress: SweepProgress) -> None:
        if self._shows:
            table = running_table(progress, self._console.width)
            self._live.update(Group(table, Text(counts(progress))))

    def ended(self, track: Track, progress: SweepProgress) -> None:
        """Print a line, except for a run that succeeds on a terminal."""
        reason = f"failed: {track.reason}" if track.status == "failed" else ""
        if self._shows:
            if reason:
                self.note(f"{track.job.name}: {reason}")
            return
        line = f"{track.job.name}: {reason or track.status}; {counts(progress)}"
        self._console.print(escape(line), highlight=False)

    def note(self, line: str) -> None:
        self._console.print(f"[yellow]note[/]: {escape(line)}", highlight=False)


def counts(progress: SweepProgress) -> str:
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
    """A duration as hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def running_table(progress: SweepProgress, width: int) -> Table:
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
