"""A rotated update in any number of bits.

The coordinates of a rotated update look like draws of one Gaussian, so that few codes say how large
they are. One scale for all makes the inner product of the update and the restored one the squared
norm of the update: over all rotations the restored one is then unbiased (EDEN's scale). It
is sent as the norm that it suggests, which the server needs too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import LEAST_UPDATE_BITS
from mix2fld.codecs.bits import from_bits, to_bits
from mix2fld.codecs.codec import Encoded, Floats, PayloadError, Restored, Rngs, Size, check_size
from mix2fld.codecs.rotated_plan import (
    BitPlan,
    CodePart,
    lloyd_max,
    make_plan,
    mean_largest,
    most_bits,
)
from mix2fld.codecs.rotation import pick, place
from mix2fld.types import Dimensions

OCTAVES = 16
"""Norms from 2^-16 to 2^16 can be sent; 0 stands for no update at all."""


class Codes(NamedTuple):
    """An update in so many bits: its norm, and the codes of all groups of their plan."""

    bits: int
    norm: int
    groups: NDArray[np.uint32]


@dataclass(frozen=True)
class RotatedUpdate:
    """An update in ``bits`` bits, or if they may be fewer, in as many whole bytes as fit."""

    largest_per_group: bool
    """Whether, with less than a bit for each coordinate, the largest are looked for."""
    bits: int = LEAST_UPDATE_BITS
    variable_rate: bool = False
    min_mse: bool = False
    """Whether the update is restored with the least error, for feedback, or unbiased."""
    name: str = "rotated update"
    words: ClassVar[str] = "compressed update"

    def size(self, dims: Dimensions) -> Size:
        """The bits, at most those that are of use."""
        return Size(min(self.bits, most_bits(dims.num_weights)), exact=not self.variable_rate)

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Codes:
        (codes,) = self.compress_rows(update[None], [rng], [bit_budget])
        return codes

    def compress_rows(
        self, updates: Floats, rngs: Rngs, bit_budgets: Sequence[int | None]
    ) -> list[Codes]:
        size = updates.shape[1]
        return self.in_bits([self.bits_for(own, size) for own in bit_budgets], updates, rngs)

    def in_bits(self, bits: Sequence[int], updates: Floats, rngs: Rngs) -> list[Codes]:
        """Rotate, find the largest of each group and round it; then the norm."""
        found = dict[int, Codes]()
        for each, rows in _alike(bits):
            some = updates if len(rows) == len(updates) else updates[rows]
            made = self._compressed(each, some, [rngs[row] for row in rows])
            found.update(zip(rows, made, strict=True))
        return [found[row] for row in range(len(updates))]

    def _compressed(self, bits: int, updates: Floats, rngs: Rngs) -> Iterator[Codes]:
        size = updates.shape[1]
        plan = make_plan(bits, size, self.largest_per_group)
        squares = [float(np.sum(update.astype(np.float64) ** 2)) for update in updates]
        deviations = [math.sqrt(squared / size) or 1.0 for squared in squares]
        within, picked = pick(rngs, updates, deviations, _lengths(plan))
        codes = _codes(plan, within, picked)
        products = picked * _levels(plan, codes)
        for squared, own, row in zip(squares, codes, products, strict=True):
            product = float(np.sum(row, dtype=np.float64))
            norm = math.sqrt(squared) * plan.captured / product if squared and product > 0 else 0.0
            yield Codes(bits, _norm_code(norm, plan), own)

    def restore(self, codes: Codes, rng: np.random.Generator, size: int) -> Restored:
        (restored,) = self.restore_rows([codes], [rng], size)
        return restored

    def restore_rows(self, codes: Sequence[Codes], rngs: Rngs, size: int) -> list[Restored]:
        """Put the levels where they belong, and rotate back."""
        found = dict[int, Restored]()
        for bits, rows in _alike([own.bits for own in codes]):
            made = self._restored(bits, [codes[row] for row in rows], [rngs[r] for r in rows], size)
            found.update(zip(rows, made, strict=True))
        return [found[row] for row in range(len(codes))]

    def _restored(
        self, bits: int, codes: Sequence[Codes], rngs: Rngs, size: int
    ) -> Iterator[Restored]:
        plan = make_plan(bits, size, self.largest_per_group)
        groups = np.stack([own.groups for own in codes])
        within = groups.astype(np.int64) >> 1
        if not _has_signs_alone(plan):
            within = np.broadcast_to(_initial_places(plan), groups.shape)
        updates = place(rngs, size, _lengths(plan), within, _levels(plan, groups))
        captured = plan.captured / size
        unit = math.sqrt(size)
        scales = [_norm(own.norm, plan) / unit / (1 if self.min_mse else captured) for own in codes]
        updates *= np.array(scales, np.float32)[:, None]
        for update in updates:
            yield Restored(update, 1.0 if self.min_mse else captured)

    def encode(self, value: Codes, dims: Dimensions) -> Encoded:
        """The norm, the codes of each part, and zeros where bits are of no use."""
        plan = make_plan(value.bits, dims.num_weights, self.largest_per_group)
        norm = to_bits(np.array([value.norm]), plan.norm_bits)
        parts = (to_bits(codes, part.width) for part, codes in _by_part(plan, value.groups))
        whole = -(-value.bits // 8)
        packed = np.packbits(np.concatenate([norm, *parts]))
        return Encoded(packed.tobytes().ljust(whole, b"\0"), value.bits)

    def decode(self, data: bytes, dims: Dimensions) -> Codes:
        """The codes; an honest device could send any of them."""
        bits = self.bits_of(data, dims, self.name)
        plan = make_plan(bits, dims.num_weights, self.largest_per_group)
        read = np.unpackbits(np.frombuffer(data, np.uint8))
        if read[plan.bits :].any():
            raise PayloadError(f"{self.name}: bits beyond {plan.bits} are unused; must be 0")
        norm, start, groups = read[: plan.norm_bits], plan.norm_bits, [np.zeros(0, np.uint32)]
        for part in plan.parts:
            end = start + part.groups * part.width
            groups.append(from_bits(read[start:end], part.width))
            start = end
        return Codes(bits, int(from_bits(norm, plan.norm_bits)[0]), np.concatenate(groups))

    def bits_of(self, data: bytes, dims: Dimensions, name: str) -> int:
        """How many bits were sent, if an upload can have as many; ``name`` is for messages."""
        most = self.size(dims).bits
        bits = 8 * len(data) if self.variable_rate else most
        if not min(LEAST_UPDATE_BITS, most) <= bits <= most:
            raise PayloadError(f"{name}: {bits} bits; must be from {LEAST_UPDATE_BITS} to {most}")
        check_size(name, data, bits)
        return bits

    def bits_for(self, bit_budget: int | None, size: int) -> int:
        """Of an upload that has a bit budget, if it matters."""
        most = min(self.bits, most_bits(size))
        if not self.variable_rate:
            return most
        budget = most if bit_budget is None else min(most, bit_budget)
        return max(8 * -(-LEAST_UPDATE_BITS // 8), 8 * (budget // 8))


def _has_signs_alone(plan: BitPlan) -> bool:
    """Whether codes are places in groups, with a sign, and not levels."""
    return all(part.level_bits == 1 for part in plan.parts)


@lru_cache(maxsize=16)
def _lengths(plan: BitPlan) -> NDArray[np.int64]:
    """How many coordinates each group has."""
    each = [1 << part.index_bits for part in plan.parts]
    return np.repeat(np.array(each, np.int64), [part.groups for part in plan.parts])


def _initial_places(plan: BitPlan) -> NDArray[np.int64]:
    """Places in groups of one coordinate each."""
    return np.zeros(sum(part.groups for part in plan.parts), np.int64)


@lru_cache(maxsize=16)
def _magnitudes(plan: BitPlan) -> Floats:
    """What the largest of each group is taken for, if only signs are sent."""
    each = [
        mean_largest(1 << part.index_bits) if part.index_bits else lloyd_max(1).means[0]
        for part in plan.parts
    ]
    return np.repeat(np.array(each, np.float32), [part.groups for part in plan.parts])


def _alike(bits: Sequence[int]) -> list[tuple[int, list[int]]]:
    """The rows of each number of bits."""
    return [(own, [n for n, each in enumerate(bits) if each == own]) for own in sorted(set(bits))]


def _by_part(plan: BitPlan, groups: NDArray[Any]) -> Iterator[tuple[CodePart, NDArray[Any]]]:
    """The groups of each part, on the last axis."""
    start = 0
    for part in plan.parts:
        yield part, groups[..., start : start + part.groups]
        start += part.groups


def _codes(plan: BitPlan, within: NDArray[np.int64], found: Floats) -> NDArray[np.uint32]:
    """Of the coordinates found: the place in the group or the level, then the sign."""
    upper = within
    if not _has_signs_alone(plan):
        upper = np.concatenate(
            [
                np.searchsorted(lloyd_max(part.level_bits).edges, np.abs(own))
                for part, own in _by_part(plan, found)
            ],
            axis=-1,
        )
    return (2 * upper + (found < 0)).astype(np.uint32)


def _levels(plan: BitPlan, codes: NDArray[np.uint32]) -> Floats:
    """What the coordinates are taken for, in units of their standard deviation."""
    if _has_signs_alone(plan):
        sizes = _magnitudes(plan)
    else:
        each = _by_part(plan, codes >> 1)
        means = [lloyd_max(part.level_bits).means[own] for part, own in each]
        sizes = np.concatenate(means, axis=-1)
    return np.where(codes & 1, -sizes, sizes).astype(np.float32, copy=False)


def _norm_code(norm: float, plan: BitPlan) -> int:
    """The nearest of the norms that can be sent, evenly spaced in their logarithm."""
    middle = 1 << (plan.norm_bits - 1)
    if norm == 0:
        return 0
    return min(max(middle + round(math.log2(norm) * middle / OCTAVES), 1), 2 * middle - 1)


def _norm(code: int, plan: BitPlan) -> float:
    middle = 1 << (plan.norm_bits - 1)
    return float(2.0 ** ((code - middle) * OCTAVES / middle)) if code else 0.0
