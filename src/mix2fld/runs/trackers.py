"""Follow runs where people already look: TensorBoard, MLflow or Weights & Biases.

All get the metrics of ``metrics_of`` under the same names, with the round as the step. Where a
tracker keeps files, they stand in a folder of its own beside the runs.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config, field_names, setting
from mix2fld.engine.info import RoundInfo
from mix2fld.runs.loop import Watcher
from mix2fld.runs.reader import read_run
from mix2fld.runs.results import RunResult
from mix2fld.runs.summary import metrics_of

Tracker = Literal["tensorboard", "mlflow", "wandb"]
Metrics = dict[str, float]


class Sink(Protocol):
    """Where the metrics of one run go."""

    def log(self, metrics: Metrics, step: int) -> None:
        """The metrics of a round."""

    def close(self, finished: bool) -> None:
        """The run is over, or interrupted."""


class TrackingWatcher(Watcher):
    """Hands every round to a tracker, the earlier ones first."""

    def __init__(self, tracker: Tracker, out: Path) -> None:
        self._open = SINKS[tracker]
        self._out = out
        self._sink: Sink | None = None
        self._rounds: list[dict[str, Any]] = []
        check_installed(tracker)

    def begin(self, config: Config, rounds_done: int) -> None:
        """Open the run, with the rounds of earlier commands."""
        self.close()
        self._sink = self._open(self._out, config)
        there = read_run(self._out / config.run_name)
        for info in there.rounds[:rounds_done] if there else []:
            self._add(info)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Log a round."""
        del config
        self._add(asdict(info))

    def end(self, result: RunResult) -> None:
        """Close the run."""
        del result
        self.close(finished=True)

    def close(self, finished: bool = False) -> None:
        """Close what is open, so that nothing is lost when runs are interrupted."""
        if self._sink is not None:
            self._sink.close(finished)
        self._sink, self._rounds = None, []

    def _add(self, info: dict[str, Any]) -> None:
        self._rounds.append(info)
        if self._sink is not None:
            self._sink.log(metrics_of(self._rounds)[-1], info["round"])


def check_installed(tracker: Tracker) -> None:
    """Raise ``InputError`` if the tracker's package is not there."""
    package = {"tensorboard": "tensorboardX"}.get(tracker, tracker)
    if find_spec(package) is None:
        raise InputError(
            field="track",
            value=f"{tracker!r}",
            hint=f"needs {package}; install it with: pip install 'mix2fld[{tracker}]'",
        )


@contextmanager
def tracked(tracker: Tracker | None, out: Path) -> Iterator[TrackingWatcher | None]:
    """A watcher that is closed whatever happens; None without a tracker."""
    if tracker is None:
        yield None
        return
    watcher = TrackingWatcher(tracker, out)
    try:
        yield watcher
    finally:
        watcher.close()


def flat_settings(config: Config) -> dict[str, str]:
    """Every field of a config by its plain name."""
    return {name: str(setting(config, name)) for name in field_names(Config)}


class _TensorBoard:
    def __init__(self, out: Path, config: Config) -> None:
        from tensorboardX import SummaryWriter

        folder = str(out / "tensorboard" / config.run_name)
        # The rounds that are there already are logged again: this hides them in older files.
        self._writer = SummaryWriter(folder, purge_step=0)
        lines = (f"    {name} = {value}" for name, value in flat_settings(config).items())
        self._writer.add_text("config", "\n".join(lines))

    def log(self, metrics: Metrics, step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        del finished  # it knows no such thing
        self._writer.close()


class _MLflow:
    def __init__(self, out: Path, config: Config) -> None:
        from mlflow.tracking import MlflowClient

        named = os.environ.get("MLFLOW_TRACKING_URI")
        folder = out.resolve()
        self._client = MlflowClient(tracking_uri=named or f"sqlite:///{folder / 'mlflow.db'}")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "mix2fld"
        known = self._client.get_experiment_by_name(name)
        files = None if named else (folder / "mlflow").as_uri()
        number = known.experiment_id if known else self._client.create_experiment(name, files)
        self._run = self._client.create_run(number, run_name=config.run_name).info.run_id
        for field, value in flat_settings(config).items():
            self._client.log_param(self._run, field, value)

    def log(self, metrics: Metrics, step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        entries = [Metric(name, value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=entries)

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._run, status="FINISHED" if finished else "KILLED")


class _Wandb:
    def __init__(self, out: Path, config: Config) -> None:
        import wandb

        folder = out.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "mix2fld",
            name=config.run_name,
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE") or "offline",  # type: ignore[arg-type]
            config=flat_settings(config),
            reinit="finish_previous",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, metrics: Metrics, step: int) -> None:
        self._run.log(metrics, step=step)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


SINKS: dict[Tracker, Callable[[Path, Config], Sink]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _Wandb,
}
