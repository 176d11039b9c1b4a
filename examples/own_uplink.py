"""A custom codec of updates: the entries that are at least half as large as the largest.

A codec turns an update into codes and back (``compress``, ``restore``), and codes into bits and
back (``encode``, ``decode``, which trusts no one). ``Updates`` does the rest: what the update is
relative to, and with feedback the residual of what was left out. How many entries are sent depends
on the update, and so do the bits.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import mix2fld
from mix2fld.extend import Dimensions, Encoded, PayloadError, Restored, Size, Updates, parameter


class Entries(NamedTuple):
    """Some entries of all weights in one row."""

    places: NDArray[np.uint32]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class LargeEntries:
    """A 32-bit count, then 32 bits for the place and 32 for the value of each entry."""

    share: float = 0.5
    name: str = "large entries"

    def size(self, dims: Dimensions) -> Size:
        return Size(32 + 64 * dims.num_weights, exact=False)

    def compress(
        self, update: NDArray[np.float32], rng: np.random.Generator, bit_budget: int | None
    ) -> Entries:
        kept = np.flatnonzero(np.abs(update) >= self.share * np.abs(update).max())
        return Entries(kept.astype(np.uint32), update[kept])

    def restore(self, codes: Entries, rng: np.random.Generator, size: int) -> Restored:
        update = np.zeros(size, np.float32)
        update[codes.places] = codes.values
        return Restored(update, captured=1.0)

    def encode(self, value: Entries, dims: Dimensions) -> Encoded:
        data = np.uint32(len(value.places)).tobytes() + value.places.astype("<u4").tobytes()
        data += value.values.astype("<f4").tobytes()
        return Encoded(data, 8 * len(data))

    def decode(self, data: bytes, dims: Dimensions) -> Entries:
        count = int(np.frombuffer(data[:4], "<u4")[0]) if len(data) >= 4 else -1
        if len(data) != 4 + 8 * count:
            raise PayloadError(f"{self.name}: {len(data)} bytes for {count} entries")
        places = np.frombuffer(data[4 : 4 + 4 * count], "<u4").astype(np.uint32)
        values = np.frombuffer(data[4 + 4 * count :], "<f4").astype(np.float32)
        if np.any(places >= dims.num_weights) or not np.isfinite(values).all():
            raise PayloadError(f"{self.name}: a place or a value that no weight has")
        return Entries(places, values)


@dataclass(frozen=True, kw_only=True)
class Largest(Updates):
    """Updates in this codec, as ``largest`` or ``largest:share=0.7``."""

    title: str = "FL, largest"
    feedback: bool = True
    share: float = parameter(0.5)

    def make_codec(self, weights: int) -> LargeEntries:
        return LargeEntries(self.share)


if __name__ == "__main__":
    mix2fld.PROTOCOLS["largest"] = Largest()
    grid = mix2fld.Grid.of(
        protocols=("fl", "largest", "largest:share=0.7"),
        devices=5,
        local_steps=500,
        rounds=3,
        test_samples=1000,
        link="ideal",
    )
    for result in mix2fld.run(grid):
        bits = [info["bits"]["up"] for info in result.rounds]
        print(result.summary["protocol"], bits, result.summary["scores"]["global"])
