"""The stepper of PyTorch modules: one learner after another on each core, or on a GPU.

On a CPU learners are shared out to worker processes, since the interpreter's lock would let threads
take small steps only one at a time. A worker has one thread, so that the numbers of a learner do
not depend on how many cores there are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.settings import LearningConfig
from mix2fld.native.processor import usable_cores
from mix2fld.tasks.losses import Loss, signed_weight
from mix2fld.tasks.stepper import Draws, Learned, Start, Watch
from mix2fld.tasks.torch_steps import (
    OPTIMIZERS,
    Recipe,
    TorchPhase,
    Work,
    count_correct,
    logits,
    on_gpu,
    train,
)
from mix2fld.tasks.training import base_rate
from mix2fld.tasks.workers import Held, in_workers
from mix2fld.types import Inputs, Model, Samples, Tensors, TorchModule


class TorchStepper:
    """Steps and tests of one module by PyTorch."""

    name = "pytorch"

    def __init__(self, model: Model, module: TorchModule, config: LearningConfig) -> None:
        if config.kernel != "auto":
            raise InputError(
                field="kernel",
                value=config.kernel,
                hint=f"{model.name} is a PyTorch module, which PyTorch trains; use auto",
            )
        if config.optimizer not in OPTIMIZERS:
            known = did_you_mean(config.optimizer, OPTIMIZERS)
            raise InputError(
                field="optimizer",
                value=f"{config.optimizer!r}",
                hint=f"no such optimizer for PyTorch modules; {known}",
            )
        self._model = model
        self._losses: dict[Loss, Held] = {}
        self._recipe = Held(
            Recipe(
                title=model.name,
                module=module,
                optimizer=config.optimizer,
                learning_rate=base_rate(config),
                distillation_weight=signed_weight(config),
                dominant_teacher=config.soft_label_teacher == "dominant",
            )
        )

    def draw_weights(self, seed: int) -> Tensors:
        """The module's initial weights for one seed."""
        weights: Tensors = self._model.init(seed)
        return weights

    def hold(self, samples: Samples, extra: Samples | None = None) -> tuple[Samples, ...]:
        """The samples in this process; a worker is sent those that its learners draw."""
        return (samples,) if extra is None else (samples, extra)

    def train(
        self, loss: Loss, held: tuple[Samples, ...], starts: Sequence[Start],
        draws: Sequence[Draws], watch: Watch,
    ) -> Learned:  # fmt: skip
        """The learners shared out to the cores; only the watched one is copied on its way."""

        def work(place: int) -> Work:
            some = _only_drawn(held, draws[place])
            return Work(*some, starts[place], watch.steps, place == watch.place)

        asked = (self._recipe, self._held(loss))
        done: list[TorchPhase] = _on_all_cores(train, asked, len(starts), work)
        return Learned([one.phase for one in done], done[watch.place].snapshots)

    def train_one(self, loss: Loss, samples: Samples, start: Start, draws: Draws) -> Tensors:
        """One learner, in this process."""
        work = Work((samples,), draws, start, (len(draws),), watched=False)
        weights: Tensors = train(self._recipe.value, self._held(loss).value, work).phase.weights
        return weights

    def logits(self, weights: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What the module answers for samples, [n, N_L], in this process."""
        return logits(self._recipe.value, inputs, weights)

    def hold_tests(self, inputs: Inputs, labels: NDArray[np.int32]) -> Held:
        """The samples in this process, and once they are used in each worker."""
        return Held((inputs, labels))

    def count_correct(self, tests: Held, models: Sequence[Tensors]) -> list[int]:
        """The models shared out to the cores."""
        held = (self._recipe, tests)
        return _on_all_cores(count_correct, held, len(models), models.__getitem__)

    def _held(self, loss: Loss) -> Held:
        """The loss as PyTorch computes it, which workers keep."""
        if loss.custom is not None or (loss.of_task is not None and loss.torch is None):
            raise InputError(
                f"model {self._model.name}: PyTorch cannot differentiate the loss {loss.name!r}, a "
                "JAX function; use a JAX model, a loss of mix2fld.tasks.losses, or a task with "
                "torch_loss"
            )
        if loss not in self._losses:
            self._losses[loss] = Held(replace(loss, of_task=None))
        return self._losses[loss]


def _on_all_cores(
    function: Callable[..., Any], held: tuple[Held, ...], items: int, item: Callable[[int], Any]
) -> list[Any]:
    if on_gpu() or min(usable_cores(), items) <= 1:
        values = [each.value for each in held]
        return [function(*values, item(number)) for number in range(items)]
    return in_workers(function, held, items, item)


def _only_drawn(sets: tuple[Samples, ...], draws: Draws) -> tuple[tuple[Samples, ...], Draws]:
    """The samples that are drawn, and the draws counted among them."""
    rows, places = np.unique(draws, return_inverse=True)
    first, some = 0, []
    for each in sets:
        chosen = rows[(rows >= first) & (rows < first + len(each.targets))] - first
        groups = None if each.groups is None else each.groups[chosen]
        some.append(Samples(each.inputs[chosen], each.targets[chosen], groups))
        first += len(each.targets)
    return tuple(some), places.reshape(draws.shape).astype(np.int32)
