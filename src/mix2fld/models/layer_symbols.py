"""What the operations of a traced function stand for, as they are read as layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from mix2fld.native.network import NONE


class NotLayersError(Exception):
    """The function computes something that is no layer known here."""


@dataclass(frozen=True)
class Value:
    """A value of the program.

    Axes: n samples, h rows, w columns, c channels, f features, and 1 for one that was put in.
    """

    number: int
    axes: str
    age: int = 0
    """How often a bias or ReLU was joined to what computes it: an older one is gone."""


@dataclass(frozen=True)
class Weight:
    """An array of the model's weights with its axes in some order."""

    number: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Vector:
    """Weights with one axis, laid along one axis of an array."""

    number: int
    axis: int


@dataclass(frozen=True)
class Sum:
    """The sum of a value over its pixels."""

    value: Value


@dataclass(frozen=True)
class Moments:
    """Something computed from a value and its means over groups of channels."""

    value: Value
    groups: int = 0
    epsilon: float | None = None
    normal: bool = False
    """Whether one over the deviation is part of it."""
    scale: int = NONE
    shift: int = NONE


@dataclass(frozen=True)
class Constant:
    """A number that is no weight."""

    number: float


def constant(value: Any) -> Constant:
    """A single number that is no weight."""
    if np.ndim(value) or not np.issubdtype(np.asarray(value).dtype, np.number):
        raise NotLayersError("an array that is no weight")
    return Constant(float(value))


def grouped(source: Value, before: tuple[int, ...], shape: tuple[int, ...]) -> Moments:
    """A value whose channels fall into groups, by which it will be normalised."""
    place = source.axes.find("c")
    if place < 0 or len(shape) != len(before) + 1:
        raise NotLayersError("a value in another shape")
    groups = shape[place]
    parts = (*before[:place], groups, before[place] // groups, *before[place + 1 :])
    if parts != shape:
        raise NotLayersError("a value in another shape")
    return Moments(source, groups)


def joined(name: str, operands: Sequence[Any]) -> Moments:
    """What an operation on parts of a normalisation is."""
    known = [each for each in operands if isinstance(each, Moments)]
    values = {each.value for each in known} | {e for e in operands if isinstance(e, Value)}
    if len(values) != 1 or any(isinstance(each, (Weight, Sum)) for each in operands):
        raise NotLayersError(f"{name} is no part of a normalisation")
    found = Moments(
        values.pop(),
        groups=max((each.groups for each in known), default=0),
        epsilon=next((each.epsilon for each in known if each.epsilon is not None), None),
        normal=name == "rsqrt" or any(each.normal for each in known),
        scale=max((each.scale for each in known), default=NONE),
        shift=max((each.shift for each in known), default=NONE),
    )
    constants = [each.number for each in operands if isinstance(each, Constant)]
    if name == "add" and constants and not found.normal:
        found = replace(found, epsilon=constants[0])
    vectors = [each.number for each in operands if isinstance(each, Vector)]
    if vectors and name == "mul" and found.normal and found.scale == NONE:
        return replace(found, scale=vectors[0])
    if vectors and name == "add" and found.normal and found.shift == NONE:
        return replace(found, shift=vectors[0])
    if vectors:
        raise NotLayersError("weights in another part of a normalisation")
    return found


def is_relu(jaxpr: Jaxpr, equation: JaxprEqn) -> bool:
    """Whether values and derivatives, also at zero, are ReLU's."""
    atom: Any = equation.invars[0].aval
    points = np.resize(np.array([-2, -1, 0, 1, 3], np.float32), atom.shape)
    alone = jaxpr.replace(
        constvars=[],
        invars=equation.invars,
        outvars=equation.outvars,
        eqns=[equation],
        effects=equation.effects,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    function = jaxpr_as_fun(ClosedJaxpr(alone, ()))
    values, slopes = jax.jvp(function, (points,), (np.ones_like(points),))
    above = points > 0
    return bool(
        (np.asarray(values[0]) == points * above).all() and (np.asarray(slopes[0]) == above).all()
    )
