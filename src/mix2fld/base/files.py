"""Files that outlive a crash: written whole or not at all."""

import os  # every change that a run makes on disk goes through this name
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from mix2fld.base.errors import ResourceError

PART = ".part"
LOCK = ".lock"


def write_atomic(
    path: Path, data: bytes, keep_last_as: Path | None = None, *, private: bool = False
) -> None:
    """Replace a file, so that at any instant the old or the new one is there, never a part.

    The replaced file can be kept under another name; for an instant, only that one is there.
    Nobody else can read a private file, at any instant.
    """
    part = path.with_name(path.name + PART)
    if private:
        remove(part)  # a file that exists keeps its mode
    try:
        _write(part, data, os.O_TRUNC, 0o600 if private else 0o666)
        if keep_last_as is not None and path.exists():
            os.replace(path, keep_last_as)
        os.replace(part, path)
        _sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


@contextmanager
def writing(field: str, path: Path, hint: str = "") -> Iterator[None]:
    """Within the block, what cannot be written is a ``ResourceError``, named by ``field``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError(f"{field} = {path}: cannot be written ({reason}){hint}") from None


def append_atomic(path: Path, data: bytes) -> None:
    """Add to the end of a file; what does not fit on the disk is taken back."""
    is_new = not path.exists()
    _write(path, data, os.O_APPEND)
    if is_new:
        _sync_folder(path.parent)


def rename(path: Path, new: Path) -> None:
    """Give a file another name, in the same folder."""
    os.replace(path, new)
    _sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def _write(path: Path, data: bytes, how: int, mode: int = 0o666) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how | getattr(os, "O_BINARY", 0), mode)
    try:
        size = os.fstat(file).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def _sync_folder(folder: Path) -> None:
    """Make new names in a folder outlive a power cut; Windows has no such call, and needs none."""
    if os.name == "posix":
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        del frame
        pressed.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)
