"""A custom uplink: the largest entries of the *update*, with error feedback.

A device sends what its weights moved by since the global model that it last received, and of that
only the entries that are at least half as large as the largest. How many there are depends on the
value, and so do the bits. What is left out waits in the device's state as a residual, and is added
to the next update. If an upload is lost, nothing of it is: the residual still holds it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

import mix2fld
from mix2fld.device.uplinks import Turn, Uplink
from mix2fld.learning.task import Task
from mix2fld.link.payloads import Encoded, PayloadError, Size, flatten_tensors, unflatten_tensors
from mix2fld.server.steps import Inbox
from mix2fld.types import Dimensions, Local, SeedSet, ServerState, State, Tensors


@dataclass(frozen=True)
class LargestEntries:
    """A 32-bit count, then 32 bits for the place and 32 for the value of each entry."""

    share: float = 0.5
    name: str = "largest entries"

    def size(self, dims: Dimensions) -> Size:
        return Size(32 + 64 * dims.num_weights, exact=False)

    def encode(self, value: Tensors, dims: Dimensions) -> Encoded:
        flat = flatten_tensors(value, dims)
        kept = np.flatnonzero(np.abs(flat) >= self.share * np.abs(flat).max())
        data = np.uint32(len(kept)).tobytes() + kept.astype("<u4").tobytes()
        data += flat[kept].astype("<f4").tobytes()
        return Encoded(data, 8 * len(data))

    def decode(self, data: bytes, dims: Dimensions) -> Tensors:
        count = int(np.frombuffer(data[:4], "<u4")[0]) if len(data) >= 4 else -1
        if len(data) != 4 + 8 * count:
            raise PayloadError(f"{self.name}: {len(data)} bytes for {count} entries")
        places = np.frombuffer(data[4 : 4 + 4 * count], "<u4")
        values = np.frombuffer(data[4 + 4 * count :], "<f4")
        if np.any(places >= dims.num_weights) or not np.isfinite(values).all():
            raise PayloadError(f"{self.name}: a place or a value that no weight has")
        flat = np.zeros(dims.num_weights, np.float32)
        flat[places] = values
        return unflatten_tensors(flat, dims)


@dataclass(frozen=True)
class LargestOfUpdate(Uplink):
    """``reference``: where the update is counted from; ``residual``: what was not sent so far."""

    payload: LargestEntries = field(default_factory=LargestEntries)

    def start(self, weights: Tensors) -> State:
        return {"reference": weights, "residual": tuple(np.zeros_like(w) for w in weights)}

    def value(self, state: State, local: Local, turn: Turn) -> Tensors:
        return _sum(state["residual"], _difference(local.weights, state["reference"]))

    def delivered(self, state: State, local: Local, read: Callable[[], Tensors]) -> State:
        wanted = _sum(state["residual"], _difference(local.weights, state["reference"]))
        return {"reference": local.weights, "residual": _difference(wanted, read())}

    def replaced(self, state: State, weights: Tensors) -> State:
        """The download takes the place of what was learned since: that must not get lost."""
        since = _difference(state["weights"], state["reference"])
        return {"reference": weights, "residual": _sum(state["residual"], since)}


def add_mean_update(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    if not inbox:
        return state
    weights = task.common_weights if state.weights is None else state.weights
    total = sum(upload.samples for upload in inbox.values())
    for device in sorted(inbox):
        share = np.float32(inbox[device].samples / total)
        weights = tuple(w + share * u for w, u in zip(weights, inbox[device].value, strict=True))
    return replace(state, weights=weights, updates=state.updates + 1)


def _sum(one: Tensors, other: Tensors) -> tuple[NDArray[np.float32], ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _difference(one: Tensors, other: Tensors) -> tuple[NDArray[np.float32], ...]:
    return tuple(a - b for a, b in zip(one, other, strict=True))


LARGEST = replace(
    mix2fld.PROTOCOLS["fl"],
    title="FL, largest",
    uplink=LargestOfUpdate(),
    server_step=add_mean_update,
)

if __name__ == "__main__":
    mix2fld.PROTOCOLS["largest"] = LARGEST
    config = mix2fld.Config.of(
        protocols=("fl", "largest"),
        devices=5,
        local_steps=500,
        rounds=3,
        test_samples=1000,
        link="ideal",
    )
    for result in mix2fld.run(config):
        bits = [info["bits"]["up"] for info in result.rounds]
        print(result.summary["protocol"], bits, result.summary["accuracy"]["global"])
