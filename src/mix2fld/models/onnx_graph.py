"""A JAX function as an ONNX graph: one operator, or a few, for each primitive that it is made of.

The function is traced with a batch of ``BATCH`` samples. A dimension that this number divides is
then that many times the batch, whatever its size: no network has such a number for anything else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from mix2fld.base.errors import InputError
from mix2fld.models.adapters import library

OPSET = 18
BATCH = 1_000_003
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SAME = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min",
    "pow": "Pow", "exp": "Exp", "log": "Log", "tanh": "Tanh", "logistic": "Sigmoid", "neg": "Neg",
    "sqrt": "Sqrt", "abs": "Abs", "erf": "Erf", "sign": "Sign", "floor": "Floor", "ceil": "Ceil",
    "stop_gradient": "Identity", "copy": "Identity", "copy_p": "Identity", "gt": "Greater",
    "ge": "GreaterOrEqual", "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "not": "Not",
    "and": "And", "or": "Or",
}  # fmt: skip
"""Primitives that are one operator."""
REDUCTIONS = {"reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Where a primitive keeps the function that it calls."""


def onnx_graph(
    function: Callable[[Any], Any], sample_shape: Sequence[int], dtype: str, output: str, title: str
) -> Any:
    """The ONNX model of ``function``, from samples [B, ...] to one array [B, N]."""
    onnx = library("onnx", "'mix2fld[onnx]'")
    spec = jax.ShapeDtypeStruct((BATCH, *sample_shape), np.dtype(dtype))
    closed = jax.make_jaxpr(function)(spec)
    graph = _Graph(onnx, title)
    known: dict[Any, str] = {closed.jaxpr.invars[0]: "samples"}
    known |= zip(closed.jaxpr.constvars, map(graph.constant, closed.consts), strict=True)
    (last,) = graph.walk(closed.jaxpr, known)
    graph.add("Identity", [last], output)
    width = int(closed.out_avals[0].shape[1])
    make, kind = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype
    return onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            title,
            [make("samples", kind(np.dtype(dtype)), ["batch", *sample_shape])],
            [make(output, onnx.TensorProto.FLOAT, ["batch", width])],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=9,
    )


