"""FL: weights up, their mean down."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs import Payload, Weights, flatten_tensors, unflatten_tensors
from mix2fld.protocols.aggregation.aggregate import combine_weights
from mix2fld.protocols.base import Protocol, ValueGrid
from mix2fld.protocols.parts import (
    Device,
    Inbox,
    StepInfo,
    Stepped,
    Turn,
    of_devices,
    parameter,
    setting,
)
from mix2fld.types import Local, ServerState, State, Tensors

BITS = (32, *range(2, 17))


@dataclass(frozen=True, kw_only=True)
class DownloadsWeights(Protocol):
    """The global model comes down and takes the place of the device's."""

    downlinks: ClassVar[tuple[str, ...]] = ("weights", "auto", "coded")
    downlink: str = setting("updates.downlink", "default")
    downlink_step_bits: str | int = setting("updates.downlink_step_bits", "auto")
    downlink_bits: int = setting("updates.downlink_bits", 32)

    @property
    def download_codec(self) -> Payload:
        return Weights(self.downlink_bits)

    def download(self, server: ServerState) -> Any:
        return server.weights

    def received(self, value: Any) -> State:
        return {"weights": value}

    def global_model(self, server: ServerState) -> Tensors:
        """The server's model; before the first, the one that all devices begin with."""
        return self.learning.common_weights if server.weights is None else server.weights

    def last_row(self, server: ServerState) -> NDArray[np.float64]:
        return flatten_tensors(self.global_model(server), self.dims).astype(np.float64)

    def from_row(self, row: NDArray[np.float64], server: ServerState) -> Local:
        return Local(unflatten_tensors(row.astype(np.float32), self.dims), no_outputs(self))


@dataclass(frozen=True, kw_only=True)
class FL(DownloadsWeights):
    """Federated averaging."""

    upload_kind = "weights"
    late_uploads = "mixed"
    sums = adds_codes = True
    downlinks: ClassVar[tuple[str, ...]] = ("weights", "auto", "relay", "coded")
    title: str = "FL"
    colour: str = "#0072b2"
    bits: int = parameter(32)
    """Of a weight in an upload: 32, or from 2 to 16."""

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise InputError(
                field="protocols", value=f"fl:bits={self.bits}", hint="must be 32, or from 2 to 16"
            )

    @property
    def upload_codec(self) -> Weights:
        return Weights(self.bits)

    def upload(self, device: Device, local: Local) -> Tensors:
        return local.weights

    server_words = "The server averages the weights that arrived."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """The mean of the delivered weights, or what the defence makes of them."""
        if not inbox:
            return server, StepInfo()
        config = self.config
        begun = server.weights
        if begun is None and config.learning.initial_weights != "independent":
            begun = self.learning.common_weights
        weights = combine_weights(inbox, begun, config.defence)
        did = StepInfo(words=f"averaged the weights of {of_devices(inbox)}")
        return replace(server, weights=weights, updates=server.updates + 1), did

    def from_signal(self, mean: NDArray[np.float32], turn: Turn) -> Tensors:
        return unflatten_tensors(mean, self.dims)

    @property
    def grid(self) -> ValueGrid:
        """In no more bits than an upload has."""
        privacy = self.config.privacy
        largest = (1 << (min(self.bits, privacy.sum_bits) - 1)) - 1
        return ValueGrid(privacy.sum_range / largest, largest)

    def to_add(self, value: Any) -> tuple[int, NDArray[np.float32]]:
        return 0, flatten_tensors(value, self.dims)

    def as_row(self, value: Any, server: ServerState) -> NDArray[np.float64]:
        return flatten_tensors(value, self.dims).astype(np.float64)


def no_outputs(protocol: Protocol) -> NDArray[np.float32]:
    """Mean outputs of a device that drew no sample of any group."""
    return np.zeros(protocol.dims.teacher_shape, np.float32)
