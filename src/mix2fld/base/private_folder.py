"""Folders for compiled code, which runs as the user: nobody else may be able to write there."""

import os
import stat
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from mix2fld.base.folders import own_cache_folder

ROOT = 0


def private_folder(folder: Path) -> Path | None:
    """The folder, made if need be and for this user alone; None if others could write into it.

    A cache folder of somebody else holds data that is read by its checksum; code is then kept in
    the user's own. A user who is refused is told once.
    """
    if os.name != "posix":
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    if _is_foreign(folder.parent):
        if folder.exists():
            _tell(f"{folder} belongs to another user")
        folder = own_cache_folder() / folder.name
    try:
        for missing in reversed(
            [place for place in (folder, *folder.parents) if not place.exists()]
        ):
            missing.mkdir(mode=0o700, exist_ok=True)
        folder = folder.resolve()
        fault = next(_faults(folder), None)
        if fault is None:
            folder.chmod(0o700)
            return folder
    except OSError as error:
        fault = f"{folder}: {error.strerror or error}"
    _tell(fault)
    return None


def _faults(folder: Path) -> Iterator[str]:
    """Everything by which others could change what is in a folder."""
    own = folder.stat()
    if own.st_uid != os.geteuid():
        yield f"{folder} belongs to another user"
    if own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield f"{folder} can be written by others ({stat.filemode(own.st_mode)})"
    for above in folder.parents:
        status = above.stat()
        if status.st_uid not in {ROOT, os.geteuid()}:
            yield f"{above} belongs to another user"
        if _others_write(status) and not status.st_mode & stat.S_ISVTX:
            yield f"{above} can be written by others ({stat.filemode(status.st_mode)})"
    paths = (f"{place}/{name}" for place, a, b in os.walk(folder) for name in (*a, *b))
    for inside in paths:  # thousands of them: a Path takes longer than a look at the file
        try:
            status = os.lstat(inside)
        except FileNotFoundError:  # another process of this user tidied up
            continue
        if status.st_uid != os.geteuid() or stat.S_ISLNK(status.st_mode):
            yield f"{inside} belongs to another user, or is not a regular file"
        if _others_write(status):
            yield f"{inside} can be written by others ({stat.filemode(status.st_mode)})"


def _others_write(status: os.stat_result) -> bool:
    """Whether others than its owner can write; a user's private group has the user's number."""
    shared_group = status.st_gid != os.geteuid()
    writers = stat.S_IWOTH | (stat.S_IWGRP if shared_group else 0)
    return bool(status.st_mode & writers)


def _is_foreign(folder: Path) -> bool:
    return folder.exists() and folder.stat().st_uid != os.geteuid()


@lru_cache(maxsize=64)
def _tell(fault: str) -> None:
    print(
        f"mix2fld: {fault}: compiled code is neither read from there nor kept; remove it, or set "
        "MIX2FLD_CACHE to a folder that only you can write to",
        file=sys.stderr,
    )
