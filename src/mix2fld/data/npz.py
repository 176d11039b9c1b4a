"""Read an array from an untrusted .npz file."""

import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mix2fld.data.archives import reject_unsafe_paths
from mix2fld.data.place_errors import PlaceError, one_line

MOST_BYTES = 1 << 28
MOST_EXPANSION = 100
"""An array may have ``MOST_BYTES``, or ``MOST_EXPANSION`` times the size of its file."""


class MissingArrayError(PlaceError):
    """The file holds no array of that name."""

    def __init__(self, held: Sequence[str]) -> None:
        super().__init__(f"it holds {', '.join(held) or 'nothing'}")


def read_npz(path: Path, *names: str) -> NDArray[Any]:
    """Return the array stored under one of these names; ``PlaceError`` says why it cannot be read.

    Nothing is unpickled, and nothing larger than the limit is unpacked.
    """
    most = max(MOST_BYTES, MOST_EXPANSION * path.stat().st_size)
    if not path.is_file():
        raise PlaceError("not a file")
    try:
        with path.open("rb") as stream:
            if stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise PlaceError("is a single array; must be a .npz file of four")
            with zipfile.ZipFile(stream) as archive:
                return _read_member(archive, names, most)
    except (PlaceError, OSError):
        raise
    except Exception as error:  # damaged bytes can make a reader raise anything
        raise PlaceError(f"{names[0]} cannot be read ({one_line(error)})") from None


def _read_member(archive: zipfile.ZipFile, names: Sequence[str], most: int) -> NDArray[Any]:
    reject_unsafe_paths(archive.namelist())
    held = [name.removesuffix(".npy") for name in archive.namelist()]
    name = next((name for name in names if name in held), None)
    if name is None:
        raise MissingArrayError(held)
    stored = name if name in archive.namelist() else f"{name}.npy"
    info = archive.getinfo(stored)
    if info.file_size > most:
        raise PlaceError(
            f"{name} would unpack to {info.file_size:,} bytes; at most {most:,} are allowed"
        )
    with archive.open(info) as member:
        shape, column_major, kind = _read_header(member)
        if kind.hasobject:
            raise PlaceError(
                f"{name} cannot be read: it holds Python objects, which are never loaded"
            )
        size = prod(shape) * kind.itemsize
        if min(shape, default=0) < 0 or size != info.file_size - member.tell():
            raise PlaceError(f"{name} cannot be read: its size does not match {kind} {list(shape)}")
        content = bytearray(size)
        _fill(content, member)
    array = np.frombuffer(content, kind)
    return array.reshape(shape, order="F" if column_major else "C")


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(member)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f".npy format {version}")
    return readers[version](member)


def _fill(content: bytearray, member: IO[bytes]) -> None:
    """Read a member to its end, so that its checksum is verified."""
    view, filled = memoryview(content), 0
    while filled < len(content):
        chunk = member.read(min(1 << 20, len(content) - filled))
        if not chunk:
            raise EOFError("it is truncated")
        view[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    if member.read(1):
        raise ValueError("it is longer than its header says")
