"""Edges: what the convolutions of the paper's network compute before anything was learned.

Oriented derivatives, then blurred differences of neighbouring orientations. They are a formula, so
that every device has them without a bit being sent.
"""

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.types import Dimensions, Tensors

Floats = NDArray[np.float64]
EDGES, MAPS = 12, 6
"""Channels of the two convolutions of the paper's network."""
INHIBITION, DRIVE = 0.35, 3 / 8.72
"""Of the second convolution: weight of the orientations beside its own two, and its scale."""
FEATURE_GAIN = 2.5
"""By how much the network's own features are larger, so that its steps change them in time."""


def has_edges(dims: Dimensions) -> bool:
    """Whether a model has the weights of the paper's network, for images of this size."""
    return dims.weight_shapes == _shapes(dims)


def edge_network(dims: Dimensions) -> Tensors:
    """The paper's network with these convolutions, and a last layer of zeros."""
    if not has_edges(dims):
        raise InputError(
            field="initial_weights",
            value="edges",
            hint="are those of the paper's network; the model must be paper-cnn, for images",
        )
    network = [np.zeros(shape, np.float32) for shape in dims.weight_shapes]
    network[1] += oriented_derivatives(dims.samples.shape[2]).astype(np.float32)
    network[3] += (FEATURE_GAIN * blurred_differences()).astype(np.float32)
    return tuple(network)


def oriented_derivatives(channels: int) -> Floats:
    """Twelve 3 x 3 derivatives in steps of 30 degrees, of the mean of all channels."""
    angles = np.arange(EDGES) * (2 * np.pi / EDGES)
    y, x = np.mgrid[-1:2, -1:2].astype(np.float64)
    corners = np.where(np.abs(x * y) == 1, 0.5, 1.0)[..., None]
    kernels = (np.cos(angles) * x[..., None] + np.sin(angles) * y[..., None]) * corners
    kernels *= 2 / np.abs(kernels).sum(axis=(0, 1))
    return np.repeat(kernels[:, :, None], channels, axis=2) / channels


def blurred_differences() -> Floats:
    """Each map blurs two neighbouring orientations and subtracts the two beside them."""
    kernels = np.zeros((3, 3, EDGES, MAPS))
    blur = np.outer([1, 2, 1], [1, 2, 1]) / 16
    for number in range(MAPS):
        for step, weight in ((-1, -INHIBITION), (0, 1.0), (1, 1.0), (2, -INHIBITION)):
            kernels[:, :, (2 * number + step) % EDGES, number] = DRIVE * weight * blur
    return kernels


def edge_maps(images: Floats, first: Floats, second: Floats) -> Floats:
    """Convolution, ReLU, 2 x 2 max-pool, convolution, ReLU: [n, H, W, C] -> [n, 6 H/2 W/2]."""
    maps = np.maximum(_convolve(images, first), 0)
    count, height, width, channels = maps.shape
    pooled = maps.reshape(count, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))
    found = np.maximum(_convolve(pooled, second), 0)
    return found.transpose(0, 3, 1, 2).reshape(count, -1)


def _convolve(images: Floats, kernel: Floats) -> Floats:
    """3 x 3, of the same size: [n, H, W, C] -> [n, H, W, O]."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    in_order = kernel.transpose(2, 0, 1, 3).reshape(-1, kernel.shape[3])  # as windows are: C, 3, 3
    found: Floats = windows.reshape(-1, len(in_order)) @ in_order
    return found.reshape(*images.shape[:3], -1)


def _shapes(dims: Dimensions) -> tuple[tuple[int, ...], ...] | None:
    """Of the weights of the paper's network, for images of this size."""
    if len(dims.samples.shape) != 3:
        return None
    height, width, channels = dims.samples.shape
    pixels = (height // 2) * (width // 2)
    return (
        (EDGES,), (3, 3, channels, EDGES), (MAPS,), (3, 3, EDGES, MAPS),
        (dims.width,), (dims.width, MAPS * pixels),
    )  # fmt: skip
