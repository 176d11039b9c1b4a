"""What the server makes of noisy statistics: ways to find means, covariances and samples.

Everything here but ``directions`` is post-processing of what the rows upload: it cannot weaken the
guarantee. Directions are orthonormal and chosen without private samples, so that they neither.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.tasks import private_statistics
from mix2fld.tasks.class_statistics import square
from mix2fld.tasks.edges import Floats
from mix2fld.tasks.private_statistics import (
    RIDGE,
    RIDGE_OF_NOISE,
    Bounds,
    clean_covariance,
    means_of,
    noisy_covariance,
)
from mix2fld.types import Inputs

SHIFT = 2
"""Pixels by which generated images are moved at most, along each side."""
Labels = NDArray[np.integer[Any]]


class Known(NamedTuple):
    """What the server knows beside noisy sums or a noisy scatter."""

    kind: str
    samples: int
    deviation: float  # of the noise on each value of the sum over all devices
    bounds: Bounds
    public: Floats  # within-label covariance of public samples, in the same features


Means = Callable[[Floats, Known], Floats]
Covariance = Callable[[Floats, Known], Floats]
Move = Callable[[np.random.Generator, Inputs], Inputs]


def plain_means(sums: Floats, known: Known) -> Floats:
    """As the rows have them."""
    return means_of(sums, known.samples, known.bounds)


def shrunk_means(sums: Floats, known: Known) -> Floats:
    """Each feature towards the mean of all labels, by how much of its variance is noise."""
    return private_statistics.shrunk_means(sums, known.samples, known.bounds, known.deviation)


def plain_covariance(scatter: Floats, known: Known) -> Floats:
    """As the rows have it: with a ridge for a head, without what noise adds for seeds."""
    find = clean_covariance if known.kind == "samples" else noisy_covariance
    return find(scatter, known.samples, known.deviation)


def optimal_covariance(scatter: Floats, known: Known) -> Floats:
    """Eigenvalues v as sqrt(v² - edge²): of a few large ones in noise, the least squared error."""
    values, vectors = np.linalg.eigh(square(scatter) / known.samples)
    edge = _edge(len(values), known)
    values = np.sqrt(np.maximum(np.maximum(values, 0) ** 2 - edge**2, 0)) + _ridge(edge, known)
    covariance: Floats = (vectors * values) @ vectors.T
    return covariance


def diagonal_covariance(scatter: Floats, known: Known) -> Floats:
    """Variances alone, none below a hundredth of their mean."""
    variances = np.diag(square(scatter)) / known.samples
    least = max(0.01 * float(variances.mean()), RIDGE)
    return np.diag(np.maximum(variances, least))


def public_covariance(scatter: Floats, known: Known) -> Floats:
    """That of public samples, in the size of the private one."""
    noisy = square(scatter) / known.samples
    scale = max(float((noisy * known.public).sum() / (known.public**2).sum()), RIDGE)
    return scale * known.public + RIDGE * np.eye(len(noisy))


def blended_covariance(scatter: Floats, known: Known) -> Floats:
    """Private and public: the public one counts by how much of their distance is noise."""
    noisy, prior = square(scatter) / known.samples, public_covariance(scatter, known)
    noise = len(scatter) * (known.deviation / known.samples) ** 2
    weight = min(1.0, noise / float(((noisy - prior) ** 2).sum()))
    values, vectors = np.linalg.eigh((1 - weight) * noisy + weight * prior)
    edge = (1 - weight) * _edge(len(values), known)
    if known.kind == "samples":
        values = np.maximum(values - edge, 0)
    values = np.maximum(values, 0) + _ridge(edge, known)
    covariance: Floats = (vectors * values) @ vectors.T
    return covariance


def _edge(features: int, known: Known) -> float:
    """The largest eigenvalue that noise alone would have."""
    return float(np.sqrt(2 * features) * known.deviation / known.samples)


def _ridge(edge: float, known: Known) -> float:
    return 0.0 if known.kind == "samples" else RIDGE + RIDGE_OF_NOISE * edge


def directions(basis: str, lowest: Floats, public: Floats, seed: int) -> Floats:
    """Orthonormal rows [d, F] in all frequencies: the lowest, or as many others."""
    if basis == "lowest frequencies":
        return lowest
    count, size = lowest.shape
    if basis == "random":
        return np.linalg.qr(stream(seed, "ideas").normal(size=(size, count)))[0].T
    _, vectors = np.linalg.eigh(np.cov(public.T))  # principal ones of public samples
    return vectors[:, ::-1][:, :count].T


def stay(rng: np.random.Generator, inputs: Inputs) -> Inputs:
    """Images as they are."""
    del rng
    return inputs


def shifted(rng: np.random.Generator, inputs: Inputs) -> Inputs:
    """Every image moved by a few pixels; what comes in is empty."""
    height, width = inputs.shape[1:3]
    padded = np.pad(inputs, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)))
    places = rng.integers(0, 2 * SHIFT + 1, size=(len(inputs), 2))
    moved = [
        image[row : row + height, column : column + width]
        for image, (row, column) in zip(padded, places, strict=True)
    ]
    return np.stack(moved)


def by_slant(inputs: Inputs, labels: Labels, num_labels: int) -> Labels:
    """Two groups for each label: the sign of the mixed moment of an image, which needs no data."""
    height, width = inputs.shape[1:3]
    rows, columns = (np.arange(side) - (side - 1) / 2 for side in (height, width))
    moment = np.einsum("nijc,i,j->n", inputs.astype(np.float64), rows, columns)
    return labels + num_labels * (moment > 0)
