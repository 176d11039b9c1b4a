"""Losses as data, so that every stepper computes them in its own way.

The losses of the paper are phi, the cross-entropy with the sample's label, and phi + beta psi,
where psi is the cross-entropy with the teacher's output G_out of that label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mix2fld.types import NumberLoss

if TYPE_CHECKING:
    from mix2fld.config.settings import LearningConfig

CustomLoss = Callable[[Any, Any, Any], Any]
"""A JAX function (logits [B, N_L], labels [B, N_L], teacher [N_L, N_L]) -> scalar."""
TaughtLoss = Callable[[Any, Any, Any, Any], Any]
"""A function of JAX and PyTorch alike: (outputs, targets, teacher [N_L, O], beta) -> scalar."""
TaskLoss = Callable[[Any, Any], Any]
"""A function (outputs [B, O], targets [B, T]) -> scalar."""


@dataclass(frozen=True)
class Loss:
    """What a local phase minimises."""

    name: str
    distils: bool = False
    """Whether beta psi is added to phi."""
    custom: CustomLoss | None = None
    """A protocol's own, in place of the formula; only XLA can compute it."""
    of_task: TaskLoss | None = None
    """A task's own, as a JAX function."""
    taught: TaughtLoss | None = None
    """A task's own with distillation, in place of ``of_task`` and ``torch``."""
    torch: TaskLoss | None = None
    """The same as a PyTorch function."""
    numbers: NumberLoss | None = None
    """The same for compiled kernels, where targets are numbers."""
    softmax: bool = True
    """Whether the outputs F are the softmax of what a model answers, or as it answers."""

    @property
    def is_function(self) -> bool:
        """Whether it is a function, and not a formula that every stepper has."""
        return self.custom is not None or self.of_task is not None

    @property
    def has_kernel(self) -> bool:
        """Whether compiled kernels know it."""
        return not self.is_function or self.numbers is not None


label_loss = Loss("label")
"""The loss phi of Eq. 1."""
distillation_loss = Loss("distillation", distils=True)
"""The loss phi + beta psi of Eqs. 3 and 5."""


def one_hot(labels: ArrayLike, num_labels: int) -> NDArray[np.float32]:
    """Label vectors L_n as rows."""
    return np.eye(num_labels, dtype=np.float32)[np.asarray(labels)]


def signed_weight(config: "LearningConfig") -> float:
    """Beta, negative for psi as printed (decision 2)."""
    sign = 1.0 if config.distillation_loss == "cross-entropy" else -1.0
    return sign * config.distillation_weight
