"""Machine code, compiled for this machine or brought by a wheel: two families of networks.

The general path is XLA; this one computes the same numbers to rounding in less time, for small CNNs
and for at most one hidden layer: with vectors of AVX-512, of AVX2, or of four floats, which any
processor has or the compiler makes up for. Where there is neither a compiler nor a wheel with
kernels for the platform there is none.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.native.library import load_library, vector_lanes
from mix2fld.native.recipe import PLAIN_LANES, cnn_sizes
from mix2fld.types import NUMBER_LOSSES, Inputs, Phase, Samples, StepRule, Tensors

SOURCE = Path(__file__).with_name("small_cnn.c")
ROW = 16


class SampleSet(ctypes.Structure):
    """``samples_t`` of the C code."""

    _fields_: ClassVar = [
        ("images", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("floats", ctypes.c_int32),
    ]

    @classmethod
    def of(cls, samples: Samples) -> "SampleSet":
        """Pointers into arrays that must outlive it."""
        inputs, targets = samples.inputs, samples.targets
        floats = inputs.dtype != np.uint8
        return cls(inputs.ctypes.data, targets.ctypes.data, len(targets), floats)


class Numbers(ctypes.Structure):
    """``numbers_t`` of the C code."""

    _fields_: ClassVar = [
        ("edges", ctypes.c_void_p),
        ("edge_count", ctypes.c_int32),
        ("form", ctypes.c_int32),
    ]


class CompiledNetwork:
    """Training and testing of one network of the family; releases the interpreter's lock.

    Tensors are those of the model in payload order.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._train, self._train_numbers = library.train, library.train_numbers
        self._count = library.count_correct
        self._train.restype = self._train_numbers.restype = ctypes.c_int
        self._count.restype = ctypes.c_int64

    def train(
        self, phase: Phase, sets: tuple[Samples, ...], draws: NDArray[np.int32], rule: StepRule
    ) -> None:
        """One SGD step for each row of draws [K, B].

        Changes weights, sums [N_L, O] and counts [N_L].
        """
        teacher = np.ascontiguousarray(rule.teacher, np.float32)
        function, kept = self._train, None
        own: Any = None
        if rule.numbers is not None:
            kept = np.array(rule.numbers.edges, np.float32)
            form = NUMBER_LOSSES.index(rule.numbers.form)
            own = ctypes.byref(Numbers(kept.ctypes.data, len(kept), form))
            function = self._train_numbers
        elif rule.logit_offset is not None:
            kept = np.ascontiguousarray(rule.logit_offset, np.float32)
            own = pointer(kept)
        held = [array for each in sets for array in (each.inputs, each.targets)]
        arrays = (*held, draws, phase.output_sums, phase.label_counts, *phase.weights)
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("arrays must be contiguous")
        failed = function(
            pointers(phase.weights),
            (SampleSet * len(sets))(*(SampleSet.of(samples) for samples in sets)),
            pointer(teacher),
            own,
            pointer(draws),
            *(ctypes.c_int64(size) for size in draws.shape),
            ctypes.c_float(rule.rate),
            ctypes.c_float(rule.distillation_weight),
            pointer(phase.output_sums),
            pointer(phase.label_counts),
        )
        if failed:
            raise MemoryError(f"not enough memory for a batch of {draws.shape[1]}")

    def count_correct(self, tensors: Tensors, inputs: Inputs, labels: NDArray[np.int32]) -> int:
        """How many ``inputs`` [n, H, W, C] get their label."""
        contiguous = [np.ascontiguousarray(tensor) for tensor in tensors]
        correct = self._count(
            pointers(contiguous),
            pointer(inputs),
            ctypes.c_int(inputs.dtype != np.uint8),
            pointer(labels),
            ctypes.c_int64(len(labels)),
        )
        return int(correct)


def kernel_of(model: str, sample_shape: tuple[int, ...], labels: int) -> CompiledNetwork | None:
    """The kernel of a network of the package; None if there is none, or none here."""
    if model == "paper-cnn" and len(sample_shape) == 3:
        return small_cnn(sample_shape, 12, 6, labels)
    hidden = {"mlp": 128, "linear": 0}.get(model)
    return None if hidden is None else mlp(sample_shape, hidden, labels)


@lru_cache(maxsize=16)
def mlp(sample_shape: tuple[int, ...], hidden: int, labels: int) -> CompiledNetwork | None:
    """The kernel of a network with one hidden layer, or none (0); None if it cannot be had."""
    library = load_library(SOURCE.with_name("mlp.c"), {"LANES": vector_lanes() or PLAIN_LANES})
    if library is None:
        return None
    library.set_sizes(prod(sample_shape), sample_shape[-1], hidden, labels)
    return CompiledNetwork(library)


@lru_cache(maxsize=16)
def small_cnn(
    sample_shape: tuple[int, ...], first: int, second: int, labels: int
) -> CompiledNetwork | None:
    """The kernel of a network with ``first`` and ``second`` channels; None if it cannot be had."""
    height, width, channels = sample_shape
    fits = height == width and height % 4 == 0 and height // 2 <= ROW and first % 2 == 0
    if not fits:
        return None
    sizes = cnn_sizes(height, channels, first, second, labels)
    library = load_library(SOURCE, {**sizes, "LANES": vector_lanes() or PLAIN_LANES})
    return None if library is None else CompiledNetwork(library)


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    """Where an array, which must outlive it, lies."""
    return ctypes.c_void_p(array.ctypes.data)


def pointers(arrays: Sequence[NDArray[Any]]) -> Any:
    """The same of several."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
