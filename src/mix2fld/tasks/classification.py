"""Classification: the task of the paper, with its losses and their native kernels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.tasks.base import Sums, Task
from mix2fld.tasks.losses import Loss, one_hot
from mix2fld.tasks.metric import ACCURACY

if TYPE_CHECKING:
    from mix2fld.dataset import Dataset

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

    def __post_init__(self) -> None:
        """A logit for each label, each of which is a group."""
        for each in ("outputs", "groups"):
            object.__setattr__(self, each, self.num_labels)

    def local_loss(self, asked: Loss) -> Loss:
        """That of the protocol: every stepper has a formula for it."""
        return asked

    def targets(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Label vectors L_n."""
        return one_hot(values, self.num_labels)

    def group_of(self, targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """The label vectors themselves: a soft label belongs to several groups."""
        return targets

    def score(self, outputs: NDArray[np.float32], targets: NDArray[np.float32]) -> int:
        """How many samples get their label."""
        return int((outputs.argmax(axis=1) == targets.argmax(axis=1)).sum())

    def measure(self, sums: Sums, samples: int) -> float:
        """Accuracy."""
        return float(sums[0]) / samples

    def doubt(self, value: float) -> str | None:
        """An accuracy near that of guessing."""
        if value > NEAR_CHANCE / self.num_labels:
            return None
        return (
            f"with an accuracy of {self.metric.text(value)} its devices are no better than "
            f"guessing one of {self.num_labels} labels"
        )


def task_for(dataset: "Dataset", given: Task | None) -> Task:
    """The task of a run: the one that is given, or classification by the labels of the dataset."""
    if given is None and dataset.train_targets is None:
        return Classification(dataset.num_labels)
    if given is None:
        raise InputError(
            field="dataset",
            value=dataset.name,
            hint="its targets are numbers, not labels; say what is learned: "
            "run(..., task=...) takes a mix2fld.Task",
        )
    if given.by_label != (dataset.train_targets is None):
        wanted, found = ("labels", "numbers") if given.by_label else ("numbers", "labels")
        raise InputError(
            field="task",
            value=given.name,
            hint=f"learns {wanted}; the dataset {dataset.name} has {found} as targets",
        )
    return given
