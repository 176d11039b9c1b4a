"""Progress of runs: a bar for each in a terminal, a line for each round elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mix2fld.config import Config
from mix2fld.playing import Watcher
from mix2fld.protocol import get_protocol
from mix2fld.rounds import RoundInfo
from mix2fld.runs import RunResult


class RichWatcher(Watcher):
    """Shows round, accuracy, delivered uploads and time left of every run."""

    def __init__(self, console: Console, config: Config) -> None:
        self._console = console
        self._several_seeds = len(config.seed) > 1
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]:<42}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=3600,
        )
        self._bars = {
            single.run_name: self._progress.add_task(
                self._title(single), total=config.rounds, start=False, news="waiting"
            )
            for single in config.single_runs()
        }

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, config: Config, rounds_done: int) -> None:
        """Start a run's bar."""
        bar = self._bars[config.run_name]
        self._progress.start_task(bar)
        self._progress.update(bar, completed=rounds_done, news="compiling and playing round 1")
        if rounds_done and not self._console.is_terminal:
            self._console.print(f"{self._title(config)}: {rounds_done} rounds are there already")

    def round_played(self, config: Config, info: RoundInfo) -> None:
        """Move a run's bar."""
        news = (
            f"accuracy {info.accuracy['reference']:.4f}, "
            f"uploads {info.uploads['delivered']}/{info.uploads['attempted']}"
        )
        self._progress.update(self._bars[config.run_name], completed=info.round, news=news)
        if not self._console.is_terminal:
            place = f"round {info.round}/{config.rounds}"
            self._console.print(f"{self._title(config)}: {place}, {news}", highlight=False)

    def end(self, result: RunResult) -> None:
        """Show how a run ended."""
        mean = result.summary["accuracy"]["mean"]
        delivered = result.summary["uploads"]["delivered"]
        attempted = result.summary["uploads"]["attempted"]
        news = f"mean accuracy {mean:.4f}, uploads {delivered}/{attempted}"
        self._progress.update(self._bars[result.config.run_name], news=news)

    def _title(self, config: Config) -> str:
        title = get_protocol(config.protocols[0]).title
        return f"{title} s{config.seed[0]}" if self._several_seeds else title
