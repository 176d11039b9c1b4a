"""Simulates every run of a config, in memory or into a folder from which it can be resumed."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mix2fld.base.errors import DamagedError, InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import fingerprint, load_dataset
from mix2fld.engine.attackers import check_attack
from mix2fld.engine.checks import check_learns, few_bits, suited
from mix2fld.engine.fleet_interface import Fleet
from mix2fld.engine.fleets.device_states import DeviceStates, StatesInMemory
from mix2fld.engine.fleets.local import LocalFleet
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.engine.plan import plan_transfers
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.state import RunState
from mix2fld.engine.uploads import check_exchange
from mix2fld.engine.wire import check_mixable
from mix2fld.links import Link, make_link
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.runs.afterwards import Afterwards
from mix2fld.runs.finetuned import Tuned
from mix2fld.runs.folder import AS_IN_CONFIG, RunFolder, sample_record
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import ProgressLine, Watcher, run_rounds
from mix2fld.runs.results import Results, RunResult
from mix2fld.runs.state_files import StatesInFiles
from mix2fld.runs.trained import FORM, FinalWeights, form_of
from mix2fld.tasks.base import Task
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.table import task_for
from mix2fld.types import Dataset, Model, State

MakeFleet = Callable[[Scenario, Dataset, Model | None, DeviceStates], Fleet]
"""Where the devices of a run live; the model is None where the config names it."""


def in_this_process(
    scenario: Scenario, dataset: Dataset, model: Model | None, states: DeviceStates
) -> Fleet:
    """All devices in this process."""
    del model
    return LocalFleet(scenario, dataset, states)


class Overrides(NamedTuple):
    """What takes the place of what the config names, and of this process."""

    model: Model | None = None
    link: Link | None = None
    fleet: MakeFleet = in_this_process
    task: Task | None = None


def run(
    settings: Config | Grid,
    out: str | Path | None = None,
    *,
    dataset: Dataset | None = None,
    model: Model | None = None,
    link: Link | None = None,
    task: Task | None = None,
    fleet: MakeFleet = in_this_process,
    watcher: Watcher | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Results:
    """Simulate the run of a config, or one run for each protocol and seed of a grid.

    With ``out`` each run is kept in ``out/<protocol>-s<seed>/``, and one that already exists is
    resumed; all folders are created first, so that ``out`` shows which runs are missing.
    ``dataset``, ``model`` and ``link`` replace what the config names; ``task`` says what is learned
    where that is not the label of each sample; ``fleet`` says where devices run, which changes no
    result (``mix2fld.engine.fleets.ray_fleet`` has another). ``progress`` shows a line or
    none; by default on a terminal and in a notebook. All folders are locked from the start
    until their run is done.
    """
    samples = load_dataset(settings.data) if dataset is None else dataset
    learned = task_for(samples, task, settings)
    singles = [suited(single, learned) for single in single_runs(settings)]
    for single in singles:
        row = get_protocol(single.protocol)
        check_mixable(row, samples.samples)
        check_learns(single.protocol, row, learned)
    shown = ProgressLine.wanted() if progress is None else progress
    told = watcher or (ProgressLine() if shown else Watcher())
    own = Overrides(model, link, fleet, task)
    for note in samples.notes:
        told.note(note)
    with ExitStack() as locks:
        folders: Sequence[RunFolder | None] = [None] * len(singles)
        if out is not None:
            folders = _prepared(singles, Path(out), overwrite, told, locks)
        return Results(
            _simulate(single, folder, samples, own, told)
            for single, folder in zip(singles, folders, strict=True)
        )


def resume_run(
    path: Path, dataset: Dataset | None = None, watcher: Watcher | None = None
) -> RunResult:
    """Run what is missing of the run in a folder, by the config that is in there."""
    config = RunFolder(path).config()
    samples = load_dataset(config.data) if dataset is None else dataset
    told = watcher or Watcher()
    _refuse_deployed(path)
    with RunFolder(path, told.note) as folder:
        return _simulate(config, folder, samples, Overrides(), told)


def prepare_runs(
    settings: Config | Grid, out: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Make a folder for every run, all or none."""
    with ExitStack() as locks:
        folders = _prepared(single_runs(settings), Path(out), overwrite, Watcher(), locks)
        return [folder.path for folder in folders]


def _prepared(
    singles: Sequence[Config], out: Path, overwrite: bool, watcher: Watcher, locks: ExitStack
) -> list[RunFolder]:
    """The folders of these runs, made and locked, all or none."""
    folders = [
        locks.enter_context(RunFolder(out / single.run_name, watcher.note)) for single in singles
    ]
    for folder, single in zip(folders, singles, strict=True):
        _refuse_deployed(folder.path)
        if overwrite:
            folder.check_replaceable()
        else:
            folder.check(single)
    for folder, single in zip(folders, singles, strict=True):
        if overwrite:
            folder.clear()
        folder.prepare(single)
    return folders


