"""A task says what learning means: targets, loss, groups, and what is measured. NumPy only."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mix2fld.base.errors import InputError
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.metric import Metric
from mix2fld.types import Inputs, Samples

Sums = NDArray[np.float64]
"""What a metric needs of samples, added up over them: those of batches and shards add up too."""


class Task(ABC):
    """What a model learns, and how well it has.

    A custom task has a name, a metric and the width of the model's output, a loss as a JAX
    function, and ``score`` with ``measure``. Targets are numbers [n] or [n, T] unless ``targets``
    makes others of what a dataset holds.
    """

    name: str
    metric: Metric
    outputs: int
    """Width of a model's output."""
    groups: int = 1
    """N_L, over which FD averages outputs."""
    by_label: ClassVar[bool] = False
    """Whether each sample has one of N_L labels, as protocols of labels need."""
    counts_correct: ClassVar[bool] = False
    """Whether the one sum is of correct labels, which a stepper counts by itself."""
    torch_loss: Callable[[Any, Any], Any] | None = None
    """The loss as a PyTorch function, for PyTorch modules."""

    def loss(self, outputs: Any, targets: Any) -> Any:
        """A JAX function: outputs [B, outputs] and targets [B, T] of a batch -> scalar.

        Only a task whose ``local_loss`` is a formula that every stepper has does without.
        """
        raise NotImplementedError(f"the task {self.name} has no loss")

    @abstractmethod
    def score(self, outputs: NDArray[np.float32], targets: NDArray[np.float32]) -> ArrayLike:
        """What ``measure`` needs of these samples, as one or several sums over them."""

    @abstractmethod
    def measure(self, sums: Sums, samples: int) -> float:
        """The metric, of the sums over so many samples."""

    def targets(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """What the loss sees of a dataset's targets: [n, T]."""
        return np.asarray(values, np.float32).reshape(len(values), -1)

    def group_of(self, targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far each sample belongs to each group, [n, N_L]; one group unless a task has more."""
        if self.groups != 1:
            raise InputError(
                field="groups",
                value=self.groups,
                hint=f"the task {self.name} does not say which samples are of which group; "
                "define group_of",
            )
        return np.ones((len(targets), 1), np.float32)

    def samples(self, inputs: Inputs, values: NDArray[Any]) -> Samples:
        """What steps are taken on: samples, targets, and groups where these are others."""
        targets = self.targets(values)
        groups = self.group_of(targets)
        return Samples(inputs, targets, None if groups is targets else groups)

    def local_loss(self, asked: Loss) -> Loss:
        """What a local phase minimises where a protocol asks for a loss."""
        if asked.custom is not None:
            return replace(asked, softmax=False)
        return Loss(self.name, of_task=self.loss, torch=self.torch_loss, softmax=False)

    def doubt(self, value: float) -> str | None:
        """Why a measured value says that nothing was learned; None if it says no such thing."""
        del value
        return None


def scored(task: Task, outputs: NDArray[np.float32], targets: NDArray[np.float32]) -> Sums:
    """The sums of some samples, as an array; raises ``InputError`` unless they are finite."""
    sums = np.atleast_1d(np.asarray(task.score(outputs, targets), np.float64))
    if sums.ndim != 1:
        raise InputError(
            field="score",
            value=f"{list(sums.shape)}",
            hint=f"the task {task.name} must return one sum over samples, or a row of them",
        )
    return sums
