"""The fast form of ``lax.conv_general_dilated`` on a CPU, with both of its gradients.

Inside: inputs [N, *sizes, C], kernel [*taps, C / groups, O].
"""

import ctypes
import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import JaxprEqn

from mix2fld import native
from mix2fld.models.fast import products
from mix2fld.models.fast.geometry import AXES, ConvolutionGeometry, Operands, Plan, convolution_plan
from mix2fld.native.library import load_library, source_text, vector_lanes

SOURCE = Path(native.__file__).with_name("convolution.c")
Kernel = Callable[[Plan, tuple[int, ...], Array, Array], Array]
"""A function of a plan, the shape of the result and two float32 arrays."""


class Kernels(NamedTuple):
    """A convolution of inputs and kernel, and its weight gradient from inputs and cotangents."""

    convolve: Kernel
    weight_gradient: Kernel


def has_fast_form(equation: JaxprEqn) -> bool:
    """Whether this convolution has a fast form."""
    atoms: Any = (*equation.invars, *equation.outvars)
    inputs, kernel, result = (atom.aval for atom in atoms)
    return (
        {inputs.dtype, kernel.dtype, result.dtype} == {jnp.dtype(jnp.float32)}
        and equation.params["batch_group_count"] == 1
        and 3 <= inputs.ndim <= 2 + AXES
        and 0 not in (*inputs.shape, *kernel.shape, *result.shape)
    )


def fast_convolution(machine_code: bool, inputs: Array, kernel: Array, **params: Any) -> Array:
    """What the primitive with these parameters computes."""
    geometry = ConvolutionGeometry(
        tuple(params["window_strides"]),
        tuple(tuple(sides) for sides in params["padding"]),
        tuple(params["lhs_dilation"]),
        tuple(params["rhs_dilation"]),
        params["feature_group_count"],
    )
    ins, taps, outs = params["dimension_numbers"]
    result = convolve(
        geometry,
        machine_code,
        inputs.transpose(ins[0], *ins[2:], ins[1]),
        kernel.transpose(*taps[2:], taps[1], taps[0]),
    )
    return jnp.moveaxis(result, range(result.ndim), (outs[0], *outs[2:], outs[1]))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def convolve(
    geometry: ConvolutionGeometry, machine_code: bool, inputs: Array, kernel: Array
) -> Array:
    """The convolution, by machine code if that is asked for and can be had."""
    kernels = _kernels(geometry, machine_code, kernel.shape)
    if kernels is None:
        return products.convolve(geometry, inputs, kernel)
    operands = _operands(geometry, inputs.shape, kernel.shape)
    strides = _strides(geometry, kernel.shape)
    plan = convolution_plan(operands, geometry, strides)
    out = geometry.out_sizes(operands.sizes, operands.taps)
    return kernels.convolve(plan, (len(inputs), *out, kernel.shape[-1]), inputs, kernel)


def _forward(
    geometry: ConvolutionGeometry, machine_code: bool, inputs: Array, kernel: Array
) -> tuple[Array, tuple[Array, Array]]:
    return convolve(geometry, machine_code, inputs, kernel), (inputs, kernel)


def _backward(
    geometry: ConvolutionGeometry, machine_code: bool, saved: tuple[Array, Array], cotangent: Array
) -> tuple[Array, Array]:
    inputs, kernel = saved
    reversed_kernel = jnp.flip(kernel, range(kernel.ndim - 2))
    back = geometry.backward(inputs.shape[1:-1], kernel.shape[:-2])
    kernels = _kernels(geometry, machine_code, kernel.shape)
    if kernels is None:
        swapped = _swapped(reversed_kernel, geometry.groups)
        by_kernel = products.weight_gradient(geometry, inputs, cotangent, kernel.shape)
        return products.convolve(back, cotangent, swapped), by_kernel
    operands = _operands(geometry, inputs.shape, kernel.shape)
    tap, group, channel, output = _strides(geometry, kernel.shape)
    plan = convolution_plan(
        operands._replace(
            sizes=cotangent.shape[1:-1], channels=operands.outputs, outputs=operands.channels
        ),
        back,
        (tap, group, output, channel),
    )
    by_inputs = kernels.convolve(plan, inputs.shape, cotangent, reversed_kernel)
    plan = convolution_plan(operands, geometry, (tap, group, channel, output))
    return by_inputs, kernels.weight_gradient(plan, kernel.shape, inputs, cotangent)


convolve.defvjp(_forward, _backward)


def _kernels(
    geometry: ConvolutionGeometry, machine_code: bool, kernel_shape: tuple[int, ...]
) -> Kernels | None:
    """The machine code for this convolution; products of slices serve a depthwise one better."""
    by_products = geometry.groups > 1 and products.is_depthwise(geometry, kernel_shape)
    return convolution_kernels() if machine_code and not by_products else None


def _operands(
    geometry: ConvolutionGeometry, input_shape: tuple[int, ...], kernel_shape: tuple[int, ...]
) -> Operands:
    *taps, channels, outputs = kernel_shape
    batch, *sizes, _ = input_shape
    return Operands(batch, tuple(sizes), tuple(taps), channels, outputs // geometry.groups)


def _strides(
    geometry: ConvolutionGeometry, kernel_shape: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """From one tap, group, channel and output of the kernel to the next."""
    channels, outputs = kernel_shape[-2:]
    return channels * outputs, outputs // geometry.groups, outputs, 1


def _swapped(kernel: Array, groups: int) -> Array:
    """Inputs and outputs of each group change places: [*taps, O / groups, C]."""
    *taps, channels, outputs = kernel.shape
    apart = kernel.reshape(*taps, channels, groups, outputs // groups)
    return jnp.swapaxes(apart, -1, -3).reshape(*taps, outputs // groups, -1)


def convolution_kernels() -> Kernels | None:
    """The kernels for this machine, registered with XLA; None if they cannot be had."""
    lanes = vector_lanes()
    return _loaded(lanes) if lanes else None


@lru_cache(maxsize=2)
def _loaded(lanes: int) -> Kernels | None:
    """Loaded once: XLA takes a name only once."""
    library = load_library(SOURCE, {"LANES": lanes}, Path(jax.ffi.include_dir()))
    if library is None:
        return None
    names = ("convolution", "convolution_weight_gradient")
    return Kernels(*(_registered(library, name, lanes) for name in names))


def _registered(library: ctypes.CDLL, name: str, lanes: int) -> Kernel:
    # XLA keeps compiled programs, which call the kernel by its name: other code has another name.
    code = hashlib.sha256(source_text(SOURCE).encode()).hexdigest()[:16]
    target = f"mix2fld_{name}_{lanes}_{code}"
    function = jax.ffi.pycapsule(getattr(library, name))
    jax.ffi.register_ffi_target(target, function, platform="cpu")

    def call(plan: Plan, shape: tuple[int, ...], left: Array, right: Array) -> Array:
        result = jax.ShapeDtypeStruct(shape, np.float32)
        done: Array = jax.ffi.ffi_call(target, result, vmap_method="sequential")(
            left, right, plan=plan
        )
        return done

    return call
