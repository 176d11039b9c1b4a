"""A random rotation that both ends draw alike.

Whatever a vector was, its rotated coordinates look like draws of one Gaussian: each tells as much
as any other. Entries are permuted and get random signs, then each block of a power of two goes
through an orthonormal Hadamard transform, which takes additions and subtractions alone: every
machine gets the same bits, with the compiled kernel or without it.
"""

import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.native.rotation import RotationKernel, rotation_kernel

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
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

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        check_draws()
        self.choices = draw_choices(rng, size)

    def forward(self, vector: Floats) -> Floats:
        """The rotated coordinates."""
        places, signs, _ = self.choices
        return _in_blocks((vector * signs).take(places))

    def backward(self, coordinates: Floats) -> Floats:
        """The vector that has these coordinates."""
        places, signs, _ = self.choices
        vector = np.empty_like(coordinates)
        vector[places] = _in_blocks(coordinates)
        vector *= signs
        return vector


Rngs = Sequence[np.random.Generator]
"""One for each row."""


def pick(
    rngs: Rngs, rows: Floats, deviations: Sequence[float], lengths: Indices
) -> tuple[Indices, Floats]:
    """Of each row, the largest of each group of rotated coordinates, in units of its deviation.

    Groups are as long as ``lengths`` says, one after the other among the coordinates as they are
    dealt. Returns the place of each in its group, the first one of equal magnitudes, and itself;
    both [n, groups].
    """
    kernel, units = _kernel_for(rngs), np.array(deviations, np.float32)
    if kernel is not None:
        return kernel.pick(rngs, rows, units, lengths)
    within = np.empty((len(rows), len(lengths)), np.int64)
    found, firsts = np.empty((len(rows), len(lengths)), np.float32), _firsts(lengths)
    for number, rng in enumerate(rngs):
        rotation = Rotation(rng, rows.shape[1])
        turned = rotation.forward(rows[number]) / units[number]
        dealt = turned[rotation.choices.dealt[: lengths.sum()]]
        magnitudes = np.abs(dealt)
        most = np.repeat(np.maximum.reduceat(magnitudes, firsts), lengths)
        (largest,) = np.nonzero(magnitudes == most)
        _, first = np.unique(np.searchsorted(firsts, largest, side="right"), return_index=True)
        within[number], found[number] = largest[first] - firsts, dealt[largest[first]]
    return within, found


def place(rngs: Rngs, size: int, lengths: Indices, within: Indices, levels: Floats) -> Floats:
    """The rows of which ``pick`` found ``levels``, with 0 for every other rotated coordinate."""
    kernel = _kernel_for(rngs)
    if kernel is not None:
        return kernel.place(rngs, size, lengths, within, levels)
    rows, places = np.empty((len(rngs), size), np.float32), _firsts(lengths) + within
    for number, rng in enumerate(rngs):
        rotation, turned = Rotation(rng, size), np.zeros(size, np.float32)
        turned[rotation.choices.dealt[places[number]]] = levels[number]
        rows[number] = rotation.backward(turned)
    return rows


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
            field="numpy",
            value=np.__version__,
            hint="draws random numbers that differ from those of the other "
            "end of the link; must be a version that mix2fld was tested with, such as 2.4",
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


def _firsts(lengths: Indices) -> Indices:
    """Where each group begins."""
    return np.cumsum(lengths) - lengths


def _kernel_for(rngs: Rngs) -> RotationKernel | None:
    """The kernel, if it can draw from these generators: PCG64s that keep no half of a draw."""
    sources = [rng.bit_generator for rng in rngs]
    able = all(isinstance(own, np.random.PCG64) and not own.state["has_uint32"] for own in sources)
    check_draws()
    return usable_kernel() if able else None


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
