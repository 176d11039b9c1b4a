"""A trial on one machine, with real processes: what it shares whatever carries the messages."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.base.files import writing
from mix2fld.base.locks import FolderLock
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import device_parts, measured_samples
from mix2fld.deploy.identity import forget, refuse_run_of_simulator, run_identity
from mix2fld.deploy.settings import Settings
from mix2fld.engine.checks import suited
from mix2fld.protocols.table import single_runs
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.results import RunResult
from mix2fld.tasks.table import task_for
from mix2fld.types import Dataset

RunsOfASeed = Callable[[Path, Sequence[Path], Sequence[Settings]], list[RunResult]]
"""Runs one after the other, with processes that are started once: their folder, the file of
samples of each device, and the settings of each run."""


class Trial(NamedTuple):
    """How a trial is done."""

    timeout_s: float
    """Seconds after which a round continues without the missing answers."""
    overwrite: bool = False
    """Whether existing runs are replaced."""
    proxy: bool = False
    """Whether nodes connect through the proxy, as in a deployment that is closed."""
    shared_network: bool = False
    """Whether other users of the machine can reach the processes."""


def run_trial(
    name: str, grid: Grid, out: Path, dataset: Dataset, trial: Trial, runs: RunsOfASeed
) -> list[RunResult]:
    """Run every run of a grid, seed by seed; finished ones stay as they are.

    The files of the processes are in the folder ``name`` below ``out``.
    """
    grid, results = with_absolute_paths(grid).replace(computing_time="measured"), []
    with alone_in(out / name):
        for single in _runs(grid, dataset):
            if trial.overwrite:
                forget(out / single.run_name)
            claim(out / single.run_name, single)
        for seed in grid.seeds:
            folder, singles = out / name / f"s{seed}", _runs(grid.replace(seeds=seed), dataset)
            if trial.overwrite:
                shutil.rmtree(folder, ignore_errors=True)
            files = write_device_files(folder, singles[0], dataset)
            wait = trial.timeout_s
            results += runs(
                folder, files, [Settings(one, out.resolve(), wait, wait_s=wait) for one in singles]
            )
            for file in files:
                shutil.rmtree(file.parent)
    return results


def _runs(grid: Grid, dataset: Dataset) -> list[Config]:
    """The config of each run, as it is kept."""
    return [suited(one, task_for(dataset, None, one)) for one in single_runs(grid)]


def write_device_files(folder: Path, config: Config, dataset: Dataset) -> list[Path]:
    """Each device's samples as an .npz file of its own: those that it has in the simulator."""
    numbers = range(config.data.devices)
    files = [folder / f"device-{device}" / "samples.npz" for device in numbers]
    for device, file in enumerate(files):
        write_device_file(file, config, dataset, device)
    return files


def write_device_file(file: Path, config: Config, dataset: Dataset, device: int) -> None:
    """The samples of one device."""
    part = device_parts(dataset, config)[device]
    test_inputs, test_values = measured_samples(dataset, config)
    kind = "labels" if dataset.train_targets is None else "targets"
    values = {f"train_{kind}": dataset.train_values[part], f"test_{kind}": test_values}
    arrays: dict[str, Any] = {**values, **_recorded(dataset)}
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        file,
        train_inputs=dataset.train_inputs[part],
        test_inputs=test_inputs,
        **arrays,
    )


def _recorded(dataset: Dataset) -> dict[str, Any]:
    """How float samples are stored, which a device compares with what the server says."""
    names = ("value_range", "mean", "std") if dataset.value_range is not None else ()
    return {name: np.array(getattr(dataset, name)) for name in names}


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have the folder of a trial's files for this process alone."""
    lock = FolderLock(folder)
    with writing("out", folder.parent):
        folder.mkdir(parents=True, exist_ok=True)
        alone = lock.take()
    if not alone:
        raise InputError(
            field="out",
            value=folder.parent,
            hint="another process is writing this run; wait until it is done, "
            "or name another folder",
        )
    try:
        yield
    finally:
        lock.give_back()


def with_absolute_paths(grid: Grid) -> Grid:
    """The settings as processes with another working folder need it."""
    paths: dict[str, str | Path] = {}
    if grid.data.data_folder is not None:
        paths["data_folder"] = grid.data.data_folder.expanduser().resolve()
    if Path(grid.data.dataset).is_file():
        paths["dataset"] = str(Path(grid.data.dataset).resolve())
    if grid.radio.trace is not None:
        paths["trace"] = grid.radio.trace.expanduser().resolve()
    return grid.replace(**paths)


def claim(path: Path, config: Config) -> str:
    """Make a folder that of a deployed run, before any process runs it; returns its identity."""
    with RunFolder(path) as folder:
        refuse_run_of_simulator(path)
        folder.prepare(config)
        refuse_run_of_simulator(path)
        return run_identity(path)


def finished_run(path: Path, config: Config, identity: str) -> RunResult | None:
    """The run in a folder if it is finished; raises ``InputError`` if it is not the one claimed."""
    file = RunFiles(path).identity
    if not file.exists() or file.read_text(encoding="ascii") != identity:
        raise InputError(
            field="out", value=path, hint="another run took the place of this one in the folder"
        )
    result = RunFolder(path).finished()
    if result is not None and result.config != config:
        raise InputError(
            field="out", value=path, hint="another config took the place of that of this run"
        )
    return result
