"""The fast form of poolings and of some sums on a CPU.

A pooling is maxima or sums of slices, one axis after another. Of equal maxima in a window the first
in row-major order gets the gradient, as in the plain form: the last axis is taken first, and of two
equal values the earlier one.

A sum over outer and inner axes at once, as in group normalisation, is taken over the outer axes
first: XLA adds vectors along them, but single numbers along the innermost.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import JaxprEqn

MOST_SLICES = 32  # of one axis; beyond, the plain form stays

Pair = Callable[[Array, Array], Array]


def pools_by_slices(equation: JaxprEqn) -> bool:
    """Whether this pooling has a fast form."""
    params = equation.params
    result: Any = equation.outvars[0].aval
    return (
        jnp.issubdtype(result.dtype, jnp.floating)
        and max(params["window_dimensions"]) <= MOST_SLICES
        and set(params["base_dilation"]) <= {1}
        and 0 not in result.shape
    )


def max_pool(inputs: Array, **params: Any) -> Array:
    """The largest of every window."""
    return _pool(inputs, lambda a, b: jnp.where(a >= b, a, b), -jnp.inf, params)


def min_pool(inputs: Array, **params: Any) -> Array:
    """The smallest of every window."""
    return _pool(inputs, lambda a, b: jnp.where(a <= b, a, b), jnp.inf, params)


def sum_pool(inputs: Array, **params: Any) -> Array:
    """The sum of every window."""
    return _pool(inputs, jnp.add, 0.0, params)


def _pool(inputs: Array, pair: Pair, nothing: float, params: dict[str, Any]) -> Array:
    for axis in reversed(range(inputs.ndim)):
        size, stride = params["window_dimensions"][axis], params["window_strides"][axis]
        dilation, (low, high) = params["window_dilation"][axis], params["padding"][axis]
        sides = [(low, high, 0) if i == axis else (0, 0, 0) for i in range(inputs.ndim)]
        inputs = lax.pad(inputs, jnp.array(nothing, inputs.dtype), sides)
        count = (inputs.shape[axis] - (size - 1) * dilation - 1) // stride + 1
        slices = [
            lax.slice_in_dim(inputs, start, start + (count - 1) * stride + 1, stride, axis)
            for start in range(0, size * dilation, dilation)
        ]
        inputs = reduce(pair, slices)
    return inputs


def sums_apart(equation: JaxprEqn) -> bool:
    """Whether this sum is over innermost and, apart from them, over outer axes."""
    source: Any = equation.invars[0].aval
    outer = _outer_axes(source.ndim, equation.params["axes"])
    return 0 < len(outer) < len(equation.params["axes"]) and jnp.issubdtype(
        source.dtype, jnp.floating
    )


def two_sums(inputs: Array, *, axes: tuple[int, ...], **params: Any) -> Array:
    """The same sum, outer axes first."""
    del params
    outer = _outer_axes(inputs.ndim, axes)
    # Without the barrier XLA makes one sum of the two again.
    return lax.optimization_barrier(inputs.sum(outer, keepdims=True)).sum(axes)


def _outer_axes(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Those axes of a sum that do not reach the innermost one without a gap."""
    inner = ndim
    while inner - 1 in axes:
        inner -= 1
    return tuple(axis for axis in axes if axis < inner)
