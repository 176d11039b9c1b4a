"""Plays every run of a config, in memory or into a folder that can be gone on with."""

from contextlib import ExitStack
from pathlib import Path

from mix2fld.config import Config
from mix2fld.data import fingerprint, load_dataset
from mix2fld.errors import InputError
from mix2fld.fleet.local import Simulation
from mix2fld.learning.task import make_task
from mix2fld.link import Link, make_link
from mix2fld.protocol import get_protocol
from mix2fld.round.plan import plan_transfers
from mix2fld.runs.folder import RunFolder, RunResult
from mix2fld.runs.loop import Watcher, play
from mix2fld.runs.records import DamagedError
from mix2fld.runs.results import Results
from mix2fld.types import Dataset, Model


def run(
    config: Config,
    out: Path | None = None,
    *,
    dataset: Dataset | None = None,
    model: Model | None = None,
    link: Link | None = None,
    watcher: Watcher | None = None,
    overwrite: bool = False,
) -> Results:
    """Play one run for each protocol and seed of ``config``.

    With ``out`` each run is kept in ``out/<protocol>-s<seed>/``, and one that is there already
    goes on where it stopped; all folders are made first, so that ``out`` tells what is still to be
    played. ``dataset``, ``model`` and ``link`` take the place of what the config names.
    """
    for name in config.protocols:
        get_protocol(name)
    samples = load_dataset(config.data) if dataset is None else dataset
    folders = None if out is None else prepare_runs(config, out, overwrite=overwrite)
    return Results(
        _play(single, None if folders is None else folders[number], samples, model, link, watcher)
        for number, single in enumerate(config.single_runs())
    )


def resume_run(
    path: Path, dataset: Dataset | None = None, watcher: Watcher | None = None
) -> RunResult:
    """Play the run in a folder to its end, by the config that is in there."""
    config = RunFolder(path).config()
    samples = load_dataset(config.data) if dataset is None else dataset
    return _play(config, path, samples, None, None, watcher)


def prepare_runs(config: Config, out: Path, *, overwrite: bool = False) -> list[Path]:
    """Make a folder for every run of ``config``, all or none."""
    singles = config.single_runs()
    with ExitStack() as locks:
        folders = [locks.enter_context(RunFolder(out / single.run_name)) for single in singles]
        for folder, single in zip(folders, singles, strict=True):
            if overwrite:
                folder.check_replaceable()
            else:
                folder.check(single)
        for folder, single in zip(folders, singles, strict=True):
            if overwrite:
                folder.clear()
            folder.prepare(single)
        return [folder.path for folder in folders]


def make_simulation(
    config: Config, dataset: Dataset, model: Model | None = None, link: Link | None = None
) -> Simulation:
    """The simulation of a config with one protocol and one seed."""
    return Simulation(
        make_task(config, dataset.sample_shape, dataset.num_labels, model),
        get_protocol(config.protocols[0]),
        dataset,
        link or make_link(config.channel, config.data.devices),
    )


def check(config: Config, dataset: Dataset) -> list[str]:
    """Find bad input before anything is written, and say which transfers can never arrive."""
    problems = []
    for single in config.replace(seed=config.seed[0]).single_runs():
        simulation = make_simulation(single, dataset)
        simulation.check_seeds()
        plans = plan_transfers(single.protocols[0], simulation.task, simulation.link)
        problems += [plan.problem for plan in plans if plan.problem]
    return problems


def _play(
    config: Config,
    path: Path | None,
    dataset: Dataset,
    model: Model | None,
    link: Link | None,
    watcher: Watcher | None,
) -> RunResult:
    watcher = watcher or Watcher()
    if path is not None and (path / "identity").exists():
        raise InputError(
            f"folder = {path}: was played by a deployment; the command that started it goes on"
        )
    made_with = {"data": fingerprint(dataset), "link": _kind(link), "model": _kind(model)}
    result = None if path is None else _finished(path, made_with)
    if result is not None:
        watcher.begin(config, len(result.rounds))
        watcher.end(result)
        return result
    simulation = make_simulation(config, dataset, model, link)
    if path is None:
        return play(simulation, None, watcher)
    made_with["kernel"] = simulation.task.kernel
    with RunFolder(path, watcher.note, made_with) as folder:
        return play(simulation, folder, watcher)


def _kind(given: Model | Link | None) -> str:
    """What took the place of what the config names; objects of one class are not told apart."""
    if given is None:
        return "as in the config"
    return given.name if isinstance(given, Model) else type(given).__qualname__


def _finished(path: Path, made_with: dict[str, str]) -> RunResult | None:
    try:
        folder = RunFolder(path, made_with=made_with)
        result = folder.finished()
        if result is not None:
            folder.check_data()
            folder.tidy()
        return result
    except DamagedError:
        return None  # going on tells what is damaged, and plays it again
