"""Updates that codecs are tried with."""

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Dimensions, SampleFormat

LABELS = 4


def dims_of(*shapes: tuple[int, ...]) -> Dimensions:
    """The sizes of a run whose model has arrays of these shapes."""
    return Dimensions(shapes, LABELS, SampleFormat((8, 8, 1)), 10, 8, (8, 8, 1))


def an_update(size: int, seed: int = 0, spread: int = 2) -> NDArray[np.float32]:
    """As updates are: most entries are small, a few are large; more so the larger the spread."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=size) * rng.exponential(size=size) ** spread).astype(np.float32)
