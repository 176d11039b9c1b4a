"""Runs the cells of experiments into a folder; finished runs are read, not run again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from mix2fld.config import Config
from mix2fld.data import load_dataset
from mix2fld.reproduction.experiments import Cell, Experiment, Scale
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult
from mix2fld.runs.simulation import prepare_runs, run
from mix2fld.types import Dataset


class GridWatcher(Watcher):
    """Notified of every run of a grid; does nothing by itself."""

    def run_begins(self, cell: Cell, config: Config) -> None:
        """A run of a cell starts, or already exists."""


def work(config: Config) -> int:
    """The cost of a single run, in rounds of one device."""
    return config.rounds * config.data.devices


def cells_of(experiments: Iterable[Experiment]) -> list[Cell]:
    """Their cells, each once."""
    return list({cell.key: cell for each in experiments for cell in each.cells}.values())


def total_work(experiments: Iterable[Experiment], scale: Scale) -> int:
    """The cost of all their runs."""
    configs = (cell.config(scale) for cell in cells_of(experiments))
    return sum(len(config.seed) * work(config) for config in configs)


def run_experiment(
    experiment: Experiment, scale: Scale, out: Path, watcher: GridWatcher
) -> dict[str, list[RunResult]]:
    """The runs of every cell, by its key; finished ones in ``out`` are only read."""
    for cell in experiment.cells:
        prepare_runs(cell.config(scale), out / cell.key)  # so that mix2fld resume finds them all
    datasets: dict[str, Dataset] = {}
    results = {}
    for cell in experiment.cells:
        config = cell.config(scale)
        name = config.data.dataset
        if name not in datasets:
            datasets[name] = load_dataset(config.data)
        results[cell.key] = _run_cell(cell, config.single_runs(), out, datasets[name], watcher)
    return results


def _run_cell(
    cell: Cell, singles: Sequence[Config], out: Path, dataset: Dataset, watcher: GridWatcher
) -> list[RunResult]:
    results = []
    for config in singles:
        watcher.run_begins(cell, config)
        [done] = run(config, out / cell.key, dataset=dataset, watcher=watcher)
        results.append(done)
    return results
