"""Random rotations by machine code: the same draws and the same sums as NumPy's, in less time."""

import ctypes
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.native.library import load_library, vector_lanes
from mix2fld.native.processor import usable_cores
from mix2fld.native.recipe import PLAIN_LANES
from mix2fld.native.threads import in_threads

SOURCE = Path(__file__).with_name("rotation.c")
Floats = NDArray[np.float32]
Places = NDArray[np.int32]
Indices = NDArray[np.int64]
Rngs = Sequence[np.random.Generator]
"""One for each row."""
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
        self._library.draw(*_pointers(_numbers([rng])), *_sizes(size), *arrays)
        return places, signs, dealt

    def pick(
        self, rngs: Rngs, rows: Floats, deviations: Floats, lengths: Indices
    ) -> tuple[Indices, Floats]:
        """Of each row and group of rotated coordinates the largest: its place in the group, and
        itself; both [n, groups]."""
        rows, numbers = np.ascontiguousarray(rows, np.float32), _numbers(rngs)
        count, size = rows.shape
        within = np.empty((count, len(lengths)), np.int64)
        found = np.empty((count, len(lengths)), np.float32)

        def some(part: slice) -> None:
            scratch = np.empty(SCRATCH * size, np.int32)
            self._library.pick(
                *_sizes(part.stop - part.start), *_pointers(numbers[part]), *_sizes(size),
                *_pointers(rows[part], deviations[part]), *_sizes(len(lengths)),
                *_pointers(lengths, scratch, within[part], found[part]),
            )  # fmt: skip

        in_threads(some, list(_shares(count)))
        return within, found

    def place(
        self, rngs: Rngs, size: int, lengths: Indices, within: Indices, levels: Floats
    ) -> Floats:
        """The rows of which ``pick`` found these, with 0 for every other rotated coordinate."""
        within, levels = np.ascontiguousarray(within), np.ascontiguousarray(levels)
        rows, numbers = np.empty((len(rngs), size), np.float32), _numbers(rngs)

        def some(part: slice) -> None:
            scratch = np.empty(SCRATCH * size, np.int32)
            self._library.place(
                *_sizes(part.stop - part.start), *_pointers(numbers[part]),
                *_sizes(size, len(lengths)),
                *_pointers(lengths, within[part], levels[part], scratch, rows[part]),
            )  # fmt: skip

        in_threads(some, list(_shares(len(rngs))))
        return rows


@lru_cache(maxsize=1)
def rotation_kernel() -> RotationKernel | None:
    """The kernel; None if it cannot be had here."""
    library = load_library(SOURCE, {"LANES": vector_lanes() or PLAIN_LANES})
    return None if library is None else RotationKernel(library)


def _pointers(*arrays: NDArray[Any]) -> list[ctypes.c_void_p]:
    """As ``array.ctypes.data``, in a fraction of its time."""
    return [ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays]


def _sizes(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]


def _shares(rows: int) -> Iterator[slice]:
    """The rows, divided among the cores."""
    cores = min(usable_cores(), rows)
    for core in range(cores):
        yield slice(rows * core // cores, rows * (core + 1) // cores)


def _numbers(rngs: Rngs) -> NDArray[np.uint64]:
    """State and increment of each PCG64, 64 bits at a time, the upper ones first: [n, 4]."""
    states = [rng.bit_generator.state["state"] for rng in rngs]
    carried = b"".join(
        number.to_bytes(16, "big") for own in states for number in (own["state"], own["inc"])
    )
    return np.frombuffer(carried, ">u8").astype(np.uint64).reshape(-1, 4)
