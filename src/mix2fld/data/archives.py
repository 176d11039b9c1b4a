"""Read files from archives: only the requested ones, in memory, and with a limit on their size."""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import BinaryIO, Protocol

from mix2fld.data.place_errors import PlaceError, one_line

Members = Mapping[str, int]
"""Names of files within a place, and the largest size in bytes allowed for each."""
ARCHIVE_ERRORS = (
    *(OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error),
    *(
        NotImplementedError,
        RuntimeError,
        ValueError,
        OverflowError,
    ),  # zipfile, on malformed headers
)


class Readable(Protocol):
    """The part of a stream's interface that is used."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        ...


def bounded_read(stream: Readable, name: str, most: int) -> bytes:
    """Return the whole stream; ``PlaceError`` if it has more than ``most`` bytes."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise PlaceError(f"{name} is larger than the {most:,} bytes allowed")
    return content


def reject_unsafe_paths(names: Iterable[str]) -> None:
    """Reject an archive with a path that leads out of it, although nothing is unpacked to disk."""
    for name in names:
        path = PureWindowsPath(name)  # knows the separators and roots of all systems
        if path.is_absolute() or path.root or path.drive or ".." in path.parts or "\0" in name:
            raise PlaceError(f"the archive holds the path {name[:60]!r}, which leads out of it")


def gunzip(stream: BinaryIO, name: str, most: int) -> bytes:
    """Return the file ``name`` from a .gz stream."""
    with gzip.GzipFile(fileobj=stream) as unzipped:
        try:
            return bounded_read(unzipped, name, most)
        except ARCHIVE_ERRORS as error:
            raise PlaceError(f"{name}.gz is damaged ({one_line(error)})") from None


def read_zip(path: Path, members: Members) -> dict[str, bytes]:
    """Return the requested members that a zip file holds."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        reject_unsafe_paths(archive.namelist())
        for name in set(members) & set(archive.namelist()):
            with archive.open(name) as stream:
                found[name] = bounded_read(stream, name, members[name])
    return found


def read_tar(stream: Readable, members: Members) -> dict[str, bytes]:
    """Return the requested members that an uncompressed tar stream holds."""
    found: dict[str, bytes] = {}
    bounded = _BoundedStream(stream, 2 * sum(members.values()) + (1 << 24))
    with tarfile.open(fileobj=bounded, mode="r|") as archive:  # type: ignore[call-overload]
        for member in archive:
            name = member.name.removeprefix("./")
            reject_unsafe_paths([name])
            if name in members and not member.isfile():
                raise PlaceError(f"{name} is a link in the archive, not a file")
            content = archive.extractfile(member) if name in members else None
            if content is not None:
                found[name] = bounded_read(content, name, members[name])
            if len(found) == len(members):
                break
    return found


class _BoundedStream:
    """A stream that raises after ``most`` bytes, whatever its headers claim."""

    def __init__(self, stream: Readable, most: int) -> None:
        self._stream, self._left, self._most = stream, most, most

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(min(size, self._left + 1))
        self._left -= len(chunk)
        if self._left < 0:
            raise PlaceError(f"the archive is larger than the {self._most:,} bytes allowed")
        return chunk
