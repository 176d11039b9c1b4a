"""Smaller samples for an upload: the mean of neighbouring values, and back by interpolation."""

import math

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError

Floats = NDArray[np.float64]


def pooled_shape(shape: tuple[int, ...], pooling: int) -> tuple[int, ...]:
    """The shape of a sample after pooling: of an image both sides, of a series its time.

    Refuses with one message what cannot be divided.
    """
    if pooling == 1:
        return shape
    pooled = _pooled_axes(shape)
    what = f"seed_pooling = {pooling}: samples are {list(shape)}"
    if not pooled:
        raise InputError(
            f"{what}, not images [H, W, C] or series [T, C]; must be 1: their values have no "
            "neighbours to be averaged with"
        )
    sides = [shape[axis] for axis in pooled]
    if any(side % pooling for side in sides):
        both, most = " and ".join(str(side) for side in dict.fromkeys(sides)), math.gcd(*sides)
        able = ", ".join(str(one) for one in range(1, most + 1) if most % one == 0)
        raise InputError(f"{what}; must divide {both}: {able}")
    return tuple(side // pooling if axis in pooled else side for axis, side in enumerate(shape))


def pool(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Samples [n, ...] as means of neighbouring values, in the ``shape`` of ``pooled_shape``."""
    if values.shape[1:] == shape:
        return values
    blocks: list[int] = []
    for side, fewer in zip(values.shape[1:], shape, strict=True):
        blocks += [fewer, side // fewer]
    inner = tuple(range(2, 2 * len(shape) + 1, 2))
    return values.reshape(len(values), *blocks).mean(axis=inner)


def enlarge(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Samples [n, ...] interpolated linearly along each pooled axis to ``shape``.

    A pooled value stands in the middle of those that it is the mean of; beyond the outermost ones
    the nearest counts.
    """
    for axis, side in enumerate(shape, start=1):
        if values.shape[axis] != side:
            weights = _interpolation(values.shape[axis], side)
            values = np.moveaxis(np.tensordot(values, weights, axes=(axis, 1)), -1, axis)
    return values


def _pooled_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return {3: (0, 1), 2: (0,)}.get(len(shape), ())


def _interpolation(few: int, many: int) -> Floats:
    """The weight of each of ``few`` values in each of ``many``: [many, few]."""
    places = np.clip((np.arange(many) + 0.5) * few / many - 0.5, 0, few - 1)
    return np.maximum(0.0, 1.0 - np.abs(places[:, None] - np.arange(few)))
