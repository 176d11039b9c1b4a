"""Reads the operations of a traced JAX function as layers of a network."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from mix2fld.models.fast.geometry import ConvolutionGeometry, Operands, convolution_plan
from mix2fld.models.layer_list import BEFORE_RELU, BIASED, LayerList
from mix2fld.models.layer_symbols import (
    Constant,
    Moments,
    NotLayersError,
    Sum,
    Value,
    Vector,
    Weight,
    constant,
    grouped,
    is_relu,
    joined,
)
from mix2fld.native.network import Kind, Program

CALLS = ("jit", "pjit", "closed_call", "core_call")
ELEMENTWISE = ("add", "sub", "mul", "div", "max", "square", "integer_pow", "rsqrt", "sqrt")


class LayerReader(LayerList):
    """Collects the layers of one function."""

    def program(self, traced: ClosedJaxpr) -> Program:
        """The program of a function of all weights, in their order, and a batch of samples."""
        weights = [_weights(number, shape) for number, shape in enumerate(self.shapes)]
        constants = [constant(value) for value in traced.consts]
        (result,) = self._follow(traced.jaxpr, constants, [*weights, self.input])
        return self.finish(self.value(result))

    def _follow(self, jaxpr: Jaxpr, constants: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *given), strict=True))

        def read(atom: Any) -> Any:
            return constant(atom.val) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            name = equation.primitive.name
            if name in CALLS:
                inner = equation.params["jaxpr"]
                results = self._follow(inner.jaxpr, [constant(c) for c in inner.consts], operands)
            elif name == "custom_jvp_call":
                results = [self._relu(jaxpr, equation, operands)]
            else:
                results = [self._operation(equation, operands)]
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _operation(self, equation: JaxprEqn, operands: list[Any]) -> Any:
        name, params = equation.primitive.name, equation.params
        result: Any = equation.outvars[0].aval
        forms: dict[str, Callable[..., Any]] = {
            "conv_general_dilated": self._convolution,
            "dot_general": self._linear,
            "reduce_window_max": self._pool,
            "reduce_sum": self._sum,
            "transpose": self._transpose,
            "reshape": self._reshape,
            "squeeze": self._reshape,
            "broadcast_in_dim": self._broadcast,
        }
        if result.dtype != jnp.float32:
            raise NotLayersError(f"{name} of other numbers")
        if name in forms:
            return forms[name](operands, params, result.shape)
        if name in ("convert_element_type", "copy"):
            return operands[0]
        if name == "add" and all(isinstance(each, (Value, Moments)) for each in operands):
            own = [self.settled(each, result.shape) for each in operands]
            if own[0] is not None and own[1] is not None and own[0].number != own[1].number:
                return self.add(own[0], own[1])
        if name == "add" and any(isinstance(each, Vector) for each in operands):
            biased = self._bias(*sorted(operands, key=lambda each: isinstance(each, Vector)))
            if biased is not None:
                return biased
        if name in ("div", "mul") and isinstance(operands[0], Sum):
            return self._mean(operands, name)
        if name in ELEMENTWISE:
            return joined(name, operands)
        raise NotLayersError(f"{name} is no layer")

    def _bias(self, value: Any, vector: Any) -> Value | None:
        if not isinstance(value, Value) or not isinstance(vector, Vector):
            return None
        if value.axes[vector.axis] not in "cf":
            raise NotLayersError("a bias of something else")
        return self.join(value, BIASED, bias=vector.number)

    def _relu(self, jaxpr: Jaxpr, equation: JaxprEqn, operands: list[Any]) -> Value:
        """A function with its own derivative, if that is ReLU's."""
        if len(operands) != 1 or not is_relu(jaxpr, equation):
            raise NotLayersError("another nonlinearity")
        return self.join(self.value(operands[0]), BEFORE_RELU, relu=True)

    def _convolution(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Value:
        value, kernel = self.value(operands[0]), operands[1]
        ins, taps, outs = params["dimension_numbers"]
        if not isinstance(kernel, Weight) or len(shape) != 4 or params["batch_group_count"] != 1:
            raise NotLayersError("no convolution of images by weights")
        groups = params["feature_group_count"]
        if "".join(value.axes[axis] for axis in ins) != "nchw":
            raise NotLayersError("a convolution along other axes")
        own = self.shapes[kernel.number]
        strides = [math.prod(own[axis + 1 :]) for axis in range(4)]
        by = [strides[kernel.order[axis]] for axis in taps]
        outputs, channels, height, width = (own[kernel.order[axis]] for axis in taps)
        if by[2] != width * by[3] or (groups > 1 and channels == 1):
            raise NotLayersError("a kernel in another order, or a depthwise one")
        geometry = ConvolutionGeometry(
            tuple(params["window_strides"]),
            tuple(tuple(sides) for sides in params["padding"]),
            tuple(params["lhs_dilation"]),
            tuple(params["rhs_dilation"]),
            groups,
        )
        sizes = self.sizes[value.number]
        image, kernel_size, part = sizes[:2], (height, width), outputs // groups
        out = geometry.out_sizes(image, kernel_size)
        forward = Operands(1, image, kernel_size, channels, part)
        backward = Operands(1, out, kernel_size, part, channels)
        tap, group = by[3], part * by[0]
        plans = (
            convolution_plan(forward, geometry, (tap, group, by[1], by[0])),
            convolution_plan(
                backward, geometry.backward(image, kernel_size), (tap, group, by[0], by[1])
            ),
        )
        axes = "".join("nchw"[outs.index(axis)] for axis in range(4))
        fields = {"kind": Kind.CONVOLUTION, "input": value.number, "weight": kernel.number}
        return self.append((*out, outputs), axes, **fields, plans=plans)

    def _linear(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Value:
        (left, right), batch = params["dimension_numbers"]
        first = isinstance(operands[0], Weight)
        kernel, value = operands if first else operands[::-1]
        along, over = (left, right) if first else (right, left)
        if not isinstance(kernel, Weight) or any(batch) or len(shape) != 2 or len(along) != 1:
            raise NotLayersError("no product with a matrix of weights")
        value = self.value(value)
        if value.axes[over[0]] != "f" or len(kernel.order) != 2:
            raise NotLayersError("a product along other axes")
        contracted = kernel.order[along[0]]
        own = self.shapes[kernel.number]
        inputs, outputs = own[contracted], own[1 - contracted]
        return self.append(
            (outputs,),
            "fn" if first else "nf",
            kind=Kind.LINEAR,
            input=value.number,
            weight=kernel.number,
            sizes=(inputs, outputs, contracted),
        )

    def _pool(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Value:
        value = self.value(operands[0])
        ones = (*params["base_dilation"], *params["window_dilation"])
        window = dict(zip(value.axes, params["window_dimensions"], strict=True))
        strides = dict(zip(value.axes, params["window_strides"], strict=True))
        padding = dict(zip(value.axes, params["padding"], strict=True))
        still = [(window[a], strides[a], tuple(padding[a])) for a in value.axes if a not in "hw"]
        known = {"n", "h", "w", "c"} <= set(value.axes)
        if set(ones) != {1} or set(still) != {(1, 1, (0, 0))} or not known:
            raise NotLayersError("a pooling along other axes")
        height, width, channels = self.sizes[value.number]
        out = dict(zip(value.axes, shape, strict=True))
        sizes = (height, width, channels, out["h"], out["w"], window["h"], window["w"])
        steps = (strides["h"], strides["w"], padding["h"][0], padding["w"][0])
        return self.append(
            (out["h"], out["w"], channels),
            value.axes,
            kind=Kind.POOL,
            input=value.number,
            sizes=(*sizes, *steps),
        )

    def _sum(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Any:
        del shape
        source, axes = operands[0], params["axes"]
        if isinstance(source, Value) and source.axes and len(source.axes) == 4:
            if {source.axes[axis] for axis in axes} != {"h", "w"}:
                raise NotLayersError("a sum over something else")
            return Sum(self.value(source))
        if isinstance(source, Moments):
            return source
        raise NotLayersError("a sum of something else")

    def _mean(self, operands: list[Any], name: str) -> Value:
        value, count = operands[0].value, operands[1]
        height, width, channels = self.sizes[value.number]
        number = count.number if isinstance(count, Constant) else 0.0
        divided = number == height * width
        if not (divided if name == "div" else math.isclose(number * height * width, 1)):
            raise NotLayersError("a sum over pixels that is no mean")
        sizes = (height * width, channels)
        fields = {"kind": Kind.MEAN, "input": value.number, "sizes": sizes}
        return self.append((channels,), "nf", **fields)

    def _transpose(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Any:
        del shape
        source, order = operands[0], params["permutation"]
        if isinstance(source, Value):
            return replace(source, axes="".join(source.axes[axis] for axis in order))
        if isinstance(source, Weight):
            return replace(source, order=tuple(source.order[axis] for axis in order))
        raise NotLayersError("a transpose of something else")

    def _reshape(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Any:
        del params
        source = operands[0]
        if isinstance(source, Vector):
            places = [axis for axis, size in enumerate(shape) if size != 1]
            if math.prod(shape) == 1 or len(places) != 1:
                raise NotLayersError("weights in another shape")
            return replace(source, axis=places[0])
        if isinstance(source, (Moments, Sum, Constant)):
            return source
        if not isinstance(source, Value):
            raise NotLayersError("a reshape of something else")
        before = self.shape(source)
        if before == shape:
            return source
        axes = self._aligned(source, shape)
        if axes is not None:
            return replace(source, axes=axes)
        for axes, sample in (("nf", 0), ("fn", -1)):
            if len(shape) == 2 and source.axes[sample] == "n" and shape[sample] == self.batch:
                return self._flat(source, axes)
        return grouped(source, before, shape)

    def _aligned(self, source: Value, shape: tuple[int, ...]) -> str | None:
        """The axes of a shape that differs by axes of length 1 alone."""
        lengths = zip(source.axes, self.shape(source), strict=True)
        left, found = [each for each in lengths if each[0] != "1"], ""
        for size in shape:
            if left and left[0][1] == size:
                found += left.pop(0)[0]
            elif size == 1:
                found += "1"
            else:
                return None
        return None if left else found

    def _flat(self, source: Value, axes: str) -> Value:
        value = self.value(source)
        height, width, channels = self.sizes[value.number]
        order = value.axes.replace("n", "").replace("1", "").replace("h", "").replace("w", "p", 1)
        flat = (height * width * channels,)
        if order == "pc" or (order == "cp" and 1 in (channels, height * width)):
            self.sizes[value.number] = flat
            self.ages[value.number] += 1
            return Value(value.number, axes, self.ages[value.number])
        if order != "cp":
            raise NotLayersError("features in another order")
        sizes = (height * width, channels)
        return self.append(flat, axes, kind=Kind.ORDER, input=value.number, sizes=sizes)

    def _broadcast(self, operands: list[Any], params: Any, shape: tuple[int, ...]) -> Any:
        source, where = operands[0], params["broadcast_dimensions"]
        if isinstance(source, Vector):
            return replace(source, axis=where[source.axis])
        if isinstance(source, (Moments, Constant)):
            return source
        if isinstance(source, Value):
            axes = self._aligned(source, shape)
            if axes is not None:
                return replace(source, axes=axes)
        raise NotLayersError("a broadcast of something else")


def _weights(number: int, shape: tuple[int, ...]) -> Weight | Vector:
    one_axis = len(shape) == 1 or shape[1:] == (1, 1)
    return Vector(number, 0) if one_axis else Weight(number, tuple(range(len(shape))))
