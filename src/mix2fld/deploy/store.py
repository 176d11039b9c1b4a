"""What a device keeps on its own disk from round to round, so that it can be killed at any time.

A folder for each run holds ``<round>.state``, the device after its local phase of that round, and
``<round>.download``, the bytes that came down in it, each after its SHA-256. The last two rounds
are kept: a server that was started again may ask for a round once more.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from mix2fld.data.files import write_whole
from mix2fld.errors import InputError
from mix2fld.runs.records import DamagedError

RUNS_KEPT = 4
RUN_NAME = re.compile(r"[0-9a-f]{16}")
DEVICE_NAME = re.compile(r"device-\d+")
DIGEST_BYTES = 32


class Own(NamedTuple):
    """A device between two rounds."""

    round: int
    weights: list[NDArray[np.float32]]  # the tensors of its model, in payload order
    teacher: NDArray[np.float32]  # [N_L, N_L], the outputs it last downloaded
    download: bytes | None  # came after its local phase, not yet used


class Store:
    """The folder of one device in one run."""

    def __init__(self, root: Path, run: str, device: int) -> None:
        self._runs = root
        self.path = root / run / f"device-{device}"

    def before(self, round_number: int) -> Own | None:
        """The device as it was left before this round, in the last round that it played."""
        for played in sorted(self._rounds(), reverse=True):
            if played < round_number:
                return self._read(played)
        return None

    def save(
        self,
        round_number: int,
        weights: list[NDArray[np.float32]],
        teacher: NDArray[np.float32],
    ) -> None:
        """Keep the device after its local phase; a download of this round is yet to come."""
        tensors = {f"weights.{i}": np.ascontiguousarray(part) for i, part in enumerate(weights)}
        tensors["teacher"] = np.ascontiguousarray(teacher)
        with self._writing():
            self._make_room()
            self._download(round_number).unlink(missing_ok=True)
            _write_sealed(self._state(round_number), save(tensors))
            self._forget_before(round_number - 1)

    def keep_download(self, round_number: int, data: bytes) -> None:
        """Keep what came down."""
        with self._writing():
            self._make_room()
            _write_sealed(self._download(round_number), data)
            self._forget_before(round_number - 1)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"state = {self._runs}: cannot be written ({reason})") from None

    def _read(self, played: int) -> Own | None:
        state, came = self._state(played), self._download(played)
        try:
            tensors = load(_read_sealed(state))
            download = _read_sealed(came) if came.exists() else None
        except (OSError, DamagedError):
            return None
        weights = [tensors[f"weights.{i}"] for i in range(len(tensors) - 1)]
        return Own(played, weights, tensors["teacher"], download)

    def _rounds(self, kind: str = "state") -> list[int]:
        return [int(file.stem) for file in self.path.glob(f"*.{kind}") if file.stem.isdecimal()]

    def _forget_before(self, round_number: int) -> None:
        """Remove older rounds, but not the last one that the device played."""
        last = max(self._rounds(), default=None)
        for kind in ("state", "download"):
            for old in self._rounds(kind):
                if old < round_number and old != last:
                    (self.path / f"{old}.{kind}").unlink(missing_ok=True)

    def _state(self, round_number: int) -> Path:
        return self.path / f"{round_number}.state"

    def _download(self, round_number: int) -> Path:
        return self.path / f"{round_number}.download"

    def _make_room(self) -> None:
        """Make this run's folder, and forget all but the last few runs."""
        if self.path.exists():
            return
        self.path.mkdir(parents=True)
        runs = [folder for folder in self._runs.iterdir() if _is_run(folder)]
        for old in sorted(runs, key=lambda folder: folder.stat().st_mtime)[:-RUNS_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _is_run(folder: Path) -> bool:
    """Whether a folder was made here: it has the name of a run, and devices are all it holds."""
    if not RUN_NAME.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    return all(DEVICE_NAME.fullmatch(inner.name) and inner.is_dir() for inner in folder.iterdir())


def _write_sealed(path: Path, data: bytes) -> None:
    write_whole(path, hashlib.sha256(data).digest() + data)


def _read_sealed(path: Path) -> bytes:
    content = path.read_bytes()
    digest, data = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        raise DamagedError(f"{path}: its checksum does not fit")
    return data
