"""Machine code for networks of layers: the program that ``network.c`` runs, and its kernel.

A program is a list of operations on values, numbered arrays of one sample: value 0 is the sample
itself, channels last. Who makes one says what each operation reads, in ``Operation``.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.native import Numbers, SampleSet, pointer, pointers
from mix2fld.native.library import load_library, vector_lanes
from mix2fld.native.recipe import PLAIN_LANES
from mix2fld.types import NUMBER_LOSSES, Inputs, Phase, Samples, StepRule, Tensors

SOURCE = Path(__file__).with_name("network.c")
LARGE_HEAD = 2**16
"""Weights of linear layers from which on a batch passes them together."""
SIZES = 12
NONE = -1


class Kind(IntEnum):
    """What an operation computes, and its sizes."""

    CONVOLUTION = 0
    LINEAR = 1  # inputs, outputs, whether the matrix is [outputs, inputs]
    NORM = 2  # pixels, channels, groups
    POOL = 3  # height, width, channels; those of the result; the window; its strides; padding
    ADD = 4  # floats
    MEAN = 5  # pixels, channels
    ORDER = 6  # pixels, channels: to [channels, pixels]


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation; weights are counted in payload order."""

    kind: Kind
    input: int
    out: int
    sizes: tuple[int, ...] = ()
    other: int = 0
    """The second value of a sum; of a normalisation, where its moments are kept."""
    relu: bool = False
    """Whether ReLU follows."""
    weight: int = NONE
    bias: int = NONE
    plans: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """Of a convolution of one sample, and of its gradient by the inputs."""
    epsilon: float = 0.0


class Program:
    """Operations in their order, as numbers that the C code reads."""

    def __init__(
        self, operations: Sequence[Operation], floats: Sequence[int], weights: Sequence[int]
    ) -> None:
        """``floats`` of each value, and the size of each of the weights."""
        linear = [op for op in operations if op.kind == Kind.LINEAR]
        head = next((n for n, op in enumerate(operations) if op.kind == Kind.LINEAR), None)
        head = len(operations) if head is None else head
        last = operations[-1].out
        in_head = {last} | {v for op in operations[head:] for v in (op.input, op.other, op.out)}
        self.outputs = floats[last]
        self.together = sum(weights[op.weight] for op in linear) >= LARGE_HEAD
        places, used = [], [0, 0]
        for value, size in enumerate(floats):
            places.append(used[value in in_head])
            used[value in in_head] += -(-size // 16) * 16 + 64  # whole vectors are read and written
        start = 7 + 2 * len(floats)
        plans: list[NDArray[np.int64]] = []
        at = start + len(operations) * (SIZES + 12)
        rows = []
        for number, op in enumerate(operations):
            reads = {v for later in operations[number + 1 :] for v in _read(later)}
            offsets = [0, 0]
            for which, plan in enumerate(op.plans or ()):
                offsets[which] = at
                plans.append(plan)
                at += len(plan)
            sizes = [*op.sizes, *[0] * (SIZES - len(op.sizes))]
            flags = (op.relu, op.input in reads, op.other in reads)
            row = [op.kind, op.input, op.other, op.out, *flags, op.weight, op.bias, *sizes]
            rows.append([*map(int, row), *offsets, int(np.float64(op.epsilon).view(np.int64))])
        header = [len(floats), len(operations), head, self.outputs, floats[0], *used]
        numbers = [*header, *places, *(int(v in in_head) for v in range(len(floats)))]
        self.numbers = np.array([*numbers, *chain(*rows), *chain(*plans)], np.int64)


def _read(op: Operation) -> tuple[int, ...]:
    return (op.input, op.other) if op.kind == Kind.ADD else (op.input,)


class NetworkKernel:
    """Training and testing of one program; releases the interpreter's lock."""

    def __init__(self, library: ctypes.CDLL, program: Program) -> None:
        self._library, self._program = library, program

    def train(
        self, phase: Phase, sets: tuple[Samples, ...], draws: NDArray[np.int32], rule: StepRule
    ) -> None:
        """One SGD step for each row of draws [K, B]; changes weights, sums and counts."""
        teacher = np.ascontiguousarray(rule.teacher, np.float32)
        function, kept = self._library.train, None
        own: Any = None
        if rule.numbers is not None:
            kept = np.array(rule.numbers.edges, np.float32)
            form = NUMBER_LOSSES.index(rule.numbers.form)
            own = ctypes.byref(Numbers(kept.ctypes.data, len(kept), form))
            function = self._library.train_numbers
        elif rule.logit_offset is not None:
            kept = np.ascontiguousarray(rule.logit_offset, np.float32)
            own = pointer(kept)
        held = [array for each in sets for array in (each.inputs, each.targets)]
        arrays = (*held, draws, phase.output_sums, phase.label_counts, *phase.weights)
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("arrays must be contiguous")
        failed = function(
            pointer(self._program.numbers),
            ctypes.c_int64(draws.shape[1] if self._program.together else 1),
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

    def logits(self, tensors: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What the network answers for ``inputs`` [n, ...], [n, N_L]."""
        contiguous = [np.ascontiguousarray(tensor, np.float32) for tensor in tensors]
        found = np.empty((len(inputs), self._program.outputs), np.float32)
        samples: Any = np.ascontiguousarray(inputs)
        failed = self._library.scores(
            pointer(self._program.numbers),
            pointers(contiguous),
            pointer(samples),
            ctypes.c_int(samples.dtype != np.uint8),
            ctypes.c_int64(len(inputs)),
            pointer(found),
        )
        if failed:
            raise MemoryError("not enough memory for a network")
        return found

    def count_correct(self, tensors: Tensors, inputs: Inputs, labels: NDArray[np.int32]) -> int:
        """How many ``inputs`` get their label."""
        return int((self.logits(tensors, inputs).argmax(axis=-1) == labels).sum())


def network_kernel(program: Program) -> NetworkKernel | None:
    """The kernel of a program; None if it cannot be had here."""
    library = load_library(SOURCE, {"LANES": vector_lanes() or PLAIN_LANES})
    return None if library is None else NetworkKernel(library, program)
