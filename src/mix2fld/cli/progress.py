"""Progress of runs: a bar for each run on a terminal, a line for each round elsewhere."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.engine.info import RoundInfo
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.runs.loop import Watcher
from mix2fld.runs.metrics import device_scores
from mix2fld.runs.results import RunResult
from mix2fld.tasks.metric import metric_of


class Watchers(Watcher):
    """Forwards to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def note(self, line: str) -> None:
        """Forward to the first only: a note is printed once."""
        self._watchers[0].note(line)

    def begin(self, config: Config, rounds_done: int) -> None:
        """Forward the start of a run."""
        for watcher in self._watchers:
            watcher.begin(config, rounds_done)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Forward the end of a round."""
        for watcher in self._watchers:
            watcher.round_done(config, info)

    def end(self, result: RunResult) -> None:
        """Forward the end of a run."""
        for watcher in self._watchers:
            watcher.end(result)


def _first_news(config: Config, rounds_done: int) -> str:
    return "done" if rounds_done >= config.rounds else f"running round {rounds_done + 1}"


class Bars:
    """Progress bars shown for the duration of a block."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class RichWatcher(Bars, Watcher):
    """Shows round, score, delivered uploads and time left of every run."""

    def __init__(self, console: Console, settings: Config | Grid) -> None:
        self._console, singles = console, single_runs(settings)
        self._several_seeds = len({single.seed for single in singles}) > 1
        self._rounds_left = settings.rounds * len(singles)
        self._rounds_done = 0
        self._started = time.monotonic()
        self._progress = Progress(
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

    def begin(self, config: Config, rounds_done: int) -> None:
        """Start a run's bar."""
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
        """Advance a run's bar."""
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
        """Show the result of a run."""
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
