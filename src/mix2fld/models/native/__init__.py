"""The small-CNN family as machine code, compiled for this machine when it is first used.

The general path is XLA; this one computes the same numbers to rounding in less than half the time,
for one family of networks. Where there is no compiler, or a processor without AVX2, there is no
kernel and nothing else changes.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from mix2fld.data.cache import cache_folder
from mix2fld.data.files import LOCK, write_whole
from mix2fld.data.private_folder import private_folder
from mix2fld.models.processor import cpu_flags
from mix2fld.types import Inputs, Phase, Samples, StepRule, Tensors

SOURCE = Path(__file__).with_name("small_cnn.c")
ROW = 16
FLAGS = (
    *("-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC", "-Wno-psabi", "-fno-math-errno"),
    *("-fno-trapping-math", "-ffp-contract=fast"),
)


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
        inputs, targets = samples
        floats = inputs.dtype != np.uint8
        return cls(inputs.ctypes.data, targets.ctypes.data, len(targets), floats)


class SmallCnn:
    """Training and testing of one network of the family; releases the interpreter's lock.

    Tensors are those of the model in payload order.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._train, self._count = library.train, library.count_correct
        self._train.restype = None
        self._count.restype = ctypes.c_int64

    def train(
        self, phase: Phase, sets: tuple[Samples, ...], draws: NDArray[np.int32], rule: StepRule
    ) -> None:
        """One SGD step for each draw [K]; changes weights, sums [N_L, N_L] and counts [N_L]."""
        teacher = np.ascontiguousarray(rule.teacher, np.float32)
        offset = None
        if rule.logit_offset is not None:
            offset = np.ascontiguousarray(rule.logit_offset, np.float32)
        held = [array for samples in sets for array in samples]
        arrays = (*held, draws, phase.output_sums, phase.label_counts, *phase.weights)
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("arrays must be contiguous")
        self._train(
            _pointers(phase.weights),
            (SampleSet * len(sets))(*(SampleSet.of(samples) for samples in sets)),
            _pointer(teacher),
            None if offset is None else _pointer(offset),
            _pointer(draws),
            ctypes.c_int64(len(draws)),
            ctypes.c_float(rule.rate),
            ctypes.c_float(rule.distillation_weight),
            _pointer(phase.output_sums),
            _pointer(phase.label_counts),
        )

    def count_correct(self, tensors: Tensors, inputs: Inputs, labels: NDArray[np.int32]) -> int:
        """How many ``inputs`` [n, H, W, C] get their label."""
        contiguous = [np.ascontiguousarray(tensor) for tensor in tensors]
        correct = self._count(
            _pointers(contiguous),
            _pointer(inputs),
            ctypes.c_int(inputs.dtype != np.uint8),
            _pointer(labels),
            ctypes.c_int64(len(labels)),
        )
        return int(correct)


@lru_cache(maxsize=16)
def small_cnn(
    sample_shape: tuple[int, ...], first: int, second: int, labels: int
) -> SmallCnn | None:
    """The kernel of a network with ``first`` and ``second`` channels; None if it cannot be had."""
    height, width, channels = sample_shape
    lanes, compiler = _lanes(), shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    fits = height == width and height % 4 == 0 and height // 2 <= ROW and first % 2 == 0
    if not (fits and lanes and compiler):
        return None
    sizes = {
        "SIDE": height,
        "CHANNELS": channels,
        "FIRST": first,
        "SECOND": second,
        "LABELS": labels,
        "LANES": lanes,
    }
    command = [compiler, *FLAGS, *(f"-D{name}={size}" for name, size in sizes.items())]
    try:
        return SmallCnn(_load(_compiled(command)))
    except (OSError, subprocess.CalledProcessError):
        return None


def _compiled(command: list[str]) -> bytes:
    """The library made by this command on this processor, from the cache if it is whole there."""
    described = f"{command}{cpu_flags()}{SOURCE.read_text(encoding='utf-8')}"
    name = f"small-cnn-{hashlib.sha256(described.encode()).hexdigest()[:16]}.so"
    folder = private_folder(cache_folder() / "native")
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _compile(command, Path(scratch) / name)
    code = _read_whole(folder / name)
    if code is None:
        with FileLock(folder / LOCK):
            code = _read_whole(folder / name) or _compile(command, folder / name)
    return code


def _compile(command: list[str], library: Path) -> bytes:
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        made = Path(scratch) / library.name
        subprocess.run(
            [*command, str(SOURCE), "-o", str(made), "-lm"], check=True, capture_output=True
        )
        code = made.read_bytes()
    write_whole(library, code)
    write_whole(_checksum_file(library), f"{hashlib.sha256(code).hexdigest()}\n".encode())
    return code


def _read_whole(library: Path) -> bytes | None:
    """The bytes, if they are those that were compiled; damaged code must not be loaded."""
    try:
        expected = _checksum_file(library).read_bytes().strip()
        code = library.read_bytes()
    except FileNotFoundError:
        return None
    return code if hashlib.sha256(code).hexdigest().encode() == expected else None


def _load(code: bytes) -> ctypes.CDLL:
    """The library, from the very bytes that were checked and not from a file read once more.

    Its file in memory stays open: the loader knows a library by its name, which has that number.
    """
    memory = os.memfd_create("small-cnn")
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(code)
    return ctypes.CDLL(f"/proc/self/fd/{memory}")


def _checksum_file(library: Path) -> Path:
    return library.with_name(f"{library.name}.sha256")


def _lanes() -> int:
    """Floats in the widest vector of this processor; 0 if it has none that the kernel knows."""
    flags = cpu_flags().split()
    return 16 if "avx512f" in flags else 8 if "avx2" in flags and "fma" in flags else 0


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _pointers(arrays: Sequence[NDArray[Any]]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
