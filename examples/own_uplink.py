"""A custom codec of updates: the entries that are at least half as large as the largest.

A codec turns an update into codes and back (``compress``, ``restore``), and codes into bits and
back (``encode``, ``decode``, which trusts no one). Where codes are rows of a type, ``Entries`` has
the bits. ``Updates`` does the rest: what the update is relative to, and, with ``ErrorFeedback``,
the residual of what was left out. How many entries are sent depends on the update, and so do the
bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import mix2fld
from mix2fld.codecs import Entries, Floats, Restored
from mix2fld.extend import ErrorFeedback, Transform, Updates, parameter


@dataclass(frozen=True, kw_only=True)
class LargeEntries(Entries):
    """32 bits for the place and 32 for the value of each entry."""

    row = np.dtype([("place", "<u4"), ("value", "<f4")])
    share: float = 0.5
    name: str = "large entries"

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Any:
        kept = np.flatnonzero(np.abs(update) >= self.share * np.abs(update).max())
        return self.rows(place=kept, value=update[kept])

    def restore(self, codes: Any, rng: np.random.Generator, size: int) -> Restored:
        update = np.zeros(size, np.float32)
        update[codes["place"]] = codes["value"]
        return Restored(update, captured=1.0)


@dataclass(frozen=True, kw_only=True)
class Largest(Updates):
    """Updates in this codec, as ``largest`` or ``largest:share=0.7``."""

    title: str = "FL, largest"
    transforms: tuple[Transform, ...] = (ErrorFeedback(),)
    share: float = parameter(0.5)

    def make_codec(self, weights: int) -> LargeEntries:
        return LargeEntries(share=self.share)


if __name__ == "__main__":
    mix2fld.PROTOCOLS["largest"] = Largest()
    grid = mix2fld.Grid.of(
        protocols=("fl", "largest", "largest:share=0.7"), devices=5, local_steps=500, rounds=3,
        test_samples=1000, link="ideal",
    )  # fmt: skip
    for result in mix2fld.run(grid):
        bits = [info["bits"]["up"] for info in result.rounds]
        print(result.summary["protocol"], bits, result.summary["scores"]["global"])
