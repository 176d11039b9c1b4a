"""A trial on one machine: Flower's real processes on loopback, one SuperNode for each device."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.deploy.proxy import largest_request
from mix2fld.deploy.settings import Settings
from mix2fld.engine.info import RoundInfo
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher
from mix2fld.runs.records import read_records
from mix2fld.runs.results import RunResult
from mix2fld.types import Dataset
from mix2fld_lab.trials.federation import Federation
from mix2fld_lab.trials.private_network import private_network
from mix2fld_lab.trials.trial import Trial, claim, finished_run, run_trial

STATUS_SECONDS = 30.0
STOPPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d stopped: (.*)")


@contextmanager
def local_federation(
    folder: Path, files: Sequence[Path], own_modules: bool = False,
    largest_body: int | None = None, shared_network: bool = False,
) -> Iterator[Federation]:  # fmt: skip
    """A SuperLink with a SuperNode for each device's file; they end with the block.

    With ``own_modules`` they find modules in the working folder, such as the one of a model. With
    ``largest_body`` nodes connect through a proxy, which refuses larger requests. With
    ``shared_network`` any user of the machine may command the SuperLink.
    """
    modules = Path.cwd() if own_modules else None
    with (
        nullcontext() if shared_network else private_network() as network,
        Federation(folder, modules=modules, network=network) as federation,
    ):
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


def run_locally(
    grid: Grid, out: Path, dataset: Dataset, watcher: Watcher, trial: Trial
) -> list[RunResult]:
    """Run every run of a grid over Flower, with one federation for each seed."""
    own_modules = ":" in grid.learning.model
    largest = largest_request(grid) if trial.proxy else None

    def runs(folder: Path, files: Sequence[Path], settings: Sequence[Settings]) -> list[RunResult]:
        with local_federation(
            folder, files, own_modules, largest, trial.shared_network
        ) as federation:
            return [follow_run(federation, each, watcher) for each in settings]

    return run_trial("flower", grid, out, dataset, trial, runs)


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
            status = federation.status(run)
            ended = status.word.startswith("finished")
            if ended and finished_run(path, config, identity) is None:
                raise InputError(
                    f"the run ended early ({status.details or status.word}); see {federation.logs}"
                )
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


def last_words(path: Path) -> list[str]:
    """Why the server stopped, each time that it did."""
    said = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    return [match.group(1) for line in said if (match := STOPPED.fullmatch(line))]
