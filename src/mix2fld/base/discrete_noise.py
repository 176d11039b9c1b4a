"""Noise of whole numbers that devices add each, so that a sum has enough of it.

The discrete Gaussian has probabilities in proportion to exp(-k^2 / 2 sigma^2). Those of a sum of n
are within a factor of exp(10 n exp(-pi^2 sigma^2)) of one with the sum of the variances (Kairouz,
Liu and Steinke, ICML 2021), which is 1 for any sigma here, and so is what both have in common with
Gaussian noise on whole numbers.
"""

import numpy as np
from numpy.typing import NDArray

LEAST_DEVIATION = 3.0
"""From which on a sum differs from one draw by less than 1e-30."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def discrete_gaussian(
    rng: np.random.Generator, deviation: float, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Draws: rounded Gaussian ones, of which some are refused to leave these probabilities."""
    if deviation < LEAST_DEVIATION:
        raise ValueError(f"a deviation of {deviation:g}; must be at least {LEAST_DEVIATION:g}")
    size = int(np.prod(shape))
    found, left = np.zeros(size, np.int64), np.arange(size)
    most = _rounded_share(np.zeros(1), deviation)
    while len(left):
        drawn = np.rint(rng.normal(scale=deviation, size=len(left)))
        kept = rng.random(len(left)) * _rounded_share(drawn, deviation) <= most
        found[left[kept]] = drawn[kept].astype(np.int64)
        left = left[~kept]
    return found.reshape(shape)


def _rounded_share(numbers: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Probability that a Gaussian is rounded to a number, over its density there."""
    total = np.zeros(len(numbers))
    for node, weight in zip(NODES / 2, WEIGHTS / 2, strict=True):
        total += weight * np.exp(-(2 * numbers * node + node * node) / (2 * deviation**2))
    return total
