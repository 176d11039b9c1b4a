"""Finished runs together, with a face for notebooks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.tasks.metric import metric_of

if TYPE_CHECKING:
    import pandas as pd

    from mix2fld.runs.model import TrainedModel
    from mix2fld.runs.reader import Rows
    from mix2fld.runs.trained import FinalWeights, NamedWeights


@dataclass(frozen=True)
class DeviceResult:
    """A device at the end of a run."""

    number: int
    find: "Callable[[], FinalWeights]" = field(repr=False, compare=False)

    @property
    def weights(self) -> "NamedWeights":
        """Its model: every weight by the name that the model gives it."""
        return self.find().device_weights(self.number)

    @property
    def model(self) -> "TrainedModel":
        """The model that it has now: the last one that it received, or trained itself."""
        from mix2fld.runs.model import TrainedModel

        return TrainedModel.of(self.find(), self.weights)


@dataclass(frozen=True)
class RunResult:
    """One finished run: its config, its rounds as recorded, its summary, its trained model."""

    config: Config
    rounds: list[dict[str, Any]]
    summary: dict[str, Any]
    find: "Callable[[], FinalWeights] | None" = field(default=None, repr=False, compare=False)
    """Where its weights are."""

    @property
    def trained(self) -> "FinalWeights":
        """The trained models of the run."""
        if self.find is None:
            raise InputError(f"{self.config.run_name}: its weights were not kept")
        return self.find()

    @property
    def weights(self) -> "NamedWeights":
        """The server's trained model: every weight by the name that the model gives it."""
        return self.trained.server_weights()

    @property
    def model(self) -> "TrainedModel":
        """The server's trained model: ``predict``, ``predict_proba``, ``state_dict``, ``save``."""
        from mix2fld.runs.model import TrainedModel

        trained = self.trained
        return TrainedModel.of(trained, trained.server_weights(), self.summary)

    @property
    def devices(self) -> Sequence[DeviceResult]:
        """Its devices, each with the model that it has now."""
        count = self.config.data.devices
        return [DeviceResult(device, lambda: self.trained) for device in range(count)]

    def frame(self, rows: "Rows" = "rounds") -> "pd.DataFrame":
        """The run as a table, like that of ``mix2fld.load_runs``."""
        return Results([self]).frame(rows)

    def _repr_html_(self) -> str:
        """A table and a picture, in a notebook."""
        from mix2fld.report.html import results_html

        return results_html([self])


class Results(list[RunResult]):
    """The runs of a config: a list that a notebook shows as a table and a picture."""

    def frame(self, rows: "Rows" = "rounds") -> "pd.DataFrame":
        """These runs as a table, like that of ``mix2fld.load_runs``."""
        from mix2fld.runs.reader import LoadedRun, frame_of

        runs = [
            LoadedRun(Path(r.config.run_name), r.config, r.rounds, True, stored_summary=r.summary)
            for r in self
        ]
        return frame_of(runs, rows)

    def __repr__(self) -> str:
        lines = [f"{r.config.run_name}: {_reached(r.summary['scores'])}" for r in self]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from mix2fld.report.html import results_html

        return results_html(self) if self else "no runs"


def _reached(scores: dict[str, Any]) -> str:
    metric = metric_of(scores)
    return f"{metric.name} {metric.text(scores['mean'])}"
