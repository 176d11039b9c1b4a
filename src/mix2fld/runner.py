"""Plays every run of a config, in memory or into a folder that can be gone on with."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mix2fld.config import Config
from mix2fld.data import load_dataset
from mix2fld.engine import Simulation
from mix2fld.link import Link, make_link
from mix2fld.planning import plan_transfers
from mix2fld.protocol import get_protocol
from mix2fld.rounds import RoundInfo
from mix2fld.runs import RunFolder, RunResult, summarise
from mix2fld.task import make_task
from mix2fld.types import Dataset, Model


class Watcher:
    """Told what happens while runs are played; does nothing by itself."""

    def begin(self, config: Config, rounds_done: int) -> None:
        """A run starts, or goes on after ``rounds_done`` rounds."""

    def round_played(self, config: Config, info: RoundInfo) -> None:
        """A round is over."""

    def end(self, result: RunResult) -> None:
        """A run is over."""


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
    state = simulation.start()
    rounds: list[dict[str, Any]] = []
    folder = None if out is None else RunFolder(out / config.run_name)
    if folder is not None:
        if overwrite:
            folder.clear()
        folder.prepare(config)
        state, rounds = folder.resume(like=state)
    watcher.begin(config, len(rounds))
    while len(rounds) < config.rounds and not (
        config.stop_when_converged and rounds and rounds[-1]["converged"]
    ):
        state, info = simulation.play_round(state)
        if folder is not None:
            folder.append(info, state)
        rounds.append(asdict(info))
        watcher.round_played(config, info)
    kernel = "xla" if simulation.task.learner.kernel is None else "native"
    result = RunResult(config, rounds, summarise(config, rounds, simulation.reference, kernel))
    if folder is not None:
        folder.finish(result.summary)
    watcher.end(result)
    return result
