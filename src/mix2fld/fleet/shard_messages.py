"""Device states between a driver and its hosts: what both sides have is named, not sent.

States are trees whose parts many devices share, such as the last download, and a checkpoint stores
what is shared once. So a message must not turn one object into many: a part that the other side has
is sent as a name, and there becomes the very object of that name.
"""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from mix2fld.round.device_turn import DUE, SENT
from mix2fld.types import State

Name = tuple[Any, ...]
Named = Mapping[Name, Any]


class Known:
    """Objects that both sides have, by name."""

    def __init__(self, states: Mapping[int, State], download: Any = None) -> None:
        """``states`` before the local phase by device; ``download`` as it was decoded."""
        self._objects: dict[Name, Any] = {("due",): DUE, ("sent",): SENT}
        self._add(("download",), download)
        for device, state in states.items():
            self._add((device,), state)
        self._names: dict[int, Name] = {}
        for name, part in self._objects.items():
            self._names.setdefault(id(part), name)

    def dump(self, value: Any) -> bytes:
        """The bytes of a message."""
        buffer = io.BytesIO()
        _Pickler(buffer, self._names).dump(value)
        return buffer.getvalue()

    def load(self, data: bytes) -> Any:
        """What the other side dumped."""
        return _Unpickler(io.BytesIO(data), self._objects).load()

    def _add(self, name: Name, tree: Any) -> None:
        """Every part of a tree that is an array or holds some."""
        if isinstance(tree, dict):
            self._objects[name] = tree
            for key in sorted(tree):
                self._add((*name, key), tree[key])
        elif isinstance(tree, (list, tuple)):
            self._objects[name] = tree
            for place, part in enumerate(tree):
                self._add((*name, place), part)
        elif isinstance(tree, np.ndarray):
            self._objects[name] = tree


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, names: Mapping[int, Name]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._names = names

    def persistent_id(self, obj: Any) -> Name | None:
        """The name of what the other side has."""
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, objects: Named) -> None:
        super().__init__(buffer)
        self._objects = objects

    def persistent_load(self, pid: Any) -> Any:
        """The object of that name."""
        return self._objects[pid]