class _Graph:
    """The operators so far, and the constants that they read."""

    def __init__(self, onnx: Any, title: str) -> None:
        self._onnx, self._title = onnx, title
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def add(self, operator: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        """Add an operator; the name of its result."""
        name = name or self._name()
        self.nodes.append(self._onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Add an array to the graph, and return its name."""
        name = self._name()
        self.constants.append(self._onnx.numpy_helper.from_array(np.array(value), name))
        return name

    def walk(self, jaxpr: Any, known: dict[Any, str]) -> list[str]:
        """Add a function's operators; the names of its results."""

        def name_of(var: Any) -> str:
            if isinstance(var, Literal):
                return self.constant(np.asarray(var.val, getattr(var.aval, "dtype", None)))
            return known[var]

        for equation in jaxpr.eqns:
            inputs = [name_of(var) for var in equation.invars]
            inner = next((equation.params[key] for key in INNER if key in equation.params), None)
            if inner is None:
                results = self._one(equation, inputs)
            else:
                body = getattr(inner, "jaxpr", inner)
                own = dict(zip(body.invars, inputs, strict=True))
                constants = map(self.constant, getattr(inner, "consts", ()))
                results = self.walk(body, own | dict(zip(body.constvars, constants, strict=True)))
            known |= zip(equation.outvars, results, strict=True)
        return [name_of(var) for var in jaxpr.outvars]

    def _one(self, equation: Any, inputs: list[str]) -> list[str]:
        name, given = equation.primitive.name, equation.params
        if name == "split":
            sizes = self._whole(given["sizes"])
            outputs = [self._name() for _ in equation.outvars]
            made = self._onnx.helper.make_node(
                "Split", [inputs[0], sizes], outputs, axis=given["axis"]
            )
            self.nodes.append(made)
            return outputs
        if name in SAME:
            return [self.add(SAME[name], inputs)]
        if name in REDUCTIONS:
            axes = self._whole(given["axes"])
            return [self.add(REDUCTIONS[name], [inputs[0], axes], keepdims=0)]
        one = getattr(self, f"_{name}", None)
        if one is None:
            raise InputError(
                field="to",
                value="onnx",
                hint=f"the model {self._title} uses {name}, which is not translated; save it as "
                ".safetensors, or make it of other operations",
            )
        return [one(inputs, given, equation)]

    # A method for each primitive that is not one operator, by its name.

    def _dot_general(self, inputs: list[str], given: Mapping[str, Any], equation: Any) -> str:
        (left, right), (batch_left, batch_right) = given["dimension_numbers"]
        ranks = [len(var.aval.shape) for var in equation.invars]
        a = list(LETTERS[: ranks[0]])
        b = list(LETTERS[ranks[0] : sum(ranks)])
        for mine, other in (
            *zip(left, right, strict=True),
            *zip(batch_left, batch_right, strict=True),
        ):
            b[other] = a[mine]
        shared = [a[axis] for axis in batch_left]
        own = [letter for axis, letter in enumerate(a) if axis not in (*left, *batch_left)]
        others = [letter for axis, letter in enumerate(b) if axis not in (*right, *batch_right)]
        rule = f"{''.join(a)},{''.join(b)}->{''.join([*shared, *own, *others])}"
        return self.add("Einsum", inputs, equation=rule)

    def _conv_general_dilated(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        if given["batch_group_count"] != 1 or set(given["lhs_dilation"]) != {1}:
            raise InputError(
                field="to", value="onnx", hint=f"a convolution of {self._title} is not translated"
            )
        order = given["dimension_numbers"]
        below, above = zip(*given["padding"], strict=True)
        maps = self.add(
            "Conv",
            [
                self._transposed(inputs[0], order.lhs_spec),
                self._transposed(inputs[1], order.rhs_spec),
            ],
            strides=given["window_strides"],
            pads=[*below, *above],
            dilations=given["rhs_dilation"],
            group=given["feature_group_count"],
        )
        return self._transposed(maps, np.argsort(order.out_spec).tolist())

    def _reduce_window_max(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        return self._pooled("MaxPool", inputs[0], given)

    def _reduce_window_sum(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        mean = self._pooled("AveragePool", inputs[0], given, count_include_pad=1)
        return self.add(
            "Mul", [mean, self.constant(np.float32(np.prod(given["window_dimensions"])))]
        )

    def _pooled(self, operator: str, maps: str, given: Mapping[str, Any], **more: Any) -> str:
        window = given["window_dimensions"]
        strides, padding = given["window_strides"], given["padding"]
        moved = [
            axis for axis, size in enumerate(window)
            if size > 1 or strides[axis] > 1 or any(padding[axis])
        ]  # fmt: skip
        kept = [axis for axis in range(len(window)) if axis not in moved]
        dilated = {*given["base_dilation"], *given["window_dilation"]} != {1}
        if len(kept) != 2 or dilated:
            raise InputError(
                field="to", value="onnx", hint=f"a pooling of {self._title} is not translated"
            )
        order = [*kept, *moved]
        pooled = self.add(
            operator,
            [self._transposed(maps, order)],
            kernel_shape=[window[axis] for axis in moved],
            strides=[strides[axis] for axis in moved],
            pads=[padding[axis][side] for side in (0, 1) for axis in moved],
            **more,
        )
        return self._transposed(pooled, np.argsort(order).tolist())

    def _reshape(self, inputs: list[str], given: Mapping[str, Any], equation: Any) -> str:
        del given
        return self._reshaped(inputs[0], equation.outvars[0].aval.shape)

    _squeeze = _expand_dims = _reshape

    def _broadcast_in_dim(self, inputs: list[str], given: Mapping[str, Any], equation: Any) -> str:
        before, shape = equation.invars[0].aval.shape, given["shape"]
        padded = [1] * len(shape)
        for axis, place in enumerate(given["broadcast_dimensions"]):
            padded[place] = before[axis]
        placed = inputs[0] if tuple(padded) == before else self._reshaped(inputs[0], padded)
        if tuple(padded) == tuple(shape):
            return placed
        return self.add("Expand", [placed, self._sizes(shape)])

    def _transpose(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        return self._transposed(inputs[0], given["permutation"])

    def _concatenate(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        return self.add("Concat", inputs, axis=given["dimension"])

    def _tile(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        return self.add("Tile", [inputs[0], self._whole(given["reps"])])

    def _slice(self, inputs: list[str], given: Mapping[str, Any], equation: Any) -> str:
        sizes = equation.invars[0].aval.shape
        ends = [
            np.iinfo(np.int64).max if end == size else end
            for end, size in zip(given["limit_indices"], sizes, strict=True)
        ]
        axes, steps = range(len(sizes)), given["strides"] or [1] * len(sizes)
        return self.add(
            "Slice", [inputs[0], *map(self._whole, (given["start_indices"], ends, axes, steps))]
        )

    def _rev(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        axes = given["dimensions"]
        ends = [np.iinfo(np.int64).min] * len(axes)
        steps = [-1] * len(axes)
        return self.add("Slice", [inputs[0], *map(self._whole, (steps, ends, axes, steps))])

    def _pad(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        below, above, between = zip(*given["padding_config"], strict=True)
        if any(between) or min(*below, *above) < 0:
            raise InputError(
                field="to", value="onnx", hint=f"a padding of {self._title} is not translated"
            )
        return self.add("Pad", [inputs[0], self._whole([*below, *above]), inputs[1]])

    def _select_n(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        del given
        which, first, second = inputs
        return self.add("Where", [which, second, first])

    def _clamp(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        del given
        low, value, high = inputs
        return self.add("Min", [self.add("Max", [value, low]), high])

    def _convert_element_type(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(given["new_dtype"]))
        return self.add("Cast", inputs, to=kind)

    def _stack(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        axis = self._whole([given["axis"]])
        parts = [self.add("Unsqueeze", [value, axis]) for value in inputs]
        return self.add("Concat", parts, axis=given["axis"])

    def _integer_pow(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        return self.add("Pow", [inputs[0], self.constant(np.float32(given["y"]))])

    def _square(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        del given
        return self.add("Mul", [inputs[0], inputs[0]])

    def _rsqrt(self, inputs: list[str], given: Mapping[str, Any], _: Any) -> str:
        del given
        return self.add("Reciprocal", [self.add("Sqrt", inputs)])

    # Sizes, of which some are multiples of the batch

    def _transposed(self, value: str, order: Sequence[int]) -> str:
        if list(order) == sorted(order):
            return value
        return self.add("Transpose", [value], perm=list(order))

    def _reshaped(self, value: str, shape: Sequence[int]) -> str:
        batched = [size for size in shape if _batches(size)]
        if len(batched) > 1:
            return self.add("Reshape", [value, self._sizes(shape)])
        return self.add("Reshape", [value, self._whole([-1 if _batches(s) else s for s in shape])])

    def _sizes(self, shape: Sequence[int]) -> str:
        """A shape, as it is for the batch that comes in."""
        if not any(map(_batches, shape)):
            return self._whole(shape)
        sizes = self.add("Shape", ["samples"], start=0, end=1)
        parts = [
            self.add("Mul", [sizes, self._whole([_batches(size)])])
            if _batches(size)
            else self._whole([size])
            for size in shape
        ]
        return self.add("Concat", parts, axis=0)

    def _whole(self, numbers: Sequence[int] | range) -> str:
        return self.constant(np.array(list(numbers), np.int64))

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _batches(size: int) -> int:
    """How many times the batch a dimension is; 0 for one that has nothing to do with it."""
    times, rest = divmod(int(size), BATCH)
    return 0 if rest else times
