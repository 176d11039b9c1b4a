"""What is sent, to the bit: every payload knows its size and is encoded to exactly that many bits.

A payload is encoded to ceil(bits / 8) bytes, big-endian bits within them, pad bits zero. Both ends
know the dimensions, so nothing but the values is carried. ``decode`` trusts no one: whatever the
bytes, it returns a valid value or raises ``PayloadError``; ``encode`` holds its value to the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mix2fld.errors import InputError
from mix2fld.link.bits import pack, unpack
from mix2fld.types import Dimensions, Knowledge, Seeds

Floats = NDArray[np.float32]

FORMAT = 1
"""Of the bytes of all payloads. It goes beside them in a message, as their dimensions do: bits that
both ends know before are not charged."""
FULL_PRECISION = 32
SUM_TOLERANCE = 1e-3


class PayloadError(ValueError):
    """Bytes or a value that no honest sender would send; the message is one line."""


class Payload(Protocol):
    """One kind of thing that a device or the server sends."""

    @property
    def name(self) -> str:
        """Short name for records and messages."""

    def bits(self, dims: Dimensions) -> int:
        """Bits carried, and charged."""

    def pick(self, known: Knowledge) -> Any:
        """The part of what a side knows that this payload carries; None if it carries none."""

    def place(self, value: Any) -> Knowledge:
        """What the other side knows of a decoded value."""

    def encode(self, value: Any, dims: Dimensions) -> bytes:
        """The value as ceil(bits / 8) bytes."""

    def decode(self, data: bytes, dims: Dimensions) -> Any:
        """The value that the other end gets."""


@dataclass(frozen=True)
class Weights:
    """The arrays of a model, in the order of ``dims.weight_shapes``.

    With fewer than 32 bits a weight, each array is rounded to evenly spaced levels between its
    smallest and its largest value, which go ahead of the codes as two float32. Sending both ends,
    not one end and the step, makes them decode exactly: rounding twice is rounding once.
    """

    bits_per_weight: int = FULL_PRECISION

    def __post_init__(self) -> None:
        if self._quantised and not 2 <= self.bits_per_weight <= 16:
            raise InputError(
                f"bits_per_weight = {self.bits_per_weight}: must be 32, or from 2 to 16"
            )

    @property
    def name(self) -> str:
        """``weights``, or e.g. ``weights8``."""
        return f"weights{self.bits_per_weight}" if self._quantised else "weights"

    def bits(self, dims: Dimensions) -> int:
        """b N_mod, and two float32 per array if quantised."""
        ends = 64 * len(dims.weight_shapes) if self._quantised else 0
        return self.bits_per_weight * dims.num_weights + ends

    def pick(self, known: Knowledge) -> list[Floats] | None:
        """The weights."""
        return known.weights

    def place(self, value: list[Floats]) -> Knowledge:
        """Weights, no outputs."""
        return Knowledge(value, None)

    def encode(self, value: Sequence[Floats], dims: Dimensions) -> bytes:
        """Little-endian float32; if quantised, the two ends of each array, then all codes."""
        flat = _flatten(value, dims)
        if not self._quantised:
            return flat.astype("<f4").tobytes()
        sizes = _sizes(dims)
        ends = np.array([_ends(part) for part in _split(flat, sizes)], dtype=np.float32)
        low, high = _for_each_weight(ends, sizes)
        codes = np.rint((flat - low) / np.where(high > low, high - low, 1) * self._top)
        return ends.astype("<f4").tobytes() + pack(codes.astype(np.uint16), self.bits_per_weight)

    def decode(self, data: bytes, dims: Dimensions) -> list[Floats]:
        """The arrays as the other end sees them."""
        _check_size(self.name, data, self.bits(dims))
        sizes = _sizes(dims)
        if not self._quantised:
            flat = np.frombuffer(data, "<f4").astype(np.float32)
            _check_finite(self.name, flat)
        else:
            flat = self._dequantise(data, sizes)
        parts = _split(flat, sizes)
        return [part.reshape(shape) for part, shape in zip(parts, dims.weight_shapes, strict=True)]

    @property
    def _quantised(self) -> bool:
        return self.bits_per_weight != FULL_PRECISION

    @property
    def _top(self) -> int:
        """The code of the largest value."""
        return (1 << self.bits_per_weight) - 1

    def _dequantise(self, data: bytes, sizes: list[int]) -> Floats:
        header = 8 * len(sizes)
        ends = np.frombuffer(data[:header], "<f4").astype(np.float32).reshape(-1, 2)
        _check_finite(self.name, ends)
        if np.any(ends[:, 0] > ends[:, 1]):
            raise PayloadError(f"{self.name}: an array's smallest value is above its largest")
        position = unpack(data[header:], sum(sizes), self.bits_per_weight) / self._top
        low, high = _for_each_weight(ends, sizes)
        # In this form, unlike low + position * (high - low), both ends come out exactly.
        return (low * (1 - position) + high * position).astype(np.float32)


@dataclass(frozen=True)
class Outputs:
    """Average output vectors [N_L, N_L]; a row of zeros is a label never drawn.

    ``partial_rows`` accepts rows that sum to less than one, as the server's mean has them if it
    counts a device that never drew the label as zeros.
    """

    partial_rows: bool = False
    name: str = "outputs"

    def bits(self, dims: Dimensions) -> int:
        """32 N_L^2."""
        return 32 * dims.num_labels**2

    def pick(self, known: Knowledge) -> Floats | None:
        """The average output vectors."""
        return known.outputs

    def place(self, value: Floats) -> Knowledge:
        """Outputs, no weights."""
        return Knowledge(None, value)

    def encode(self, value: Floats, dims: Dimensions) -> bytes:
        """Little-endian float32, row by row."""
        outputs = _typed(self.name, value, np.float32, (dims.num_labels, dims.num_labels))
        self._check(outputs)
        return outputs.astype("<f4").tobytes()

    def decode(self, data: bytes, dims: Dimensions) -> Floats:
        """The output vectors [N_L, N_L]."""
        _check_size(self.name, data, self.bits(dims))
        outputs = np.frombuffer(data, "<f4").astype(np.float32)
        outputs = outputs.reshape(dims.num_labels, dims.num_labels)
        self._check(outputs)
        return outputs

    def _check(self, outputs: Floats) -> None:
        _check_finite(self.name, outputs)
        if np.any(outputs < 0):
            raise PayloadError(f"{self.name}: a value is negative; must be 0 or more")
        sums = outputs.sum(axis=1, dtype=np.float64)
        fine = sums < 1 if self.partial_rows else sums == 0
        wrong = ~fine & (np.abs(sums - 1) > SUM_TOLERANCE)
        if wrong.any():
            row = int(np.argmax(wrong))
            allowed = "at most 1" if self.partial_rows else "0 or 1"
            raise PayloadError(f"{self.name}: row {row} sums to {sums[row]:g}; must be {allowed}")


@dataclass(frozen=True)
class Nothing:
    """No payload: 0 bits."""

    name: str = "nothing"

    def bits(self, dims: Dimensions) -> int:  # noqa: ARG002
        """0."""
        return 0

    def pick(self, known: Knowledge) -> None:  # noqa: ARG002
        """Nothing."""
        return

    def place(self, value: None) -> Knowledge:
        """Nothing."""
        return Knowledge(value, None)

    def encode(self, value: None, dims: Dimensions) -> bytes:  # noqa: ARG002
        """No bytes."""
        return b""

    def decode(self, data: bytes, dims: Dimensions) -> None:  # noqa: ARG002
        """None, if there are no bytes."""
        _check_size(self.name, data, 0)


@dataclass(frozen=True)
class SeedSamples:
    """The N_S seed samples of a device, each a mix of ``mix_size`` samples (1 for raw ones).

    All pixels come first, then the labels of all samples in ceil(log2 N_L) bits each. The paper
    charges the pixels alone; the labels are carried, so they are charged here.
    """

    mix_size: int
    name: str = "seeds"

    def __post_init__(self) -> None:
        if self.mix_size < 1:
            raise InputError(f"mix_size = {self.mix_size}: must be 1 or more")

    def bits(self, dims: Dimensions) -> int:
        """N_S (H W C bits_per_pixel + mix_size ceil(log2 N_L))."""
        labels = dims.seed_samples * self.mix_size * _label_bits(dims)
        return 8 * _pixel_bytes(dims) + labels

    def pick(self, known: Knowledge) -> None:  # noqa: ARG002
        """Nothing: seeds come from a device's data, not from its local phase."""
        return

    def place(self, value: Seeds) -> Knowledge:  # noqa: ARG002
        """Nothing: seeds are kept apart from what is known."""
        return Knowledge(None, None)

    def encode(self, value: Seeds, dims: Dimensions) -> bytes:
        """Pixels, then labels."""
        pixel, samples = _pixel_type(dims), dims.seed_samples
        images = _typed("seeds.images", value.images, pixel, (samples, *dims.sample_shape))
        _check_finite(self.name, images)
        labels = _typed("seeds.labels", value.labels, np.int32, (samples, self.mix_size))
        self._check(labels, dims)
        codes = labels.astype(np.uint16).ravel()
        return images.astype(pixel.newbyteorder("<")).tobytes() + pack(codes, _label_bits(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Seeds:
        """The seed samples as the server sees them."""
        _check_size(self.name, data, self.bits(dims))
        pixel, end = _pixel_type(dims), _pixel_bytes(dims)
        images = np.frombuffer(data[:end], pixel.newbyteorder("<")).astype(pixel)
        _check_finite(self.name, images)
        codes = unpack(data[end:], dims.seed_samples * self.mix_size, _label_bits(dims))
        labels = codes.astype(np.int32).reshape(dims.seed_samples, self.mix_size)
        self._check(labels, dims)
        return Seeds(images.reshape(dims.seed_samples, *dims.sample_shape), labels)

    def _check(self, labels: NDArray[np.int32], dims: Dimensions) -> None:
        wrong = (labels < 0) | (labels >= dims.num_labels)
        if wrong.any():
            raise PayloadError(
                f"{self.name}: label {labels[wrong][0]}; must be from 0 to {dims.num_labels - 1}"
            )


def _check_size(name: str, data: bytes, bits: int) -> None:
    expected = -(-bits // 8)
    if len(data) != expected:
        raise PayloadError(f"{name}: {len(data)} bytes; must be {expected}")
    padding = 8 * expected - bits
    if padding and data[-1] & ((1 << padding) - 1):
        raise PayloadError(f"{name}: the last {padding} bits are padding; must be 0")


def _check_finite(name: str, values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise PayloadError(f"{name}: a value is not finite")


def _typed(name: str, value: Any, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype != dtype or array.shape != shape:
        raise PayloadError(
            f"{name}: {array.dtype}{list(array.shape)}; must be {np.dtype(dtype)}{list(shape)}"
        )
    return array


def _flatten(value: Sequence[Floats], dims: Dimensions) -> Floats:
    """All weights in one row [N_mod], checked."""
    if len(value) != len(dims.weight_shapes):
        raise PayloadError(f"weights: {len(value)} arrays; must be {len(dims.weight_shapes)}")
    parts = [
        _typed(f"weights[{i}]", part, np.float32, shape).ravel()
        for i, (part, shape) in enumerate(zip(value, dims.weight_shapes, strict=True))
    ]
    flat = np.concatenate([np.zeros(0, np.float32), *parts])
    _check_finite("weights", flat)
    return flat


def _sizes(dims: Dimensions) -> list[int]:
    return [int(np.prod(shape)) for shape in dims.weight_shapes]


def _split(flat: Floats, sizes: list[int]) -> list[Floats]:
    return np.split(flat, np.cumsum(sizes)[:-1])


def _ends(part: Floats) -> tuple[np.float32, np.float32]:
    """Smallest and largest value; adding 0 turns -0 into 0, of which ``min`` may give either."""
    zero = np.float32(0)
    return (part.min() + zero, part.max() + zero) if part.size else (zero, zero)


def _for_each_weight(ends: Floats, sizes: list[int]) -> list[NDArray[np.float64]]:
    """Smallest and largest value of the array that each weight is in."""
    return [np.repeat(end, sizes) for end in ends.T.astype(np.float64)]


def _label_bits(dims: Dimensions) -> int:
    return (dims.num_labels - 1).bit_length()


def _pixel_type(dims: Dimensions) -> np.dtype[Any]:
    types: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 32: np.dtype(np.float32)}
    if dims.bits_per_pixel not in types:
        raise InputError(f"bits_per_pixel = {dims.bits_per_pixel}: must be 8 or 32")
    return types[dims.bits_per_pixel]


def _pixel_bytes(dims: Dimensions) -> int:
    return dims.seed_samples * int(np.prod(dims.sample_shape)) * _pixel_type(dims).itemsize
