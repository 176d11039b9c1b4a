"""A stand-in for the ``os`` of ``mix2fld.base.files`` in which one chosen operation goes wrong."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from mix2fld.base import files as storage

Instant = Literal["before", "during", "after"]
Fault = Literal["process dies", "power is cut", "power is cut, names survive", "disk is full"]
INSTANTS: tuple[Instant, ...] = get_args(Instant)
FAULTS: tuple[Fault, ...] = get_args(Fault)


class Crash(BaseException):
    """The process is dead: nothing may catch this, and nothing reaches the disk any more."""


class FaultyDisk:
    """Counts the operations that change something on disk; at the chosen one the fault happens.

    A power cut takes with it all that was not synced: written bytes, and new names of files unless
    these survive. A full disk fails one operation, which may have done its work all the same.
    """

    def __init__(self, fault_at: int, instant: Instant, fault: Fault) -> None:
        self.operations: list[str] = []
        self._fault_at, self._instant, self._fault = fault_at, instant, fault
        self._dead = False
        self._paths: dict[int, Path] = {}
        self._synced: dict[Path, bytes] = {}  # of files with bytes that are not
        self._undo: list[Callable[[], None]] = []  # of names that are not

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        if not flags & os.O_WRONLY:
            file = os.open(path, flags, mode)
            self._paths[file] = Path(path)
            return file
        return self._operate("open", lambda: self._open(Path(path), flags, mode))

    def write(self, file: int, data: bytes) -> int:
        half = lambda: os.write(file, data[: len(data) // 2])  # noqa: E731
        return self._operate("write", lambda: os.write(file, data), half)

    def fsync(self, file: int) -> None:
        self._operate("fsync", lambda: self._fsync(file))

    def ftruncate(self, file: int, size: int) -> None:
        self._operate("truncate", lambda: os.ftruncate(file, size))

    def replace(self, path: Path, new: Path) -> None:
        self._operate("replace", lambda: self._replace(Path(path), Path(new)))

    def unlink(self, path: Path) -> None:
        self._operate("unlink", lambda: self._unlink(Path(path)))

    def _operate(
        self, name: str, act: Callable[[], Any], act_in_part: Callable[[], Any] | None = None
    ) -> Any:
        if self._dead:
            raise Crash
        self.operations.append(name)
        if len(self.operations) - 1 != self._fault_at:
            return act()
        if self._instant == "during" and act_in_part is not None:
            act_in_part()
        elif self._instant == "after":
            done = act()
            if name == "open" and self._fault == "disk is full":
                os.close(done)
        if self._fault == "disk is full":
            raise OSError(errno.ENOSPC, "No space left on device")
        self._die()
        raise Crash

    def _die(self) -> None:
        self._dead = True
        if self._fault == "process dies":
            return
        if self._fault == "power is cut":
            for undo in reversed(self._undo):
                undo()
        for path, content in self._synced.items():
            if path.exists():
                path.write_bytes(content)

    def _open(self, path: Path, flags: int, mode: int) -> int:
        if path.exists():
            self._synced.setdefault(path, path.read_bytes())
        else:
            self._synced[path] = b""
            self._undo.append(lambda: path.unlink(missing_ok=True))
        file = os.open(path, flags, mode)
        self._paths[file] = path
        return file

    def _fsync(self, file: int) -> None:
        os.fsync(file)
        path = self._paths[file]
        if path.is_dir():
            self._undo.clear()
        else:
            self._synced.pop(path, None)

    def _replace(self, path: Path, new: Path) -> None:
        moved, gone = path.read_bytes(), new.read_bytes() if new.exists() else None

        def undo() -> None:
            path.write_bytes(moved)
            new.unlink() if gone is None else new.write_bytes(gone)

        os.replace(path, new)
        if path in self._synced:
            self._synced[new] = self._synced.pop(path)
        self._undo.append(undo)

    def _unlink(self, path: Path) -> None:
        if path.exists():
            content = path.read_bytes()
            self._undo.append(lambda: path.write_bytes(content) and None)
        os.unlink(path)
        self._synced.pop(path, None)


@contextmanager
def on(disk: FaultyDisk) -> Iterator[FaultyDisk]:
    """Let all runs of the block write to that disk."""
    storage.os = disk  # type: ignore[assignment]
    try:
        yield disk
    finally:
        storage.os = os
