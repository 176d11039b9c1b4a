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
        self._signs = (1 - 2 * rng.integers(2, size=size, dtype=np.int8)).astype(np.float32)

    def forward(self, vector: Floats) -> Floats:
        """The rotated coordinates."""
        return _in_blocks((vector * self._signs).take(self._places))

    def backward(self, coordinates: Floats) -> Floats:
        """The vector that has these coordinates."""
        vector = np.empty_like(coordinates)
        vector[self._places] = _in_blocks(coordinates)
        vector *= self._signs
        return vector


def _in_blocks(row: Floats) -> Floats:
    """Each block of a power of two, transformed."""
    found, start = np.empty_like(row), 0
    for size in block_sizes(len(row)):
        found[start : start + size] = hadamard(row[start : start + size])
        start += size
    return found


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
