"""The largest entries of an update: their positions, and their values or only their signs.

Positions are Golomb-Rice codes of the gaps between them. With entries at random the gaps follow a
geometric law, for which these codes are the best whole numbers of bits (Golomb 1966; in STC,
Sattler et al. 2020). The lower bits of all gaps come first, then the upper parts in unary, so that
all of them are read at once.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.bits import Bits, from_bits, to_bits
from mix2fld.codecs.codec import Encoded, Floats, PayloadError, Restored, Size, check_finite
from mix2fld.types import Dimensions

GOLDEN = (math.sqrt(5) + 1) / 2


def lower_bits(count: int, size: int) -> int:
    """Bits of a gap that are not in unary: the best number for ``count`` of ``size`` entries."""
    if count >= size:
        return 0
    return max(0, 1 + math.floor(math.log2(math.log(GOLDEN - 1) / math.log1p(-count / size))))


def most_bits(count: int, size: int) -> int:
    """More bits than these no positions take."""
    lower = lower_bits(count, size)
    return count * (lower + 1) + ((size - count) >> lower)


def encode_positions(places: NDArray[np.int64], size: int) -> Bits:
    """The bits of increasing positions below ``size``."""
    lower = lower_bits(len(places), size)
    gaps = np.diff(places, prepend=-1) - 1
    unary = np.ones(int(np.sum(gaps >> lower)) + len(gaps), np.uint8)
    unary[np.cumsum((gaps >> lower) + 1) - 1] = 0
    return np.concatenate([to_bits(gaps, lower), unary])


def decode_positions(bits: Bits, count: int, size: int) -> tuple[NDArray[np.int64], Bits]:
    """``count`` positions, and the bits after them; ``PayloadError`` unless there are such."""
    lower = lower_bits(count, size)
    head, tail = bits[: count * lower], bits[count * lower :]
    ends = np.flatnonzero(tail == 0)[:count]
    if len(head) < count * lower or len(ends) < count:
        raise PayloadError(f"positions: fewer than {count}")
    upper = np.diff(ends, prepend=-1) - 1
    rest = from_bits(head, lower, count).astype(np.int64)
    places = np.cumsum((upper << lower) + rest + 1) - 1
    if count and places[-1] >= size:
        raise PayloadError(f"positions: {places[-1]}; must be below {size}")
    return places, tail[ends[-1] + 1 :] if count else tail


HALF, SINGLE = 16, 32


class SparseEntries(NamedTuple):
    """Some entries of an update, in their order."""

    places: NDArray[np.int64]
    values: Floats


@dataclass(frozen=True)
class LargestEntries:
    """The entries of largest magnitude as float16: so many of the share of all, at least one."""

    share: float = 0.01
    name: str = "largest entries"
    words: ClassVar[str] = "largest entries of the update"

    def size(self, dims: Dimensions) -> Size:
        count = entries_kept(self.share, dims.num_weights)
        return Size(HALF * count + most_bits(count, dims.num_weights), exact=False)

    def compress(
        self, update: Floats, rng: np.random.Generator, bit_budget: int | None
    ) -> SparseEntries:
        """The largest, rounded; one too large for float16 becomes its largest."""
        places = largest_places(update, entries_kept(self.share, len(update)))
        most = np.finfo(np.float16).max
        halves = np.clip(update[places], -most, most).astype(np.float16)
        return SparseEntries(places, halves.astype(np.float32))

    def restore(self, codes: SparseEntries, rng: np.random.Generator, size: int) -> Restored:
        return Restored(spread(codes, size), captured=1.0)

    def encode(self, value: SparseEntries, dims: Dimensions) -> Encoded:
        """The values, then the positions."""
        values = np.unpackbits(value.values.astype(">f2").view(np.uint8))
        return packed(values, encode_positions(value.places, dims.num_weights))

    def decode(self, data: bytes, dims: Dimensions) -> SparseEntries:
        count = entries_kept(self.share, dims.num_weights)
        head, tail = split_bits(self.name, data, HALF * count)
        values = np.packbits(head).view(">f2").astype(np.float32)
        check_finite(self.name, values)
        places, rest = decode_positions(tail, count, dims.num_weights)
        check_padding(self.name, rest)
        return SparseEntries(places, values)


@dataclass(frozen=True)
class SparseTernary:
    """The entries of largest magnitude as plus or minus their mean (STC, Sattler et al. 2020)."""

    share: float = 0.01
    name: str = "sparse ternary"
    words: ClassVar[str] = "sparse ternary update"

    def size(self, dims: Dimensions) -> Size:
        count = entries_kept(self.share, dims.num_weights)
        head = SINGLE + count if count else 0
        return Size(head + most_bits(count, dims.num_weights), exact=False)

    def compress(
        self, update: Floats, rng: np.random.Generator, bit_budget: int | None
    ) -> SparseEntries:
        """The largest, each replaced by the mean of all."""
        places = largest_places(update, entries_kept(self.share, len(update)))
        mean = np.float32(np.mean(np.abs(update[places]), dtype=np.float64))
        return SparseEntries(places, np.where(update[places] < 0, -mean, mean))

    def restore(self, codes: SparseEntries, rng: np.random.Generator, size: int) -> Restored:
        return Restored(spread(codes, size), captured=1.0)

    def encode(self, value: SparseEntries, dims: Dimensions) -> Encoded:
        """The mean, the signs, the positions."""
        mean = np.unpackbits(np.abs(value.values[:1]).astype(">f4").view(np.uint8))
        signs = np.signbit(value.values).astype(np.uint8)
        return packed(mean, signs, encode_positions(value.places, dims.num_weights))

    def decode(self, data: bytes, dims: Dimensions) -> SparseEntries:
        count = entries_kept(self.share, dims.num_weights)
        head, tail = split_bits(self.name, data, SINGLE + count)
        mean = np.packbits(head[:SINGLE]).view(">f4").astype(np.float32)
        check_finite(self.name, mean)
        if np.signbit(mean[0]):
            raise PayloadError(f"{self.name}: a mean magnitude of {mean[0]:g}; must be 0 or more")
        places, rest = decode_positions(tail, count, dims.num_weights)
        check_padding(self.name, rest)
        return SparseEntries(places, np.where(head[SINGLE:], -mean, mean))


def entries_kept(share: float, size: int) -> int:
    """How many entries a share of all is, at least one."""
    return min(max(1, round(share * size)), size)


def largest_places(update: Floats, count: int) -> NDArray[np.int64]:
    """The positions of the largest magnitudes, in increasing order; of equal ones the first."""
    return np.sort(np.argsort(-np.abs(update), kind="stable")[:count])


def spread(entries: SparseEntries, size: int) -> Floats:
    """The entries where they belong, and zeros."""
    row = np.zeros(size, np.float32)
    row[entries.places] = entries.values
    return row


def packed(*parts: Bits) -> Encoded:
    """Bits one after the other, zeros up to a whole byte."""
    bits = np.concatenate(parts)
    return Encoded(np.packbits(bits).tobytes(), len(bits))


def split_bits(name: str, data: bytes, head: int) -> tuple[Bits, Bits]:
    """The first bits, and all others."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    if len(bits) < head:
        raise PayloadError(f"{name}: {len(bits)} bits; must be at least {head}")
    return bits[:head], bits[head:]


def check_padding(name: str, rest: Bits) -> None:
    """Refuse anything after the end but zeros up to a whole byte."""
    if len(rest) > 7 or rest.any():
        raise PayloadError(f"{name}: {len(rest)} bits after its end")
