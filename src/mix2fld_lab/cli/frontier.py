"""``mix2fld reproduce frontier``: search, measure, draw, conclude."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mix2fld_lab.reproduction.cell_records import load_records
from mix2fld_lab.reproduction.frontier.scales import runnable, scale_in
from mix2fld_lab.reproduction.frontier.search import (
    choose,
    measured_experiment,
    search_experiment,
    search_scale,
)
from mix2fld_lab.reproduction.frontier.settings import SETTINGS

if TYPE_CHECKING:
    from rich.console import Console

    from mix2fld_lab.reproduction.experiments import Experiment, Scale
    from mix2fld_lab.reproduction.results_folder import ResultsFolder


def frontier_stages(
    console: "Console", keys: Sequence[str], scale: "Scale", folder: "ResultsFolder"
) -> Iterator[tuple[list["Experiment"], "Scale"]]:
    """What is run for the settings of those keys; a setting needs the records of its search."""
    for place, key in enumerate(keys, 1):
        setting = SETTINGS[key]
        console.print(f"{setting.title}: setting {place} of {len(keys)}", highlight=False)
        search = search_experiment(setting.tuned_at)
        tuning = scale_in(SETTINGS[setting.tuned_at], search_scale(scale))
        yield [runnable(search, tuning)], tuning
        choices = choose(load_records(folder.records(search.name)))
        measuring = scale_in(setting, scale)
        yield [runnable(measured_experiment(setting, choices), measuring)], measuring


def write_frontier(folder: "ResultsFolder") -> None:
    """Write the page, its figures, and the table that the adviser reads, from the records."""
    from mix2fld_lab.reproduction.frontier.make_measured import dump_measured, make_measured

    folder.write_frontier()
    table = dump_measured(make_measured(folder.frontier_records()))
    folder.measured.write_text(table, encoding="utf-8")
