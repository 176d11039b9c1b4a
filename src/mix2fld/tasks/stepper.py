"""The one interface behind which weights are trained and tested: native code, XLA, or another.

Everyone else hands over plain arrays and gets plain arrays back. Which stepper a run uses is
decided once, by ``make_learning``.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.base import Score, Sums, Task, scored
from mix2fld.tasks.losses import Loss
from mix2fld.types import Inputs, Local, Phase, Samples, Tensors

Draws = NDArray[np.int32]
"""[K, B]: which samples each SGD step uses."""


def no_randomness() -> int:
    """The seed of a model that draws nothing."""
    return 0


class Start(NamedTuple):
    """Where a learner begins its steps, and what is its own in their loss and rate."""

    weights: Tensors
    teacher: NDArray[np.float32]  # [N_L, N_L]; zero rows switch distillation off
    logit_offset: NDArray[np.float32] | None = None
    """[N_L], added to the logits in the loss only: not to the outputs F, and not when testing."""
    rate_factor: float = 1.0
    """Multiplies the learning rate of these steps."""
    randomness: Callable[[], int] = no_randomness
    """Returns the seed of what a model draws itself in these steps, such as dropout."""
    pull: float = 0.0
    """Adds pull * (w - weights) to each gradient: the proximal term of FedProx, mu."""
    drift: Tensors | None = None
    """Added to each gradient: the control variates of SCAFFOLD, c - c_i."""

    @property
    def changes_gradients(self) -> bool:
        """Whether a gradient is more than that of the loss."""
        return self.pull != 0 or self.drift is not None


class Watch(NamedTuple):
    """Which of several learners is looked at, and after how many steps; the last is all."""

    place: int
    steps: tuple[int, ...]


class Learned(NamedTuple):
    """The learners at the end of their steps, and the watched one on the way there."""

    phases: list[Phase]  # weights are Tensors
    snapshots: list[tuple[int, Tensors]]  # steps done, weights


class Stepper(Protocol):
    """Takes the steps of Eqs. 1, 3 and 5, and tests models."""

    @property
    def name(self) -> str:
        """For records: native, xla or pytorch."""

    def draw_weights(self, seed: int) -> Tensors:
        """The model's initial weights for one seed."""

    def hold(self, samples: Samples, extra: Samples | None = None) -> Any:
        """The samples where many learners' steps can read them, for ``train``.

        Draws from ``len(samples.targets)`` on point into ``extra``, whose inputs may be stored in
        another type.
        """

    def train(
        self, loss: Loss, held: Any, starts: Sequence[Start], draws: Sequence[Draws], watch: Watch
    ) -> Learned:
        """The steps of many learners, each with its own draws from the samples held."""

    def train_one(self, loss: Loss, samples: Samples, start: Start, draws: Draws) -> Tensors:
        """The steps of one learner on samples of its own: the server's student."""

    def logits(self, weights: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What a model answers for samples, [n, O]."""

    def hold_tests(self, inputs: Inputs, labels: NDArray[np.int32]) -> Any:
        """Test samples where ``count_correct`` can read them."""

    def count_correct(self, tests: Any, models: Sequence[Tensors]) -> list[int]:
        """How many test samples each model labels correctly."""


class TestSet:
    """Test samples, on which many models are measured at once."""

    __test__ = False  # not a test of pytest's

    def __init__(self, stepper: Stepper, task: Task, inputs: Inputs, values: NDArray[Any]) -> None:
        self.size = len(values)
        self._stepper, self._task = stepper, task
        if task.counts_correct:
            self._held = stepper.hold_tests(inputs, values)
        else:
            self._held = inputs, task.targets(values)

    def scores(self, models: Sequence[Tensors]) -> list[Score]:
        """The task's metrics of each model; of models with equal weights, one is tested."""
        if not models:
            return []
        given = {id(model): model for model in models}
        digests = {number: _digest(model) for number, model in given.items()}
        distinct = {digests[number]: model for number, model in given.items()}
        found = dict(zip(distinct, self._sums(list(distinct.values())), strict=True))
        return [self._task.scores(found[digests[id(model)]], self.size) for model in models]

    def _sums(self, models: Sequence[Tensors]) -> list[Sums]:
        if self._task.counts_correct:
            counts = self._stepper.count_correct(self._held, models)
            return [np.array([count], np.float64) for count in counts]
        inputs, targets = self._held
        return [
            scored(self._task, self._stepper.logits(model, inputs), targets) for model in models
        ]


def _digest(model: Tensors) -> bytes:
    """The same for equal weights alone."""
    told = blake2b(digest_size=16)
    for tensor in model:
        told.update(np.ascontiguousarray(tensor).data)
    return told.digest()


def local_results(phases: Sequence[Phase]) -> list[Local]:
    """Eq. 2: the mean output under each ground-truth label; zero for a label never drawn."""
    counts = np.stack([np.asarray(phase.label_counts) for phase in phases])[:, :, None]
    sums = np.stack([np.asarray(phase.output_sums) for phase in phases])
    divisors = np.where(counts > 0, counts, 1.0)  # a soft label counts in part
    outputs = np.where(counts > 0, sums / divisors, 0.0).astype(np.float32)
    return [Local(phase.weights, own) for phase, own in zip(phases, outputs, strict=True)]


def draw_samples(rng: np.random.Generator, samples: int, steps: int, batch_size: int) -> Draws:
    """Which samples each SGD step uses, uniformly drawn: [K, B]."""
    return rng.integers(samples, size=(steps, batch_size), dtype=np.int32)


def snapshot_steps(steps: int, points: int) -> tuple[int, ...]:
    """The numbers of steps after which a device of interest is looked at; the last is all."""
    ends = np.linspace(0, steps, points + 1).astype(int)
    return tuple(int(end) for end in np.unique(ends) if end > 0)
