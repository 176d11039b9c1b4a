"""Plays every run of a config, in memory or into a folder that can be gone on with."""

from pathlib import Path

from mix2fld.config import Config
from mix2fld.data import load_dataset
from mix2fld.engine import Simulation
from mix2fld.link import Link, make_link
from mix2fld.planning import plan_transfers
from mix2fld.playing import Watcher, play
from mix2fld.protocol import get_protocol
from mix2fld.runs import RunFolder, RunResult
from mix2fld.task import make_task
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
) -> list[RunResult]:
    """Play one run for each protocol and seed of ``config``.

    With ``out`` each run is kept in ``out/<protocol>-s<seed>/``, and one that is there already
    goes on where it stopped. ``dataset``, ``model`` and ``link`` take the place of what the config
    names.
    """
    for name in config.protocols:
        get_protocol(name)
    samples = load_dataset(config.data) if dataset is None else dataset
    if out is not None and not overwrite:
        for single in config.single_runs():
            RunFolder(out / single.run_name).check(single)
    return [
        _play(single, out, samples, model, link, watcher or Watcher(), overwrite)
        for single in config.single_runs()
    ]


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
    out: Path | None,
    dataset: Dataset,
    model: Model | None,
    link: Link | None,
    watcher: Watcher,
    overwrite: bool,
) -> RunResult:
    simulation = make_simulation(config, dataset, model, link)
    folder = None if out is None else RunFolder(out / config.run_name)
    if folder is not None and overwrite:
        folder.clear()
    return play(simulation, folder, watcher)
