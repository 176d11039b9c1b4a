"""Device states between a driver and its hosts: what both sides have is named, not sent.

States are trees whose parts many devices share, such as the last download, and a checkpoint stores
what is shared once. So a message must not turn one object into many, nor several into one: a part
that the other side has of the same device is sent as a name, and there becomes the very object of
that name; a new part that devices share is sent once.
"""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from mix2fld.engine.device_turn import DUE, SENT
from mix2fld.protocols.parts import NO_KEY
from mix2fld.protocols.private import DONE, SCATTER, SUMS
from mix2fld.types import State

Name = tuple[Any, ...]
States = Mapping[int, State]
CONSTANTS: dict[Name, Any] = {
    ("constant", place): array
    for place, array in enumerate((DUE, SENT, SUMS, SCATTER, DONE, NO_KEY))
}
"""Arrays that all devices share, of this package and so of both sides."""


def dump_states(states: States, before: States, download: Any = None) -> bytes:
    """The message; the other side has ``before``, and the download as it was decoded."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    common = CONSTANTS | _parts(("download",), download)
    pickler.dump(tuple(states))
    for device, state in states.items():
        parts = _parts(("own",), before.get(device)) | common
        pickler.names = {id(part): name for name, part in parts.items()}
        pickler.dump(state)
    return buffer.getvalue()


def load_states(data: bytes, before: States, download: Any = None) -> dict[int, State]:
    """What the other side dumped, with the objects of this side."""
    unpickler = _Unpickler(io.BytesIO(data))
    common = CONSTANTS | _parts(("download",), download)
    found: dict[int, State] = {}
    for device in unpickler.load():
        unpickler.parts = common | _parts(("own",), before.get(device))
        found[device] = unpickler.load()
    return found


def own_bytes(state: State, download: Any) -> int:
    """Bytes of the arrays of a state that are not of the download."""
    theirs = {id(part) for part in _parts((), download).values()}
    parts = _parts((), state).values()
    return sum(p.nbytes for p in parts if isinstance(p, np.ndarray) and id(p) not in theirs)


def _parts(name: Name, tree: Any) -> dict[Name, Any]:
    """Every part of a tree that is an array or holds some, by its place."""
    if isinstance(tree, dict):
        below = [_parts((*name, key), tree[key]) for key in sorted(tree)]
    elif isinstance(tree, (list, tuple)):
        below = [_parts((*name, place), part) for place, part in enumerate(tree)]
    elif isinstance(tree, np.ndarray):
        below = []
    else:
        return {}
    found = {name: tree}
    for parts in below:
        found |= parts
    return found


class _Pickler(pickle.Pickler):
    names: Mapping[int, Name] = {}

    def persistent_id(self, obj: Any) -> Name | None:
        """The name of what the other side has."""
        return self.names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    parts: Mapping[Name, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        """The object of that name."""
        return self.parts[pid]
