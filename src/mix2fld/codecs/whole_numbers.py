"""Whole numbers modulo a power of two, which can be added under masks."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.bits import from_bits, pack
from mix2fld.codecs.codec import Encoded, PayloadError, Size, check_size
from mix2fld.types import Dimensions

KIND_BITS = 8


class Addends(NamedTuple):
    """Numbers of a device, to be added to those of others that have the same kind."""

    kind: int
    numbers: NDArray[np.uint32]
    """Modulo 2^bits: those from half of it on are negative."""


@dataclass(frozen=True)
class WholeNumbers:
    """A byte for the kind, then all numbers in as many bits each; or nothing at all."""

    counts: tuple[int, ...]
    """How many numbers there are of each kind."""
    bits: int
    name: str = "whole numbers"

    def size(self, dims: Dimensions) -> Size:
        """Of the kind with most numbers."""
        return Size(self.bits_of(max(self.counts)), exact=len(self.counts) == 1)

    def bits_of(self, count: int) -> int:
        """Of so many numbers, with their kind."""
        return KIND_BITS + count * self.bits

    def encode(self, value: Addends | None, dims: Dimensions) -> Encoded:
        if value is None:
            return Encoded(b"", 0)
        data = bytes([value.kind]) + pack(value.numbers, self.bits)
        return Encoded(data, self.bits_of(len(value.numbers)))

    def decode(self, data: bytes, dims: Dimensions) -> Addends | None:
        if not data:
            return None
        kind = data[0]
        if kind >= len(self.counts):
            raise PayloadError(f"{self.name}: kind {kind}; must be below {len(self.counts)}")
        count = self.counts[kind]
        check_size(self.name, data, self.bits_of(count))
        read = np.unpackbits(np.frombuffer(data[1:], np.uint8), count=count * self.bits)
        return Addends(kind, from_bits(read, self.bits, count))

    def wrapped(self, numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Numbers with a sign, modulo 2^bits."""
        return (numbers & ((1 << self.bits) - 1)).astype(np.uint32)

    def signed(self, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The numbers with a sign that ``wrapped`` took it from."""
        half = 1 << (self.bits - 1)
        return (numbers.astype(np.int64) ^ half) - half
