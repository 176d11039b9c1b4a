"""What devices keep, in files of the run's folder: a round writes what it changed, and no more.

A file holds the states that changed in one round, equal ones once, and is never changed. At most
``FILES`` of them are in use: before the oldest falls out, the states in it that are still in use
move to the newest. A device that never changed is as it started, and is in no file. The tree that a
checkpoint holds says for each device in which file its state is, and in which row of it.
"""

import hashlib
import json
import mmap
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from mix2fld.base.errors import DamagedError
from mix2fld.base.files import remove, write_atomic, writing
from mix2fld.base.trees import Skeleton, Tensors, flatten, pick
from mix2fld.engine.fleets.device_states import MakeState, entries_of
from mix2fld.runs.folder import KEPT
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.records import refuse_newer
from mix2fld.types import State

FORMAT = 1
FILES = 64
"""How many are in use at most."""
AS_STARTED = -1
"""In place of a file, of a device that never changed."""


class Mapped(NamedTuple):
    """A file whose tensors are read when they are looked at."""

    skeleton: Skeleton
    tensors: Tensors
    pages: mmap.mmap


class StatesInFiles:
    """Keeps the states of all devices in the folder of a run; without one, in a temporary one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = folder is None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="mix2fld-states-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._files = RunFiles(folder)
        self._mapped: dict[int, Mapped] = {}
        self._make: MakeState = lambda _: {}
        self._devices = 0

    def start(self, devices: int, make: MakeState, *, alike: bool) -> State:
        """No file yet: every device is as it starts."""
        first = make(0) if alike else None
        self._make = make if first is None else lambda _: first
        self._devices = devices
        return {
            "file": np.full(devices, AS_STARTED, np.int32),
            "row": np.zeros(devices, np.int32),
            "next": 0,
            "digests": np.zeros((FILES, 32), np.uint8),
        }

    def read(self, states: State, devices: Iterable[int]) -> dict[int, State]:
        """The states of some devices; what they share in a file, they share here."""
        found: dict[int, State] = {}
        by_file: dict[int, list[int]] = {}
        for device in devices:
            found[device] = {}  # the order is that of the devices
            by_file.setdefault(int(states["file"][device]), []).append(device)
        for number, group in by_file.items():
            if number == AS_STARTED:
                found |= {device: self._make(device) for device in group}
                continue
            rows = [int(states["row"][device]) for device in group]
            found |= zip(group, self._rows(number, rows), strict=True)
        return found

    def replaced(self, states: State, changed: Mapping[int, State]) -> State:
        """The states with a new file, of those that changed and those of the oldest file."""
        if not changed:
            return states
        number = int(states["next"])
        oldest = np.flatnonzero(states["file"] == number - FILES) if number >= FILES else ()
        moved = self.read(states, [int(d) for d in oldest if int(d) not in changed])
        after = dict(sorted({**moved, **changed}.items()))
        members: dict[Any, tuple[int, State]] = {}
        rows = [
            members.setdefault(entries_of(state), (len(members), state))[0]
            for state in after.values()
        ]
        digest = self._write(number, [state for _, state in members.values()])
        file, row, digests = (states[name].copy() for name in ("file", "row", "digests"))
        file[list(after)], row[list(after)] = number, rows
        digests[number % FILES] = np.frombuffer(digest, np.uint8)
        new = {"file": file, "row": row, "next": number + 1, "digests": digests}
        self._forget_pages()
        if self._temporary:
            self.forget_others(states, new)
        return new

    def restored(self, found: Any) -> State:
        """The states of a checkpoint, if all their files are as they were written."""
        if isinstance(found, list):  # of a version that had them all in the checkpoint
            start = self.start(self._devices, self._make, alike=False)
            return self.replaced(start, dict(enumerate(found)))
        for number in _numbers(found):
            path = self._files.states(number)
            digest = found["digests"][number % FILES].tobytes()
            if not path.is_file() or _digest_of(path) != digest:
                raise DamagedError(f"needs {path.name}, which is damaged or missing")
        return dict(found)

    def forget_others(self, *states: State) -> None:
        """Remove the files that none of these states is in."""
        needed = {self._files.states(number) for tree in states for number in _numbers(tree)}
        self._mapped = {n: m for n, m in self._mapped.items() if self._files.states(n) in needed}
        for path in self._files.all_states():
            if path not in needed:
                remove(path)

    def _rows(self, number: int, rows: Sequence[int]) -> list[State]:
        if number not in self._mapped:
            self._mapped[number] = _map(self._files.states(number))
        skeleton, tensors, _ = self._mapped[number]
        # New views each time: what two readers share must not depend on when they read.
        return pick(skeleton, {name: tensor.view() for name, tensor in tensors.items()}, rows)

    def _write(self, number: int, members: list[State]) -> bytes:
        skeleton, tensors = flatten(members, "states")
        content = json.dumps({"format": FORMAT, "states": skeleton})
        data = bytes(save(tensors, metadata={"states": content}))
        path = self._files.states(number)
        self._mapped.pop(number, None)
        if self._temporary:
            with writing("TMPDIR", path.parent, "; name a folder with more room"):
                path.write_bytes(data)
        else:
            with writing("out", path.parent, KEPT):
                write_atomic(path, data)
        return hashlib.sha256(data).digest()

    def _forget_pages(self) -> None:
        """Let the machine have the memory of what was read; it is read again from the files."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._mapped.values():
                mapped.pages.madvise(mmap.MADV_DONTNEED)


def _numbers(states: State) -> list[int]:
    """The files that some device's state is in."""
    return [int(number) for number in np.unique(states["file"]) if number != AS_STARTED]


def _map(path: Path) -> Mapped:
    """A safetensors file without a copy of what it holds, which its own readers make."""
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    begin = 8 + int.from_bytes(pages[:8], "little")
    header = json.loads(pages[8:begin])
    content = json.loads(header.pop("__metadata__")["states"])
    refuse_newer(path.name, content["format"], FORMAT)
    tensors = {name: _tensor(pages, begin, entry) for name, entry in header.items()}
    return Mapped(content["states"], tensors, pages)


DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"F{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{f"I{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
}
"""By the names that safetensors has for them."""


def _tensor(pages: mmap.mmap, begin: int, entry: Mapping[str, Any]) -> NDArray[Any]:
    first, last = entry["data_offsets"]
    if first == last:
        return np.zeros(entry["shape"], DTYPES[entry["dtype"]])
    raw = np.frombuffer(pages, np.uint8, last - first, begin + first)
    return raw.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _digest_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
