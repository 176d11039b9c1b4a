"""The layers of a network, as they are found one after the other."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mix2fld.models.layer_symbols import Moments, NotLayersError, Value
from mix2fld.native.network import NONE, Kind, Operation, Program

BIASED = (Kind.CONVOLUTION, Kind.LINEAR)
BEFORE_RELU = (*BIASED, Kind.NORM, Kind.ADD)


class LayerList:
    """The layers found so far, with the values that they compute."""

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], batch: int, sample_shape: tuple[int, ...]
    ) -> None:
        self.shapes, self.batch = shapes, batch
        self.operations: list[Operation] = []
        self.sizes = [(1, *sample_shape) if len(sample_shape) == 2 else sample_shape]
        self.ages = [0]
        self._normalised: dict[Moments, Value] = {}
        axes = {1: "nf", 2: "nwc", 3: "nhwc"}.get(len(sample_shape))
        if axes is None:
            raise NotLayersError("samples of another kind")
        self.input = Value(0, axes)

    def finish(self, result: Value) -> Program:
        """The program, whose result must be that of the last layer."""
        operations = self.operations
        if not operations or result.axes != "nf" or operations[-1].out != result.number:
            raise NotLayersError("the result is not the last layer's")
        read = {v for op in operations for v in (op.input, op.other)}
        if not {op.out for op in operations[:-1]} <= read:
            raise NotLayersError("a layer that nobody reads")
        for place, op in enumerate(operations):
            later = {v for each in operations[place + 1 :] for v in (each.input, each.other)}
            if op.kind == Kind.LINEAR and op.input and op.input in later:
                raise NotLayersError("a linear layer beside another")
        floats = [math.prod(size) for size in self.sizes]
        return Program(operations, floats, [math.prod(shape) for shape in self.shapes])

    def append(self, size: tuple[int, ...], axes: str, **fields: Any) -> Value:
        """A new operation's value of this size without the samples' axis."""
        self.sizes.append(size)
        self.ages.append(0)
        number = len(self.sizes) - 1
        self.operations.append(Operation(out=number, **fields))
        return Value(number, axes)

    def value(self, symbol: Any) -> Value:
        """A value that may be read; a normalisation becomes one."""
        if isinstance(symbol, Moments):
            return self.norm(symbol)
        if not isinstance(symbol, Value) or symbol.age != self.ages[symbol.number]:
            raise NotLayersError("no value of the network")
        return symbol

    def settled(self, symbol: Any, shape: tuple[int, ...]) -> Value | None:
        """A term of a sum of two values: itself, or a normalisation that is complete."""
        if isinstance(symbol, Value):
            return self.value(symbol)
        complete = symbol.normal and symbol.groups and self.shape(symbol.value) == shape
        return self.norm(symbol) if complete else None

    def shape(self, value: Value) -> tuple[int, ...]:
        """The lengths of a value's axes."""
        size = self.sizes[value.number]
        lengths = dict(zip("hwc" if len(size) == 3 else "f", size, strict=True))
        lengths |= {"n": self.batch, "1": 1}
        return tuple(lengths[axis] for axis in value.axes)

    def norm(self, found: Moments) -> Value:
        """A group normalisation."""
        if found in self._normalised:
            return self.value(self._normalised[found])
        source = self.value(found.value)
        if not found.normal or not found.groups or found.epsilon is None:
            raise NotLayersError("statistics that normalise nothing")
        height, width, channels = self.sizes[source.number]
        self.sizes.append((2 * found.groups,))
        self.ages.append(0)
        value = self.append(
            (height, width, channels),
            source.axes,
            kind=Kind.NORM,
            input=source.number,
            other=len(self.sizes) - 1,
            sizes=(height * width, channels, found.groups),
            weight=found.scale,
            bias=found.shift,
            epsilon=found.epsilon,
        )
        self._normalised[found] = value
        return value

    def join(self, value: Value, kinds: tuple[Kind, ...], **fields: Any) -> Value:
        """A bias or ReLU joined to the operation that computes a value nobody has read yet."""
        value = self.value(value)
        place = next((n for n, o in enumerate(self.operations) if o.out == value.number), None)
        if place is None:
            raise NotLayersError("applied to the samples themselves")
        op = self.operations[place]
        read = any(value.number in (o.input, o.other) for o in self.operations[place + 1 :])
        if op.kind == Kind.POOL and "relu" in fields:
            before = next((o for o in self.operations if o.out == op.input), None)
            readers = sum(op.input in (o.input, o.other) for o in self.operations)
            if before is None or before.kind not in BEFORE_RELU or readers > 1 or read:
                raise NotLayersError("ReLU of a pooling that others read")
            place, op = self.operations.index(before), before
            self.ages[before.out] += 1
        elif op.kind not in kinds or read or (op.relu and "bias" in fields):
            raise NotLayersError("joined to no layer that takes it")
        if "bias" in fields and op.bias != NONE:
            raise NotLayersError("a second bias")
        self.operations[place] = replace(op, **fields)
        self.ages[value.number] += 1
        return replace(value, age=self.ages[value.number])

    def add(self, one: Value, other: Value) -> Value:
        """The sum of two values."""
        size = self.sizes[one.number]
        if size != self.sizes[other.number] or one.axes != other.axes:
            raise NotLayersError("a sum of different shapes")
        return self.append(
            size,
            one.axes,
            kind=Kind.ADD,
            input=one.number,
            other=other.number,
            sizes=(math.prod(size),),
        )
