"""A download with the seed samples of some devices ahead of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mix2fld.codecs.codec import Encoded, Payload, PayloadError, Size, check_size
from mix2fld.codecs.seed_samples import SeedSamples
from mix2fld.types import Dimensions, Seeds


@dataclass(frozen=True)
class WithSeeds:
    """Which devices' seeds follow (one bit each), these seeds as they were uploaded, the rest.

    Seeds end with a whole byte; the zeros up to it are carried, so they are charged.
    """

    seeds: SeedSamples
    devices: int
    rest: Payload

    @property
    def name(self) -> str:
        """For records and messages."""
        return f"seeds and {self.rest.name}"

    def size(self, dims: Dimensions) -> Size:
        """With the seeds of all devices: the most."""
        return Size(self.size_with(dims, self.devices).bits, exact=False)

    def size_with(self, dims: Dimensions, count: int) -> Size:
        """With the seeds of ``count`` devices."""
        rest = self.rest.size(dims)
        return Size(8 * self._seed_bytes(dims, count) + rest.bits, rest.exact)

    def encode(self, value: tuple[Any, Mapping[int, Seeds]], dims: Dimensions) -> Encoded:
        """``value`` is the rest, and the seeds by device."""
        rest, seeds = value
        sent = np.isin(np.arange(self.devices), list(seeds))
        each = self.seeds.size(dims).bits
        parts = [
            np.unpackbits(
                np.frombuffer(self.seeds.encode(seeds[d], dims).data, np.uint8), count=each
            )
            for d in sorted(seeds)
        ]
        ahead = np.packbits(np.concatenate([sent, *parts])).tobytes()
        encoded = self.rest.encode(rest, dims)
        return Encoded(ahead + encoded.data, 8 * len(ahead) + encoded.bits)

    def decode(self, data: bytes, dims: Dimensions) -> tuple[Any, dict[int, Seeds]]:
        """The rest, and the seeds by device."""
        flags = np.unpackbits(np.frombuffer(data, np.uint8), count=self.devices)
        senders = np.flatnonzero(flags[: self.devices]).tolist()
        end, each = self._seed_bytes(dims, len(senders)), self.seeds.size(dims).bits
        if len(data) < end:
            raise PayloadError(f"{self.name}: {len(data)} bytes; must be at least {end}")
        check_size(self.name, data[:end], self.devices + len(senders) * each)
        bits = np.unpackbits(np.frombuffer(data[:end], np.uint8))
        seeds = {}
        for place, device in enumerate(senders):
            start = self.devices + place * each
            part = np.packbits(bits[start : start + each]).tobytes()
            seeds[device] = self.seeds.decode(part, dims)
        return self.rest.decode(data[end:], dims), seeds

    def _seed_bytes(self, dims: Dimensions, count: int) -> int:
        return -(-(self.devices + count * self.seeds.size(dims).bits) // 8)
