"""Folders that one process writes into at a time."""

from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mix2fld.base.files import LOCK

GLANCE_SECONDS = 0.05
"""How long a writer waits for a lock: ``is_locked`` holds it for an instant to look at it."""


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
    if not (folder / LOCK).is_file():
        return False
    try:
        import fcntl

        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # no such call on this system: the file must do
        return (folder / LOCK).exists()
    return False
