"""The standard normal distribution, by what Python itself computes: a small device has no SciPy."""

import math

SERIES_FROM = -30.0
"""Below, where ``erfc`` comes close to underflow, terms of the series soon vanish."""


def sf(x: float) -> float:
    """The survival function of a standard normal variable: P(z > x)."""
    return math.erfc(x / math.sqrt(2)) / 2


def logcdf(x: float) -> float:
    """log P(z <= x), also where the probability is too small for a float."""
    if x > 0:
        return math.log1p(-sf(x))
    if x > SERIES_FROM:
        return math.log(sf(-x))
    total = term = 1.0
    for k in range(1, 9):
        term *= -(2 * k - 1) / (x * x)
        total += term
    return -x * x / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log(total)


def quantile(probability: float) -> float:
    """The x with P(z <= x) = ``probability``, between 0 and 1."""
    from statistics import NormalDist  # slow to import, and seldom used

    return NormalDist().inv_cdf(probability)
