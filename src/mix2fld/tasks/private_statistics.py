"""Statistics of labelled features with bounded sensitivity, and the noise that keeps a budget.

Two data sets of a device are neighbours if one sample, with its label, is replaced by another; how
many samples a device holds is public. Every feature vector is at most C1 long, every distance from
a class mean at most C2, so that a replaced sample moves

- class sums of (u, w C1), whose last column counts, by at most sqrt(2 (1 + w²)) C1 if it changes
  its label, and by |u - u'| if it does not. Features that are not negative before an orthonormal
  projection are at most sqrt(2) C1 apart, since their inner product is not negative; others 2 C1.
- the sum of r rᵀ by |r rᵀ - s sᵀ| = sqrt(|r|⁴ + |s|⁴ - 2 (r s)²), at most sqrt(2) C2². The means
  that r is relative to are made of sums with noise, so they are public by then.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.accounting import noise_multiplier, shares
from mix2fld.base.streams import stream
from mix2fld.data.samples import PIXEL_MAX
from mix2fld.tasks.class_statistics import HEAD_SCALE, square, upper_triangle
from mix2fld.tasks.edges import Floats
from mix2fld.tasks.features import Features, clip_norms
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.sample_features import FEATURE_KINDS
from mix2fld.types import Inputs, Tensors

COUNT_WEIGHT = 0.3
"""w: what a sample counts in its class's count, in units of C1."""
NOISE_INPUTS = 256
"""Random inputs whose features say how long those of an unknown network are."""
RIDGE, RIDGE_OF_NOISE = 0.001, 0.1
"""Added to each eigenvalue of the scatter, and so much of what noise alone adds to the largest."""
LEAST_SHARE = 0.01
"""Of all samples: a label that noise makes rarer counts as that."""
GRID = 2.0**-10
"""Steps of what is summed as whole numbers."""
MEANS = "means"
"""The entry of a device and of the server that holds class means."""


class Bounds(NamedTuple):
    """How much one sample can count."""

    longest: float  # C1
    residual: float  # C2
    nonnegative: bool

    @property
    def sums(self) -> float:
        """How far replacing a sample moves class sums and counts."""
        other_label = np.sqrt(2 * (1 + COUNT_WEIGHT**2))
        same_label = np.sqrt(2) if self.nonnegative else 2.0
        return float(self.longest * max(other_label, same_label))

    @property
    def scatter(self) -> float:
        """How far replacing a sample moves the scatter."""
        return float(np.sqrt(2) * self.residual**2)


class Deviations(NamedTuple):
    """Of the noise on each value."""

    sums: float
    scatter: float


class MeasuredFeatures(NamedTuple):
    """Features of a device's samples, none longer than the bound, and the noise they need."""

    values: Floats  # [n, d]
    labels: NDArray[np.int32]  # [n]
    bounds: Bounds
    noise: Deviations


@lru_cache(maxsize=4)
def bounds_of(learning: Learning, kind: str = "model") -> Bounds:
    """The bounds of a run, from its config and from public numbers."""
    features, config = FEATURE_KINDS[kind].make(learning), learning.config.privacy
    longest = features.clip
    if longest is None:
        given = config.feature_clip
        longest = _length_on_noise(learning, features) if given == "auto" else given
    residual = config.scatter_clip
    if residual == "auto":
        by_side = longest * (0.07 + 0.063 * learning.config.statistics.feature_side)
        residual = by_side if features.away is None else features.away
    return Bounds(longest, residual, nonnegative=features.clip is not None)


def deviations(learning: Learning, kind: str = "model", *, on_grid: bool = False) -> Deviations:
    """The noise that the budget asks for, also if statistics are rounded before it is added.

    Rounding moves each value by at most half a step, so those of two neighbours apart by one.
    """
    config, bounds = learning.config.privacy, bounds_of(learning, kind)
    multiplier = noise_multiplier(config.epsilon, config.delta)
    first, second = shares(multiplier, config.sums_budget, 1 - config.sums_budget)
    d = len(FEATURE_KINDS[kind].make(learning).projection)
    step = GRID if on_grid else 0.0
    sums = bounds.sums + step * np.sqrt(learning.dims.num_labels * (d + 1))
    scatter = bounds.scatter + step * np.sqrt(d * (d + 1) / 2)
    return Deviations(float(first * sums), float(second * scatter))


