"""Codes of which a sum has a meaning: all devices make the same random choices in a round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mix2fld.codecs.codec import (
    Encoded,
    Floats,
    Restored,
    Size,
    check_finite,
    check_size,
    encoded,
    typed,
)
from mix2fld.codecs.rotation import Rotation
from mix2fld.types import Dimensions

SINGLE = 32


@dataclass(frozen=True)
class Projection:
    """An update's coordinates in some directions of one random rotation, as float32.

    With ``share`` = 1 the update itself.
    """

    share: float
    name: str = "projected update"
    words: ClassVar[str] = "projection of the update"

    def count(self, size: int) -> int:
        """Coordinates of an update of so many weights."""
        return max(1, round(self.share * size))

    def size(self, dims: Dimensions) -> Size:
        return Size(SINGLE * self.count(dims.num_weights))

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Floats:
        """The coordinates."""
        if self.count(len(update)) == len(update):
            return update
        rotation = Rotation(rng, len(update))
        return rotation.forward(update)[rotation.choices.dealt[: self.count(len(update))]]

    def restore(self, codes: Floats, rng: np.random.Generator, size: int) -> Restored:
        """The part of the update that lies in these directions."""
        if len(codes) == size:
            return Restored(codes, 1.0)
        rotation, coordinates = Rotation(rng, size), np.zeros(size, np.float32)
        coordinates[rotation.choices.dealt[: len(codes)]] = codes
        return Restored(rotation.backward(coordinates), 1.0)

    def encode(self, value: Floats, dims: Dimensions) -> Encoded:
        """Little-endian."""
        row = typed(self.name, value, np.float32, (self.count(dims.num_weights),))
        check_finite(self.name, row)
        return encoded(row.astype("<f4").tobytes(), self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Floats:
        """The coordinates."""
        check_size(self.name, data, self.size(dims).bits)
        row = np.frombuffer(data, "<f4").astype(np.float32)
        check_finite(self.name, row)
        return row


@dataclass(frozen=True)
class Signs:
    """The sign of each entry of an update: a bit a weight, 1 where it is negative."""

    name: str = "signs"
    words: ClassVar[str] = "signs of the update"

    def size(self, dims: Dimensions) -> Size:
        return Size(dims.num_weights)

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Floats:
        """1 and -1."""
        return np.where(update < 0, -1, 1).astype(np.float32)

    def restore(self, codes: Floats, rng: np.random.Generator, size: int) -> Restored:
        """The same."""
        return Restored(codes, 1.0)

    def encode(self, value: Floats, dims: Dimensions) -> Encoded:
        """In the order of weights, or of directions."""
        row = typed(self.name, value, np.float32, (self.size(dims).bits,))
        return encoded(np.packbits(row < 0).tobytes(), self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Floats:
        """1 and -1."""
        count = self.size(dims).bits
        check_size(self.name, data, count)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count)
        return (1 - 2 * bits.astype(np.float32)).astype(np.float32)


@dataclass(frozen=True)
class DirectionSigns(Signs):
    """The sign of an update's product with each of some Gaussian directions: a bit a direction."""

    count: int = 1
    name: str = "signs in random directions"
    words: ClassVar[str] = "signs of directional derivatives"

    def size(self, dims: Dimensions) -> Size:
        return Size(self.count)

    def directions(self, rng: np.random.Generator, size: int) -> Floats:
        """Independent standard normal vectors [count, size]."""
        return rng.standard_normal((self.count, size), np.float32)

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Floats:
        """1 and -1."""
        products = self.directions(rng, len(update)).astype(np.float64) @ update
        return np.where(products < 0, -1, 1).astype(np.float32)

    def restore(self, codes: Floats, rng: np.random.Generator, size: int) -> Restored:
        """The sum of the directions with these signs."""
        return Restored(codes @ self.directions(rng, size), 1.0)
