"""FL: weights up, their mean down."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from mix2fld.base.errors import InputError
from mix2fld.codecs import Weights
from mix2fld.protocols.aggregation.aggregate import combine_weights
from mix2fld.protocols.base import (
    Downlink,
    Inbox,
    Protocol,
    StepInfo,
    Turn,
    Uplink,
    named,
    server_step,
)
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss
from mix2fld.types import Dimensions, Local, SeedSet, ServerState, State, Tensors

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


@dataclass(frozen=True)
class TrainedWeights(Uplink):
    """The device's weights."""

    bits_per_weight: int = 32

    @property
    def payload(self) -> Weights:  # type: ignore[override]
        """The weights, rounded or in full precision."""
        return Weights(self.bits_per_weight)

    def value(self, state: State, local: Local, turn: Turn) -> Tensors:
        """The weights at the end of the local phase."""
        del state, turn
        return local.weights


@dataclass(frozen=True)
class GlobalWeights(Downlink):
    """The global model, which takes the place of the device's."""

    payload: Weights = field(default_factory=Weights)

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the bits of a weight."""
        del dims
        return replace(self, payload=Weights(config.updates.downlink_bits))

    def value(self, server: ServerState) -> Any:
        """The server's model."""
        return server.weights

    def received(self, value: Any) -> State:
        """New weights."""
        return {"weights": value}


@server_step("The server averages the weights that arrived.")
def average_weights(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """FL: the global model is the mean of the delivered ones, or what the defence makes of them."""
    del seeds, round_number
    if not inbox:
        return state, StepInfo()
    weights = combine_weights(inbox, last_model(state, learning), learning.config.defence)
    return replace(state, weights=weights, updates=state.updates + 1), StepInfo()


def last_model(state: ServerState, learning: Learning) -> Tensors | None:
    """The model that devices started from, if it is one and the same."""
    common = learning.config.learning.initial_weights != "independent"
    return learning.common_weights if state.weights is None and common else state.weights


def in_bits(row: Protocol, bits: str) -> Protocol:
    """FL whose uploads have so many bits for each weight."""
    known = ("32", *map(str, range(2, 17)))
    if bits not in known:
        raise InputError(f"protocols = fl:bits={bits}: must be 32, or from 2 to 16")
    return replace(row, uplink=TrainedWeights(int(bits)))


FL = Protocol(
    "FL", label_loss, TrainedWeights(), None, average_weights, GlobalWeights(),
    parameters={"bits": in_bits, **named("downlink_bits")}, colour="#0072b2",
)  # fmt: skip
FL_8_BIT = replace(FL, title="FL 8-bit", uplink=TrainedWeights(8), colour="#56b4e9", line="--")
FL_4_BIT = replace(FL, title="FL 4-bit", uplink=TrainedWeights(4), colour="#56b4e9", line=":")
