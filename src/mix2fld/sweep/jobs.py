"""A job is one run of many: its config, its folder, how it is run, how long all jobs take."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mix2fld.base.errors import Mix2fldError
from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import Config, DataConfig
from mix2fld.data import load_dataset
from mix2fld.engine.checks import check_learns, suited
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.wire import check_mixable
from mix2fld.protocols.table import get_protocol
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher
from mix2fld.runs.simulation import make_simulation, prepare_runs, run
from mix2fld.tasks.compilation import keep_compiled_code
from mix2fld.tasks.table import task_for
from mix2fld.types import Dataset

PARTITIONED = {
    *("partition", "devices", "samples_per_device", "samples_spread", "rare_labels"),
    *("rare_samples", "dirichlet_alpha", "shards_per_device", "reuse_samples"),
    *("test_samples", "measured_on", "own_tests"),
}
"""Fields that say what becomes of a dataset, not which one it is."""


@dataclass(frozen=True, eq=False)
class Job:
    """One run of many."""

    folder: Path
    config: Config
    """Of a single run."""
    name: str
    """What it is called among the others."""

    @property
    def cost(self) -> int:
        """SGD steps of all devices and of the server."""
        return self.config.rounds * self.round_cost

    @property
    def round_cost(self) -> int:
        """SGD steps of a round."""
        config = self.config
        of_server = get_protocol(config.protocol).configured(config).server_steps
        return config.participants_per_round * config.learning.local_steps + of_server

    def as_run(self) -> Config:
        """The config that its run keeps: without what has no meaning for the task."""
        return suited(self.config, task_for(dataset_of(self.config), None, self.config))

    def rounds_done(self) -> int:
        """Rounds that are on disk."""
        try:
            return RunFiles(self.folder).rounds.read_bytes().count(b"\n")
        except OSError:
            return 0


def dataset_of(config: Config) -> Dataset:
    """The dataset that a config names; what several jobs share is read once."""
    return _loaded(config.data.model_copy(update=_UNPARTITIONED))


def datasets_named(jobs: Iterable[Job]) -> list[DataConfig]:
    """The datasets of all jobs, each once: an axis may name others than the settings that stay."""
    every = (job.config.data.model_copy(update=_UNPARTITIONED) for job in jobs)
    return list(dict.fromkeys(every))


_UNPARTITIONED = {name: DataConfig.model_fields[name].default for name in PARTITIONED}


@lru_cache(maxsize=2)
def _loaded(config: DataConfig) -> Dataset:
    return load_dataset(config)


def prepare_jobs(jobs: Iterable[Job]) -> None:
    """Make the folders of all jobs, after looking whether their data and protocols go together."""
    for job in (jobs := list(jobs)):
        row, dataset = get_protocol(job.config.protocol), dataset_of(job.config)
        check_mixable(row, dataset.samples)
        check_learns(job.config.protocol, row, task_for(dataset, None, job.config))
    for job in jobs:
        prepare_runs(job.as_run(), job.folder.parent)


class JobResult(NamedTuple):
    """Result of a job."""

    failure: str | None
    """Why it failed, in one line."""
    notes: tuple[str, ...] = ()


class Notes(Watcher):
    """Keeps what a run says, for its caller."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Nothing more: rounds are on disk."""


def run_job(job: Job) -> JobResult:
    """Run a job in this process, into its folder."""
    return run_into(job.folder.parent, job.config, dataset_of(job.config), Notes())


def run_into(out: Path, config: Config, dataset: Dataset, notes: Notes) -> JobResult:
    """Run what is missing of a run; whatever stops it is its failure, not that of others."""
    keep_compiled_code(cache_folder() / "compiled")
    try:
        run(config, out, dataset=dataset, watcher=notes)
    except Exception as error:
        return JobResult(reason_of(error), tuple(notes.lines))
    return JobResult(None, tuple(notes.lines))


def reason_of(error: BaseException) -> str:
    """Why a run failed, in one line."""
    if isinstance(error, MemoryError):
        return " ".join(f"out of memory ({error})".split())
    if isinstance(error, (Mix2fldError, OSError)):
        return " ".join(str(error).split())
    return " ".join(f"internal error, {type(error).__name__}: {error}".split())


class JobForecast(NamedTuple):
    """Steps that are missing, and what a measured round says of them."""

    steps: int
    round_steps: int
    """Of the round that was measured."""
    round_seconds: float
    cores: int
    """That it was measured on."""

    def seconds(self, cores: int) -> float:
        """Time of all of them on so many cores, if they are as fast as those of this machine."""
        return self.steps / self.round_steps * self.round_seconds * self.cores / cores


def steps_missing(jobs: Sequence[Job]) -> int:
    """SGD steps of all rounds that are not on disk."""
    return sum((job.config.rounds - job.rounds_done()) * job.round_cost for job in jobs)


def measure(jobs: Sequence[Job], cores: int) -> JobForecast:
    """Run two rounds of the first run in memory; the first one, which compiles, is not counted."""
    first = jobs[0]
    simulation = make_simulation(first.config, dataset_of(first.config))
    state, _ = simulation.run_round(simulation.start())
    started = time.perf_counter()
    simulation.run_round(state)
    seconds = time.perf_counter() - started
    return JobForecast(steps_missing(jobs), first.round_cost, seconds, cores)
