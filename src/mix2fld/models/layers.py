"""Layers for training on one sample at a time, the work of Eqs. 1, 3 and 5, on a CPU.

Inside a network images are [C, H, W, B]: channels first and the batch last, so that a convolution
is one matrix product over all pixels of all samples. A kernel is [3, 3, C, O]. Patches end in a
row of ones, which makes the bias a column of the matrix and its gradient a row of the product.

A differentiated call keeps its patches for the backward pass; an undifferentiated one, that is an
evaluation, takes the path that moves less memory. Both give the same values up to rounding.

Gradients at the kinks: ReLU has derivative 0 at 0, and of equal values in a pooling window the
first in row-major order gets the whole gradient.
"""

from functools import reduce

import jax
import jax.numpy as jnp
from jax import Array

PHASES = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Row and column of each pixel in a 2 x 2 pooling window."""


def linear(kernel: Array, bias: Array, features: Array) -> Array:
    """Kernel [O, F], bias [O], features [F, B] -> [O, B]."""
    return kernel @ features + bias[:, None]


def max_pool_signal(signals: Array, width: int) -> Array:
    """Max-pool along time: [C, T, B] -> [C, T // width, B]; the remainder is dropped."""
    channels, length, batch = signals.shape
    steps = length // width
    blocks = signals[:, : steps * width].reshape(channels, steps, width, batch)
    return reduce(_first_max, [blocks[:, :, place] for place in range(width)])


def conv_relu_signal(kernel: Array, bias: Array, signals: Array) -> Array:
    """Convolution along time of the same length, then ReLU: [C, T, B] -> [O, T, B].

    The kernel is [K, C, O], K odd.
    """
    taps, channels, outputs = kernel.shape
    _, length, batch = signals.shape
    padded = jnp.pad(signals, ((0, 0), (taps // 2, taps // 2), (0, 0)))
    patches = jnp.concatenate([padded[:, step : step + length] for step in range(taps)])
    matrix = kernel.reshape(taps * channels, outputs).T
    scores = matrix @ patches.reshape(taps * channels, length * batch) + bias[:, None]
    return jax.nn.relu(scores).reshape(outputs, length, batch)


def _first_max(first: Array, second: Array) -> Array:
    # Unlike jnp.maximum, which shares the gradient of equal values.
    return jnp.where(first >= second, first, second)


@jax.custom_vjp
def conv_relu(kernel: Array, bias: Array, images: Array) -> Array:
    """3 x 3 convolution of the same size, then ReLU: [C, H, W, B] -> [O, H, W, B]."""
    channels, height, width, batch = images.shape
    outputs = kernel.shape[-1]
    matrix = kernel.reshape(3, 3 * channels, outputs).transpose(0, 2, 1)
    rows = _across(_pad(images)).reshape(3 * channels, (height + 2) * width * batch)
    partial = matrix.reshape(3 * outputs, 3 * channels) @ rows
    partial = partial.reshape(3, outputs, height + 2, width, batch)
    scores = reduce(jnp.add, [partial[step, :, step : step + height] for step in range(3)])
    return jax.nn.relu(scores + bias[:, None, None, None])


def _conv_relu_forward(
    kernel: Array, bias: Array, images: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    patches = _with_ones(_patches(images))
    matrix = kernel.reshape(-1, kernel.shape[-1]).T
    scores = jnp.concatenate([matrix, bias[:, None]], axis=1) @ patches
    return jnp.maximum(scores, 0).reshape(-1, *images.shape[1:]), (kernel, patches, scores)


def _conv_relu_backward(
    saved: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Array, Array, Array]:
    kernel, patches, scores = saved
    channels, outputs = kernel.shape[2:]
    by_scores = jnp.where(scores > 0, cotangent.reshape(scores.shape), 0)
    by_kernel = _contract_last(patches, by_scores)
    flipped = kernel[::-1, ::-1].transpose(2, 0, 1, 3).reshape(channels, 9 * outputs)
    by_patches = flipped @ _patches(by_scores.reshape(cotangent.shape))
    by_images = by_patches.reshape(channels, *cotangent.shape[1:])
    return by_kernel[:-1].reshape(kernel.shape), by_kernel[-1], by_images


conv_relu.defvjp(_conv_relu_forward, _conv_relu_backward)


@jax.custom_vjp
def conv_relu_pool(kernel: Array, bias: Array, images: Array) -> Array:
    """3 x 3 convolution of the same size, ReLU, 2 x 2 max-pool: [C, H, W, B] -> [O, H/2, W/2, B].

    The four pixels of every pooling window are four rows of one matrix product over 4 x 4 windows:
    more multiplications than a pooling of ``conv_relu``, but faster up to a few channels.
    """
    scores = _with_bias(_phase_matrix(kernel), bias) @ _with_ones(_windows(images))
    # A chain of maxima is fused with what follows it; jnp.max is not, which suits the other path.
    pooled = reduce(jnp.maximum, scores.reshape(4, *_pooled_shape(kernel, images)))
    return jnp.maximum(pooled, 0)


def _conv_relu_pool_forward(
    kernel: Array, bias: Array, images: Array
) -> tuple[Array, tuple[Array, Array, Array, Array]]:
    windows = _with_ones(_windows(images))
    scores = _with_bias(_phase_matrix(kernel), bias) @ windows
    # All pixels in one long axis: loops over short image rows cost a fifth of an SGD step.
    scores = scores.reshape(4, kernel.shape[-1], -1)
    best = jnp.max(scores, axis=0)
    pooled = jnp.maximum(best, 0).reshape(_pooled_shape(kernel, images))
    return pooled, (kernel, windows, scores, best)


def _conv_relu_pool_backward(
    saved: tuple[Array, Array, Array, Array], cotangent: Array
) -> tuple[Array, Array, Array]:
    kernel, windows, scores, best = saved
    channels, outputs = kernel.shape[2:]
    by_best = jnp.where(best > 0, cotangent.reshape(best.shape), 0)
    routed = _to_first_best(scores, best, by_best)
    by_matrix = _contract_last(windows, routed.reshape(4 * outputs, -1))
    by_taps = by_matrix[:-1].reshape(4, 4, channels, 4, outputs)
    placed = [
        by_taps[row : row + 3, column : column + 3, :, phase]
        for phase, (row, column) in enumerate(PHASES)
    ]
    by_bias = by_matrix[-1].reshape(4, outputs).sum(0)
    flipped = kernel[::-1, ::-1].swapaxes(2, 3)
    by_pixels = _interleave(routed.reshape(4, *cotangent.shape))
    by_phases = _phase_matrix(flipped) @ _windows(by_pixels)
    by_images = _interleave(by_phases.reshape(4, channels, *cotangent.shape[1:]))
    return reduce(jnp.add, placed), by_bias, by_images


conv_relu_pool.defvjp(_conv_relu_pool_forward, _conv_relu_pool_backward)


def _to_first_best(scores: Array, best: Array, cotangent: Array) -> Array:
    """Hand the cotangent [...] to the first of the four scores [4, ...] that is the best."""
    routed = []
    unclaimed: Array | bool = True
    for phase in range(3):
        is_best = scores[phase] == best
        routed.append(jnp.where(is_best & unclaimed, cotangent, 0))
        unclaimed = ~is_best & unclaimed
    return jnp.stack([*routed, jnp.where(unclaimed, cotangent, 0)])


def _pooled_shape(kernel: Array, images: Array) -> tuple[int, int, int, int]:
    _, height, width, batch = images.shape
    return kernel.shape[-1], height // 2, width // 2, batch


def _patches(images: Array) -> Array:
    """Every pixel's 3 x 3 patch: [C, H, W, B] -> [9 C, H W B], rows (row, column, channel)."""
    channels, height = images.shape[:2]
    rows = _across(_pad(images))
    steps = [rows[:, step : step + height] for step in range(3)]
    return jnp.concatenate(steps).reshape(9 * channels, -1)


def _across(padded: Array) -> Array:
    """Three columns side by side: [C, H, W + 2, B] -> [3 C, H, W, B]."""
    width = padded.shape[2] - 2
    return jnp.concatenate([padded[:, :, step : step + width] for step in range(3)])


def _windows(images: Array) -> Array:
    """Every pooling window with a margin of one pixel, 4 x 4.

    [C, H, W, B] -> [16 C, H/2 W/2 B], rows (row, column, channel).
    """
    channels, height, width, batch = images.shape
    rows, columns = height // 2, width // 2
    blocks = _pad(images).reshape(channels, rows + 1, 2, columns + 1, 2, batch)
    planes = blocks.transpose(2, 4, 0, 1, 3, 5)
    planes = jnp.stack([planes[..., step : step + columns, :] for step in (0, 1)], axis=1)
    planes = jnp.stack([planes[..., step : step + rows, :, :] for step in (0, 1)])
    return planes.reshape(16 * channels, -1)


def _phase_matrix(kernel: Array) -> Array:
    """The kernel placed for each pixel of a pooling window: [3, 3, C, O] -> [4 O, 16 C]."""
    channels, outputs = kernel.shape[2:]
    placed = [
        jnp.pad(kernel, ((row, 1 - row), (column, 1 - column), (0, 0), (0, 0)))
        for row, column in PHASES
    ]
    by_phase = jnp.stack(placed).reshape(4, 16 * channels, outputs)
    return by_phase.transpose(0, 2, 1).reshape(4 * outputs, 16 * channels)


def _interleave(phases: Array) -> Array:
    """Put the pixels of the pooling windows in their places: [4, C, h, w, B] -> [C, 2h, 2w, B]."""
    _, channels, rows, columns, batch = phases.shape
    blocks = phases.reshape(2, 2, channels, rows, columns, batch).transpose(2, 3, 0, 4, 1, 5)
    return blocks.reshape(channels, 2 * rows, 2 * columns, batch)


def _pad(images: Array) -> Array:
    return jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))


def _with_ones(rows: Array) -> Array:
    return jnp.concatenate([rows, jnp.ones((1, rows.shape[1]), rows.dtype)])


def _with_bias(matrix: Array, bias: Array) -> Array:
    """One bias column, repeated for each phase: [4 O, K], [O] -> [4 O, K + 1]."""
    return jnp.concatenate([matrix, jnp.tile(bias, 4)[:, None]], axis=1)


def _contract_last(left: Array, right: Array) -> Array:
    """[M, K], [N, K] -> [M, N]."""
    return jax.lax.dot_general(left, right, (((1,), (1,)), ((), ())))
