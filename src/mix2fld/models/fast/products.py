"""Convolutions by XLA alone: slices of the input, and one matrix product over all of them.

A depthwise convolution, one input and one output channel to a group, is a sum of products instead.
"""

import math
from functools import reduce
from itertools import product

import jax.numpy as jnp
from jax import Array, lax

from mix2fld.models.fast.geometry import ConvolutionGeometry, Sizes


def convolve(geometry: ConvolutionGeometry, inputs: Array, kernel: Array) -> Array:
    """[N, *sizes, C] with a kernel [*taps, C / groups, O] -> [N, *out, O]."""
    shifted = _shifted(geometry, inputs, kernel.shape[:-2])
    if is_depthwise(geometry, kernel.shape):
        taps = kernel.reshape(len(shifted), -1)
        return reduce(jnp.add, map(jnp.multiply, shifted, taps))
    patches = jnp.concatenate(shifted, axis=-1)
    if geometry.groups == 1:
        return patches @ kernel.reshape(-1, kernel.shape[-1])
    matrices = kernel.reshape(-1, kernel.shape[-2], *_by_group(geometry, kernel.shape[-1]))
    result = jnp.einsum("ptgc,tcgo->pgo", _by_tap(patches, geometry, kernel.shape), matrices)
    return result.reshape(*shifted[0].shape[:-1], -1)


def weight_gradient(
    geometry: ConvolutionGeometry, inputs: Array, cotangent: Array, kernel_shape: tuple[int, ...]
) -> Array:
    """The gradient by the kernel, from inputs and what comes back to the outputs."""
    shifted = _shifted(geometry, inputs, kernel_shape[:-2])
    if is_depthwise(geometry, kernel_shape):
        pixels = tuple(range(cotangent.ndim - 1))
        return jnp.stack([(one * cotangent).sum(pixels) for one in shifted]).reshape(kernel_shape)
    patches = jnp.concatenate(shifted, axis=-1)
    if geometry.groups == 1:
        pixels = tuple(range(cotangent.ndim - 1))
        return jnp.tensordot(patches, cotangent, (pixels, pixels)).reshape(kernel_shape)
    back = cotangent.reshape(-1, *_by_group(geometry, kernel_shape[-1]))
    apart = _by_tap(patches, geometry, kernel_shape)
    return jnp.einsum("ptgc,pgo->tcgo", apart, back).reshape(kernel_shape)


def is_depthwise(geometry: ConvolutionGeometry, kernel_shape: tuple[int, ...]) -> bool:
    """Whether every output channel has one input channel of its own."""
    return kernel_shape[-2] == 1 and kernel_shape[-1] == geometry.groups


def _by_group(geometry: ConvolutionGeometry, outputs: int) -> tuple[int, int]:
    return geometry.groups, outputs // geometry.groups


def _by_tap(patches: Array, geometry: ConvolutionGeometry, kernel_shape: tuple[int, ...]) -> Array:
    """The inputs of every output: [N * out, taps, groups, C / groups]."""
    taps = math.prod(kernel_shape[:-2])
    return patches.reshape(-1, taps, geometry.groups, kernel_shape[-2])


def _shifted(geometry: ConvolutionGeometry, inputs: Array, taps: Sizes) -> list[Array]:
    """What each tap meets: [N, *out, C] each, taps in row-major order."""
    sides = [
        (low, high, dilation - 1)
        for (low, high), dilation in zip(geometry.padding, geometry.input_dilation, strict=True)
    ]
    nothing = jnp.zeros((), inputs.dtype)
    padded = lax.pad(inputs, nothing, [(0, 0, 0), *sides, (0, 0, 0)])
    shifted = []
    for place in product(*(range(count) for count in taps)):
        starts, ends = [0], [inputs.shape[0]]
        for axis, out in enumerate(geometry.out_sizes(inputs.shape[1:-1], taps)):
            starts.append(place[axis] * geometry.kernel_dilation[axis])
            ends.append(starts[-1] + (out - 1) * geometry.strides[axis] + 1)
        whole = [*ends, inputs.shape[-1]]
        shifted.append(lax.slice(padded, [*starts, 0], whole, (1, *geometry.strides, 1)))
    return shifted
