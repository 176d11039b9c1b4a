"""The networks of the package in NumPy alone: what a model says where there is no JAX."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Tensors

Floats = NDArray[np.float32]


POOLED: dict[str, Sequence[int]] = {
    "paper-cnn": (2, 1),
    "cifar-cnn": (2, 2, 1),
    "signal-cnn": (4, 4),
}
"""By how much each convolution is pooled."""


def forward(model: str, weights: Tensors, inputs: Floats) -> Floats:
    """The logits [B, N_L] of samples [B, ...] as a model is fed them; biases precede kernels."""
    maps = np.moveaxis(inputs, -1, 1)  # channels first, in which order features are counted
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    for number, (bias, kernel) in enumerate(layers[:-1]):
        if kernel.ndim == 2:
            maps = np.maximum(maps.reshape(len(maps), -1) @ kernel.T + bias, 0)
            continue
        maps = np.maximum(_convolved(maps, kernel) + bias.reshape(-1, *[1] * (maps.ndim - 2)), 0)
        width = POOLED[model][number]
        for axis in range(2, maps.ndim) if width > 1 else ():
            maps = _pooled(maps, axis, width)
    bias, kernel = layers[-1]
    logits: Floats = maps.reshape(len(maps), -1) @ kernel.T + bias
    return logits


def _convolved(maps: Floats, kernel: Floats) -> Floats:
    """Maps [B, C, ...] under a kernel [..., C, O] of odd size, without change of size."""
    taps = kernel.shape[:-2]
    axes = tuple(range(2, maps.ndim))
    padded = np.pad(maps, [(0, 0), (0, 0), *((size // 2,) * 2 for size in taps)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps, axes)  # [B, C, ..., taps]
    over = [1, *range(maps.ndim, windows.ndim)]
    found: Floats = np.tensordot(windows, kernel, (over, [len(taps), *range(len(taps))]))
    return np.moveaxis(found, -1, 1)


def _pooled(maps: Floats, axis: int, width: int) -> Floats:
    """The maximum of each so many values along an axis; what is left over is dropped."""
    steps = maps.shape[axis] // width
    kept = np.take(maps, range(steps * width), axis)
    shape = [*maps.shape[:axis], steps, width, *maps.shape[axis + 1 :]]
    found: Floats = kept.reshape(shape).max(axis + 1)
    return found
