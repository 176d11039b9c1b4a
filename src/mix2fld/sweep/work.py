"""What whoever runs a job does: one run, from its config to its finished folder."""

from pathlib import Path
from typing import NamedTuple

from mix2fld.base.errors import Mix2fldError
from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import Config
from mix2fld.engine.info import RoundInfo
from mix2fld.runs.loop import Watcher
from mix2fld.runs.simulation import run
from mix2fld.sweep.jobs import Job, dataset_of
from mix2fld.tasks.compilation import keep_compiled_code
from mix2fld.types import Dataset


class Done(NamedTuple):
    """Result of a job."""

    failure: str | None
    """Why it failed, in one line."""
    notes: tuple[str, ...] = ()


class Notes(Watcher):
    """Keeps what a run says, for whoever asked for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Nothing more: rounds are on disk."""


def run_job(job: Job) -> Done:
    """Run a job in this process, into its folder."""
    return run_into(job.folder.parent, job.config, dataset_of(job.config), Notes())


def run_into(out: Path, config: Config, dataset: Dataset, notes: Notes) -> Done:
    """Run what is missing of a run; whatever stops it is its failure, not that of others."""
    keep_compiled_code(cache_folder() / "compiled")
    try:
        run(config, out, dataset=dataset, watcher=notes)
    except Exception as error:
        return Done(reason_of(error), tuple(notes.lines))
    return Done(None, tuple(notes.lines))


def reason_of(error: BaseException) -> str:
    """Why a run failed, in one line."""
    if isinstance(error, MemoryError):
        return " ".join(f"out of memory ({error})".split())
    if isinstance(error, (Mix2fldError, OSError)):
        return " ".join(str(error).split())
    return " ".join(f"internal error, {type(error).__name__}: {error}".split())
