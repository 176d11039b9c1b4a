"""Low frequencies of samples themselves: statistics of these can be turned into samples again."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.samples import as_fed
from mix2fld.tasks.edges import Floats
from mix2fld.tasks.features import (
    Features,
    HeadPlace,
    clip_norms,
    cosines,
    feature_count,
    fixed_features,
)
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.types import Dimensions, Inputs

PER_SIDE = 2
"""Frequencies along each side of a sample, for each that ``feature_side`` names."""
TYPICAL_VALUE = 1 / 3
"""Root mean square of a sample's values, in parts of their range, to which it is clipped."""
UNIT = 3.0
"""Length of a clipped sample as it is measured: sums of many fit whole numbers of few bits."""
TYPICAL_DISTANCE = 0.6
"""From a class mean, in parts of that length: distances are clipped to it."""


class FeatureKind(NamedTuple):
    """What statistics can be taken of."""

    make: Callable[[Learning], Features]
    features: Callable[[Sizes, int], int]


def sample_feature_count(sizes: Sizes, side: int) -> int:
    """How many low frequencies of a sample count."""
    *sides, channels = _sides(sizes.dims.samples.shape)
    return channels * int(np.prod([min(PER_SIDE * side, length) for length in sides]))


@lru_cache(maxsize=4)
def sample_features(learning: Learning) -> Features:
    """The low frequencies of samples, relative to the lower end of their range."""
    samples, side = learning.dims.samples, learning.config.statistics.feature_side
    *sides, channels = _sides(samples.shape)
    projection: NDArray[np.floating] = np.ones((1, 1))
    for length in sides:
        projection = np.kron(projection, cosines(length, min(PER_SIDE * side, length)))
    directions: Floats = np.kron(projection, np.eye(channels)).astype(np.float64)
    given, span = learning.config.privacy.feature_clip, samples.high - samples.low
    usual = TYPICAL_VALUE * span * float(np.sqrt(np.prod(samples.shape)))
    longest = usual if given == "auto" else given

    gain = longest / UNIT

    def measure(inputs: Inputs) -> Floats:
        flat = (as_fed(inputs, np.float64).reshape(len(inputs), -1) - samples.low) / gain
        return clip_norms(flat, UNIT) @ directions.T

    nowhere = HeadPlace(0, 0, transposed=False)
    return Features((), directions, gain, measure, nowhere, UNIT, TYPICAL_DISTANCE * UNIT)


def samples_of(features: Features, values: Floats, dims: Dimensions) -> Inputs:
    """Samples, as a model is fed them, with these low frequencies."""
    flat = features.gain * values @ features.projection + dims.samples.low
    shaped = flat.reshape(-1, *dims.samples.shape)
    found: Inputs = np.clip(shaped, dims.samples.low, dims.samples.high).astype(np.float32)
    return found


FEATURE_KINDS = {
    "model": FeatureKind(fixed_features, feature_count),
    "samples": FeatureKind(sample_features, sample_feature_count),
}


def _sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sides of an image [H, W, C] or a series [T, C], and its channels."""
    if len(shape) not in (2, 3):
        raise InputError(
            f"samples are {list(shape)}: seeds are generated for images [H, W, C] and series "
            "[T, C]; choose dp-statistics"
        )
    return shape
