"""The cells of experiments as jobs of a sweep; finished runs are read, not run again."""

from collections.abc import Iterable
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.protocols.table import single_runs
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.results import RunResult
from mix2fld.sweep.jobs import Job
from mix2fld.sweep.schedule import Board, RunPlace, run_jobs
from mix2fld_lab.reproduction.cell_records import Recorded
from mix2fld_lab.reproduction.experiments import Cell, Experiment, Scale

NOTHING: Recorded = {}


def cells_of(experiments: Iterable[Experiment]) -> list[Cell]:
    """Their cells, each once."""
    return list({cell.key: cell for each in experiments for cell in each.cells}.values())


def jobs_of(
    experiments: Iterable[Experiment], scale: Scale, out: Path, recorded: Recorded = NOTHING
) -> list[Job]:
    """The runs of their cells, each once, without those that are recorded."""
    return [
        Job(out / cell.key / single.run_name, single, f"{cell.key} s{single.seed}")
        for cell in cells_of(experiments)
        for single in _missing(cell, scale, recorded)
    ]


def run_experiments(
    experiments: Iterable[Experiment],
    scale: Scale,
    out: Path,
    place: RunPlace,
    *,
    recorded: Recorded = NOTHING,
    retries: int = 1,
    board: Board | None = None,
) -> None:
    """Run all that is not recorded into a folder; raises ``InputError`` if some run is missing."""
    jobs = jobs_of(experiments, scale, out, recorded)
    progress = run_jobs(jobs, place, retries=retries, board=board)
    failed = progress.of("failed")
    if failed:
        first = failed[0]
        raise InputError(
            f"{len(failed)} of {len(progress.tracks)} runs failed, such as {first.job.name}: "
            f"{first.reason}; the same command tries them again"
        )


def results_of(
    experiment: Experiment, scale: Scale, out: Path, recorded: Recorded = NOTHING
) -> dict[str, list[RunResult]]:
    """The finished runs of every cell, by its key, without those that are recorded."""
    return {
        cell.key: [
            _finished(out / cell.key / single.run_name)
            for single in _missing(cell, scale, recorded)
        ]
        for cell in experiment.cells
    }


def _missing(cell: Cell, scale: Scale, recorded: Recorded) -> list[Config]:
    """The runs of a cell that are not recorded."""
    known = recorded.get(cell.key, {})
    return [one for one in single_runs(cell.grid(scale)) if one.seed not in known]


def _finished(path: Path) -> RunResult:
    result = RunFolder(path).finished()
    if result is None:
        raise InputError(f"{path}: is not finished; the same command resumes it")
    return result
