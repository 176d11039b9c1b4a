"""Steps of a partly trained model on the vectors of its frozen front, which are computed once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.features.compute import compute
from mix2fld.data.features.network import Network
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.stepper import Draws, Learned, Start, Stepper, Watch
from mix2fld.types import Inputs, Samples, Tensors


class FrontStepper:
    """Another stepper, of a model's back, that is handed vectors in place of samples.

    Those of samples that many steps read are kept in the cache, as features are.
    """

    def __init__(self, front: Network, back: Stepper) -> None:
        self._front, self._back = front, back

    @property
    def name(self) -> str:
        """That of the other one."""
        return self._back.name

    def draw_weights(self, seed: int) -> Tensors:
        """The model's initial weights for one seed."""
        return self._back.draw_weights(seed)

    def hold(self, samples: Samples, extra: Samples | None = None) -> "HeldSamples":
        """The samples; vectors are made of those that steps draw, when they first do."""
        return HeldSamples(self._front, self._back, samples, extra)

    def train(
        self,
        loss: Loss,
        held: "HeldSamples",
        starts: Sequence[Start],
        draws: Sequence[Draws],
        watch: Watch,
    ) -> Learned:
        """The steps of many learners, on the vectors of what they draw."""
        vectors, rows = held.vectors_of(draws)
        return self._back.train(loss, vectors, starts, rows, watch)

    def train_one(self, loss: Loss, samples: Samples, start: Start, draws: Draws) -> Tensors:
        """The steps of one learner on samples of its own."""
        return self._back.train_one(loss, self._vectors(samples), start, draws)

    def logits(self, weights: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What a model answers for samples."""
        return self._back.logits(weights, self._front(inputs))

    def hold_tests(self, inputs: Inputs, labels: NDArray[np.int32]) -> Any:
        """The vectors of test samples."""
        return self._back.hold_tests(compute(self._front, inputs), labels)

    def count_correct(self, tests: Any, models: Sequence[Tensors]) -> list[int]:
        """How many test samples each model labels correctly."""
        return self._back.count_correct(tests, models)

    def _vectors(self, samples: Samples) -> Samples:
        return samples._replace(inputs=self._front(samples.inputs))


class HeldSamples:
    """Samples, and the vectors of those that were drawn so far, as another stepper holds them.

    What that one holds is filled up to a power of two, since code is compiled for its size.
    """

    def __init__(
        self, front: Network, back: Stepper, samples: Samples, extra: Samples | None
    ) -> None:
        self._front, self._back, self._samples = front, back, samples
        self._extra = None if extra is None else extra._replace(inputs=front(extra.inputs))
        self._place = np.full(len(samples.targets), -1, np.int32)
        self._rows, self._vectors = np.zeros(0, np.int64), np.zeros((0, front.size), np.float32)
        self._held: Any = None

    def vectors_of(self, draws: Sequence[Draws]) -> tuple[Any, list[Draws]]:
        """What the other stepper holds, and the same draws from it."""
        own = len(self._place)
        drawn = np.unique(np.concatenate([each.ravel() for each in draws]))
        new = drawn[(drawn < own) & (self._place[np.minimum(drawn, own - 1)] < 0)]
        if len(new) or self._held is None:
            self._place[new] = len(self._rows) + np.arange(len(new))
            self._rows = np.concatenate([self._rows, new])
            vectors = compute(self._front, self._samples.inputs[new])
            self._vectors = np.concatenate([self._vectors, vectors])
            self._held = self._back.hold(self._filled(), self._extra)
        ends = np.arange(0 if self._extra is None else len(self._extra.targets), dtype=np.int32)
        places = np.concatenate([self._place, self._size + ends])
        return self._held, [places[each] for each in draws]

    @property
    def _size(self) -> int:
        return 1 << max(len(self._rows) - 1, 0).bit_length()

    def _filled(self) -> Samples:
        rows = np.resize(self._rows, self._size)
        groups = None if self._samples.groups is None else self._samples.groups[rows]
        vectors = np.resize(self._vectors, (self._size, self._front.size))
        return Samples(vectors, self._samples.targets[rows], groups)
