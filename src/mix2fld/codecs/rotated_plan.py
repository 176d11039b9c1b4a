"""How the bits of a rotated update are spent: on levels, on a share, or on the largest.

With a bit or more for each coordinate, all are rounded to Lloyd-Max levels (EDEN, Vargaftik et al.
2022; with one bit, DRIVE, 2021). With less, EDEN sends the signs of a random share. With
``largest_per_group`` it looks for the largest instead: of each of many random groups of n, which
coordinate has the largest magnitude, and its sign. That magnitude grows with n, so that a bit of an
index captures more than a bit for another coordinate.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import LEAST_UPDATE_BITS
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


COARSE_NORM, FINE_NORM = 8, 16
"""Bits of the norm: with less than a bit for each coordinate, and with more."""
MOST_LEVEL_BITS = 16
"""Finer levels come no closer than float32 does to the sums of a rotation."""


class CodePart(NamedTuple):
    """Codes of one kind: of each group of coordinates the place of the largest, and its level."""

    groups: int
    index_bits: int
    level_bits: int  # the sign is one of them

    @property
    def width(self) -> int:
        """Bits of a code."""
        return self.index_bits + self.level_bits

    @property
    def coordinates(self) -> int:
        """How many coordinates are looked at."""
        return self.groups << self.index_bits

    @property
    def captured(self) -> float:
        """Expected squared norm retained by its codes; that of a coordinate is 1."""
        if self.index_bits:
            return self.groups * mean_largest(1 << self.index_bits) ** 2
        return self.groups * lloyd_max(self.level_bits).captured


class BitPlan(NamedTuple):
    """How the bits of an upload are spent."""

    norm_bits: int
    parts: tuple[CodePart, ...]

    @property
    def bits(self) -> int:
        """The bits that the plan uses."""
        return self.norm_bits + sum(part.groups * part.width for part in self.parts)

    @property
    def captured(self) -> float:
        """Expected squared norm retained by all codes, out of 1 for each coordinate."""
        return sum(part.captured for part in self.parts)


@lru_cache(maxsize=256)
def make_plan(bits: int, size: int, largest_per_group: bool) -> BitPlan:
    """The plan for ``size`` coordinates."""
    if bits >= size + FINE_NORM:
        return _plan(FINE_NORM, *_levels(bits - FINE_NORM, size))
    bit_budget = bits - COARSE_NORM
    return _plan(
        COARSE_NORM,
        *(_largest(bit_budget, size) if largest_per_group else _share(bit_budget, size)),
    )


def most_bits(size: int) -> int:
    """The bits beyond which more are of no use."""
    return FINE_NORM + MOST_LEVEL_BITS * size if size else 0


def bits_with_norm(bits_per_weight: float, weights: int) -> int:
    """Bits of an upload that has so many for each weight, and those of its norm."""
    norm_bits = FINE_NORM if bits_per_weight >= 1 else COARSE_NORM
    return max(LEAST_UPDATE_BITS, round(bits_per_weight * weights) + norm_bits)


def _levels(bit_budget: int, size: int) -> tuple[CodePart, ...]:
    """All coordinates, some of them with one bit more than the others."""
    level_bits = min(bit_budget // size, MOST_LEVEL_BITS)
    finer = bit_budget - level_bits * size if level_bits < MOST_LEVEL_BITS else 0
    return CodePart(finer, 0, level_bits + 1), CodePart(size - finer, 0, level_bits)


def _share(bit_budget: int, size: int) -> tuple[CodePart, ...]:
    """The signs of some coordinates."""
    return (CodePart(min(bit_budget, size), 0, 1),)


def _largest(bit_budget: int, size: int) -> tuple[CodePart, ...]:
    """Disjoint groups, of the size that captures most: about as large as they can be."""
    fitting = [
        j for j in range(min(bit_budget, size.bit_length())) if bit_budget // (1 + j) << j <= size
    ]
    choices = [_groups(bit_budget, size, index_bits) for index_bits in fitting or [0]]
    return max(choices, key=lambda parts: sum(part.captured for part in parts))


def _groups(bit_budget: int, size: int, index_bits: int) -> tuple[CodePart, ...]:
    """Groups of one size; bits left over make some of them twice as large."""
    groups = min(bit_budget // (1 + index_bits), size)
    left = bit_budget - groups * (1 + index_bits)
    larger = min(left, groups, (size >> index_bits) - groups)
    return CodePart(larger, index_bits + 1, 1), CodePart(groups - larger, index_bits, 1)


def _plan(norm_bits: int, *parts: CodePart) -> BitPlan:
    return BitPlan(norm_bits, tuple(part for part in parts if part.groups))
