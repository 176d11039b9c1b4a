"""Statistics of devices that lie far from those of all others are left out of the closed form."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.protocols.aggregation.aggregate import CAP
from mix2fld.protocols.aggregation.outliers import FEWEST
from mix2fld.protocols.aggregation.robust import OUTLIER_FACTOR
from mix2fld.tasks.edges import Floats
from mix2fld.types import Statistics

if TYPE_CHECKING:
    from mix2fld.config.trust import DefenceConfig

MOST_COMPARED = 101
"""Of so many devices, evenly spaced, the median is taken that all are compared with."""


def trusted_statistics(
    held: Mapping[int, Statistics], config: "DefenceConfig"
) -> dict[int, Statistics]:
    """The statistics that count, each for as many samples as the settings let it."""
    far = far_statistics(held) if config.aggregation != "mean" else {}
    kept = {device: held[device] for device in sorted(held) if device not in far}
    if config.sample_weights == "claimed":
        return kept
    samples = {device: _samples(own) for device, own in kept.items()}
    typical = float(np.median(list(samples.values())))
    wanted = dict.fromkeys(kept, typical)
    if config.sample_weights == "capped":
        wanted = {d: min(samples[d], CAP * typical) for d in kept}
    return {d: _scaled(own, wanted[d] / samples[d]) for d, own in kept.items()}


def far_statistics(held: Mapping[int, Statistics]) -> dict[int, float]:
    """Devices whose statistics lie far from the middle, and how many times the median does.

    Class sums are compared with those of as many typical samples, in standard deviations but for a
    factor that all share; scatters as those of one sample. Never half of all devices or more are.
    """
    devices = sorted(held)
    if len(devices) < FEWEST:
        return {}
    compared = [held[d] for d in devices[:: -(-len(devices) // MOST_COMPARED)]]
    means, judged = _typical_means(compared)
    scatter = np.median([own.scatter / _samples(own) for own in compared], axis=0)
    distances = np.array([_distances(held[d], means, judged, scatter) for d in devices])
    typical = np.median(distances, axis=0)
    times = np.max(distances / np.where(typical > 0, typical, np.inf), axis=1)
    order = np.argsort(-times, kind="stable")[: (len(devices) - 1) // 2].tolist()
    return {devices[i]: float(times[i]) for i in sorted(order) if times[i] > OUTLIER_FACTOR}


def _typical_means(compared: list[Statistics]) -> tuple[Floats, NDArray[np.bool_]]:
    """The median class means [N_L, d], and which labels enough devices have to tell one [N_L]."""
    counts = np.array([own.counts for own in compared], np.float64)
    sums = np.array([own.sums for own in compared], np.float64)
    means = np.zeros(sums.shape[1:])
    judged = (counts >= 1).sum(axis=0) >= FEWEST
    for label in np.flatnonzero(judged).tolist():
        have = counts[:, label] >= 1
        means[label] = np.median(sums[have, label] / counts[have, label, None], axis=0)
    return means, judged


def _distances(
    own: Statistics, means: Floats, judged: NDArray[np.bool_], scatter: Floats
) -> tuple[float, float]:
    """How far the class sums lie, and how far the scatter does."""
    apart = own.sums - own.counts[:, None] * means
    squares = (apart**2).sum(axis=1) / np.maximum(own.counts, 1)
    of_scatter = np.linalg.norm(own.scatter / _samples(own) - scatter)
    return float(np.sqrt(squares[judged].sum())), float(of_scatter)


def _samples(own: Statistics) -> float:
    return max(float(own.counts.sum()), 1.0)


def _scaled(own: Statistics, factor: float) -> Statistics:
    """As if a device had so many times its samples."""
    if factor == 1:
        return own
    return Statistics(*(np.float32(factor) * part for part in own))
