"""A random rotation that both ends draw alike.

Whatever a vector was, its rotated coordinates look like draws of one Gaussian: each tells as much
as any other. Entries are permuted and get random signs, then each block of a power of two goes
through an orthonormal Hadamard transform, which takes additions and subtractions alone: every
machine gets the same bits.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Rotation:
    """One rotation of vectors of a size, drawn from a generator."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self._places = rng.permutation(size)
        self._signs = np.where(rng.integers(2, size=size, dtype=np.int8), np.float32(-1), 1)
        self._signs = self._signs.astype(np.float32)
        self._ends = np.cumsum(block_sizes(size))

    def forward(self, vector: Floats) -> Floats:
        """The rotated coordinates."""
        return self._transformed((vector * self._signs)[self._places])

    def backward(self, coordinates: Floats) -> Floats:
        """The vector that has these coordinates."""
        vector = np.empty_like(coordinates)
        vector[self._places] = self._transformed(coordinates)
        return vector * self._signs

    def _transformed(self, row: Floats) -> Floats:
        parts = np.split(row, self._ends[:-1])
        return np.concatenate([np.zeros(0, np.float32), *(hadamard(part) for part in parts)])


def block_sizes(size: int) -> list[int]:
    """The powers of two that add up to ``size``, the largest first."""
    return [1 << bit for bit in reversed(range(size.bit_length())) if size >> bit & 1]


def hadamard(row: Floats) -> Floats:
    """The orthonormal Hadamard transform of a power of two of entries [..., n]; its own inverse.

    Each pass adds and subtracts the two halves and interleaves the results; after log2 n of them
    all entries are back in their order.
    """
    size = row.shape[-1]
    now, then = row, np.empty_like(row)
    for _ in range(size.bit_length() - 1):
        low, high = now[..., : size // 2], now[..., size // 2 :]
        np.add(low, high, out=then[..., 0::2])
        np.subtract(low, high, out=then[..., 1::2])
        now, then = then, (np.empty_like(row) if now is row else now)
    return now * np.float32(1 / math.sqrt(size))
