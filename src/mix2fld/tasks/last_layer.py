"""Which arrays of a model are its last layer: found by what moves its outputs, not by shapes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.types import SampleFormat, Tensors

TRIED = 8
"""Samples that a model is tried with."""
NOISE = 0.1
"""Added to initial weights: zeros in one layer would hide what another does."""
TOLERANCE = 1e-2
"""Of a movement in single precision, as a part of the largest."""

Apply = Callable[[Tensors], NDArray[np.float32]]


def find_last_layer(apply: Apply, weights: Tensors, outputs: int) -> tuple[int, ...]:
    """The arrays of the layer whose outputs are the logits; none if a model has no such layer.

    They have an axis of ``outputs`` at either end, along which each slice moves one logit alone,
    and in proportion. A hidden layer of that width moves all of them.
    """
    rng = stream(0, "last-layer")
    noisy = tuple(w + NOISE * rng.normal(size=w.shape).astype(np.float32) for w in weights)

    def moved(place: int, axis: int, sign: int) -> NDArray[np.float32]:
        """How the logits [n, outputs] move with the first slice of an array along an axis."""
        array = np.moveaxis(noisy[place].copy(), axis, 0)
        rng = stream(1, "last-layer", place)
        array[0] += np.float32(sign) * (1 + rng.random(array[0].shape, np.float32))
        changed = np.moveaxis(array, 0, axis)
        return apply((*noisy[:place], changed, *noisy[place + 1 :])) - apply(noisy)

    def is_last(place: int) -> bool:
        shape = noisy[place].shape
        axes = [axis for axis in (0, -1) if shape and shape[axis] == outputs]
        return any(_moves_one(moved(place, axis, 1), moved(place, axis, -1)) for axis in axes)

    return tuple(place for place in range(len(noisy)) if is_last(place))


def samples_to_try(samples: SampleFormat) -> NDArray[np.float32] | NDArray[np.int32]:
    """Noise as a model is fed it; of token ids only 0 is known to be one."""
    shape = (TRIED, *samples.shape)
    if samples.dtype == "int32":
        return np.zeros(shape, np.int32)
    return stream(0, "tried").normal(size=shape).astype(np.float32)


def _moves_one(there: NDArray[np.float32], back: NDArray[np.float32]) -> bool:
    """Whether only the first logit moved, and as far back; where several are compared, up to a
    constant shared by all of them, which ``log_softmax`` adds."""
    if there.shape[1] > 2:
        there, back = (each - np.median(each, axis=1, keepdims=True) for each in (there, back))
    first = np.abs(there[:, 0]).max()
    others = np.abs(there[:, 1:]).max(initial=0)
    return bool(first > 0 and max(others, np.abs(there + back).max()) <= TOLERANCE * first)
