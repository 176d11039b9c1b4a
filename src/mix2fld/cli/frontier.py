"""``mix2fld reproduce frontier``: search, measure, draw, conclude."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mix2fld.cli.grid_progress import GridProgress
from mix2fld.reproduction.cell_records import load_records, save_records
from mix2fld.reproduction.frontier.search import (
    choose,
    measured_experiment,
    search_experiment,
    search_scale,
)
from mix2fld.reproduction.frontier.seeds import with_usable_seeds
from mix2fld.reproduction.frontier.settings import SETTINGS
from mix2fld.reproduction.grid import run_experiment

if TYPE_CHECKING:
    from rich.console import Console

    from mix2fld.reproduction.experiments import Experiment, Scale
    from mix2fld.reproduction.results_folder import ResultsFolder


def run_frontier(
    console: "Console", keys: Sequence[str], scale: "Scale", out: Path, folder: "ResultsFolder"
) -> None:
    """Run the settings of those keys, each after the search that it needs."""
    for place, key in enumerate(keys, 1):
        setting = SETTINGS[key]
        console.print(f"{setting.title}: setting {place} of {len(keys)}", highlight=False)
        search = search_experiment(setting.tuned_at)
        tuning = with_usable_seeds(search_scale(scale), SETTINGS[setting.tuned_at])
        _run(console, search, tuning, out, folder)
        choices = choose(load_records(folder.records(search.name)))
        measuring = with_usable_seeds(scale, setting)
        _run(console, measured_experiment(setting, choices), measuring, out, folder)


def write_frontier(folder: "ResultsFolder") -> None:
    """Write the page, its figures, and the table that the adviser reads, from the records."""
    from mix2fld.advice.make_measured import make_measured
    from mix2fld.advice.measured import dump_measured

    folder.write_frontier()
    table = dump_measured(make_measured(folder.frontier_records()))
    folder.measured.write_text(table, encoding="utf-8")


def _run(
    console: "Console", experiment: "Experiment", scale: "Scale", out: Path, folder: "ResultsFolder"
) -> None:
    with GridProgress(console, [experiment], scale) as watcher:
        results = run_experiment(experiment, scale, out, watcher)
    save_records(folder.records(experiment.name), experiment, scale, results)
