"""Checkpoints of formats 1 and 2, which have one array for all devices, as trees of today."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.engine.state import Roster, RunState
from mix2fld.types import State

Tensors = dict[str, NDArray[Any]]


def upgrade(scalars: dict[str, Any], tensors: Tensors, like: RunState) -> State:
    """The state in an old file; ``like`` says what its devices keep today."""
    number = int(scalars["round"])
    seeds = sorted(name.split(".")[1] for name in tensors if name.startswith("seed_images."))
    rounds = np.full(len(tensors["seeds_due"]), number, np.int64)
    held = np.isin(np.arange(len(rounds)), [int(device) for device in seeds])
    unknown = Roster.empty(len(rounds)).scores
    return {
        "round": number,
        "devices": _devices(tensors, like.devices),
        "server": {
            "weights": _numbered("server_weights", tensors),
            "outputs": tensors.get("server_outputs"),
            "seeds": {
                device: {
                    "inputs": tensors[f"seed_images.{device}"],
                    "labels": tensors[f"seed_labels.{device}"],
                }
                for device in sorted(seeds, key=int)
            },
            "updates": int(scalars["updates"]),
            "memory": {},
        },
        "clock": [float(seconds) for seconds in scalars["clock"]],
        "roster": {
            "scores": unknown,
            "uploaded": np.where(held, number, 0),
            "last_turn": rounds,
            "listened": np.zeros_like(rounds),
        },
        "link": {},
    }


def devices_today(devices: Any, like: Any) -> Any:
    """Of a deployment, nothing was kept; today an array is, which then is as at the start."""
    return like if isinstance(like, np.ndarray) and isinstance(devices, list) else devices


def _devices(tensors: Tensors, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return like
    return [_device(tensors, device, state) for device, state in enumerate(like)]


def _device(tensors: Tensors, device: int, like: State) -> State:
    """What a device keeps today, of what was kept then."""
    stacked = _numbered("weights", tensors)
    if stacked is None:
        raise KeyError("holds no weights")
    then = {
        "weights": tuple(tensor[device] for tensor in stacked),
        "teacher": tensors["teachers"][device],
        "seeds_due": np.asarray(tensors["seeds_due"][device]),
    }
    return {name: value for name, value in then.items() if name in like}


def _numbered(name: str, tensors: Tensors) -> tuple[NDArray[Any], ...] | None:
    found = sorted(int(key.split(".")[1]) for key in tensors if key.startswith(f"{name}."))
    return tuple(tensors[f"{name}.{number}"] for number in found) or None
