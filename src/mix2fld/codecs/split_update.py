"""An update in few bits whose last layer is coded by itself.

The error of few bits spreads evenly over all weights that are rotated together. In a large network
the last layer is a small part of them and drowns in the noise of the others. Coded by itself, and
with a step of its own, it arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import LEAST_UPDATE_BITS
from mix2fld.base.errors import InputError
from mix2fld.codecs.codec import (
    Encoded,
    Floats,
    Restored,
    Rngs,
    Size,
    UpdateCodec,
    estimated_norm,
)
from mix2fld.codecs.rotated_plan import most_bits
from mix2fld.codecs.rotated_update import Codes, RotatedUpdate
from mix2fld.types import Dimensions, Group

SMALL_SHARE = 1 / 20
"""Automatically, a last layer that has a smaller share of the weights is coded by itself."""
AUTO_SHARE = 0.5
"""The share of the bits that it gets then; at most one for each of its weights."""

SplitCodes = tuple[Codes | None, Codes | None]
"""Of the last layer and of the rest; None where no bits are left."""


class WeightGroup(NamedTuple):
    """Weights that are coded together."""

    arrays: tuple[int, ...]
    own: NDArray[np.bool_]  # [N_mod]
    dims: Dimensions  # of a model that has no other weights


@dataclass(frozen=True)
class SplitUpdate:
    """The update of the last layer in a share of the bits, that of all other weights in the rest.

    Both get as many bits as the smallest upload has, or more; too few for two go to the last layer.
    """

    whole: RotatedUpdate
    """How an update would be coded if it were not split: its bits, and how they are spent."""
    share: float
    most: float
    """Bits that the last layer gets at most, as long as the rest has use for more."""
    arrays: tuple[int, ...]
    """Those of the last layer."""
    dims: Dimensions
    name: str = "split update"
    words: ClassVar[str] = "compressed update"

    @property
    def variable_rate(self) -> bool:
        """Whether the bits may be fewer, as the budget says."""
        return self.whole.variable_rate

    def size(self, dims: Dimensions) -> Size:
        return self.whole.size(dims)

    def compress(
        self, update: Floats, rng: np.random.Generator, bit_budget: int | None
    ) -> SplitCodes:
        (codes,) = self.compress_rows(update[None], [rng], [bit_budget])
        return codes

    def compress_rows(
        self, updates: Floats, rngs: Rngs, bit_budgets: Sequence[int | None]
    ) -> list[SplitCodes]:
        """Each part by itself, with its own rotation."""
        size = updates.shape[1]
        codecs = [self._codecs(self.whole.bits_for(own, size)) for own in bit_budgets]
        spawned = [rng.spawn(2) for rng in rngs]

        def of_part(number: int) -> dict[int, Codes]:
            part, own = self._parts[number], [both[number] for both in codecs]
            bits = {n: each.bits_for(None, part.dims.num_weights)
                    for n, each in enumerate(own) if each is not None}  # fmt: skip
            new, rows = [spawned[n][number] for n in bits], updates[list(bits)][:, part.own]
            return dict(zip(bits, self.whole.in_bits(list(bits.values()), rows, new), strict=True))

        last, rest = of_part(0), of_part(1)
        return [(last.get(n), rest.get(n)) for n in range(len(updates))]

    def restore(self, codes: SplitCodes, rng: np.random.Generator, size: int) -> Restored:
        (restored,) = self.restore_rows([codes], [rng], size)
        return restored

    def restore_rows(self, codes: Sequence[SplitCodes], rngs: Rngs, size: int) -> list[Restored]:
        """The update of all groups; zero where nothing was sent."""
        updates = np.zeros((len(codes), size), np.float32)
        captured, groups = [0.0] * len(codes), [list[Group]() for _ in codes]
        spawned = [rng.spawn(2) for rng in rngs]
        for number, part in enumerate(self._parts):
            weights = part.dims.num_weights
            sent = {n: own for n, both in enumerate(codes) if (own := both[number]) is not None}
            new = [spawned[n][number] for n in sent]
            made = self.whole.restore_rows(list(sent.values()), new, weights)
            found = dict(zip(sent, made, strict=True))
            for n, restored in found.items():
                updates[n, part.own] = restored.update
                captured[n] += restored.captured * weights / size
            for n, own_groups in enumerate(groups):
                norm = estimated_norm(found[n].update, found[n].captured) if n in found else 0.0
                own_groups.append(Group(part.arrays, norm))
        each = zip(updates, captured, groups, strict=True)
        return [Restored(update, kept, tuple(own)) for update, kept, own in each]

    def encode(self, value: SplitCodes, dims: Dimensions) -> Encoded:
        """The bits of the last layer and those of the rest, without a gap."""
        found = [
            self.whole.encode(code, part.dims)
            for part, code in zip(self._parts, value, strict=True)
            if code is not None
        ]
        bits = [
            np.unpackbits(np.frombuffer(each.data, np.uint8), count=each.bits) for each in found
        ]
        data = np.packbits(np.concatenate(bits)).tobytes()
        return Encoded(data, sum(each.bits for each in found))

    def decode(self, data: bytes, dims: Dimensions) -> SplitCodes:
        """The codes of both; an honest device could send any of them."""
        bits = self.whole.bits_of(data, dims, self.name)
        read = np.unpackbits(np.frombuffer(data, np.uint8), count=bits)
        codes: list[Codes | None] = []
        for codec, part in zip(self._codecs(bits), self._parts, strict=True):
            taken = codec.bits if codec else 0
            own, read = np.packbits(read[:taken]).tobytes(), read[taken:]
            codes.append(None if codec is None else codec.decode(own, part.dims))
        last, rest = codes
        return last, rest

    @cached_property
    def _parts(self) -> tuple[WeightGroup, WeightGroup]:
        numbers = range(len(self.dims.weight_shapes))
        both = (self.arrays, tuple(n for n in numbers if n not in self.arrays))
        last, rest = (
            WeightGroup(
                arrays,
                np.repeat(np.isin(numbers, arrays), self.dims.weight_sizes),
                replace(self.dims, weight_shapes=tuple(self.dims.weight_shapes[n] for n in arrays)),
            )
            for arrays in both
        )
        return last, rest

    def _codecs(self, bits: int) -> tuple[RotatedUpdate | None, RotatedUpdate | None]:
        """Of an upload that has so many bits."""
        last, rest = (most_bits(part.dims.num_weights) for part in self._parts)
        given = bits
        if bits >= 2 * LEAST_UPDATE_BITS:
            wanted = round(min(self.share * bits, self.most))
            given = min(max(wanted, LEAST_UPDATE_BITS), bits - LEAST_UPDATE_BITS)
            given = min(max(given, bits - rest), last)
        exact = replace(self.whole, variable_rate=False)
        left = bits - given
        return replace(exact, bits=given), replace(exact, bits=left) if left else None


def with_last_layer_apart(
    codec: RotatedUpdate, share: float | str, dims: Dimensions, arrays: tuple[int, ...]
) -> UpdateCodec:
    """The codec, split if the model's last layer is worth it, or if that is asked for.

    ``arrays`` are those of the last layer; none if the model has no such.
    """
    if share == 0:
        return codec
    weights = sum(dims.weight_sizes[n] for n in arrays)
    if isinstance(share, str):  # auto
        if not 0 < weights < SMALL_SHARE * dims.num_weights:
            return codec
        return SplitUpdate(codec, AUTO_SHARE, weights, arrays, dims)
    if weights in (0, dims.num_weights):
        raise InputError(
            field="last_layer_share",
            value=f"{share:g}",
            hint=f"this model has no last layer beside other weights "
            f"(a kernel with an axis of {dims.num_labels} labels); must be auto or 0",
        )
    return SplitUpdate(codec, share, codec.bits, arrays, dims)
