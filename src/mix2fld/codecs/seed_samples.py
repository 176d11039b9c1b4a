"""Seed samples on the link: values and labels, new labels for them, seeds ahead of a download."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs.bits import from_bits, to_bits
from mix2fld.codecs.codec import (
    Encoded,
    Payload,
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
    samples in ceil(log2 N_L) bits each. Where targets are numbers, these are the groups of what is
    mixed, and the T mixed numbers of each sample follow as float32. The paper charges the values
    alone; the labels are carried, so they are charged here.
    """

    mix_size: int
    name: str = "seeds"

    def __post_init__(self) -> None:
        if self.mix_size < 1:
            raise InputError(field="mix_size", value=self.mix_size, hint="must be 1 or more")

    def size(self, dims: Dimensions) -> Size:
        """N_S (values seed_bits + mix_size ceil(log2 N_L) + 32 T)."""
        labels = dims.seed_samples * self.mix_size * _label_bits(dims)
        targets = 32 * dims.seed_samples * dims.target_numbers
        return Size(coding_of(dims).bits * _values(dims) + labels + targets)

    def encode(self, value: Seeds, dims: Dimensions) -> Encoded:
        """Values, then labels."""
        coding, shape = coding_of(dims), (dims.seed_samples, *dims.seed_shape)
        inputs = typed("seeds.inputs", value.inputs, coding.dtype, shape)
        labels = typed("seeds.labels", value.labels, np.int32, (dims.seed_samples, self.mix_size))
        self._check(inputs, labels, dims)
        codes = to_bits(labels.astype(np.uint16).ravel(), _label_bits(dims))
        if dims.target_numbers:
            shape = (dims.seed_samples, dims.target_numbers)
            targets = typed("seeds.targets", value.targets, np.float32, shape)
            check_finite("seeds.targets", targets)
            raw = np.frombuffer(targets.astype("<f4").tobytes(), np.uint8)
            codes = np.concatenate([codes, np.unpackbits(raw)])
        if not coding.rounds:
            data = inputs.astype("<f4").tobytes() + np.packbits(codes).tobytes()
        else:
            values = to_bits(inputs.astype(np.uint16).ravel(), coding.bits)
            data = np.packbits(np.concatenate([values, codes])).tobytes()
        return encoded(data, self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Seeds:
        check_size(self.name, data, self.size(dims).bits)
        coding = coding_of(dims)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=self.size(dims).bits)
        end = coding.bits * _values(dims)
        inputs = (
            from_bits(bits[:end], coding.bits)
            if coding.rounds
            else np.frombuffer(data[: end // 8], "<f4")
        )
        count = dims.seed_samples * self.mix_size
        behind = end + count * _label_bits(dims)
        codes = from_bits(bits[end:behind], _label_bits(dims), count)
        targets = None
        if dims.target_numbers:
            targets = np.frombuffer(np.packbits(bits[behind:]).tobytes(), "<f4").astype(np.float32)
            check_finite("seeds.targets", targets)
            targets = targets.reshape(dims.seed_samples, dims.target_numbers)
        seeds = Seeds(
            inputs.astype(coding.dtype).reshape(dims.seed_samples, *dims.seed_shape),
            codes.astype(np.int32).reshape(dims.seed_samples, self.mix_size),
            targets,
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
