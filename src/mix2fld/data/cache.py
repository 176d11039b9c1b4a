"""The cache of verified datasets, one .npz file each."""

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from mix2fld.base.folders import cache_folder
from mix2fld.data.catalogue import DatasetInfo
from mix2fld.data.download_progress import print_line

if TYPE_CHECKING:
    from rich.console import Console

    from mix2fld.data.readers import Arrays


def cache_file(name: str) -> Path:
    """The cache file of a named dataset."""
    return cache_folder() / f"{name}.npz"


def cached(name: str) -> bool:
    """Whether a dataset is in the cache; only ``read_cache`` verifies it."""
    return cache_file(name).is_file()


def read_cache(info: DatasetInfo, console: "Console | None" = None) -> "Arrays | None":
    """Return the verified arrays from the cache, or None; a damaged file is set aside."""
    from mix2fld.data.npz import read_npz
    from mix2fld.data.place_errors import PlaceError, one_line
    from mix2fld.data.readers import Arrays, verify

    path = cache_file(info.name)
    if not path.is_file():
        return None
    try:
        arrays = Arrays(*(read_npz(path, *_names(name)) for name in _fields(info)))
        verify(info, arrays)
    except PermissionError as error:
        print_line(console, f"{info.name}: the cache cannot be read ({one_line(error)})")
    except PlaceError as error:
        _set_aside(path, str(error), console)
    except Exception as error:  # damaged bytes can make a reader raise anything
        _set_aside(path, one_line(error), console)
    else:
        return arrays
    return None


def write_cache(info: DatasetInfo, arrays: "Arrays", console: "Console | None" = None) -> None:
    """Store the arrays; readers and other writers see the whole file or none."""
    import numpy as np

    path = cache_file(info.name)
    own_name = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with own_name.open("xb") as stream:
                np.savez(stream, **{name: getattr(arrays, name) for name in _fields(info)})
                stream.flush()
                os.fsync(stream.fileno())
            own_name.replace(path)
        finally:
            own_name.unlink(missing_ok=True)
    except OSError as error:
        print_line(console, f"{info.name}: not cached, {path.parent} is not writable ({error})")
    else:
        print_line(console, f"{info.name}: verified and cached in {path}")


def _fields(info: DatasetInfo) -> list[str]:
    """The arrays that a dataset has."""
    from mix2fld.data.readers import Arrays

    return [name for name in Arrays._fields if name != "train_sources" or info.source_names]


def _names(field: str) -> tuple[str, str]:
    """The name of an array in the cache, and the one that version 0.1.0 stored it under."""
    return field, field.replace("inputs", "images")


def _set_aside(path: Path, why: str, console: "Console | None") -> None:
    aside = path.with_name(f"{path.name}.damaged")
    print_line(console, f"{path.name}: damaged in the cache ({why}); set aside, downloading again")
    try:
        path.replace(aside)
    except OSError:
        return  # another process has already replaced it, or the folder is not writable
