"""Statistics of a device's samples: counts, sums and the scatter within labels."""

from dataclasses import dataclass, replace

import numpy as np

from mix2fld.link.payloads.codec import Encoded, PayloadError, Size, typed
from mix2fld.link.payloads.weights import FULL_PRECISION, Weights
from mix2fld.types import Dimensions, Statistics

COUNT_BITS = 16


@dataclass(frozen=True)
class ClassStatistics:
    """Counts of labels, sums of features, and the upper triangle of their scatter.

    The three are separate parts, each rounded to even steps between its own smallest and largest
    value as weights are: counts in 16 bits, the others in ``bits``, or all of them as floats.
    """

    features: int
    bits: int = 8
    name: str = "statistics"

    def size(self, dims: Dimensions) -> Size:
        """So many bits for each value, and two float32 for each part if it is rounded."""
        return Size(sum(payload.size(part).bits for payload, part in self._parts(dims)))

    def encode(self, value: Statistics, dims: Dimensions) -> Encoded:
        """Counts to a whole byte, then sums and scatter."""
        counts = typed("statistics.counts", value.counts, np.float32, (dims.num_labels,))
        (count_payload, count_dims), (payload, part_dims) = self._parts(dims)
        first = count_payload.encode((counts,), count_dims)
        rest = payload.encode((value.sums, value.scatter), part_dims)
        return Encoded(first.data + rest.data, first.bits + rest.bits)

    def decode(self, data: bytes, dims: Dimensions) -> Statistics:
        """The statistics as the server sees them."""
        (count_payload, count_dims), (payload, part_dims) = self._parts(dims)
        end = count_payload.size(count_dims).bits // 8
        if len(data) < end:
            raise PayloadError(f"{self.name}: {len(data)} bytes; must be at least {end}")
        (counts,) = count_payload.decode(data[:end], count_dims)
        sums, scatter = payload.decode(data[end:], part_dims)
        return Statistics(counts, sums, scatter)

    def _parts(self, dims: Dimensions) -> tuple[tuple[Weights, Dimensions], ...]:
        """How the counts are carried, and the rest."""
        labels, d = dims.num_labels, self.features
        full = self.bits == FULL_PRECISION
        return (
            (Weights(FULL_PRECISION if full else COUNT_BITS), _of_shapes(dims, (labels,))),
            (Weights(self.bits), _of_shapes(dims, (labels, d), (d * (d + 1) // 2,))),
        )


def _of_shapes(dims: Dimensions, *shapes: tuple[int, ...]) -> Dimensions:
    return replace(dims, weight_shapes=shapes)
