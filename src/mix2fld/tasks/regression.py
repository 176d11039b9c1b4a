"""Regression: one or several numbers for each sample, standardised; groups are bins of the first.

FD averages outputs in each bin as it does for each label. Mixup is linear, so that a mix of samples
has the mix of their numbers as its target, and inverse-Mixup unmixes both alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.bins import BINS, bin_edges, bins_of
from mix2fld.tasks.base import Sums, Task, no_better_than_mean
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.metric import Metric
from mix2fld.types import Inputs, NumberLoss, Statistics, Tensors

if TYPE_CHECKING:
    from mix2fld.config.settings import CommonSettings
    from mix2fld.dataset import Dataset
    from mix2fld.tasks.features import Features

SHOWN_DIGITS = 4
"""Significant digits with which an error as large as a target's deviation is shown."""


@dataclass(frozen=True)
class Regression(Task):
    """T numbers for each sample, in units of their standard deviation for the loss."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    edges: tuple[float, ...] = ()
    """Of the bins, in these units: quantiles of the training targets; the server announces them."""
    form: str = "huber"
    """Of the loss: squared, absolute or huber."""
    baselines: tuple[tuple[str, float], ...] = ()

    name = "regression"
    has_closed_form: ClassVar[bool] = True
    bounds = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        """An output for each number, and a group for each bin."""
        decimals = SHOWN_DIGITS - 1 - math.floor(math.log10(max(self.std)))
        digits = min(max(decimals, 0), 9)
        fields = {
            "metric": Metric("RMSE", better="lower", digits=digits),
            "further": (Metric("MAE", better="lower", digits=digits), Metric("R²", digits=3)),
            "outputs": len(self.mean),
            "numbers": len(self.mean),
            "groups": len(self.edges) + 1,
            "announces": self.edges,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def outputs_wanted(self) -> str:
        """One for each number of a target."""
        count = len(self.mean)
        return f"each target is {count} numbers" if count > 1 else "each target is one number"

    @classmethod
    def of(cls, dataset: "Dataset", settings: "CommonSettings | None" = None) -> "Regression":
        """The task of a dataset with numbers as targets."""
        values = dataset.train_values.reshape(len(dataset.train_values), -1).astype(np.float64)
        mean, std = values.mean(axis=0), values.std(axis=0)
        if std.min() == 0:
            number = int(std.argmin())
            raise InputError(
                field="train_targets",
                hint=f"number {number} of a target is {values[0, number]:g} in every training "
                "sample; leave it out",
            )
        bins = BINS if settings is None else settings.data.target_bins
        task = cls(
            tuple(mean.tolist()),
            tuple(std.tolist()),
            tuple(bin_edges((values - mean) / std, bins).astype(np.float32).tolist()),
            "huber" if settings is None else settings.learning.target_loss,
        )
        tests = task.targets(dataset.test_values)
        known = {"mean": np.zeros_like(tests)}
        for name, predicted in dataset.test_baselines.items():
            known[name] = task.targets(predicted)
        errors = tuple(
            (name, task.measure(np.asarray(task.score(guess, tests)), len(tests)))
            for name, guess in known.items()
        )
        return replace(task, baselines=errors)

    def targets(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Numbers standardised by the training targets."""
        rows = np.asarray(values, np.float64).reshape(len(values), -1)
        return ((rows - np.array(self.mean)) / np.array(self.std)).astype(np.float32)

    def in_units(self, outputs: NDArray[np.float32]) -> NDArray[Any]:
        """Numbers [n, T] as they are in the data."""
        return outputs.astype(np.float64) * np.array(self.std) + np.array(self.mean)

    def labels(self, values: NDArray[Any]) -> NDArray[np.int32]:
        """The bin of each number."""
        return bins_of(self.targets(values), self.edges)

    def group_of(self, targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """One of the bins; a mix belongs to that of its own target."""
        return np.eye(self.groups, dtype=np.float32)[bins_of(targets, self.edges)]

    def loss(self, outputs: Any, targets: Any) -> Any:
        """The mean over numbers and batch, in JAX and in PyTorch."""
        return self._of(outputs - targets).mean()

    def torch_loss(self, outputs: Any, targets: Any) -> Any:
        """The loss as a PyTorch function."""
        return self.loss(outputs, targets)

    def _of(self, errors: Any) -> Any:
        size = abs(errors)
        if self.form == "absolute":
            return size
        near = size if self.form == "squared" else size.clip(max=1)
        return near * (size - near / 2)

    def local_loss(self, asked: Loss) -> Loss:
        """With distillation, beta times the loss of the mean output of the target's bin is added.

        The zero row of an unknown output switches it off for that bin.
        """
        plain = super().local_loss(asked)
        if asked.custom is not None:
            return plain
        known = replace(plain, distils=asked.distils, numbers=NumberLoss(self.form, self.edges))
        return replace(known, taught=self._distilled) if asked.distils else known

    def _distilled(self, outputs: Any, targets: Any, teacher: Any, weight: float) -> Any:
        taught = teacher[sum((targets[:, 0] >= edge) * 1 for edge in self.edges)]
        known = (taught != 0).any(axis=1, keepdims=True)
        return self.loss(outputs, targets) + weight * (known * self._of(outputs - taught)).mean()

    def score(self, outputs: NDArray[np.float32], targets: NDArray[np.float32]) -> Sums:
        """Squared and absolute errors in units of the data; target sums, for R²."""
        std, known = np.array(self.std), targets.astype(np.float64)
        errors = (outputs.astype(np.float64) - known) * std
        parts = (errors**2, np.abs(errors), known, known**2)
        return np.concatenate([part.sum(axis=0) for part in parts])

    def measure(self, sums: Sums, samples: int) -> float:
        """RMSE."""
        squared, _, _, _ = np.split(sums, 4)
        return float(np.sqrt(squared.mean() / samples))

    def measure_further(self, sums: Sums, samples: int) -> tuple[float, ...]:
        """MAE and R²; the latter is 0 where test targets do not differ."""
        squared, absolute, first, second = np.split(sums, 4)
        spread = (np.array(self.std) ** 2 * (second - first**2 / samples)).sum()
        explained = 1 - squared.sum() / spread if spread > 0 else 0.0
        return float(absolute.mean() / samples), float(explained)

    def measure_statistics(
        self, features: "Features", inputs: Inputs, values: NDArray[Any]
    ) -> Statistics:
        """Count, sums and scatter of features and targets together."""
        from mix2fld.tasks.ridge import measure_statistics

        return measure_statistics(features, inputs, self.targets(values))

    def closed_form(self, features: "Features", statistics: Sequence[Statistics]) -> Tensors:
        """Ridge regression on the features."""
        from mix2fld.tasks.ridge import closed_form_network

        return closed_form_network(features, statistics, self.numbers)

    def as_fields(self) -> dict[str, Any]:
        """How targets are standardised, the bins and the loss."""
        return {"mean": self.mean, "std": self.std, "edges": self.edges, "form": self.form}

    def doubt(self, value: float) -> str | None:
        """An error not below that of predicting the mean of the training targets."""
        return no_better_than_mean(self.metric, dict(self.baselines), value)
