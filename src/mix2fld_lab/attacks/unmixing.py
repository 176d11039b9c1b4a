"""Mixes of two taken apart without any network: by the range of values and by shared samples.

The dominant sample of a mix lies within an interval in every value; what the mix says if its minor
part is the mean of its label, clipped to that interval, is the estimate. Mixes that share their
dominant sample are found by how little they differ, and their intervals are intersected.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.samples import Coding, coding_of
from mix2fld.tasks.learning import Sizes
from mix2fld.types import Seeds

MINOR, DOMINANT = 0, 1
Floats = NDArray[np.float32]


class Mixes(NamedTuple):
    """What a server holds of one device: mixes within [0, 1], and the labels of their parts."""

    values: Floats  # [m, v]
    labels: NDArray[np.int32]  # [m, N]
    ratios: tuple[float, ...]  # [N]
    rounding: float  # half a step of the upload's codes


class Candidates(NamedTuple):
    """Samples within [0, 1] that an attacker has, and their labels."""

    values: Floats  # [n, v]
    labels: NDArray[np.int32]  # [n]


def as_mixes(seeds: Seeds, sizes: Sizes, *, mixed: bool) -> Mixes:
    """Seeds as attacks take them: values within [0, 1]."""
    coding = coding_of(sizes.dims)
    fed = seeds.inputs.astype(np.float64) / coding.per_unit + coding.origin
    low, high = sizes.dims.samples.low, sizes.dims.samples.high
    values = ((fed - low) / (high - low)).reshape(len(fed), -1).astype(np.float32)
    ratios = sizes.config.seeding.ratios if mixed else (1.0,)
    return Mixes(values, seeds.labels, ratios, _rounding(coding))


def _rounding(coding: Coding) -> float:
    return (0.5 + 1e-4) / coding.last_code if coding.rounds else 1e-6


def class_means(samples: Candidates, num_labels: int) -> Floats:
    """The mean sample of each label; of all samples for a label without any."""
    overall = samples.values.mean(axis=0)
    own = [samples.values[samples.labels == label] for label in range(num_labels)]
    return np.stack([values.mean(axis=0) if len(values) else overall for values in own])


def link_dominants(mixes: Mixes) -> NDArray[np.int64]:
    """Which mixes seem to share their dominant sample: the number of its group, for each mix.

    A mix joins the first group, of the same label, with which some sample is possible in all.
    """
    most = np.float32(mixes.ratios[MINOR] + 2 * mixes.rounding)
    found: list[tuple[int, Floats, Floats]] = []  # label, smallest and largest values of a group
    groups = np.zeros(len(mixes.values), np.int64)
    for number, (value, label) in enumerate(
        zip(mixes.values, mixes.labels[:, DOMINANT].tolist(), strict=True)
    ):
        for group, (own, low, high) in enumerate(found):
            wider = np.minimum(low, value), np.maximum(high, value)
            if own == label and (wider[1] - wider[0]).max() <= most:
                found[group], groups[number] = (label, *wider), group
                break
        else:
            groups[number] = len(found)
            found.append((label, value, value))
    return groups


def dominants(mixes: Mixes, groups: NDArray[np.int64], means: Floats) -> Floats:
    """The dominant sample of each mix: within all intervals of its group, by the expected rest."""
    weight, rest = (np.float32(ratio) for ratio in mixes.ratios)
    found = np.empty_like(mixes.values)
    for group in np.unique(groups):
        own = groups == group
        seen = mixes.values[own]
        low = np.clip(((seen - weight) / rest).max(axis=0), 0, 1)
        high = np.clip((seen / rest).min(axis=0), 0, 1)
        expected = ((seen - weight * means[mixes.labels[own, MINOR]]) / rest).mean(axis=0)
        found[own] = np.clip(expected, np.minimum(low, high), high)
    return found


def minors(mixes: Mixes, dominant: Floats) -> Floats:
    """What is left of each mix for its minor sample."""
    weight, rest = (np.float32(ratio) for ratio in mixes.ratios)
    found: Floats = np.clip((mixes.values - rest * dominant) / weight, 0, 1).astype(np.float32)
    return found
