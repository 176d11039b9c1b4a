"""Progress of a grid of runs: a bar for the grid, with the time left, and one for the run."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from mix2fld.cli.progress import Bars, percent
from mix2fld.config import Config
from mix2fld.reproduction.experiments import Cell, Experiment, Scale
from mix2fld.reproduction.grid import GridWatcher, cells_of, total_work
from mix2fld.round.info import RoundInfo
from mix2fld.runs.results import RunResult


class GridProgress(Bars, GridWatcher):
    """Bars on a terminal; elsewhere a line for every finished run."""

    def __init__(self, console: Console, experiments: Sequence[Experiment], scale: Scale) -> None:
        self._console = console
        self._runs = len(cells_of(experiments)) * len(scale.seeds)
        self._total = total_work(experiments, scale)
        self._seen: set[tuple[str, str]] = set()
        self._done = self._computed = 0
        self._again = self._resumed = False
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description:<34}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[news]:<34}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._whole = self._progress.add_task("all runs", total=self._total, news="")
        self._one = self._progress.add_task("", total=None, news="")
        self._cell = ""

    def run_begins(self, cell: Cell, config: Config) -> None:
        """Name the run; one shared by two experiments counts once."""
        place = (cell.key, config.run_name)
        self._again = place in self._seen
        self._seen.add(place)
        self._cell = f"{cell.key} s{config.seed[0]}"

    def begin(self, config: Config, rounds_done: int) -> None:
        """Show the rounds already done."""
        self._resumed = rounds_done >= config.rounds
        if not self._again:
            self._done += rounds_done * config.data.devices
        self._progress.update(
            self._one, description=self._cell, completed=rounds_done, total=config.rounds, news=""
        )
        self._progress.update(self._whole, completed=self._done, news=self._left())

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Advance both bars."""
        self._done += config.data.devices
        self._computed += config.data.devices
        news = f"accuracy {percent(info.accuracy['reference'])}"
        self._progress.update(self._one, completed=info.round, news=news)
        self._progress.update(self._whole, completed=self._done, news=self._left())

    def end(self, result: RunResult) -> None:
        """Print the result, except on a terminal."""
        if self._console.is_terminal or self._resumed:
            return
        accuracy = result.summary["accuracy"]["mean"]
        self._console.print(
            f"{self._cell}: accuracy {percent(accuracy)}; {self._left()}",
            highlight=False,
            soft_wrap=True,
        )

    def _left(self) -> str:
        """Return runs done and time left, from the pace of this command so far."""
        runs = f"{len(self._seen)}/{self._runs} runs"
        if not self._computed:
            return runs
        pace = (time.monotonic() - self._started) / self._computed
        left = round(pace * max(0, self._total - self._done))
        return f"{runs}, {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"
