"""Labels that a device gives to shared seed samples."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.bits import from_bits, to_bits
from mix2fld.codecs.codec import Encoded, PayloadError, Size, check_size, typed
from mix2fld.types import Dimensions

Codes = NDArray[np.uint16]
"""Of the labels of one device's seeds: [N_S, N_L], or [N_S, 1] if only the likeliest is named."""


@dataclass(frozen=True)
class SeedLabels:
    """Whose seeds are labelled (one bit for each device), then the labels of each of them.

    A label is ``bits`` for each of its N_L shares, in even steps from 0 to 1; with one bit, only
    the likeliest label, in ceil(log2 N_L) bits.
    """

    devices: int
    bits: int = 1
    name: str = "seed labels"

    def size(self, dims: Dimensions) -> Size:
        """With labels for the seeds of all devices: the most."""
        return Size(self._bits(dims, self.devices), exact=False)

    def encode(self, value: Mapping[int, Codes], dims: Dimensions) -> Encoded:
        """``value`` are the codes by device."""
        shape = (dims.seed_samples, self._columns(dims))
        parts = [typed(self.name, value[d], np.uint16, shape).ravel() for d in sorted(value)]
        self._check(parts, dims)
        labelled = np.isin(np.arange(self.devices), list(value)).astype(np.uint8)
        bits = [to_bits(part, self._width(dims)) for part in parts]
        data = np.packbits(np.concatenate([labelled, *bits])).tobytes()
        return Encoded(data, self._bits(dims, len(value)))

    def decode(self, data: bytes, dims: Dimensions) -> dict[int, Codes]:
        """The codes by device."""
        if 8 * len(data) < self.devices:
            raise PayloadError(f"{self.name}: {len(data)} bytes; must be {-(-self.devices // 8)}")
        bits = np.unpackbits(np.frombuffer(data, np.uint8))
        labelled = np.flatnonzero(bits[: self.devices]).tolist()
        check_size(self.name, data, self._bits(dims, len(labelled)))
        end, each = self._bits(dims, len(labelled)), self._bits(dims, 1) - self.devices
        parts = bits[self.devices : end].reshape(len(labelled), each)
        count = dims.seed_samples * self._columns(dims)
        codes = [from_bits(part, self._width(dims), count).astype(np.uint16) for part in parts]
        self._check(codes, dims)
        shape = (dims.seed_samples, self._columns(dims))
        return {d: part.reshape(shape) for d, part in zip(labelled, codes, strict=True)}

    def codes(self, outputs: NDArray[np.float32]) -> Codes:
        """What is carried of a model's outputs [N_S, N_L]."""
        if self.bits == 1:
            return outputs.argmax(axis=1)[:, None].astype(np.uint16)
        return np.rint(outputs.astype(np.float64) * self._top).astype(np.uint16)

    def labels(self, codes: Codes, num_labels: int) -> NDArray[np.float64]:
        """The label distributions that codes stand for [N_S, N_L]; even ones if all are zero."""
        if self.bits == 1:
            return np.eye(num_labels)[codes[:, 0]]
        shares = codes.astype(np.float64)
        sums = shares.sum(axis=1, keepdims=True)
        return np.where(sums > 0, shares / np.maximum(sums, 1), 1 / num_labels)

    @property
    def _top(self) -> int:
        return (1 << self.bits) - 1

    def _columns(self, dims: Dimensions) -> int:
        return 1 if self.bits == 1 else dims.num_labels

    def _width(self, dims: Dimensions) -> int:
        return (dims.num_labels - 1).bit_length() if self.bits == 1 else self.bits

    def _bits(self, dims: Dimensions, count: int) -> int:
        """With labels for the seeds of so many devices."""
        return self.devices + count * dims.seed_samples * self._columns(dims) * self._width(dims)

    def _check(self, parts: list[Codes], dims: Dimensions) -> None:
        last = dims.num_labels - 1 if self.bits == 1 else self._top
        largest = max((int(part.max(initial=0)) for part in parts), default=0)
        if largest > last:
            raise PayloadError(f"{self.name}: code {largest}; must be at most {last}")
