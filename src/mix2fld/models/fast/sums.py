"""The fast form of a sum over outer and inner axes at once, as in group normalisation, on a CPU.

XLA adds vectors along outer axes but single numbers along the innermost, so the outer come first.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import JaxprEqn


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
