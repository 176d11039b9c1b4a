"""A random rotation that both ends draw alike.

Whatever a vector was, its rotated coordinates look like draws of one Gaussian: each tells as much
as any other. Entries are permuted and get random signs, then each block of a power of two goes
through an orthonormal Hadamard transform, which takes additions and subtractions alone: every
machine gets the same bits, with the compiled kernel or without it.
"""

import math
import zlib
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.errors import InputError
from mix2fld.native.rotation import RotationKernel, rotation_kernel
from mix2fld.streams import stream

Floats = NDArray[np.float32]
Places = NDArray[np.signedinteger[Any]]
TRIAL_SIZE, TRIAL_CHECKSUM = 421, 0x3F932BC9
"""Of choices that all versions of NumPy must draw alike: both ends of a link rely on it."""


class Choices(NamedTuple):
    """Everything that is random in an upload."""

    places: Places
    signs: Floats
    dealt: Places
    """Rotated coordinates in the order in which they are dealt into groups."""


class Rotation:
    """One rotation of vectors of a size, drawn from a new generator, which nobody else uses."""

    def __init__(self, rng: np.random.Generator, size: int, plain: bool = False) -> None:
        """``plain`` computes with NumPy alone."""
        check_draws()
        self._kernel = None if plain or not _has_no_half(rng) else usable_kernel()
        drawn = draw_choices(rng, size) if self._kernel is None else self._kernel.draw(rng, size)
        self.choices = Choices(*drawn)

    def forward(self, vector: Floats) -> Floats:
        """The rotated coordinates."""
        places, signs, _ = self.choices
        if self._kernel is not None:
            return self._kernel.forward(vector, places, signs)
        return _in_blocks((vector * signs).take(places))

    def backward(self, coordinates: Floats) -> Floats:
        """The vector that has these coordinates."""
        places, signs, _ = self.choices
        if self._kernel is not None:
            return self._kernel.backward(coordinates, places, signs)
        vector = np.empty_like(coordinates)
        vector[places] = _in_blocks(coordinates)
        vector *= signs
        return vector

    def largest(self, coordinates: Floats, groups: Places) -> NDArray[np.int64]:
        """Which of the places in each group [m, n] has the largest magnitude; the first of them."""
        if self._kernel is not None:
            return self._kernel.largest(coordinates, groups)
        return np.argmax(np.abs(coordinates[groups]), axis=1)


def draw_choices(rng: np.random.Generator, size: int) -> Choices:
    """What both ends draw, by NumPy."""
    places = rng.permutation(size)
    signs = (1 - 2 * rng.integers(2, size=size, dtype=np.int8)).astype(np.float32)
    return Choices(places, signs, rng.permutation(size))


@lru_cache(maxsize=1)
def check_draws() -> None:
    """Refuse a NumPy that draws other choices: the other end would read noise, and not know it."""
    drawn = draw_choices(stream(0, "trial"), TRIAL_SIZE)
    found = zlib.crc32(b"".join(part.astype("<i4").tobytes() for part in drawn))
    if found != TRIAL_CHECKSUM:
        raise InputError(
            f"numpy = {np.__version__}: draws random numbers that differ from those of the other "
            "end of the link; must be a version that mix2fld was tested with, such as 2.4"
        )


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


def _in_blocks(row: Floats) -> Floats:
    """Each block of a power of two, transformed."""
    found, start = np.empty_like(row), 0
    for size in block_sizes(len(row)):
        found[start : start + size] = hadamard(row[start : start + size])
        start += size
    return found


def _has_no_half(rng: np.random.Generator) -> bool:
    """Whether it draws from a PCG64 that keeps no half of a draw, as the kernel needs it."""
    bits = rng.bit_generator
    return isinstance(bits, np.random.PCG64) and not bits.state["has_uint32"]


@lru_cache(maxsize=1)
def usable_kernel() -> RotationKernel | None:
    """The kernel, if it draws and adds as this version of NumPy does: other ends may have none."""
    kernel = rotation_kernel()
    if kernel is None:
        return None
    drawn = kernel.draw(stream(0, "trial"), TRIAL_SIZE)
    expected = draw_choices(stream(0, "trial"), TRIAL_SIZE)
    same = all(map(np.array_equal, drawn, expected))
    return kernel if same else None
