"""How a sample is stored, mixed, rounded for an upload, and scaled for a model or for display.

A sample is stored as uint8 pixels from 0 to 255. An upload carries it in 8 bits, as stored, or as
float32 in units where a stored 255 is 1; the latter is also what a model is fed. Samples that
inverse-Mixup generates are float32 in those units and may lie outside the range of real ones.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Images

PIXEL_MAX = 255
"""The stored value that a model sees as 1."""
_TIE_DECIMALS = 9


def mix(samples: NDArray[np.uint8], ratios: tuple[float, ...]) -> NDArray[np.float64]:
    """Eq. 6: sum over i of lambda_i times sample i, for ``samples`` [m, N, H, W, C]."""
    return np.einsum("mn...,n->m...", samples.astype(np.float64), np.asarray(ratios))


def as_uploaded(pixels: NDArray[np.float64], bits_per_pixel: int) -> Images:
    """Pixel values from 0 to 255 as an upload carries them: rounded to 8 bits, or as float32."""
    if bits_per_pixel == 8:
        return to_8_bits(pixels)
    return (pixels / PIXEL_MAX).astype(np.float32)


def to_8_bits(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The nearest stored values; a half goes to the even one.

    Mixes of whole numbers often end in exactly one half, which floating point misses by a few
    units in the last place: these must not decide which way it is rounded.
    """
    nearest = np.rint(np.round(pixels, _TIE_DECIMALS))
    return np.clip(nearest, 0, PIXEL_MAX).astype(np.uint8)


def unit_value(images: Images) -> int:
    """The value in ``images`` that a model sees as 1: 255 as stored, 1 as float32."""
    return PIXEL_MAX if images.dtype == np.uint8 else 1


def to_unit_range(images: Images) -> NDArray[np.float32]:
    """What a model is fed: float32 in units where a stored 255 is 1."""
    return images.astype(np.float32) / np.float32(unit_value(images))


def to_pixels(images: NDArray[Any]) -> NDArray[np.float64]:
    """Exact values on the pixel scale, on which distances are measured; not rounded or clipped."""
    return images.astype(np.float64) * (PIXEL_MAX / unit_value(images))


def for_display(images: NDArray[Any]) -> NDArray[np.uint8]:
    """The nearest picture that a screen can show."""
    return to_8_bits(to_pixels(images))


def clip_to_real(images: Images) -> NDArray[np.float32]:
    """Generated samples in the unit range, clipped to the range of real ones."""
    return np.clip(images, 0.0, 1.0).astype(np.float32)
