"""Statistics of a device's samples: counts, sums and the scatter within labels."""

from dataclasses import dataclass, replace

import numpy as np

from mix2fld.codecs.bits import from_bits, pack
from mix2fld.codecs.codec import Encoded, PayloadError, Size, check_size, typed
from mix2fld.codecs.weights import FULL_PRECISION, Weights
from mix2fld.types import Dimensions, Statistics, StatisticsPart, Tensors

COUNT_BITS = 16
STAGE_BITS = 8
WHOLE_BITS = 21
LARGEST_WHOLE = (1 << (WHOLE_BITS - 1)) - 1
"""Whole numbers that are summed are from minus this to this."""


@dataclass(frozen=True)
class ClassStatistics:
    """Counts of labels, sums of features, and the upper triangle of their scatter.

    Where targets are numbers, there is one count, and the targets are among the features.

    The three are separate parts, each rounded to even steps between its own smallest and largest
    value as weights are: counts in 16 bits, the others in ``bits``, or all of them as floats.
    """

    features: int
    bits: int = 8
    scatter: bool = True
    """Whether it is carried; without, a count takes 8 bits."""
    name: str = "statistics"

    def size(self, dims: Dimensions) -> Size:
        """So many bits for each value, and two float32 for each part if it is rounded."""
        return Size(sum(payload.size(part).bits for payload, part in self._parts(dims)))

    def encode(self, value: Statistics, dims: Dimensions) -> Encoded:
        """Counts to a whole byte, then sums and scatter."""
        counts = typed("statistics.counts", value.counts, np.float32, (_classes(dims),))
        (count_payload, count_dims), (payload, part_dims) = self._parts(dims)
        first = count_payload.encode((counts,), count_dims)
        parts = (value.sums, value.scatter) if self.scatter else (value.sums,)
        rest = payload.encode(parts, part_dims)
        return Encoded(first.data + rest.data, first.bits + rest.bits)

    def decode(self, data: bytes, dims: Dimensions) -> Statistics:
        (count_payload, count_dims), (payload, part_dims) = self._parts(dims)
        end = count_payload.size(count_dims).bits // 8
        if len(data) < end:
            raise PayloadError(f"{self.name}: {len(data)} bytes; must be at least {end}")
        (counts,) = count_payload.decode(data[:end], count_dims)
        sums, *scatter = payload.decode(data[end:], part_dims)
        return Statistics(counts, sums, *(scatter or [np.empty(0, np.float32)]))

    def _parts(self, dims: Dimensions) -> tuple[tuple[Weights, Dimensions], ...]:
        """How the counts are carried, and the rest."""
        labels, d = _classes(dims), self.features + dims.target_numbers
        full = self.bits == FULL_PRECISION
        count_bits = FULL_PRECISION if full else COUNT_BITS if self.scatter else 8
        shapes = [(labels, d), (d * (d + 1) // 2,)] if self.scatter else [(labels, d)]
        return (
            (Weights(count_bits), _of_shapes(dims, (labels,))),
            (Weights(self.bits), _of_shapes(dims, *shapes)),
        )


def _classes(dims: Dimensions) -> int:
    return 1 if dims.target_numbers else dims.num_labels


def _of_shapes(dims: Dimensions, *shapes: tuple[int, ...]) -> Dimensions:
    return replace(dims, weight_shapes=shapes)


@dataclass(frozen=True)
class PartOfStatistics:
    """Class sums with counts, or the scatter, after a byte that says which; or nothing at all.

    With noise, values are rounded to even steps between the smallest and the largest as weights
    are; to be summed, they are whole numbers of 21 bits with a sign.
    """

    features: int
    bits: int = 8
    whole: bool = False
    name: str = "private statistics"

    def size(self, dims: Dimensions) -> Size:
        """At most the larger of both parts."""
        return Size(max(self._bits_of(stage, dims) for stage in (0, 1)), exact=False)

    def encode(self, value: StatisticsPart | None, dims: Dimensions) -> Encoded:
        """The byte of the stage, then all values."""
        if value is None:
            return Encoded(b"", 0)
        stage, values = value
        if self.whole:
            typed("statistics", values, np.int32, self.shape_of(stage, dims))
            data = pack(values.ravel() + LARGEST_WHOLE + 1, WHOLE_BITS)
        else:
            data = Weights(self.bits).encode((values,), self._dims_of(stage, dims)).data
        return Encoded(bytes([stage]) + data, self._bits_of(stage, dims))

    def decode(self, data: bytes, dims: Dimensions) -> StatisticsPart | None:
        if not data:
            return None
        stage = data[0]
        if stage not in (0, 1):
            raise PayloadError(f"{self.name}: part {stage}; must be 0 or 1")
        check_size(self.name, data, self._bits_of(stage, dims))
        if not self.whole:
            (values,) = Weights(self.bits).decode(data[1:], self._dims_of(stage, dims))
            return StatisticsPart(stage, values)
        shape = self.shape_of(stage, dims)
        count = int(np.prod(shape))
        bits = np.unpackbits(np.frombuffer(data[1:], np.uint8), count=count * WHOLE_BITS)
        codes = from_bits(bits, WHOLE_BITS, count).astype(np.int32) - (LARGEST_WHOLE + 1)
        if np.any(codes < -LARGEST_WHOLE):
            raise PayloadError(f"{self.name}: {codes.min()}; must be at least {-LARGEST_WHOLE}")
        return StatisticsPart(stage, codes.reshape(shape))

    def values_of(self, dims: Dimensions) -> tuple[int, int]:
        """How many values both parts have."""
        sums, scatter = (int(np.prod(self.shape_of(stage, dims))) for stage in (0, 1))
        return sums, scatter

    def shape_of(self, stage: int, dims: Dimensions) -> tuple[int, ...]:
        """Of the values of a part."""
        d = self.features
        return (d * (d + 1) // 2,) if stage else (dims.num_labels, d + 1)

    def _dims_of(self, stage: int, dims: Dimensions) -> Dimensions:
        return _of_shapes(dims, self.shape_of(stage, dims))

    def _bits_of(self, stage: int, dims: Dimensions) -> int:
        if self.whole:
            return STAGE_BITS + WHOLE_BITS * self.values_of(dims)[stage]
        return STAGE_BITS + Weights(self.bits).size(self._dims_of(stage, dims)).bits


@dataclass(frozen=True)
class ClassMeans:
    """Class means of features that scatters are relative to, as float32."""

    features: int
    name: str = "means"

    def size(self, dims: Dimensions) -> Size:
        """32 bits for each feature of a label."""
        return Weights().size(self._dims(dims))

    def encode(self, value: Tensors, dims: Dimensions) -> Encoded:
        return Weights().encode(value, self._dims(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Tensors:
        return Weights().decode(data, self._dims(dims))

    def _dims(self, dims: Dimensions) -> Dimensions:
        return _of_shapes(dims, (dims.num_labels, self.features))
