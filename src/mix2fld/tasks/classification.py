"""Classification: the task of the paper, with its losses and their native kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mix2fld.tasks.base import Sums, Task
from mix2fld.tasks.losses import Loss, one_hot
from mix2fld.tasks.metric import ACCURACY
from mix2fld.types import Inputs, Statistics, Tensors

if TYPE_CHECKING:
    from mix2fld.tasks.features import Features

NEAR_CHANCE = 1.25
"""Accuracy up to this many times that of guessing is no better than guessing."""


@dataclass(frozen=True)
class Classification(Task):
    """One of N_L labels for each sample; the groups are the labels."""

    num_labels: int

    name = "classification"
    metric = ACCURACY
    by_label = True
    counts_correct = True
    has_closed_form = True
    bounds = (0.0, 1.0)

    def __post_init__(self) -> None:
        """A logit for each label, each of which is a group."""
        for each in ("outputs", "groups"):
            object.__setattr__(self, each, self.num_labels)

    @property
    def outputs_wanted(self) -> str:
        """A logit for each label."""
        return f"the dataset has {self.num_labels} labels"

    def local_loss(self, asked: Loss) -> Loss:
        """That of the protocol: every stepper has a formula for it."""
        return asked

    def targets(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Label vectors L_n."""
        return one_hot(values, self.num_labels)

    def group_of(self, targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """The label vectors themselves: a soft label belongs to several groups."""
        return targets

    def labels(self, values: NDArray[Any]) -> NDArray[np.int32]:
        """The labels themselves: each is a group."""
        return values

    def score(self, outputs: NDArray[np.float32], targets: NDArray[np.float32]) -> ArrayLike:
        """How many samples get their label."""
        return int((outputs.argmax(axis=1) == targets.argmax(axis=1)).sum())

    def measure(self, sums: Sums, samples: int) -> float:
        """Accuracy: the share of samples that get their label."""
        return float(sums[0]) / samples

    def measure_statistics(
        self, features: "Features", inputs: Inputs, values: NDArray[Any]
    ) -> Statistics:
        """Counts, sums and scatter of features, by label."""
        from mix2fld.tasks.class_statistics import measure_statistics

        return measure_statistics(features, inputs, values, self.num_labels)

    def closed_form(self, features: "Features", statistics: Sequence[Statistics]) -> Tensors:
        """Linear discriminant analysis."""
        from mix2fld.tasks.class_statistics import closed_form_network

        return closed_form_network(features, statistics)

    def as_fields(self) -> dict[str, Any]:
        """The number of labels."""
        return {"num_labels": self.num_labels}

    def doubt(self, value: float) -> str | None:
        """An accuracy near that of guessing."""
        if value > NEAR_CHANCE / self.num_labels:
            return None
        return (
            f"with an accuracy of {self.metric.text(value)} its devices are no better than "
            f"guessing one of {self.num_labels} labels"
        )
