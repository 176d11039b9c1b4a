"""Convolutions by XLA alone: slices of the input, and one matrix product over all of them."""

import math
from functools import reduce
from itertools import product

import jax.numpy as jnp
from jax import Array, lax

from mix2fld.models.fast.geometry import Geometry, Sizes


def convolve(geometry: Geometry, inputs: Array, kernel: Array) -> Array:
    """[N, *sizes, C] with a kernel [*taps, C / groups, O] -> [N, *out, O]."""
    shifted = _shifted(geometry, inputs, kernel.shape[:-2])
    groups, outputs = geometry.groups, kernel.shape[-1]
    if _is_depthwise(geometry, kernel):
        return reduce(jnp.add, map(jnp.multiply, shifted, kernel.reshape(len(shifted), outputs)))
    patches = _patches(shifted, groups)
    matrices = kernel.reshape(-1, kernel.shape[-2], groups, outputs // groups)
    matrices = matrices.transpose(2, 0, 1, 3).reshape(groups, -1, outputs // groups)
    result = jnp.einsum("gpk,gko->pgo", patches, matrices) if groups > 1 else patches[0] @ matrices[0]
    return result.reshape(*shifted[0].shape[:-1], outputs)


def weight_gradient(
    geometry: Geometry, inputs: Array, cotangent: Array, kernel_shape: tuple[int, ...]
) -> Array:
    """The gradient by the kernel, from inputs and what comes back to the outputs."""
    taps, (channels, outputs) = kernel_shape[:-2], kernel_shape[-2:]
    shifted = _shifted(geometry, inputs, taps)
    groups = geometry.groups
    if channels == 1 and outputs == groups:
        axes = tuple(range(cotangent.ndim - 1))
        return jnp.stack([(one * cotangent).sum(axes) for one in shifted]).reshape(kernel_shape)
    patches = _patches(shifted, groups)
    back = cotangent.reshape(-1, groups, outputs // groups)
    if groups == 1:
        return (patches[0].T @ back[:, 0]).reshape(kernel_shape)
    sums = jnp.einsum("gpk,pgo->kgo", patches, back)
    return sums.reshape(kernel_shape)


def _is_depthwise(geometry: Geometry, kernel: Array) -> bool:
    return kernel.shape[-2] == 1 and kernel.shape[-1] == geometry.groups


def _shifted(geometry: Geometry, inputs: Array, taps: Sizes) -> list[Array]:
    """What each tap meets: [N, *out, C] each, taps in row-major order."""
    out = geometry.out_sizes(inputs.shape[1:-1], taps)
    sides = [
        (low, high, dilation - 1)
        for (low, high), dilation in zip(geometry.padding, geometry.input_dilation, strict=True)
    ]
    padded = lax.pad(inputs, jnp.zeros((), inputs.dtype), [(0, 0, 0), *sides, (0, 0, 0)])
    places = product(
        *(
            [tap * dilation for tap in range(count)]
            for count, dilation in zip(taps, geometry.kernel_dilation, strict=True)
        )
    )
    batch, channels = inputs.shape[0], inputs.shape[-1]
    strides = (1, *geometry.strides, 1)
    return [
        lax.slice(
            padded,
            (0, *place, 0),
            (
                batch,
                *(
                    first + (size - 1) * stride + 1
                    for first, size, stride in zip(place, out, geometry.strides, strict=True)
                ),
                channels,
            ),
            strides,
        )
        for place in places
    ]


def _patches(shifted: list[Array], groups: int) -> Array:
    """The inputs of every output: [groups, N * out, taps * C / groups]."""
    pixels, channels = math.prod(shifted[0].shape[:-1]), shifted[0].shape[-1]
    if groups == 1:
        return jnp.concatenate(shifted, axis=-1).reshape(1, pixels, -1)
    stacked = jnp.stack(shifted, axis=-2).reshape(pixels, len(shifted), groups, channels // groups)
    return stacked.transpose(2, 0, 1, 3).reshape(groups, pixels, -1)
