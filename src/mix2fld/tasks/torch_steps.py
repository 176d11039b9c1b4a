"""The SGD loop that Eqs. 1, 3 and 5 share, in PyTorch, written for one learner.

The loss phi + beta psi is a cross-entropy with the goal T = L + beta G, whose gradient by the
logits is (sum_m T_m) F - T: PyTorch's own differentiation begins there.
"""

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.samples import as_fed
from mix2fld.models.torch_network import TorchNetwork, drawing_from
from mix2fld.tasks.losses import Loss, TaskLoss
from mix2fld.tasks.stepper import Draws, Start
from mix2fld.types import Inputs, Phase, Samples, Tensors, TorchModule

GATHERED_BYTES = 1 << 24
"""Samples of so many steps are gathered at once."""
MOST_STEPS_GATHERED = 256
TEST_BATCH = 64

Tests = tuple[Inputs, NDArray[np.int32]]
"""Samples and their labels."""
Step = Callable[[Sequence[Any]], None]
"""Takes the gradients and changes the parameters."""


class Recipe(NamedTuple):
    """What is trained and how; the same for every learner."""

    title: str
    module: TorchModule
    optimizer: str
    learning_rate: float
    distillation_weight: float  # beta, negative for psi as printed
    dominant_teacher: bool


class Work(NamedTuple):
    """The local phase of one learner."""

    sets: tuple[Samples, ...]  # of two, the second follows on the first in what draws name
    draws: Draws  # [K, B]
    start: Start
    stops: tuple[int, ...]  # numbers of steps after which ...
    watched: bool  # ... a learner of interest is looked at


class TorchPhase(NamedTuple):
    """A learner at the end of its steps, and on the way there if it is watched."""

    phase: Phase
    snapshots: list[tuple[int, Tensors]]


def train(recipe: Recipe, loss: Loss, work: Work) -> TorchPhase:
    """The local phase of one learner, in this process."""
    with _one_thread():
        return _learner(recipe).train(loss, work)


def count_correct(recipe: Recipe, tests: Tests, weights: Tensors) -> int:
    """How many test samples get their label with these weights, in this process."""
    with _one_thread():
        return _learner(recipe).count_correct(tests, weights)


def logits(recipe: Recipe, inputs: Inputs, weights: Tensors) -> NDArray[np.float32]:
    """What the module answers for samples [n, N_L] with these weights, in this process."""
    with _one_thread():
        return _learner(recipe).logits(inputs, weights)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums over several threads round in another order, which would depend on the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=8)
def _learner(recipe: Recipe) -> "TorchLearner":
    return TorchLearner(recipe)


def on_gpu() -> bool:
    """Whether modules are trained on a GPU."""
    return bool(torch.cuda.is_available())


class TorchLearner:
    """Steps and tests of one module in this process."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._network = TorchNetwork(recipe.module, "cuda" if on_gpu() else "cpu")

    def train(self, loss: Loss, work: Work) -> TorchPhase:
        """All steps of a learner; the random numbers of its module are its own."""
        network, recipe, start = self._network, self._recipe, work.start
        network.load(start.weights)
        network.module.train()
        values = [parameter.detach() for parameter in network.parameters]
        rate = recipe.learning_rate * start.rate_factor
        step = OPTIMIZERS[recipe.optimizer](values, rate)
        if start.changes_gradients:
            step = _with_terms(step, values, start.pull, network.trained_of(start.drift))
        shape = start.teacher.shape
        sums, counts = torch.zeros(shape), torch.zeros(shape[0])
        snapshots = []
        with drawing_from(start.randomness()):
            for begin, end in pairwise([0, *work.stops]):
                for rows in _parts(work.draws[begin:end], work.sets):
                    fed, *drawn = drawn_samples(work.sets, rows)
                    targets, groups = (torch.from_numpy(a).to(network.device) for a in drawn)
                    inputs = network.feed(fed, batch_axes=2)
                    outputs = self._steps(loss, start, inputs, targets, step)
                    members = groups.flatten(0, 1)
                    sums += (members.T @ outputs.flatten(0, 1)).cpu()
                    counts += members.sum(dim=0).cpu()
                if work.watched:
                    snapshots.append((end, network.weights()))
        return TorchPhase(Phase(network.weights(), sums.numpy(), counts.numpy()), snapshots)

    def count_correct(self, tests: Tests, weights: Tensors) -> int:
        """How many test samples the module labels correctly with these weights."""
        self._network.load(weights)
        inputs, labels = tests
        correct = 0
        for begin in range(0, len(labels), TEST_BATCH):
            some = slice(begin, begin + TEST_BATCH)
            guess = self._network.logits(inputs[some]).argmax(dim=-1).cpu().numpy()
            correct += int((guess == labels[some]).sum())
        return correct

    def logits(self, inputs: Inputs, weights: Tensors) -> NDArray[np.float32]:
        """What the module answers for samples with these weights, [n, N_L]."""
        self._network.load(weights)
        batches = [
            inputs[begin : begin + TEST_BATCH] for begin in range(0, len(inputs), TEST_BATCH)
        ]
        found = [self._network.logits(batch).cpu().numpy() for batch in batches]
        return np.concatenate(found)

    def _steps(self, loss: Loss, start: Start, inputs: Any, targets: Any, step: Step) -> Any:
        """One step for each batch of samples [K, B, ...]; returns the outputs F [K, B, O]."""
        if loss.torch is not None:
            return self._steps_of_task(self._of_task(loss, start), inputs, targets, step)
        network, offset = self._network, start.logit_offset
        goals = self._goals(loss, start, targets) / targets.shape[1]
        shift = None if offset is None else torch.tensor(offset, device=network.device)
        seen = torch.empty_like(goals)
        each = zip(inputs, goals, goals.sum(dim=-1, keepdim=True), seen, strict=True)
        for batch, goal, mass, outputs in each:
            logits = self._forward(batch)
            scores = logits.detach()
            torch.softmax(scores, dim=-1, out=outputs)
            reached = outputs if shift is None else torch.softmax(scores + shift, dim=-1)
            by_logits = torch.addcmul(-goal, mass, reached)
            step(torch.autograd.grad(logits, network.parameters, by_logits, materialize_grads=True))
        return seen

    def _of_task(self, loss: Loss, start: Start) -> TaskLoss:
        """The task's loss, with distillation where it has such."""
        assert loss.torch is not None
        if (taught := loss.taught) is None:
            return loss.torch
        teacher = torch.tensor(start.teacher, device=self._network.device)
        weight = self._recipe.distillation_weight
        return lambda outputs, goal: taught(outputs, goal, teacher, weight)

    def _steps_of_task(self, loss: TaskLoss, inputs: Any, targets: Any, step: Step) -> Any:
        """The same with a task's own loss."""
        seen = []
        for batch, goal in zip(inputs, targets, strict=True):
            outputs = self._forward(batch)
            gradients = torch.autograd.grad(
                loss(outputs, goal), self._network.parameters, materialize_grads=True
            )
            step(gradients)
            seen.append(outputs.detach())
        return torch.stack(seen)

    def _forward(self, batch: Any) -> Any:
        try:
            return self._network.module(batch)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise InputError(
                f"model {self._recipe.title}: fails in a training step on a batch of shape "
                f"{list(batch.shape)} ({type(error).__name__}: {error}, {where.filename} line "
                f"{where.lineno})"
            ) from error

    def _goals(self, loss: Loss, start: Start, targets: Any) -> Any:
        """L + beta G, where G is the teacher's output of the label (decisions 3 and 4)."""
        if not loss.distils:
            return targets
        teacher = torch.tensor(start.teacher, device=targets.device)
        dominant = self._recipe.dominant_teacher
        taught = teacher[targets.argmax(dim=-1)] if dominant else targets @ teacher
        return targets + self._recipe.distillation_weight * taught