class Simulation(NamedTuple):
    """A run with all devices in this process."""

    scenario: Scenario
    fleet: LocalFleet

    def start(self) -> RunState:
        """The state before the first round."""
        return start_run(self.scenario, self.fleet)

    def run_round(self, state: RunState) -> tuple[RunState, RoundInfo]:
        """One global update."""
        return run_round(self.scenario, self.fleet, state)


def make_simulation(
    config: Config,
    dataset: Dataset,
    model: Model | None = None,
    link: Link | None = None,
    task: Task | None = None,
) -> Simulation:
    """The simulation of a config."""
    config = suited(config, task_for(dataset, task, config))
    scenario = make_scenario(config, dataset, model, link, task)
    return Simulation(scenario, LocalFleet(scenario, dataset, _device_states(config)))


def make_scenario(
    config: Config,
    dataset: Dataset,
    model: Model | None = None,
    link: Link | None = None,
    task: Task | None = None,
) -> Scenario:
    """What is fixed for the whole run of a config."""
    learned, protocol = task_for(dataset, task, config), get_protocol(config.protocol)
    check_learns(config.protocol, protocol, learned)
    scenario = Scenario(
        make_learning(config, dataset.samples, learned, model),
        protocol,
        link or make_link(config, config.data.devices),
    )
    check_attack(scenario)
    check_exchange(scenario)
    return scenario


def check(settings: Config | Grid, dataset: Dataset) -> list[str]:
    """Find bad input before anything is written, and say which transfers can never arrive."""
    problems, singles = [], single_runs(settings)
    for single in (one for one in singles if one.seed == singles[0].seed):
        scenario, fleet = make_simulation(single, dataset)
        fleet.check_seeds()
        plans = plan_transfers([single.protocol], scenario.learning, scenario.link)
        problems += [plan.problem for plan in plans if plan.problem]
    return problems


def finished_run(path: Path, dataset: Dataset) -> RunResult | None:
    """The run in a folder, if it is finished, intact and of this dataset."""
    return _finished(RunFolder(path), _made_with(dataset, Overrides()))


def _made_with(dataset: Dataset, own: Overrides) -> dict[str, str]:
    return {
        "data": fingerprint(dataset),
        "link": _kind(own.link),
        "model": _kind(own.model),
        "task": _kind(own.task),
        **sample_record(dataset.samples),
    }


def _simulate(
    config: Config, folder: RunFolder | None, dataset: Dataset, own: Overrides, watcher: Watcher
) -> RunResult:
    made_with = _made_with(dataset, own)
    result = None if folder is None else _finished(folder, made_with)
    if result is not None:
        if own.model is not None or own.task is not None:
            made = partial(make_scenario, config, dataset, own.model, own.link, own.task)
            found = result.trained
            result = replace(result, find=lambda: replace(found, learn=lambda: made().learning))
        watcher.begin(config, len(result.rounds))
        watcher.end(result)
        return result
    scenario = make_scenario(config, dataset, own.model, own.link, own.task)
    if note := few_bits(scenario):
        watcher.note(note)
    states = _device_states(config, folder)
    fleet = own.fleet(scenario, dataset, own.model, states)
    if config.clock.computing_time == "measured":
        run_round(scenario, fleet, start_run(scenario, fleet))  # compiling is not computing
    form = form_of(scenario.learning, dataset)
    if folder is not None:
        folder.made_with["kernel"] = scenario.learning.stepper.name
        folder.made_with[FORM] = json.dumps(form)
        folder.device_states = states

    def learned(state: RunState, tuned: Tuned) -> FinalWeights:
        def state_of(device: int) -> State:
            return states.read(state.devices, [device])[device]

        own = tuned.__getitem__ if tuned else None
        return FinalWeights(
            config, form, state.server.weights, state_of, lambda: scenario.learning, own
        )

    after = Afterwards(scenario, dataset, states)
    return run_rounds(scenario, fleet, folder, watcher, learned, after)


def _device_states(config: Config, folder: RunFolder | None = None) -> DeviceStates:
    """Where what each device has of its own is kept."""
    if config.device_states == "memory":
        return StatesInMemory()
    return StatesInFiles(None if folder is None else folder.path)


def _refuse_deployed(path: Path) -> None:
    """No simulator knows what its devices have."""
    if RunFiles(path).identity.exists():
        raise InputError(
            field="folder",
            value=path,
            hint="holds a run of a deployment; resume it with the command that started it",
        )


def _kind(given: Model | Link | Task | None) -> str:
    """What took the place of what the config names; objects of one class are not told apart."""
    if given is None:
        return AS_IN_CONFIG
    return given.name if isinstance(given, Model | Task) else type(given).__qualname__


def _finished(folder: RunFolder, made_with: dict[str, str]) -> RunResult | None:
    folder.made_with.update(made_with)
    try:
        folder.check_data()
        result = folder.finished()
        if result is not None:
            folder.tidy()
        return result
    except DamagedError:
        return None  # resuming tells what is damaged, and runs it again
