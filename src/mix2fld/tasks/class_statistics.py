"""Statistics of labelled features, and the linear head that follows from them in closed form.

Sums and scatters of many devices add up to those of all their samples: one upload from each is
enough for the head that linear discriminant analysis would find on all of them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.edges import Floats
from mix2fld.tasks.features import Features
from mix2fld.types import Inputs, Statistics, Tensors

RIDGE = 0.1
"""What is added to each eigenvalue of the scatter, as a part of their mean."""
HEAD_SCALE = 0.1
"""By how much the logits of the head are smaller than those of the analysis: it is too sure."""


NEAREST_MEAN = 100.0
"""Without a covariance: the squared length of a class mean over the variance that is assumed."""


def measure_statistics(
    features: Features, inputs: Inputs, labels: NDArray[np.int32], num_labels: int
) -> Statistics:
    """The statistics of one device: about its own class means, which its sums tell."""
    found = features.measure(inputs)
    counts = np.bincount(labels, minlength=num_labels).astype(np.float64)
    sums = np.zeros((num_labels, found.shape[1]))
    np.add.at(sums, labels, found)
    rest = found - (sums / np.maximum(counts, 1)[:, None])[labels]
    scatter = upper_triangle(rest.T @ rest)
    return Statistics(*(part.astype(np.float32) for part in (counts, sums, scatter)))


def closed_form_network(features: Features, statistics: Sequence[Statistics]) -> Tensors:
    """The fixed network with the head that follows from the statistics of some devices."""
    kernel, bias = discriminant_head(statistics)
    return features.with_head(HEAD_SCALE * kernel, HEAD_SCALE * bias)


def discriminant_head(statistics: Sequence[Statistics]) -> tuple[Floats, Floats]:
    """Kernel [N_L, d] and bias [N_L] of linear discriminant analysis with equal priors.

    Counted from the mean of the class means, which changes all logits of a sample alike. A label
    that nobody has stands there: its logit is zero.
    """
    counts, means, covariance = pooled(statistics)
    known = counts > 0
    centred = np.where(known[:, None], means - means[known].mean(axis=0), 0.0)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0)
    inverse = (vectors / (values + RIDGE * max(float(values.mean()), 1e-12))) @ vectors.T
    kernel: Floats = centred @ inverse
    centre = means[known].mean(axis=0)
    bias = -np.sum(kernel * (centred / 2 + centre), axis=1)
    return kernel, bias


def pooled(statistics: Sequence[Statistics]) -> tuple[Floats, Floats, Floats]:
    """Counts [N_L], class means [N_L, d] and within-class covariance [d, d] of all samples.

    The scatter about the means of all is that about the means of each, and what these are apart.
    """
    counts = sum_of([one.counts for one in statistics])
    sums = sum_of([one.sums for one in statistics])
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1e-12)[:, None], 0.0)
    if not statistics[0].scatter.size:  # means alone: alike in all directions
        known = means[counts > 0]
        spread = np.square(known - known.mean(axis=0)).sum(axis=1).mean() / NEAREST_MEAN
        return counts, means, np.eye(means.shape[1]) * max(float(spread), 1e-12)
    scatter = square(sum_of([one.scatter for one in statistics]))
    for one in statistics:
        own = np.maximum(one.counts.astype(np.float64), 0)
        apart = np.where(own[:, None] > 0, one.sums / np.maximum(own, 1e-12)[:, None] - means, 0.0)
        scatter += (own[:, None] * apart).T @ apart
    return counts, means, scatter / max(float(counts.sum()), 1e-12)


def sum_of(parts: Sequence[NDArray[np.float32]]) -> Floats:
    """Their sum in float64, in the order in which they come."""
    total = np.zeros(parts[0].shape)
    for part in parts:
        total += part
    return total


def upper_triangle(matrix: Floats) -> Floats:
    """A symmetric matrix [d, d] as one row [d (d + 1) / 2] of the same length as a vector."""
    rows, columns = np.triu_indices(len(matrix))
    upper: Floats = matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2))
    return upper


def square(upper: Floats) -> Floats:
    """The symmetric matrix that ``upper_triangle`` took apart."""
    size = int((np.sqrt(8 * len(upper) + 1) - 1) / 2 + 0.5)
    rows, columns = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[rows, columns] = upper / np.where(rows == columns, 1.0, np.sqrt(2))
    matrix.T[rows, columns] = matrix[rows, columns]
    return matrix