def drawn_samples(
    sets: tuple[Samples, ...], rows: Draws
) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
    """Samples as a model is fed them, targets, and groups, for any array of draws."""
    own = sets[0]
    if len(sets) == 1:
        targets = own.targets[rows]
        groups = targets if own.groups is None else own.groups[rows]
        return as_fed(own.inputs[rows]), targets, groups
    extra, is_own = sets[1], rows < len(own.targets)
    fed = np.empty((*rows.shape, *own.inputs.shape[1:]), np.float32)
    targets = np.empty((*rows.shape, *own.targets.shape[1:]), np.float32)
    for some, where, first in ((own, is_own, 0), (extra, ~is_own, len(own.targets))):
        fed[where] = as_fed(some.inputs[rows[where] - first])
        targets[where] = some.targets[rows[where] - first]
    return fed, targets, targets


def _parts(draws: Draws, sets: tuple[Samples, ...]) -> Iterator[Draws]:
    """The draws in parts whose samples fit into memory together."""
    one_step = 4 * draws.shape[1] * math.prod(sets[0].inputs.shape[1:])
    steps = min(max(GATHERED_BYTES // one_step, 1), MOST_STEPS_GATHERED)
    for begin in range(0, len(draws), steps):
        yield draws[begin : begin + steps]


def _with_terms(step: Step, values: list[Any], pull: float, drift: list[Any] | None) -> Step:
    """The step with pull * (w - start weights) and the drift added to its gradients."""
    anchors = [value.clone() for value in values]

    def changed(gradients: Sequence[Any]) -> None:
        total = torch._foreach_add(gradients, torch._foreach_sub(values, anchors), alpha=pull)
        step(total if drift is None else torch._foreach_add(total, drift))

    return changed


def _sgd(values: list[Any], rate: float) -> Step:
    def step(gradients: Sequence[Any]) -> None:
        torch._foreach_add_(values, gradients, alpha=-rate)

    return step


def _momentum(values: list[Any], rate: float, decay: float = 0.9) -> Step:
    traces = [torch.zeros_like(value) for value in values]

    def step(gradients: Sequence[Any]) -> None:
        torch._foreach_mul_(traces, decay)
        torch._foreach_add_(traces, gradients)
        torch._foreach_add_(values, traces, alpha=-rate)

    return step


def _adam(values: list[Any], rate: float) -> Step:
    """With the constants of Optax: decays 0.9 and 0.999, epsilon 1e-8."""
    first, second = ([torch.zeros_like(value) for value in values] for _ in range(2))
    count = 0

    def step(gradients: Sequence[Any]) -> None:
        nonlocal count
        count += 1
        torch._foreach_lerp_(first, gradients, 1 - 0.9)
        torch._foreach_mul_(second, 0.999)
        torch._foreach_addcmul_(second, gradients, gradients, value=1 - 0.999)
        sizes = torch._foreach_sqrt(second)
        torch._foreach_div_(sizes, math.sqrt(1 - 0.999**count))
        torch._foreach_add_(sizes, 1e-8)
        torch._foreach_addcdiv_(values, first, sizes, value=-rate / (1 - 0.9**count))

    return step


OPTIMIZERS: dict[str, Callable[[list[Any], float], Step]] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adam": _adam,
}
