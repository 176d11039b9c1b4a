"""A trial on one machine: Flower's real processes on loopback, one SuperNode for each device."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mix2fld.config import Config
from mix2fld.data import device_parts, measured_samples
from mix2fld.data.files import writing
from mix2fld.data.locks import FolderLock
from mix2fld.deploy.diary import last_words
from mix2fld.deploy.federation import Federation
from mix2fld.deploy.identity import claim, finished_run
from mix2fld.deploy.proxy import largest_request
from mix2fld.deploy.settings import Settings
from mix2fld.errors import InputError
from mix2fld.round.info import RoundInfo
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher
from mix2fld.runs.records import read_records
from mix2fld.runs.results import RunResult
from mix2fld.types import Dataset

STATUS_SECONDS = 30.0


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
    test_inputs, test_labels = measured_samples(dataset, config)
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        file,
        train_inputs=dataset.train_inputs[part],
        train_labels=dataset.train_labels[part],
        test_inputs=test_inputs,
        test_labels=test_labels,
        **_recorded(dataset),
    )


def _recorded(dataset: Dataset) -> dict[str, Any]:
    """How float samples are stored, which a device compares with what the server says."""
    names = ("value_range", "mean", "std") if dataset.value_range is not None else ()
    return {name: np.array(getattr(dataset, name)) for name in names}


@contextmanager
def local_federation(
    folder: Path, files: Sequence[Path], own_modules: bool = False, largest_body: int | None = None
) -> Iterator[Federation]:
    """A SuperLink with a SuperNode for each device's file; they end with the block.

    With ``own_modules`` they find modules in the working folder, such as the one of a model. With
    ``largest_body`` nodes connect through a proxy, which refuses larger requests.
    """
    with Federation(folder, python_path=Path.cwd() if own_modules else None) as federation:
        federation.start_superlink()
        if largest_body is not None:
            federation.start_proxy(largest_body, len(files))
        federation.register(range(len(files)))
        for device, file in enumerate(files):
            federation.start_node(device, node_config(file))
        yield federation


def node_config(samples: Path) -> dict[str, str]:
    """Where a device finds its samples and keeps its state."""
    samples = samples.resolve()
    return {"data": str(samples), "state": str(samples.parent / "state")}


class Trial(NamedTuple):
    """How a trial is done."""

    timeout_s: float
    """Seconds after which a round continues without the missing answers."""
    overwrite: bool = False
    """Whether existing runs are replaced."""
    proxy: bool = False
    """Whether nodes connect through the proxy, as in a deployment that is closed."""


def run_locally(
    config: Config, out: Path, dataset: Dataset, watcher: Watcher, trial: Trial
) -> list[RunResult]:
    """Run every run of a config with real processes; finished ones stay as they are."""
    config, results = with_absolute_paths(config).replace(computing_time="measured"), []
    with alone_in(out / "flower"):
        for single in config.single_runs():
            if trial.overwrite:
                forget(out / single.run_name)
            claim(out / single.run_name, single)
        for seed in config.seed:
            results += _run_seed(config.replace(seed=seed), out, dataset, watcher, trial)
    return results


def _run_seed(
    config: Config, out: Path, dataset: Dataset, watcher: Watcher, trial: Trial
) -> list[RunResult]:
    """The runs of one seed, with one federation."""
    folder, results = out / "flower" / f"s{config.seed[0]}", []
    singles = config.single_runs()
    if trial.overwrite:
        shutil.rmtree(folder, ignore_errors=True)
    files = write_device_files(folder, singles[0], dataset)
    own_modules = ":" in config.learning.model
    largest = largest_request(config) if trial.proxy else None
    with local_federation(folder, files, own_modules, largest) as federation:
        for single in singles:
            settings = Settings(single, out.resolve(), trial.timeout_s, wait_s=trial.timeout_s)
            results.append(follow_run(federation, settings, watcher))
    for file in files:
        shutil.rmtree(file.parent)
    return results


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have the folder of Flower's files for this process alone."""
    lock = FolderLock(folder)
    with writing("out", folder.parent):
        folder.mkdir(parents=True, exist_ok=True)
        alone = lock.take()
    if not alone:
        raise InputError(
            f"out = {folder.parent}: another process is writing this run; wait until it is done, "
            "or name another folder"
        )
    try:
        yield
    finally:
        lock.give_back()


def with_absolute_paths(config: Config) -> Config:
    """The config as processes with another working folder need it."""
    paths: dict[str, str | Path] = {}
    if config.data.data_folder is not None:
        paths["data_folder"] = config.data.data_folder.expanduser().resolve()
    if Path(config.data.dataset).is_file():
        paths["dataset"] = str(Path(config.data.dataset).resolve())
    if config.radio.trace is not None:
        paths["trace"] = config.radio.trace.expanduser().resolve()
    return config.replace(**paths)


def follow_run(federation: Federation, settings: Settings, watcher: Watcher) -> RunResult:
    """Start a run, tell the watcher about its rounds, and return its result."""
    config, path = settings.config, settings.out / settings.config.run_name
    identity = claim(path, config)
    told, spoken = len(_rounds(path)), len(last_words(RunFiles(path).diary))
    run = federation.run(settings.as_run_config())
    watcher.begin(config, told)
    asked = time.monotonic()
    while (result := finished_run(path, config, identity)) is None:
        time.sleep(0.2)
        told = _tell(path, told, config, watcher)
        if words := last_words(RunFiles(path).diary)[spoken:]:
            raise InputError(words[-1])
        if time.monotonic() > asked + STATUS_SECONDS:
            asked = time.monotonic()
            ended = federation.status(run).startswith("finished")
            if ended and finished_run(path, config, identity) is None:
                raise InputError(f"the run ended early; see {federation.logs}")
    _tell(path, told, config, watcher)
    watcher.end(result)
    return result


def _tell(path: Path, told: int, config: Config, watcher: Watcher) -> int:
    rounds = _rounds(path)
    for info in rounds[told:]:
        watcher.round_done(config, info)
    return len(rounds)


def _rounds(path: Path) -> list[RoundInfo]:
    """The rounds that are on disk; a last line that is still being written is left for later."""
    return [RoundInfo(**fields) for fields in read_records(RunFiles(path).rounds).rounds]


def forget(path: Path) -> None:
    """Remove a deployed run, and only the files of one."""
    RunFolder(path).clear()
    for file in (RunFiles(path).identity, RunFiles(path).diary):
        file.unlink(missing_ok=True)
