"""Arrays in a file instead of in memory, for as long as somebody refers to them."""

import mmap
import os
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.errors import InputError

ALIGNMENT = 64
EXTENT = 1 << 26
"""Bytes by which the file grows and that are mapped as one piece."""


class SlotFile:
    """A temporary file, removed with the process, of slots that hold some arrays each.

    The arrays that ``store`` returns are mapped from the file, read-only. A slot is used again when
    nothing refers to its arrays any more, so that older states stay what they are.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="mix2fld-states-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._extents: dict[int, mmap.mmap] = {}  # by where they begin
        self._free: defaultdict[int, list[int]] = defaultdict(list)  # places of slots, by size
        self._end = self._size = 0

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def store(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The same arrays, read from the file when they are looked at."""
        ends = np.cumsum([-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays]).tolist()
        begins, size = [0, *ends[:-1]], ends[-1]
        place = self._place(size)
        content = bytearray(size)
        for begin, array in zip(begins, arrays, strict=True):
            content[begin : begin + array.nbytes] = np.ascontiguousarray(array).tobytes()
        self._write(place, content)
        base = max(begin for begin in self._extents if begin <= place)
        slot = np.frombuffer(self._extents[base], np.uint8, size, place - base)
        weakref.finalize(slot, self._free[size].append, place).atexit = False
        return [
            slot[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
            for begin, array in zip(begins, arrays, strict=True)
        ]

    def forget_pages(self) -> None:
        """Let the machine have the memory of what was read; it is read again from the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for extent in self._extents.values():
                extent.madvise(mmap.MADV_DONTNEED)

    def _place(self, size: int) -> int:
        if self._free[size]:
            return self._free[size].pop()
        if self._end + size > self._size:
            self._grow(size)
        place, self._end = self._end, self._end + size
        return place

    def _grow(self, size: int) -> None:
        """A new extent; what is left of the last one stays empty."""
        length = -(-size // EXTENT) * EXTENT
        begin = self._size
        try:
            os.ftruncate(self._file.fileno(), begin + length)
            self._extents[begin] = mmap.mmap(
                self._file.fileno(), length, access=mmap.ACCESS_READ, offset=begin
            )
        except OSError as error:
            raise _no_room(error) from None
        self._end, self._size = begin, begin + length

    def _write(self, place: int, content: bytearray) -> None:
        try:
            self._file.seek(place)
            left = memoryview(content)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise _no_room(error) from None


def _no_room(error: OSError) -> InputError:
    return InputError(
        f"device_states = disk: cannot write to {tempfile.gettempdir()}: {error.strerror}; set "
        "TMPDIR to a folder with more room"
    )
