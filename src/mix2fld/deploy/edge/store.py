"""What a device keeps on its own disk from round to round, so that it can be killed at any time.

A folder for each run holds ``<round>.state``, the device after its local phase of that round, and
``<round>.download``, the bytes that came down in it, each after its SHA-256. The last two rounds
that it took part in are kept: a server that was restarted may ask for a round once more.
"""

import hashlib
import io
import json
import re
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from mix2fld.base.errors import DamagedError
from mix2fld.base.files import write_atomic, writing
from mix2fld.base.trees import Skeleton, Tensors, flatten, unflatten
from mix2fld.types import State

RUNS_KEPT = 4
RUN_NAME = re.compile(r"[0-9a-f]{16}")
DEVICE_NAME = re.compile(r"device-\d+")
DIGEST_BYTES = 32
SETTINGS, ADDENDS, REVEALED = "settings", "addends", "revealed"
ROUND_BYTES = 8
SKELETON = "skeleton"
"""The one array without ``state`` in its name."""


class StoredState(NamedTuple):
    """The state of a device between two rounds, as it is stored."""

    round: int
    state: State  # as the protocol's row defines it
    download: bytes | None  # came after its local phase, not yet used


class Store:
    """The folder of one device in one run."""

    def __init__(self, root: Path, run: str, device: int) -> None:
        self._runs = root
        self.path = root / run / f"device-{device}"

    def up_to(self, round_number: int) -> StoredState | None:
        """The device as it was left in the last round up to this one that it took part in."""
        for done in sorted(self._rounds(), reverse=True):
            if done <= round_number:
                return self._read(done)
        return None

    def save(self, round_number: int, state: State) -> None:
        """Keep the device after its local phase; a download of this round is yet to come."""
        skeleton, tensors = flatten(state, "state")
        with self._writing():
            self._make_room()
            self._download(round_number).unlink(missing_ok=True)
            _write_sealed(self._state(round_number), _pack(skeleton, tensors))
            self._forget_before(round_number)

    def keep_download(self, round_number: int, data: bytes) -> None:
        """Keep a download."""
        with self._writing():
            self._make_room()
            _write_sealed(self._download(round_number), data)
            self._forget_before(round_number)

    def download_of(self, round_number: int) -> bytes | None:
        """The download of a round, if it was kept and is whole."""
        try:
            return _read_sealed(self._download(round_number))
        except (OSError, DamagedError):
            return None

    def last_download(self) -> int:
        """The last round whose download was kept; 0 for none."""
        return max(self._rounds("download"), default=0)

    def keep_addends(self, round_number: int, data: bytes) -> None:
        """Keep the numbers of an upload, which are added under masks."""
        self._keep_of_round(ADDENDS, round_number, data)

    def addends(self) -> tuple[int, bytes] | None:
        """The round and the numbers of the last upload, if they are whole."""
        return self._of_round(ADDENDS)

    def keep_revealed(self, round_number: int, survivors: bytes) -> bool:
        """Keep whose sum the numbers of a round are in; False if they are in another."""
        known = self._of_round(REVEALED)
        if known is not None and known[0] == round_number:
            return known[1] == survivors
        self._keep_of_round(REVEALED, round_number, survivors)
        return True

    def _of_round(self, name: str) -> tuple[int, bytes] | None:
        try:
            data = _read_sealed(self.path / name)
        except (OSError, DamagedError):
            return None
        return int.from_bytes(data[:ROUND_BYTES], "little"), data[ROUND_BYTES:]

    def _keep_of_round(self, name: str, round_number: int, data: bytes) -> None:
        with self._writing():
            self._make_room()
            _write_sealed(self.path / name, round_number.to_bytes(ROUND_BYTES, "little") + data)

    def keep_settings(self, settings: bytes) -> None:
        """Keep what the server said of the run: what the weights are of."""
        if self.settings() != settings:
            with self._writing():
                self._make_room()
                _write_sealed(self.path / SETTINGS, settings)

    def settings(self) -> bytes | None:
        """What was kept of it, if it is whole."""
        try:
            return _read_sealed(self.path / SETTINGS)
        except (OSError, DamagedError):
            return None

    def _writing(self) -> AbstractContextManager[None]:
        return writing("state", self._runs)

    def _read(self, done: int) -> StoredState | None:
        came = self._download(done)
        try:
            data = _read_sealed(self._state(done))
            download = _read_sealed(came) if came.exists() else None
            state = unflatten(*_unpack(data))
        except (OSError, DamagedError, BadZipFile, LookupError, ValueError, TypeError):
            return None
        return StoredState(done, state, download)

    def _rounds(self, kind: str = "state") -> list[int]:
        return [int(file.stem) for file in self.path.glob(f"*.{kind}") if file.stem.isdecimal()]

    def _forget_before(self, round_number: int) -> None:
        """Remove older rounds, but not the last one that the device took part in before.

        A download without a state of its round is never used.
        """
        before = [done for done in self._rounds() if done < round_number]
        kept = {max(before, default=round_number)}
        for kind in ("state", "download"):
            for old in self._rounds(kind):
                if old < round_number and old not in kept:
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


def newest_run(root: Path, device: int) -> Store | None:
    """The folder of a device in the last run that it took part in; None if there is none."""
    states = sorted(root.glob(f"*/device-{device}/*.state"), key=lambda file: file.stat().st_mtime)
    return Store(root, states[-1].parents[1].name, device) if states else None


def _is_run(folder: Path) -> bool:
    """Whether a folder was made here: it has the name of a run, and devices are all it holds."""
    if not RUN_NAME.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    return all(DEVICE_NAME.fullmatch(inner.name) and inner.is_dir() for inner in folder.iterdir())


def _pack(skeleton: Skeleton, tensors: Tensors) -> bytes:
    """An .npz file: the arrays by their names, and the skeleton as JSON."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {SKELETON: np.array(json.dumps(skeleton)), **tensors}
    np.savez(file, **arrays)
    return file.getvalue()


def _unpack(data: bytes) -> tuple[Skeleton, Tensors]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        tensors = {name: file[name] for name in file.files}
    skeleton: Skeleton = json.loads(tensors.pop(SKELETON).item())
    return skeleton, tensors


def _write_sealed(path: Path, data: bytes) -> None:
    write_atomic(path, hashlib.sha256(data).digest() + data)


def _read_sealed(path: Path) -> bytes:
    content = path.read_bytes()
    digest, data = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        raise DamagedError(f"{path}: its checksum does not match")
    return data
