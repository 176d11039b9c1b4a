"""Files that outlive a crash: written whole or not at all, and by one process at a time."""

import os  # every change that a run makes on disk goes through this name
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout

from mix2fld.errors import InputError

PART = ".part"
LOCK = ".lock"
GLANCE_SECONDS = 0.05
"""How long a writer waits for a lock: ``is_locked`` holds it for an instant to look at it."""


def write_whole(path: Path, data: bytes, keep_last_as: Path | None = None) -> None:
    """Replace a file, so that at any instant the old or the new one is there, never a part.

    The replaced file can be kept under another name; for an instant, only that one is there.
    """
    part = path.with_name(path.name + PART)
    try:
        _write(part, data, os.O_TRUNC)
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
    """Within the block, what cannot be written is bad input, named by ``field``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{field} = {path}: cannot be written ({reason}){hint}") from None


def append_whole(path: Path, data: bytes) -> None:
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


def _write(path: Path, data: bytes, how: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how | getattr(os, "O_BINARY", 0), 0o666)
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


class FolderLock:
    """At most one process writes into a folder; the lock of a process that died is free."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOCK
        self._lock = FileLock(self._file, thread_local=False)

    def take(self) -> bool:
        """Whether this process has the folder now."""
        if not self._lock.is_locked:
            try:
                self._lock.acquire(timeout=GLANCE_SECONDS, poll_interval=GLANCE_SECONDS / 5)
            except Timeout:
                return False
        return True

    def give_back(self) -> None:
        """Let others write; nothing is left behind in the folder."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            self._lock.release(force=True)


def is_locked(folder: Path) -> bool:
    """Whether a process that is alive writes into a folder; nothing is written to find out."""
    try:
        import fcntl

        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # no such call on this system: the file must do
        return (folder / LOCK).exists()
    return False


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