def measure_samples(
    learning: Learning, inputs: Inputs, labels: NDArray[np.int32], kind: str = "model"
) -> MeasuredFeatures:
    """What a device's statistics are taken of."""
    bounds = bounds_of(learning, kind)
    values = clip_norms(FEATURE_KINDS[kind].make(learning).measure(inputs), bounds.longest)
    return MeasuredFeatures(values, labels, bounds, deviations(learning, kind))


def class_sums(own: MeasuredFeatures, num_labels: int) -> Floats:
    """Sums of each label, and in the last column its count in units of w C1: [N_L, d + 1]."""
    ones = np.full((len(own.labels), 1), COUNT_WEIGHT * own.bounds.longest)
    sums = np.zeros((num_labels, own.values.shape[1] + 1))
    np.add.at(sums, own.labels, np.concatenate([own.values, ones], axis=1))
    return sums


def class_scatter(own: MeasuredFeatures, means: NDArray[np.floating]) -> Floats:
    """The scatter about given class means, as an upper triangle: [d (d + 1) / 2]."""
    rest = clip_norms(own.values - means[own.labels], own.bounds.residual)
    return upper_triangle(rest.T @ rest)


def means_of(sums: Floats, samples: int, bounds: Bounds) -> Floats:
    """Class means [N_L, d] from class sums with noise."""
    means: Floats = sums[:, :-1] / _counts(sums, samples, bounds)
    return means


def shrunk_means(sums: Floats, samples: int, bounds: Bounds, deviation: float) -> Floats:
    """The same, each feature moved towards its mean by how much of its variance is noise."""
    counts = _counts(sums, samples, bounds)
    means, noise = sums[:, :-1] / counts, (deviation / counts) ** 2
    centre = (counts * means).sum(axis=0) / counts.sum()
    apart = means - centre
    signal = np.maximum(np.mean(apart**2, axis=0) - noise.mean(), 0)
    total = signal + noise
    return centre + apart * np.divide(signal, total, out=np.ones_like(total), where=total > 0)


def _counts(sums: Floats, samples: int, bounds: Bounds) -> Floats:
    """Of each label, from class sums with noise: [N_L, 1]."""
    counts: Floats = sums[:, -1:] / (COUNT_WEIGHT * bounds.longest)
    return np.maximum(counts, LEAST_SHARE * samples)


def noisy_covariance(scatter: Floats, samples: int, deviation: float) -> Floats:
    """The within-class covariance [d, d] from a scatter with noise, made positive."""
    values, vectors = np.linalg.eigh(square(scatter) / samples)
    edge = np.sqrt(2 * len(values)) * deviation / samples
    values = np.maximum(values, 0) + RIDGE + RIDGE_OF_NOISE * edge
    covariance: Floats = (vectors * values) @ vectors.T
    return covariance


def clean_covariance(scatter: Floats, samples: int, deviation: float) -> Floats:
    """The same without what noise alone adds: of each eigenvalue, what is above its edge."""
    values, vectors = np.linalg.eigh(square(scatter) / samples)
    edge = np.sqrt(2 * len(values)) * deviation / samples
    covariance: Floats = (vectors * np.maximum(values - edge, 0)) @ vectors.T
    return covariance


def network_of(features: Features, means: Floats, covariance: Floats) -> Tensors:
    """The fixed network with the head of linear discriminant analysis with equal priors."""
    kernel: Floats = np.linalg.solve(covariance, means.T).T.astype(np.float64)
    bias = -np.sum(kernel * means, axis=1) / 2
    return features.with_head(HEAD_SCALE * kernel, HEAD_SCALE * bias)


def _length_on_noise(learning: Learning, features: Features) -> float:
    """The median length of features of random inputs: public, for any network."""
    samples = learning.dims.samples
    rng = stream(learning.seed, "noise-inputs")
    shape = (NOISE_INPUTS, *samples.shape)
    largest = PIXEL_MAX if samples.dtype == "uint8" else int(samples.high)
    drawn = (
        np.clip(rng.normal(size=shape), samples.low, samples.high).astype(np.float32)
        if samples.dtype == "float32"
        else rng.integers(0, largest + 1, size=shape).astype(samples.dtype)
    )
    lengths = np.linalg.norm(features.measure(drawn), axis=1)
    return max(float(np.median(lengths)), 1e-6)
