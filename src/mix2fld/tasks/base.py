"""A task says what learning means: targets, loss, groups, and what is measured. NumPy only."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mix2fld.base.errors import InputError
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.metric import Metric
from mix2fld.types import Inputs, Samples, Statistics, Tensors

if TYPE_CHECKING:
    from mix2fld.tasks.features import Features

Sums = NDArray[np.float64]
"""What a metric needs of samples, added up over them: those of batches and shards add up too."""

Score = tuple[float, ...]
"""All metrics of a model, that which says what is best first."""


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
    further: tuple[Metric, ...] = ()
    """Metrics that are shown beside ``metric``, which alone says what is best."""
    baselines: tuple[tuple[str, float], ...] = ()
    """What simple predictions reach on the test samples, by name: the metric of each."""
    numbers: int = 0
    """Numbers in a target that are mixed as samples are, where groups are those of numbers."""
    announces: tuple[float, ...] = ()
    """The edges of groups of numbers, which devices hear of with each download."""
    by_label: ClassVar[bool] = False
    """Whether each sample has one of N_L labels, as protocols of labels need."""
    has_closed_form: ClassVar[bool] = False
    """Whether statistics of samples determine a last layer."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """What a metric can be, as a device reports it."""
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

    def measure_further(self, sums: Sums, samples: int) -> tuple[float, ...]:
        """The metrics in ``further``, of the sums over so many samples."""
        del sums, samples
        return ()

    @property
    def outputs_wanted(self) -> str:
        """Why a model has as many outputs as it must have."""
        return f"the task {self.name} needs {self.outputs}"

    def scores(self, sums: Sums, samples: int) -> Score:
        """All metrics, that which says what is best first."""
        return (self.measure(sums, samples), *self.measure_further(sums, samples))

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

    def labels(self, values: NDArray[Any]) -> NDArray[np.int32]:
        """The one group [n] of each sample, by a dataset's targets."""
        return self.group_of(self.targets(values)).argmax(axis=1).astype(np.int32)

    def set_of(self, inputs: Inputs, targets: NDArray[np.float32]) -> Samples:
        """Samples whose targets are as the loss sees them."""
        groups = self.group_of(targets)
        return Samples(inputs, targets, None if groups is targets else groups)

    def samples(self, inputs: Inputs, values: NDArray[Any]) -> Samples:
        """What steps are taken on: samples, targets, and groups where these are others."""
        return self.set_of(inputs, self.targets(values))

    def local_loss(self, asked: Loss) -> Loss:
        """What a local phase minimises where a protocol asks for a loss."""
        if asked.custom is not None:
            return replace(asked, softmax=False)
        return Loss(self.name, of_task=self.loss, torch=self.torch_loss, softmax=False)

    def in_units(self, outputs: NDArray[np.float32]) -> NDArray[Any]:
        """What a model answers [n, O], in units of the data."""
        return outputs

    def measure_statistics(
        self, features: "Features", inputs: Inputs, values: NDArray[Any]
    ) -> Statistics:
        """What a device's samples add to the sums that determine a last layer."""
        raise NotImplementedError(f"the task {self.name} has no closed form")

    def closed_form(self, features: "Features", statistics: Sequence[Statistics]) -> Tensors:
        """The network with the last layer that follows from the statistics of some devices."""
        raise NotImplementedError(f"the task {self.name} has no closed form")

    def as_fields(self) -> dict[str, Any]:
        """What a device far away makes this task of; only a task of the table has it."""
        raise InputError(
            field="task",
            value=self.name,
            hint="is a custom one, which a deployment cannot tell its devices",
        )

    def doubt(self, value: float) -> str | None:
        """Why a measured value says that nothing was learned; None if it says no such thing."""
        del value
        return None


def no_better_than_mean(metric: Metric, baselines: Mapping[str, float], value: float) -> str | None:
    """Why an error says that nothing was learned: the mean of all targets has no larger one."""
    mean = baselines.get("mean")
    if mean is None or metric.gain(value) > metric.gain(mean):
        return None
    return (
        f"with {metric.name} {metric.text(value)} its devices are no better than "
        f"predicting the mean of the training targets ({metric.text(mean)})"
    )


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
