"""The front of a partly trained model: what no trained weight lies before, computed once a sample.

What leaves it are vectors, of which the rest of the model, its back, is a function.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.features.network import Network
from mix2fld.types import Model

LARGEST = 8
"""Values of a vector for each of a sample, above which it is not kept: it would fill memories."""


@dataclass(frozen=True, eq=False)
class SplitModel:
    """A model in two parts: ``back`` takes the vectors that ``front`` makes of samples."""

    front: Network
    back: Model


def split_model(model: Model, shape: tuple[int, ...], dtype: str) -> SplitModel | None:
    """The two parts for samples of this shape; None if hardly anything is done before training."""
    if model.torch is not None:
        from mix2fld.models.torch_front import split_torch

        return split_torch(model, model.torch, shape, dtype)
    from mix2fld.models.jax_front import split_jax

    return split_jax(model, shape, dtype)


def small_enough(shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> bool:
    """Whether vectors of arrays with these shapes are worth keeping in place of samples."""
    values = sum(map(math.prod, shapes))
    return 0 < values <= LARGEST * math.prod(shape)


def as_vector(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """One row [1, F] of the arrays of a sample."""
    return np.concatenate([np.asarray(array, np.float32).reshape(1, -1) for array in arrays], 1)


def parts_of(
    shapes: Sequence[tuple[int, ...]],
) -> Callable[[NDArray[np.float32]], list[NDArray[np.float32]]]:
    """The arrays [B, ...] of rows [B, F]; of any library whose arrays are sliced alike."""
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()

    def parts(rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        places = zip(shapes, ends[:-1], ends[1:], strict=True)
        return [rows[:, a:b].reshape((len(rows), *shape)) for shape, a, b in places]

    return parts
