"""Convolutions as machine code that XLA calls."""

import ctypes
import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from mix2fld import native
from mix2fld.models.fast.plan import Plan
from mix2fld.native.library import load_library, vector_lanes

SOURCE = Path(native.__file__).with_name("convolution.c")
Kernel = Callable[[Plan, tuple[int, ...], Array, Array], Array]
"""A function of a plan, the shape of the result and two float32 arrays."""


class Kernels(NamedTuple):
    """A convolution of inputs and kernel, and its weight gradient from inputs and cotangents."""

    convolve: Kernel
    weight_gradient: Kernel


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
    target = f"mix2fld_{name}_{lanes}_{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    function = jax.ffi.pycapsule(getattr(library, name))
    jax.ffi.register_ffi_target(target, function, platform="cpu")

    def call(plan: Plan, shape: tuple[int, ...], left: Array, right: Array) -> Array:
        result = jax.ShapeDtypeStruct(shape, np.float32)
        done: Array = jax.ffi.ffi_call(target, result, vmap_method="sequential")(
            left, right, plan=plan
        )
        return done

    return call
