"""What is known of a Gaussian coordinate before it is seen: how large, and how best to round it."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.normal import quantile, sf

Floats = NDArray[np.float64]
LLOYD_BITS, LLOYD_PASSES = 8, 500
"""With more bits, the levels that Lloyd's passes begin with are good enough."""
TAIL, STEPS = 12.0, 24_000
"""No count of Gaussians in a computer's memory has one beyond ``TAIL``."""


@lru_cache(maxsize=64)
def mean_largest(count: int) -> float:
    """E max |z_i| of ``count`` independent standard Gaussians, the integral of P(max > x)."""
    beyond = -np.expm1(count * np.log1p(-2 * _tail()))
    return float(np.trapezoid([1.0, *beyond], dx=TAIL / STEPS))


@lru_cache(maxsize=1)
def _tail() -> Floats:
    """P(z > x) at the steps of the integral."""
    return _above(np.linspace(0, TAIL, STEPS + 1)[1:])


class Levels(NamedTuple):
    """How the magnitude of a Gaussian is rounded: each cell becomes its mean."""

    edges: Floats  # between neighbouring cells
    means: Floats  # of the cells

    @property
    def captured(self) -> float:
        """E z^2 less the error: the mean square of z after rounding."""
        bounds = _bounds(self.edges)
        return float(np.sum(2 * (bounds.above[:-1] - bounds.above[1:]) * self.means**2))


@lru_cache(maxsize=16)
def lloyd_max(bits: int) -> Levels:
    """The levels of least squared error, one of the bits being the sign (Lloyd, Max)."""
    count = 1 << (bits - 1)
    ranks = 0.5 + (np.arange(count) + 0.5) / (2 * count)
    means = math.sqrt(3) * np.array(
        [quantile(rank) for rank in ranks]
    )  # optimal as the cells get small (Panter, Dite)
    for _ in range(LLOYD_PASSES if bits <= LLOYD_BITS else 1):
        edges = (means[1:] + means[:-1]) / 2
        bounds = _bounds(edges)
        means = -np.diff(bounds.density) / -np.diff(bounds.above)
    return Levels(edges, means)


class _Bounds(NamedTuple):
    """At 0, the edges between cells, and infinity."""

    density: Floats
    above: Floats  # P(z > edge)


def _bounds(edges: Floats) -> _Bounds:
    density = np.exp(-(edges**2) / 2) / math.sqrt(2 * math.pi)
    first, last = 1 / math.sqrt(2 * math.pi), 0.0
    return _Bounds(
        np.concatenate([[first], density, [last]]),
        np.concatenate([[0.5], _above(edges), [0.0]]),
    )


def _above(edges: Floats) -> Floats:
    return np.array([sf(edge) for edge in edges])
