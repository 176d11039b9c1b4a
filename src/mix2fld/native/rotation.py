"""Random rotations by machine code: the same draws and the same sums as NumPy's, in less time."""

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.native.library import load_library, vector_lanes
from mix2fld.native.recipe import PLAIN_LANES

SOURCE = Path(__file__).with_name("rotation.c")
Floats = NDArray[np.float32]
Places = NDArray[np.int32]
Indices = NDArray[np.int64]
SCRATCH = 5
"""Numbers that the kernel needs room for, for each coordinate."""


class RotationKernel:
    """The functions of ``rotation.c``; they release the interpreter's lock.

    Generators are left as they were. Groups are as long as ``lengths`` says, one after the other
    among the coordinates as they are dealt.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name in ("draw", "pick", "place"):
            getattr(library, name).restype = None

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Places, Floats, Places]:
        """A permutation, signs and another permutation."""
        scratch, places, dealt = (np.empty(size, np.int32) for _ in range(3))
        signs = np.empty(size, np.float32)
        arrays = _pointers(scratch, places, signs, dealt)
        self._library.draw(_numbers(rng), ctypes.c_int64(size), *arrays)
        return places, signs, dealt

    def pick(
        self, rng: np.random.Generator, vector: Floats, deviation: float, lengths: Indices
    ) -> tuple[Indices, Floats]:
        """Of each group of rotated coordinates the largest: its place in the group, and itself."""
        size, vector = ctypes.c_int64(len(vector)), np.ascontiguousarray(vector, np.float32)
        scratch = np.empty(SCRATCH * len(vector), np.int32)
        within, found = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.float32)
        self._library.pick(
            _numbers(rng), size, *_pointers(vector), ctypes.c_float(deviation),
            ctypes.c_int64(len(lengths)), *_pointers(lengths, scratch, within, found),
        )  # fmt: skip
        return within, found

    def place(
        self, rng: np.random.Generator, size: int, lengths: Indices, within: Indices, levels: Floats
    ) -> Floats:
        """The vector of which ``pick`` found these, with 0 for every other rotated coordinate."""
        scratch, vector = np.empty(SCRATCH * size, np.int32), np.empty(size, np.float32)
        arrays = _pointers(lengths, within, levels, scratch, vector)
        groups = ctypes.c_int64(len(lengths))
        self._library.place(_numbers(rng), ctypes.c_int64(size), groups, *arrays)
        return vector


@lru_cache(maxsize=1)
def rotation_kernel() -> RotationKernel | None:
    """The kernel; None if it cannot be had here."""
    library = load_library(SOURCE, {"LANES": vector_lanes() or PLAIN_LANES})
    return None if library is None else RotationKernel(library)


def _pointers(*arrays: NDArray[Any]) -> list[ctypes.c_void_p]:
    """As ``array.ctypes.data``, in a fraction of its time."""
    return [ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays]


def _numbers(rng: np.random.Generator) -> Any:
    """State and increment of a PCG64, 64 bits at a time."""
    state: dict[str, Any] = rng.bit_generator.state["state"]
    both = state["state"], state["inc"]
    return (ctypes.c_uint64 * 4)(*(half for x in both for half in (x >> 64, x & (1 << 64) - 1)))
