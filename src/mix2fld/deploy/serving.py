"""The server of a deployment: runs a run with remote devices into its folder, or resumes it."""

import json
from collections.abc import Callable, Sequence

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset, measured_samples
from mix2fld.deploy.diary import Say, diary
from mix2fld.deploy.identity import refuse_run_of_simulator, run_identity
from mix2fld.deploy.late_fleet import LateFleet
from mix2fld.deploy.remote_fleet import Nodes, RemoteFleet
from mix2fld.deploy.rollback import Keeper
from mix2fld.deploy.settings import Settings
from mix2fld.engine.checks import check_countable, check_learns, suited
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.one_round import start_run
from mix2fld.engine.scenario import Scenario
from mix2fld.links import IdealLink, Link
from mix2fld.protocols.suspects import in_words
from mix2fld.protocols.table import get_protocol
from mix2fld.runs.fleet_status import rounds_without_upload
from mix2fld.runs.folder import RunFolder, sample_record
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher, run_rounds
from mix2fld.runs.results import RunResult
from mix2fld.runs.trained import FORM, form_of, read_trained
from mix2fld.tasks.compilation import keep_compiled_code
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.stepper import TestSet
from mix2fld.tasks.table import task_for

Connect = Callable[[Scenario, str, Say], Nodes]
"""(what is run, the identity of the run, its diary) -> the devices that can be asked."""


def serve_run(
    settings: Settings,
    connect: Connect,
    watcher: Watcher | None = None,
    link: Link | None = None,
) -> RunResult:
    """Run a run with the devices that it connects to, or what is missing of it in its folder.

    What the network delivers is observed, unless a ``link`` is given that decides it.
    """
    keep_compiled_code(cache_folder() / "compiled")
    dataset = load_dataset(settings.config.data)
    task = task_for(dataset, None, settings.config)
    config = suited(settings.config, task)
    protocol = get_protocol(config.protocol)
    check_countable(config)
    check_learns(config.protocol, protocol, task)
    learning = make_learning(config, dataset.samples, task)
    scenario = Scenario(learning, protocol, link or IdealLink())
    path = settings.out / config.run_name
    refuse_run_of_simulator(path)
    say = diary(RunFiles(path))
    form = json.dumps(form_of(learning, dataset))
    made_with = {**sample_record(dataset.samples), FORM: form}
    with RunFolder(path, say, made_with) as folder:
        folder.prepare(config)
        try:
            tests = TestSet(learning.stepper, learning.task, *measured_samples(dataset, config))
            run = run_identity(path)
            nodes = connect(scenario, run, say)
            kind = LateFleet if scenario.policy.uses_late else RemoteFleet
            fleet = kind(scenario, tests, nodes, run, say)
            _, rounds = folder.resume(like=start_run(scenario, fleet))
            say("", "started", devices=scenario.devices, timeout_s=settings.timeout_s)
            if len(rounds) < config.rounds:
                _wait_for_devices(nodes, settings, say)
            result = run_rounds(
                scenario,
                fleet,
                folder,
                Teller(say, Keeper(path), *([watcher] if watcher else [])),
                lambda *_: read_trained(path, config),
            )
            if link is None:
                check_uploads([result])
            return result
        except Mix2fldError as error:
            say(f"stopped: {error}", "stopped")
            raise


def check_uploads(results: Sequence[RunResult]) -> None:
    """Raise ``InputError`` for a run of a deployment that ended without uploads."""
    for result in results:
        if without := rounds_without_upload(result.rounds):
            since = without[-1]
            raise InputError(
                f"{result.config.run_name}: no upload arrived from round {since} to the end; its "
                "diary.log says why, and --overwrite runs it anew"
            )


def _wait_for_devices(nodes: Nodes, settings: Settings, say: Say) -> None:
    devices = settings.config.data.devices
    found = nodes.wait_for(devices, settings.wait_s)
    say(f"{len(found)} of {devices} devices are connected")
    if not found:
        raise InputError(
            field="wait-s", value=f"{settings.wait_s:g}", hint="no device is connected; start some"
        )


class Teller(Watcher):
    """Says in a line what happened, and tells the other watcher."""

    def __init__(self, say: Say, *watchers: Watcher) -> None:
        self._say, self._watchers = say, watchers

    def begin(self, config: Config, rounds_done: int) -> None:
        """Log that a run starts, or resumes."""
        self._say(f"{config.run_name}: {rounds_done} of {config.rounds} rounds are done")
        for watcher in self._watchers:
            watcher.begin(config, rounds_done)

    def note(self, line: str) -> None:
        """Log it, too."""
        self._say(line)
        super().note(line)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Log a finished round."""
        for suspect in info.suspects:
            words, device = f"round {info.round}: {in_words(suspect)}", suspect["device"]
            self._say(words, "suspect", round=info.round, device=device)
        self._say(
            f"round {info.round} is done: uploads {info.uploads['delivered']} of "
            f"{info.uploads['attempted']}, downloads {info.downloads['delivered']} of "
            f"{info.downloads['attempted']}, {info.seconds['communication']:.1f} s beside "
            f"{info.seconds['computing']:.1f} s of computing",
            "round",
            round=info.round,
        )
        for watcher in self._watchers:
            watcher.round_done(config, info)

    def end(self, result: RunResult) -> None:
        """Log the end of a run."""
        self._say(f"{result.config.run_name}: finished", "finished")
        for watcher in self._watchers:
            watcher.end(result)
