"""Steps by machine code alone, without JAX: threads share out the learners."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.native.threads import in_threads
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.stepper import Draws, Learned, Start, Watch
from mix2fld.types import Inputs, Kernel, Phase, Samples, StepRule, Tensors


class KernelStepper:
    """Plain SGD by a model's kernel, which releases the interpreter's lock."""

    name = "native"

    def __init__(self, kernel: Kernel, learning_rate: float, distillation_weight: float) -> None:
        self._kernel, self._rate = kernel, learning_rate
        self._distillation_weight = distillation_weight

    def hold(self, samples: Samples, extra: Samples | None = None) -> tuple[Samples, ...]:
        """The samples in this process's memory."""
        sets = (samples,) if extra is None else (samples, extra)
        return tuple(_contiguous(each) for each in sets)

    def train(
        self, loss: Loss, held: tuple[Samples, ...], starts: Sequence[Start],
        draws: Sequence[Draws], watch: Watch,
    ) -> Learned:  # fmt: skip
        """One learner a thread; only the watched one is copied on its way."""
        snapshots: list[tuple[int, Tensors]] = []

        def one(place: int) -> Phase:
            phase, drawn = _begin(starts[place]), draws[place]
            for begin, end in pairwise([0, *watch.steps]):  # for all, so that sums round alike
                self._steps(loss, held, phase, starts[place], drawn[begin:end])
                if place == watch.place:
                    snapshots.append((end, tuple(np.array(tensor) for tensor in phase.weights)))
            return phase

        return Learned(in_threads(one, range(len(starts))), snapshots)

    def train_one(self, loss: Loss, samples: Samples, start: Start, draws: Draws) -> Tensors:
        """One learner, in this thread."""
        phase = _begin(start)
        self._steps(loss, self.hold(samples), phase, start, draws)
        weights: Tensors = phase.weights
        return weights

    def hold_tests(self, inputs: Inputs, labels: NDArray[np.int32]) -> Any:
        """The samples in this process's memory."""
        return np.ascontiguousarray(inputs), np.ascontiguousarray(labels)

    def count_correct(self, tests: Any, models: Sequence[Tensors]) -> list[int]:
        """Count for several models, each in a thread."""
        return in_threads(lambda model: self._kernel.count_correct(model, *tests), models)

    def _steps(
        self, loss: Loss, sets: tuple[Samples, ...], phase: Phase, start: Start, draws: Draws
    ) -> None:
        if start.changes_gradients:
            raise InputError(
                "gradients with a proximal term or a control variate are not for the compiled "
                "kernel; use JAX or PyTorch (kernel = xla, or the whole package on the device)"
            )
        rule = StepRule(
            rate=self._rate * start.rate_factor,
            teacher=start.teacher,
            distillation_weight=self._distillation_weight if loss.distils else 0.0,
            logit_offset=start.logit_offset,
            numbers=loss.numbers,
        )
        self._kernel.train(phase, sets, np.ascontiguousarray(draws), rule)


def _begin(start: Start) -> Phase:
    """A learner before its first step, with arrays of its own."""
    return Phase(
        weights=tuple(np.array(tensor) for tensor in start.weights),
        output_sums=np.zeros(start.teacher.shape, np.float32),
        label_counts=np.zeros(len(start.teacher), np.float32),
    )


def _contiguous(samples: Samples) -> Samples:
    inputs: Any = np.ascontiguousarray(samples.inputs)
    return samples._replace(inputs=inputs, targets=np.ascontiguousarray(samples.targets))
