"""A run folder that comes home: what changed in it, as pieces, and the same folder made of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mix2fld.base.files import LOCK, PART, append_atomic, remove, write_atomic
from mix2fld.runs.layout import DAMAGED, RunFiles


class Piece(NamedTuple):
    """Bytes of a file from some place on."""

    name: str
    start: int
    data: bytes


class Pieces(NamedTuple):
    """What changed in a folder, in the order in which it must be written."""

    names: tuple[str, ...]
    """All files that it has now."""
    changed: tuple[Piece, ...]


def whole(folder: Path) -> Pieces:
    """Everything that a folder holds."""
    return Sender(folder).changes()


@dataclass
class Sender:
    """Finds what changed in a folder since it was last asked."""

    folder: Path
    _sent: dict[str, tuple[int, int]] = field(default_factory=dict)

    def changes(self) -> Pieces:
        """What is new; of a file that only grows, what was added."""
        files = sorted(self._files(), key=lambda file: (_order(file), file.name))
        changed = []
        for file in files:
            if file == RunFiles(self.folder).previous:
                continue  # the other side keeps it itself
            now = file.stat()
            then, size = self._sent.get(file.name, (-1, 0))
            if now.st_mtime_ns == then and now.st_size == size:
                continue
            data = file.read_bytes()
            grows = file.name == RunFiles(self.folder).rounds.name and len(data) >= size
            start = size if grows else 0
            changed.append(Piece(file.name, start, data[start:]))
            self._sent[file.name] = now.st_mtime_ns, len(data)
        return Pieces(tuple(file.name for file in files), tuple(changed))

    def _files(self) -> Iterable[Path]:
        if not self.folder.is_dir():
            return []
        return [f for f in self.folder.iterdir() if f.name != LOCK and not f.name.endswith(PART)]


def write_pieces(folder: Path, pieces: Pieces) -> None:
    """Bring a folder up to date. At every instant it is one that a run resumes from."""
    files = RunFiles(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for piece in pieces.changed:
        path = folder / piece.name
        if piece.start and path.exists() and path.stat().st_size == piece.start:
            append_atomic(path, piece.data)
        else:
            last = files.previous if path == files.checkpoint else None
            write_atomic(path, piece.data, keep_last_as=last)
    for file in (*files.existing(), *files.existing(DAMAGED)):
        if file.name not in pieces.names:
            remove(file)


def _order(file: Path) -> int:
    """Settings first, then what a checkpoint needs before the checkpoint, the summary last."""
    names = ["config.toml", "states", "rounds.jsonl", "checkpoint.safetensors"]
    name = "states" if file.name.startswith("states-") else file.name
    return names.index(name) if name in names else len(names)
