"""Where the few entries of a sparse vector are, by Golomb-Rice codes of the gaps between them.

With entries at random the gaps follow a geometric law, for which these codes are the best whole
numbers of bits (Golomb 1966; in STC, Sattler et al. 2020). The lower bits of all gaps come first,
then the upper parts in unary, so that all of them are read at once.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.bits import Bits, from_bits, to_bits
from mix2fld.codecs.codec import PayloadError

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
