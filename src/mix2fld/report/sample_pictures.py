"""A sample as a reader sees it: an image as a picture, anything else as lines."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mix2fld.data.samples import Coding
from mix2fld.types import Dataset, SampleFormat

PICTURE_CHANNELS = (1, 3)
MOST_LINES, MOST_POINTS, TOP = 8, 200, 1000
SHOWN_PART = (0.002, 0.998)
"""Lines are scaled to these quantiles of the training samples, so that outliers flatten nothing."""


def is_image(samples: SampleFormat) -> bool:
    """Whether samples are pictures [H, W, C] of one or three channels."""
    return len(samples.shape) == 3 and samples.shape[-1] in PICTURE_CHANNELS


def shown_range(dataset: Dataset) -> tuple[float, float]:
    """The values between the lower and the upper edge of a drawing, in the units of storage."""
    if dataset.samples.dtype == "uint8":
        return 0.0, 255.0
    some = dataset.train_inputs[:: max(1, len(dataset.train_inputs) // 1000)]
    low, high = np.quantile(some, SHOWN_PART).tolist()
    return (low, high) if low < high else dataset.value_range or (0.0, 1.0)


def drawn(
    sample: NDArray[Any], samples: SampleFormat, edges: tuple[float, float]
) -> dict[str, Any]:
    """What the page draws: ``image``, a picture; or ``lines``, one for each channel."""
    if is_image(samples):
        return {"image": picture(sample, samples)}
    return {"lines": lines(sample, edges)}


def picture(sample: NDArray[Any], samples: SampleFormat) -> str:
    """An image in the units of storage as the nearest picture that a screen can show."""
    shown = Coding(samples, 8).carry(sample.astype(np.float64))
    image = Image.fromarray(shown[..., 0] if shown.shape[-1] == 1 else shown)
    data = io.BytesIO()
    image.save(data, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def lines(sample: NDArray[Any], edges: tuple[float, float]) -> list[list[int]]:
    """Heights from 0 to ``TOP`` along time, or along the values of a vector.

    Of many channels the first ones; of many points, some.
    """
    low, high = edges
    columns = sample.reshape(-1, sample.shape[-1]).T if sample.ndim == 2 else sample.reshape(1, -1)
    chosen = columns[:MOST_LINES, :: -(-columns.shape[1] // MOST_POINTS)]
    heights = np.clip((chosen - low) / (high - low), 0, 1) * TOP
    return np.rint(heights).astype(int).tolist()


def units(samples: SampleFormat) -> str:
    """What distances between samples are measured in."""
    if samples.dtype == "uint8":
        return "pixels from 0 to 255" if is_image(samples) else "values from 0 to 255"
    if samples.mean:
        return "in standard deviations of each channel"
    return "in the units of the data"
