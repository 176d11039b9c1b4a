"""The state of a run as one safetensors file with a checksum of everything in it."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mix2fld.round.clock import Clock
from mix2fld.round.info import RunState
from mix2fld.runs.records import DamagedError, refuse_newer
from mix2fld.types import Seeds, ServerState, Weights

FORMAT = 2
"""Format 1 has no checksums, and is still read."""
SCALARS_OF_FORMAT_1 = {"format", "round", "updates", "clock"}
Tensors = dict[str, NDArray[Any]]


class Checkpoint(NamedTuple):
    """A state and what goes with it, which format 1 does not say."""

    state: RunState
    records: str | None  # checksum of the last record
    made_with: dict[str, str]  # what beside the config decides the numbers


def dump_checkpoint(state: RunState, records: str, made_with: dict[str, str]) -> bytes:
    """The file's content; the same state gives the same bytes."""
    server = state.server
    tensors = {"teachers": state.teachers, "seeds_due": state.seeds_due}
    tensors |= _numbered("weights", state.weights)
    tensors |= _numbered("server_weights", server.weights)
    if server.outputs is not None:
        tensors["server_outputs"] = server.outputs
    for device, seeds in server.seeds.items():
        tensors[f"seed_images.{device}"] = seeds.images
        tensors[f"seed_labels.{device}"] = seeds.labels
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    scalars = {
        "format": FORMAT,
        "round": state.round_number,
        "updates": server.updates,
        "clock": [state.clock.communication, state.clock.computing],
        "records": records,
        "made_with": made_with,
    }
    sealed = {**scalars, "sha256": _digest(scalars, contiguous)}
    # One entry, because safetensors writes several in an order that changes.
    return bytes(save(contiguous, metadata={"state": json.dumps(sealed)}))


def made_with(path: Path) -> dict[str, str]:
    """What a checkpoint says it was made with; nothing if it cannot be read."""
    try:
        with safe_open(path, framework="numpy") as file:
            return dict(json.loads((file.metadata() or {})["state"])["made_with"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError):
        return {}


def load_checkpoint(path: Path, like: RunState) -> Checkpoint:
    """The state in a file; ``DamagedError`` unless it is intact and of a run like ``like``."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        scalars = json.loads(metadata["state"])
        if set(scalars) != SCALARS_OF_FORMAT_1:
            if scalars.pop("sha256") != _digest(scalars, tensors):
                raise DamagedError("its checksum does not fit")
            refuse_newer("checkpoint", scalars["format"], FORMAT)
        state = _rebuild(scalars, tensors, like)
        return Checkpoint(state, scalars.get("records"), scalars.get("made_with", {}))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise DamagedError(" ".join(f"cannot be read: {error}".split())[:200]) from None


def _rebuild(scalars: dict[str, Any], tensors: Tensors, like: RunState) -> RunState:
    devices = sorted(int(name.split(".")[1]) for name in tensors if name.startswith("seed_images."))
    server = ServerState(
        weights=_model("server_weights", tensors, like.weights),
        outputs=tensors.get("server_outputs"),
        seeds={
            device: Seeds(tensors[f"seed_images.{device}"], tensors[f"seed_labels.{device}"])
            for device in devices
        },
        updates=scalars["updates"],
    )
    weights = _model("weights", tensors, like.weights)
    if weights is None and like.teachers.size:
        raise DamagedError("holds no weights")
    return RunState(
        round_number=int(scalars["round"]),
        weights=weights,
        teachers=_fitting("teachers", tensors, like.teachers),
        seeds_due=_fitting("seeds_due", tensors, like.seeds_due),
        server=server,
        clock=Clock(*scalars["clock"]),
    )


def _digest(scalars: dict[str, Any], tensors: Tensors) -> str:
    """SHA-256 of the scalars, and of every tensor with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(scalars).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _numbered(name: str, weights: Weights | None) -> Tensors:
    leaves = jax.tree.leaves(weights)
    return {f"{name}.{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}


def _model(name: str, tensors: Tensors, like: Weights) -> Weights | None:
    if f"{name}.0" not in tensors:
        return None
    leaves, structure = jax.tree.flatten(like)
    fitting = [
        _fitting(f"{name}.{number}", tensors, np.asarray(leaf))
        for number, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, fitting)


def _fitting(name: str, tensors: Tensors, like: NDArray[Any]) -> NDArray[Any]:
    tensor = tensors[name]
    of_one_device = name.startswith("server_") and tensor.shape == like.shape[1:]
    if not (tensor.shape == like.shape or of_one_device) or tensor.dtype != like.dtype:
        raise DamagedError(
            f"is of another run: {name} is {tensor.dtype}{list(tensor.shape)}, "
            f"not {like.dtype}{list(like.shape)}"
        )
    return tensor
