"""The Flower ServerApp: runs a run into its folder, or resumes the run that is in there."""

import logging

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from mix2fld.config import Config
from mix2fld.data import cache_folder, load_dataset, measured_samples
from mix2fld.deploy.diary import Say, diary, one_line
from mix2fld.deploy.flower_fleet import FlowerFleet
from mix2fld.deploy.identity import refuse_run_of_simulator, run_identity
from mix2fld.deploy.nodes import Nodes
from mix2fld.deploy.settings import Settings, read_settings
from mix2fld.errors import InputError
from mix2fld.learning.compilation import keep_compiled_code
from mix2fld.learning.make_task import make_task
from mix2fld.learning.stepper import TestSet
from mix2fld.link import IdealLink
from mix2fld.protocol import get_protocol
from mix2fld.round.checks import check_countable
from mix2fld.round.info import RoundInfo
from mix2fld.round.one_round import start_run
from mix2fld.round.scenario import Scenario
from mix2fld.round.suspects import in_words
from mix2fld.runs.folder import RunFolder, sample_record
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher, run_rounds
from mix2fld.runs.results import RunResult

app = ServerApp()
logger = logging.getLogger("flwr")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run what the run config describes; bad input is an error in one line."""
    try:
        serve(grid, read_settings(context.run_config))
    except InputError as error:
        logger.error("mix2fld: %s", one_line(error))
        logger.addFilter(_without_trace)
        raise  # Flower then has the run fail, with these words


def serve(grid: Grid, settings: Settings) -> RunResult:
    """Run a run with the devices of ``grid``, or what is missing of it in its folder."""
    keep_compiled_code(cache_folder() / "compiled")
    config = settings.config
    protocol = get_protocol(config.protocols[0])
    check_countable(config)
    dataset = load_dataset(config.data)
    task = make_task(config, dataset.samples, dataset.num_labels)
    scenario = Scenario(task, protocol, IdealLink())  # what the network delivers is observed
    path = settings.out / config.run_name
    refuse_run_of_simulator(path)
    say = diary(RunFiles(path).diary)
    with RunFolder(path, say, sample_record(dataset.samples)) as folder:
        folder.prepare(config)
        try:
            tests = TestSet(task.stepper, *measured_samples(dataset, config))
            nodes = Nodes(grid, config.data.devices, settings.timeout_s, say)
            fleet = FlowerFleet(scenario, tests, nodes, run_identity(path), say)
            _, rounds = folder.resume(like=start_run(scenario, fleet))
            if len(rounds) < config.rounds:
                _wait_for_devices(nodes, settings, say)
            return run_rounds(scenario, fleet, folder, Teller(say))
        except InputError as error:
            say(f"stopped: {error}")
            raise


def _wait_for_devices(nodes: Nodes, settings: Settings, say: Say) -> None:
    devices = settings.config.data.devices
    found = nodes.wait_for(devices, settings.wait_s)
    say(f"{len(found)} of {devices} devices are connected")
    if not found:
        raise InputError(f"wait-s = {settings.wait_s:g}: no device is connected; start some nodes")


class Teller(Watcher):
    """Says in a line what happened."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def begin(self, config: Config, rounds_done: int) -> None:
        """A run starts, or resumes."""
        self._say(f"{config.run_name}: {rounds_done} of {config.rounds} rounds are done")

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """A round is over."""
        del config
        for suspect in info.suspects:
            self._say(f"round {info.round}: {in_words(suspect)}")
        self._say(
            f"round {info.round} is done: uploads {info.uploads['delivered']} of "
            f"{info.uploads['attempted']}, downloads {info.downloads['delivered']} of "
            f"{info.downloads['attempted']}, {info.seconds['communication']:.1f} s beside "
            f"{info.seconds['computing']:.1f} s of computing"
        )

    def end(self, result: RunResult) -> None:
        """A run is over."""
        self._say(f"{result.config.run_name}: finished")


def _without_trace(record: logging.LogRecord) -> bool:
    """Keep to one line what Flower's log says of bad input."""
    if record.exc_info and isinstance(record.exc_info[1], InputError):
        record.exc_info = None
    return True
