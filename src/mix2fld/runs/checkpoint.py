"""The state of a run as one safetensors file with a checksum of everything in it."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mix2fld.base.errors import DamagedError
from mix2fld.base.trees import difference, flatten, unflatten
from mix2fld.engine.device_turn import PENDING
from mix2fld.engine.state import RunState
from mix2fld.runs.old_formats import (
    ONE_ARRAY_FOR_ALL,
    SCALARS_OF_FORMAT_1,
    tree_of_arrays,
    tree_today,
)
from mix2fld.runs.records import refuse_newer
from mix2fld.types import State

FORMAT = 4
"""Formats 1 (without checksums), 2 (one array for all devices) and 3 (accuracies in place of
scores) are still read: ``old_formats``."""
Tensors = dict[str, NDArray[Any]]


class Checkpoint(NamedTuple):
    """A state and what goes with it, which format 1 does not say."""

    tree: State
    records: str | None  # checksum of the last record
    made_with: dict[str, str]  # what beside the config decides the numbers

    @property
    def round_number(self) -> int:
        """The rounds that the state has behind it."""
        return int(self.tree["round"])

    def state(self, like: RunState) -> RunState:
        """The state, if it is one of a run like ``like``; else ``DamagedError``."""
        tree, wanted = self.tree, like.tree()
        devices = _settled(tree["devices"]) if "flights" in tree else tree["devices"]
        given = {"devices": devices, "link": tree["link"], "roster": tree["roster"]}
        for part, own in given.items():
            found = difference(own, wanted[part], part)
            if found:
                raise DamagedError(f"belongs to another run: {found}")
        return RunState.from_tree(tree)


def _settled(devices: Any) -> Any:
    """The states without what waits for the end of an upload."""
    if not isinstance(devices, list):
        return devices
    return [{key: own[key] for key in own if key != PENDING} for own in devices]


def dump_checkpoint(state: RunState, records: str, made_with: dict[str, str]) -> bytes:
    """The file's content; the same state gives the same bytes."""
    skeleton, tensors = flatten(state.tree(), "state")
    scalars = {
        "format": FORMAT,
        "state": skeleton,
        "records": records,
        "made_with": made_with,
    }
    sealed = {**scalars, "sha256": digest(scalars, tensors)}
    # One entry, because safetensors writes several in an order that changes.
    return bytes(save(tensors, metadata={"state": json.dumps(sealed)}))


def made_with(path: Path) -> dict[str, str]:
    """What a checkpoint says it was made with; nothing if it cannot be read."""
    try:
        with safe_open(path, framework="numpy") as file:
            return dict(json.loads((file.metadata() or {})["state"])["made_with"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError):
        return {}


def check_intact(path: Path) -> None:
    """Raise ``DamagedError`` unless a file is as it was written."""
    with _reading():
        _intact(path)


def load_checkpoint(
    path: Path,
    like: RunState,
    restored: Callable[[Any], Any] = lambda devices: devices,
    check: Callable[[dict[str, str]], None] = lambda _: None,
) -> Checkpoint:
    """What a file holds; ``DamagedError`` unless it is intact. ``like`` is the run's start.

    ``restored`` looks whether the states of devices are all there. ``check`` gets what an intact
    file was made with, before its state is taken for one of this run.
    """
    with _reading():
        scalars, tensors = _intact(path)
        check(scalars.get("made_with", {}))
        if scalars["format"] in ONE_ARRAY_FOR_ALL:
            tree = tree_of_arrays(scalars, tensors, like.devices)
        else:
            tree = _tree_of(scalars, tensors, like.devices)
        tree["devices"] = restored(tree["devices"])
        found = Checkpoint(tree, scalars.get("records"), scalars.get("made_with", {}))
        found.state(like)
        return found


def read_checkpoint(path: Path) -> tuple[State, dict[str, str]]:
    """The state as a tree, and what it was made with; ``DamagedError`` unless it is intact."""
    with _reading():
        scalars, tensors = _intact(path)
        if scalars["format"] in ONE_ARRAY_FOR_ALL:
            raise DamagedError(f"has format {scalars['format']}, not {FORMAT}")
        return _tree_of(scalars, tensors), scalars["made_with"]


def read_sealed_round(path: Path) -> tuple[int, str]:
    """The round of a checkpoint and what seals it; ``DamagedError`` unless it is intact."""
    with _reading():
        scalars, tensors = _intact(path)
        return int(_tree_of(scalars, tensors)["round"]), str(scalars["records"])


def _tree_of(scalars: dict[str, Any], tensors: Tensors, like: Any = None) -> State:
    tree = unflatten(scalars["state"], tensors)
    refuse_newer("checkpoint", scalars["format"], FORMAT, older=(3,))
    return tree_today(tree, scalars["format"], like)


def _intact(path: Path) -> tuple[dict[str, Any], Tensors]:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    scalars = json.loads(metadata["state"])
    if set(scalars) != SCALARS_OF_FORMAT_1 and scalars.pop("sha256") != digest(scalars, tensors):
        raise DamagedError("its checksum does not match")
    return scalars, tensors


@contextmanager
def _reading() -> Iterator[None]:
    """Whatever a damaged file leads to is one error."""
    try:
        yield
    except (
        *(OSError, SafetensorError, KeyError, ValueError, TypeError, IndexError),
        *(RecursionError, AttributeError, OverflowError),
    ) as error:
        raise DamagedError(" ".join(f"cannot be read: {error}".split())[:200]) from None


def digest(scalars: dict[str, Any], tensors: Tensors) -> str:
    """SHA-256 of the scalars, and of every tensor with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(scalars).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()
