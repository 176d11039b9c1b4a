"""The weights of a model, in full precision or rounded to a few bits each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs.bits import pack, unpack
from mix2fld.codecs.codec import (
    Encoded,
    PayloadError,
    Size,
    check_finite,
    check_size,
    encoded,
    typed,
)
from mix2fld.types import Dimensions, Tensors

Floats = NDArray[np.float32]
FULL_PRECISION = 32


@dataclass(frozen=True)
class Weights:
    """The arrays of a model, in the order of ``dims.weight_shapes``.

    With fewer than 32 bits a weight, each array is rounded to evenly spaced levels between its
    smallest and its largest value, which go ahead of the codes as two float32. Sending both ends,
    not one end and the step, makes them decode exactly: rounding twice is rounding once.
    """

    bits_per_weight: int = FULL_PRECISION

    def __post_init__(self) -> None:
        if self._quantised and not 2 <= self.bits_per_weight <= 16:
            raise InputError(
                field="bits_per_weight",
                value=self.bits_per_weight,
                hint="must be 32, or from 2 to 16",
            )

    @property
    def words(self) -> str:
        """What it carries, for reports."""
        return f"weights in {self.bits_per_weight} bits each" if self._quantised else "weights"

    @property
    def name(self) -> str:
        """``weights``, or e.g. ``weights8``."""
        return f"weights{self.bits_per_weight}" if self._quantised else "weights"

    @property
    def keeps_weights(self) -> bool:
        """Whether all weights arrive as they are."""
        return not self._quantised

    def size(self, dims: Dimensions) -> Size:
        """b N_mod, and two float32 per array if quantised."""
        ends = 64 * len(dims.weight_shapes) if self._quantised else 0
        return Size(self.bits_per_weight * dims.num_weights + ends)

    def encode(self, value: Sequence[Floats], dims: Dimensions) -> Encoded:
        """Little-endian float32; if quantised, the two ends of each array, then all codes."""
        flat = flatten_tensors(value, dims)
        if not self._quantised:
            return encoded(flat.astype("<f4", copy=False).tobytes(), self.size(dims))
        sizes = dims.weight_sizes
        ends = np.array([_ends(part) for part in split_tensors(flat, sizes)], dtype=np.float32)
        low, high = _for_each_weight(ends, sizes)
        codes = np.rint((flat - low) / np.where(high > low, high - low, 1) * self._top)
        packed = pack(codes.astype(np.uint16), self.bits_per_weight)
        return encoded(ends.astype("<f4").tobytes() + packed, self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Tensors:
        check_size(self.name, data, self.size(dims).bits)
        if not self._quantised:
            flat = np.frombuffer(data, "<f4").astype(np.float32)
            check_finite(self.name, flat)
        else:
            flat = self._dequantise(data, dims.weight_sizes)
        return unflatten_tensors(flat, dims)

    @property
    def _quantised(self) -> bool:
        return self.bits_per_weight != FULL_PRECISION

    @property
    def _top(self) -> int:
        """The code of the largest value."""
        return (1 << self.bits_per_weight) - 1

    def _dequantise(self, data: bytes, sizes: Sequence[int]) -> Floats:
        header = 8 * len(sizes)
        ends = np.frombuffer(data[:header], "<f4").astype(np.float32).reshape(-1, 2)
        check_finite(self.name, ends)
        if np.any(ends[:, 0] > ends[:, 1]):
            raise PayloadError(f"{self.name}: an array's smallest value is above its largest")
        position = unpack(data[header:], sum(sizes), self.bits_per_weight) / self._top
        low, high = _for_each_weight(ends, sizes)
        # In this form, unlike low + position * (high - low), both ends come out exactly.
        return (low * (1 - position) + high * position).astype(np.float32)


def flatten_tensors(value: Sequence[Floats], dims: Dimensions) -> Floats:
    """All weights in one row [N_mod], checked."""
    if len(value) != len(dims.weight_shapes):
        raise PayloadError(f"weights: {len(value)} arrays; must be {len(dims.weight_shapes)}")
    for place, (part, shape) in enumerate(zip(value, dims.weight_shapes, strict=True)):
        if part.shape != shape or part.dtype != np.float32:
            typed(f"weights[{place}]", part, np.float32, shape)
    flat = np.concatenate([*value, np.zeros(0, np.float32)], axis=None)
    check_finite("weights", flat)
    return flat


def unflatten_tensors(flat: Floats, dims: Dimensions) -> Tensors:
    """The arrays that ``flatten_tensors`` put in one row."""
    parts = split_tensors(flat, dims.weight_sizes)
    return tuple(part.reshape(shape) for part, shape in zip(parts, dims.weight_shapes, strict=True))


def split_tensors(flat: Floats, sizes: Sequence[int]) -> list[Floats]:
    """The part of each array in a row of all weights."""
    return [flat[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _ends(part: Floats) -> tuple[np.float32, np.float32]:
    """Smallest and largest value; adding 0 turns -0 into 0, of which ``min`` may give either."""
    zero = np.float32(0)
    return (part.min() + zero, part.max() + zero) if part.size else (zero, zero)


def _for_each_weight(ends: Floats, sizes: Sequence[int]) -> list[NDArray[np.float64]]:
    """Smallest and largest value of the array that each weight is in."""
    return [np.repeat(end, sizes) for end in ends.T.astype(np.float64)]
