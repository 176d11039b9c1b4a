"""The fast form of pooling on a CPU: maxima and sums of slices, one axis after another.

Of equal maxima in a window the first in row-major order gets the gradient, as in the plain form:
the last axis is taken first, and of two equal values the earlier one.
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
