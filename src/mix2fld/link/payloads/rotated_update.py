"""A rotated update in any number of bits.

The coordinates of a rotated update look like draws of one Gaussian, so that few codes say how large
they are. One scale for all makes the inner product of the update and the restored one the squared
norm of the update: over all rotations the restored one is then right on average (EDEN's scale). It
is sent as the norm that it suggests, which the server needs too.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.bounds import LEAST_UPDATE_BITS
from mix2fld.link.payloads.bits import from_bits, to_bits
from mix2fld.link.payloads.codec import Encoded, PayloadError, Size, check_size
from mix2fld.link.payloads.gaussian import lloyd_max, mean_largest
from mix2fld.link.payloads.rotated_plan import Part, Plan, make_plan, most_bits
from mix2fld.link.payloads.rotation import Places, Rotation
from mix2fld.link.payloads.update_codec import Floats, Restored
from mix2fld.types import Dimensions

OCTAVES = 16
"""Norms from 2^-16 to 2^16 can be sent; 0 stands for no update at all."""


class Codes(NamedTuple):
    """An update in so many bits: its norm, and the codes of each part of their plan."""

    bits: int
    norm: int
    parts: tuple[NDArray[np.uint32], ...]


@dataclass(frozen=True)
class RotatedUpdate:
    """An update in ``bits`` bits, or if they may be fewer, in as many whole bytes as fit."""

    picks: bool
    """Whether, with less than a bit for each coordinate, the largest are looked for."""
    bits: int = LEAST_UPDATE_BITS
    fewer: bool = False
    closest: bool = False
    """Whether the update is restored with the least error, for feedback, or right on average."""
    name: str = "rotated update"

    def size(self, dims: Dimensions) -> Size:
        """The bits, at most those that are of use."""
        return Size(min(self.bits, most_bits(dims.num_weights)), exact=not self.fewer)

    def compress(self, update: Floats, rng: np.random.Generator, room: int | None) -> Codes:
        """Rotate, find the largest of each group and round it; then the norm."""
        size = len(update)
        bits = self._bits(room, size)
        plan = make_plan(bits, size, self.picks)
        squared = float(np.sum(update.astype(np.float64) ** 2))
        deviation = math.sqrt(squared / size) or 1.0
        rotation = Rotation(rng, size)
        turned = rotation.forward(update) / np.float32(deviation)
        codes, product = [], 0.0
        for part, places in _dealt(plan, rotation):
            code, found = _find(rotation, turned, places, part)
            codes.append(code)
            product += float(np.sum(found * _levels(code, part), dtype=np.float64))
        norm = math.sqrt(squared) * plan.captured / product if squared and product > 0 else 0.0
        return Codes(bits, _norm_code(norm, plan), tuple(codes))

    def restore(self, codes: Codes, rng: np.random.Generator, size: int) -> Restored:
        """Put the levels where they belong, and rotate back."""
        plan = make_plan(codes.bits, size, self.picks)
        rotation = Rotation(rng, size)
        turned = np.zeros(size, np.float32)
        for (part, places), code in zip(_dealt(plan, rotation), codes.parts, strict=True):
            within = code >> 1 if part.index_bits else np.zeros_like(code)
            turned[places[np.arange(part.groups), within]] = _levels(code, part)
        captured = plan.captured / size
        scale = _norm(codes.norm, plan) / math.sqrt(size) / (1 if self.closest else captured)
        update = rotation.backward(turned) * np.float32(scale)
        return Restored(update, 1.0 if self.closest else captured)

    def encode(self, value: Codes, dims: Dimensions) -> Encoded:
        """The norm, the codes of each part, and zeros where bits are of no use."""
        plan = make_plan(value.bits, dims.num_weights, self.picks)
        pairs = zip(plan.parts, value.parts, strict=True)
        norm = to_bits(np.array([value.norm]), plan.norm_bits)
        bits = np.concatenate([norm, *(to_bits(code, part.width) for part, code in pairs)])
        whole = -(-value.bits // 8)
        return Encoded(np.packbits(bits).tobytes().ljust(whole, b"\0"), value.bits)

    def decode(self, data: bytes, dims: Dimensions) -> Codes:
        """The codes; an honest device could send any of them."""
        most = self.size(dims).bits
        bits = 8 * len(data) if self.fewer else most
        if not min(LEAST_UPDATE_BITS, most) <= bits <= most:
            raise PayloadError(
                f"{self.name}: {bits} bits; must be from {LEAST_UPDATE_BITS} to {most}"
            )
        plan = make_plan(bits, dims.num_weights, self.picks)
        check_size(self.name, data, bits)
        read = np.unpackbits(np.frombuffer(data, np.uint8))
        if read[plan.bits :].any():
            raise PayloadError(f"{self.name}: bits beyond {plan.bits} are unused; must be 0")
        ends = np.cumsum([plan.norm_bits, *(part.groups * part.width for part in plan.parts)])
        norm, *codes = np.split(read[: plan.bits], ends[:-1])
        parts = zip(codes, plan.parts, strict=True)
        return Codes(
            bits,
            int(from_bits(norm, plan.norm_bits)[0]),
            tuple(from_bits(code, part.width) for code, part in parts),
        )

    def _bits(self, room: int | None, size: int) -> int:
        """Of an upload that has so much room, if it matters."""
        most = min(self.bits, most_bits(size))
        if not self.fewer:
            return most
        return max(
            8 * -(-LEAST_UPDATE_BITS // 8), 8 * (min(most, most if room is None else room) // 8)
        )


def _dealt(plan: Plan, rotation: Rotation) -> Iterator[tuple[Part, Places]]:
    """The coordinates of each group [groups, n], all at random."""
    places, start = rotation.choices.dealt, 0
    for part in plan.parts:
        yield part, places[start : start + part.coordinates].reshape(part.groups, -1)
        start += part.coordinates


def _find(
    rotation: Rotation, turned: Floats, places: Places, part: Part
) -> tuple[NDArray[np.uint32], Floats]:
    """The code of each group of coordinates [groups, n], and the coordinate that it stands for."""
    if part.index_bits:
        upper = rotation.largest(turned, places)
        found = turned[places[np.arange(part.groups), upper]]
    else:
        found = turned[places[:, 0]]
        upper = np.searchsorted(lloyd_max(part.level_bits).edges, np.abs(found))
    return (2 * upper + (found < 0)).astype(np.uint32), found


def _levels(code: NDArray[np.uint32], part: Part) -> Floats:
    """What the coordinates are taken for, in units of their standard deviation."""
    if part.index_bits:
        size = np.float32(mean_largest(1 << part.index_bits))
        return np.where(code & 1, -size, size)
    means = lloyd_max(part.level_bits).means[code >> 1]
    return np.where(code & 1, -means, means).astype(np.float32)


def _norm_code(norm: float, plan: Plan) -> int:
    """The nearest of the norms that can be sent, evenly spaced in their logarithm."""
    middle = 1 << (plan.norm_bits - 1)
    if norm == 0:
        return 0
    return min(max(middle + round(math.log2(norm) * middle / OCTAVES), 1), 2 * middle - 1)


def _norm(code: int, plan: Plan) -> float:
    middle = 1 << (plan.norm_bits - 1)
    return float(2.0 ** ((code - middle) * OCTAVES / middle)) if code else 0.0
