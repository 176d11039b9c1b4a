"""The stepper of models that have machine code; what the code cannot do, XLA does."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.kernel_steps import KernelStepper
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.sgd import TrainingSetup
from mix2fld.tasks.stepper import Draws, Learned, Start, Watch
from mix2fld.tasks.xla import XlaStepper
from mix2fld.types import Inputs, Kernel, Samples, Tensors


class NativeStepper(KernelStepper):
    """Steps by a model's kernel; initial weights, custom losses and gradients by XLA."""

    def __init__(self, learner: TrainingSetup, kernel: Kernel, learning_rate: float) -> None:
        super().__init__(kernel, learning_rate, learner.distillation_weight)
        self._xla = XlaStepper(learner)

    def draw_weights(self, seed: int) -> Tensors:
        """The model's initial weights for one seed."""
        return self._xla.draw_weights(seed)

    def train(
        self, loss: Loss, held: tuple[Samples, ...], starts: Sequence[Start],
        draws: Sequence[Draws], watch: Watch,
    ) -> Learned:  # fmt: skip
        """One learner a thread; only the watched one is copied on its way."""
        if not loss.has_kernel or any(start.changes_gradients for start in starts):
            return self._xla.train(loss, self._xla.hold(*held), starts, draws, watch)
        return super().train(loss, held, starts, draws, watch)

    def train_one(self, loss: Loss, samples: Samples, start: Start, draws: Draws) -> Tensors:
        """One learner, in this thread."""
        if not loss.has_kernel or start.changes_gradients:
            return self._xla.train_one(loss, samples, start, draws)
        return super().train_one(loss, samples, start, draws)

    def logits(self, weights: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What the model answers for samples, [n, N_L]."""
        return self._xla.logits(weights, inputs)
