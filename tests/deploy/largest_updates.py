"""A protocol whose devices remember: the largest entries of the update, with error feedback.

A device keeps its weights as the server knows them. What did not fit into an upload, or was lost
with it, is part of the next update.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs import Encoded, PayloadError, Size
from mix2fld.protocols.parts import Device, Inbox, StepInfo
from mix2fld.protocols.weights import DownloadsWeights
from mix2fld.types import Dimensions, Local, ServerState, State, Tensors

MOST = 200
BYTES = 8


class Entries(NamedTuple):
    """Some entries of all weights in one row."""

    places: NDArray[np.uint32]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class SomeEntries:
    """Up to ``MOST`` entries, 64 bits each: the size depends on the value."""

    name: str = "entries"

    def size(self, dims: Dimensions) -> Size:
        del dims
        return Size(8 * BYTES * MOST, exact=False)

    def encode(self, value: Entries, dims: Dimensions) -> Encoded:
        del dims
        data = value.places.astype("<u4").tobytes() + value.values.astype("<f4").tobytes()
        return Encoded(data, 8 * len(data))

    def decode(self, data: bytes, dims: Dimensions) -> Entries:
        if len(data) % BYTES or len(data) > BYTES * MOST:
            raise PayloadError(f"{self.name}: {len(data)} bytes")
        count = len(data) // BYTES
        places = np.frombuffer(data[: 4 * count], "<u4").astype(np.uint32)
        values = np.frombuffer(data[4 * count :], "<f4").astype(np.float32)
        if np.any(places >= dims.num_weights) or not np.isfinite(values).all():
            raise PayloadError(f"{self.name}: a place or a value is wrong")
        return Entries(places, values)


@dataclass(frozen=True, kw_only=True)
class LargestUpdates(DownloadsWeights):
    """The entries that changed most since the server last heard of them."""

    title: str = "largest updates"

    @property
    def upload_codec(self) -> SomeEntries:
        return SomeEntries()

    def start(self, weights: Tensors) -> State:
        return {"known": weights}

    def upload(self, device: Device, local: Local) -> Entries:
        own, known = (
            np.concatenate(part, axis=None) for part in (local.weights, device.state["known"])
        )
        update = own - known
        size = np.abs(update)
        wanted = np.flatnonzero(size > size.max() / 4)
        places = wanted[np.argsort(-size[wanted], kind="stable")][:MOST]
        return Entries(places.astype(np.uint32), update[places])

    def on_acknowledged(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        del local
        return {"known": added(state["known"], [read()], 1)}

    def on_download(self, state: State, weights: Tensors) -> State:
        """What the server does not know yet is kept as the difference to the new weights."""
        parts = zip(weights, state["weights"], state["known"], strict=True)
        return {"known": tuple(new - (old - known) for new, old, known in parts)}

    @property
    def server_words(self) -> str:
        return "The server adds the mean of the entries that arrived."

    def step(
        self, server: ServerState, inbox: Inbox, round_number: int
    ) -> tuple[ServerState, StepInfo]:
        """The mean update, added to the global model; the server too remembers something."""
        del round_number
        if not inbox:
            return server, StepInfo()
        last, devices = self.global_model(server), self.learning.config.data.devices
        weights = added(last, [inbox[device].value for device in sorted(inbox)], len(inbox))
        heard = server.memory.get("heard", np.zeros(devices, np.int64)).copy()
        heard[sorted(inbox)] += 1
        return replace(
            server, weights=weights, updates=server.updates + 1, memory={"heard": heard}
        ), StepInfo()


def added(tensors: Tensors, updates: list[Entries], share: int) -> Tensors:
    row = np.concatenate(tensors, axis=None).astype(np.float64)
    for places, values in updates:
        row[places] += values.astype(np.float64) / share
    ends = np.cumsum([tensor.size for tensor in tensors])[:-1]
    return tuple(
        part.reshape(tensor.shape).astype(np.float32)
        for part, tensor in zip(np.split(row, ends), tensors, strict=True)
    )


LARGEST = LargestUpdates()
