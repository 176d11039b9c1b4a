"""Arithmetic of models: each is a tuple of arrays, and so is the result."""

from collections.abc import Sequence

import numpy as np

from mix2fld.types import Tensors

__all__ = ["Tensors", "minus", "plus", "scaled", "total", "zeros"]


def plus(one: Tensors, other: Tensors) -> Tensors:
    """one + other."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def minus(one: Tensors, other: Tensors) -> Tensors:
    """one - other."""
    return tuple(a - b for a, b in zip(one, other, strict=True))


def scaled(factor: float, tensors: Tensors) -> Tensors:
    """factor times all arrays."""
    return tuple(np.float32(factor) * part for part in tensors)


def zeros(tensors: Tensors) -> Tensors:
    """Zeros in these shapes."""
    return tuple(np.zeros_like(part) for part in tensors)


def total(many: Sequence[Tensors]) -> Tensors:
    """The sum of several models."""
    found = many[0]
    for one in many[1:]:
        found = plus(found, one)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
