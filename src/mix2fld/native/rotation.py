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


class RotationKernel:
    """The functions of ``rotation.c``; they release the interpreter's lock."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name in ("draw", "forward", "backward", "largest"):
            getattr(library, name).restype = None

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Places, Floats, Places]:
        """A permutation, signs and another permutation; ``rng`` is left as it was."""
        scratch, places, dealt = (np.empty(size, np.int32) for _ in range(3))
        signs = np.empty(size, np.float32)
        arrays = [_pointer(array) for array in (scratch, places, signs, dealt)]
        self._library.draw(_numbers(rng), ctypes.c_int64(size), *arrays)
        return places, signs, dealt

    def forward(self, vector: Floats, places: Places, signs: Floats) -> Floats:
        """The transform of the permuted vector with other signs."""
        vector = np.ascontiguousarray(vector, np.float32)
        scratch, turned = np.empty_like(vector), np.empty_like(vector)
        held = [_pointer(array) for array in (vector, places, signs)]
        size = ctypes.c_int64(len(vector))
        self._library.forward(*held, size, _pointer(scratch), _pointer(turned))
        return turned

    def backward(self, turned: Floats, places: Places, signs: Floats) -> Floats:
        """The vector whose ``forward`` this is."""
        scratch, vector = np.array(turned, np.float32), np.empty_like(turned)
        held = [_pointer(array) for array in (scratch, places, signs)]
        self._library.backward(*held, ctypes.c_int64(len(turned)), _pointer(vector))
        return vector

    def largest(self, turned: Floats, groups: Places) -> NDArray[np.int64]:
        """Which of the places in each group [m, n] has the largest magnitude."""
        found, groups = np.empty(len(groups), np.int64), np.ascontiguousarray(groups)
        sizes = [ctypes.c_int64(size) for size in groups.shape]
        self._library.largest(_pointer(turned), _pointer(groups), *sizes, _pointer(found))
        return found


@lru_cache(maxsize=1)
def rotation_kernel() -> RotationKernel | None:
    """The kernel; None if it cannot be had here."""
    library = load_library(SOURCE, {"LANES": vector_lanes() or PLAIN_LANES})
    return None if library is None else RotationKernel(library)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    """As ``array.ctypes.data``, in a fraction of its time."""
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def _numbers(rng: np.random.Generator) -> Any:
    """State and increment of a PCG64, 64 bits at a time."""
    state: dict[str, Any] = rng.bit_generator.state["state"]
    both = state["state"], state["inc"]
    return (ctypes.c_uint64 * 4)(*(half for x in both for half in (x >> 64, x & (1 << 64) - 1)))
