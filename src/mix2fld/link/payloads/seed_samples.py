"""Seed samples: pixels and labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.errors import InputError
from mix2fld.link.payloads.bits import pack, unpack
from mix2fld.link.payloads.codec import (
    Encoded,
    PayloadError,
    Size,
    check_finite,
    check_size,
    encoded,
    typed,
)
from mix2fld.types import Dimensions, Seeds


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

    def size(self, dims: Dimensions) -> Size:
        """N_S (H W C bits_per_pixel + mix_size ceil(log2 N_L))."""
        labels = dims.seed_samples * self.mix_size * _label_bits(dims)
        return Size(8 * _pixel_bytes(dims) + labels)

    def encode(self, value: Seeds, dims: Dimensions) -> Encoded:
        """Pixels, then labels."""
        pixel, samples = _pixel_type(dims), dims.seed_samples
        images = typed("seeds.inputs", value.inputs, pixel, (samples, *dims.sample_shape))
        check_finite(self.name, images)
        labels = typed("seeds.labels", value.labels, np.int32, (samples, self.mix_size))
        self._check(labels, dims)
        codes = labels.astype(np.uint16).ravel()
        pixels = images.astype(pixel.newbyteorder("<")).tobytes()
        return encoded(pixels + pack(codes, _label_bits(dims)), self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Seeds:
        """The seed samples as the server sees them."""
        check_size(self.name, data, self.size(dims).bits)
        pixel, end = _pixel_type(dims), _pixel_bytes(dims)
        images = np.frombuffer(data[:end], pixel.newbyteorder("<")).astype(pixel)
        check_finite(self.name, images)
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


def _label_bits(dims: Dimensions) -> int:
    return (dims.num_labels - 1).bit_length()


def _pixel_type(dims: Dimensions) -> np.dtype[Any]:
    types: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 32: np.dtype(np.float32)}
    if dims.bits_per_pixel not in types:
        raise InputError(f"bits_per_pixel = {dims.bits_per_pixel}: must be 8 or 32")
    return types[dims.bits_per_pixel]


def _pixel_bytes(dims: Dimensions) -> int:
    return dims.seed_samples * int(np.prod(dims.sample_shape)) * _pixel_type(dims).itemsize
