"""Seed samples: values and labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs.bits import from_bits, to_bits
from mix2fld.codecs.codec import (
    Encoded,
    PayloadError,
    Size,
    check_finite,
    check_size,
    encoded,
    typed,
)
from mix2fld.data.samples import coding_of
from mix2fld.types import Carried, Dimensions, Seeds

MOST_LABEL_BITS = 16


@dataclass(frozen=True)
class SeedSamples:
    """The N_S seed samples of a device, each a mix of ``mix_size`` samples (1 for raw ones).

    All values come first, as codes of ``dims.seed_bits`` or as float32, then the labels of all
    samples in ceil(log2 N_L) bits each. The paper charges the values alone; the labels are carried,
    so they are charged here.
    """

    mix_size: int
    name: str = "seeds"

    def __post_init__(self) -> None:
        if self.mix_size < 1:
            raise InputError(field="mix_size", value=self.mix_size, hint="must be 1 or more")

    def size(self, dims: Dimensions) -> Size:
        """N_S (values seed_bits + mix_size ceil(log2 N_L))."""
        labels = dims.seed_samples * self.mix_size * _label_bits(dims)
        return Size(coding_of(dims).bits * _values(dims) + labels)

    def encode(self, value: Seeds, dims: Dimensions) -> Encoded:
        """Values, then labels."""
        coding, shape = coding_of(dims), (dims.seed_samples, *dims.seed_shape)
        inputs = typed("seeds.inputs", value.inputs, coding.dtype, shape)
        labels = typed("seeds.labels", value.labels, np.int32, (dims.seed_samples, self.mix_size))
        self._check(inputs, labels, dims)
        codes = to_bits(labels.astype(np.uint16).ravel(), _label_bits(dims))
        if not coding.rounds:
            data = inputs.astype("<f4").tobytes() + np.packbits(codes).tobytes()
        else:
            values = to_bits(inputs.astype(np.uint16).ravel(), coding.bits)
            data = np.packbits(np.concatenate([values, codes])).tobytes()
        return encoded(data, self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Seeds:
        """The seed samples as the server sees them."""
        check_size(self.name, data, self.size(dims).bits)
        coding = coding_of(dims)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=self.size(dims).bits)
        end = coding.bits * _values(dims)
        inputs = (
            from_bits(bits[:end], coding.bits)
            if coding.rounds
            else np.frombuffer(data[: end // 8], "<f4")
        )
        codes = from_bits(bits[end:], _label_bits(dims), dims.seed_samples * self.mix_size)
        seeds = Seeds(
            inputs.astype(coding.dtype).reshape(dims.seed_samples, *dims.seed_shape),
            codes.astype(np.int32).reshape(dims.seed_samples, self.mix_size),
        )
        self._check(seeds.inputs, seeds.labels, dims)
        return seeds

    def _check(self, inputs: Carried, labels: NDArray[np.int32], dims: Dimensions) -> None:
        coding = coding_of(dims)
        if not coding.rounds:
            check_finite(self.name, inputs)
        elif inputs.max(initial=0) > coding.last_code:
            raise PayloadError(
                f"{self.name}: code {inputs.max()}; must be at most {coding.last_code}"
            )
        wrong = (labels < 0) | (labels >= dims.num_labels)
        if wrong.any():
            raise PayloadError(
                f"{self.name}: label {labels[wrong][0]}; must be from 0 to {dims.num_labels - 1}"
            )


def _label_bits(dims: Dimensions) -> int:
    bits = (dims.num_labels - 1).bit_length()
    if bits > MOST_LABEL_BITS:
        raise InputError(
            field="num_labels",
            value=dims.num_labels,
            hint=f"seed samples carry labels of up to "
            f"{MOST_LABEL_BITS} bits; must be at most {2**MOST_LABEL_BITS}",
        )
    return bits


def _values(dims: Dimensions) -> int:
    """How many values all seed samples of a device have."""
    return dims.seed_samples * int(np.prod(dims.seed_shape))
