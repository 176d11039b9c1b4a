"""Ridge regression in closed form, exact from sums: those of all devices are those of one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.class_statistics import pooled, upper_triangle
from mix2fld.tasks.features import Features
from mix2fld.types import Inputs, Statistics, Tensors

RIDGE = 1e-3
"""Added to each eigenvalue of the features' covariance, as a part of their mean."""


def measure_statistics(
    features: Features, inputs: Inputs, targets: NDArray[np.float32]
) -> Statistics:
    """Of the features with the T targets behind them: how many, their sums, and their scatter."""
    found = np.concatenate([features.measure(inputs), targets], axis=1)
    sums = found.sum(axis=0, keepdims=True)
    rest = found - sums / len(found)
    parts = (np.array([len(found)]), sums, upper_triangle(rest.T @ rest))
    return Statistics(*(part.astype(np.float32) for part in parts))


def closed_form_network(
    features: Features, statistics: Sequence[Statistics], numbers: int
) -> Tensors:
    """The fixed network with the ridge head of all samples; ``numbers``: T."""
    _, means, covariance = pooled(statistics)
    own, centre, aim = covariance[:-numbers, :-numbers], means[0, :-numbers], means[0, -numbers:]
    values, vectors = np.linalg.eigh(own)
    values = np.maximum(values, 0)
    inverse = (vectors / (values + RIDGE * max(float(values.mean()), 1e-12))) @ vectors.T
    kernel = covariance[-numbers:, :-numbers] @ inverse
    return features.with_head(kernel, aim - kernel @ centre)
