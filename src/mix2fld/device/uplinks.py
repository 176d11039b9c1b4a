"""What a device uploads after its local phase, and what it must remember in order to do so.

An uplink picks the value, a payload carries it. Most uplinks remember nothing. One that sends
updates keeps in the device's state what the update is counted from, and what did not fit so far:
it says which entries of the state it needs (``start``), and how they change when an upload was
delivered and when a download replaces the weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from mix2fld.link.payloads import Nothing, Outputs, Payload, Weights
from mix2fld.types import Dimensions, Local, State, Tensors

if TYPE_CHECKING:
    from mix2fld.config import Config


class Turn(NamedTuple):
    """Whose upload of which round: what both ends know of it, e.g. to draw the same numbers."""

    seed: int
    round_number: int
    device: int
    room: int | None = None
    """Bits that the upload may take, told to the device by the server; None: as configured."""


class Uplink(ABC):
    """What a device sends up."""

    payload: Payload
    kind: str = "model"
    """What features are, where it needs them."""

    @property
    def takes_room(self) -> bool:
        """Whether an upload can have more or fewer bits, as the server says."""
        return False

    @property
    def labels_seeds(self) -> bool:
        """Whether it needs the outputs of the trained model for the seeds that a device holds."""
        return False

    @property
    def measures_samples(self) -> bool:
        """Whether it needs the features of the device's own samples."""
        return False

    def measures_now(self, state: State) -> bool:
        """Whether it needs them in this round."""
        del state
        return self.measures_samples

    @property
    def needs_trusted_sum(self) -> bool:
        """Whether somebody between device and server must sum uploads, which is only simulated."""
        return False

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """This uplink with what it takes from the config and the model; most take nothing."""
        del config, dims
        return self

    def start(self, weights: Tensors) -> State:
        """The entries that a device's state begins with, beside its weights."""
        del weights
        return {}

    @abstractmethod
    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """What the payload carries; ``state`` is the device's before its local phase."""

    def read(self, value: Any, turn: Turn) -> Any:
        """What the server takes a decoded value for."""
        del turn
        return value

    def delivered(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The entries that change if the upload is delivered; ``read()`` is what arrives."""
        del state, local, read
        return {}

    def replaced(self, state: State, weights: Tensors) -> State:
        """The entries that change when a download puts ``weights`` in place of the device's."""
        del state, weights
        return {}

    def forgotten(self, state: State) -> State:
        """The entries that change if the device uploaded before, but lost what it knew of it."""
        del state
        return {}


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
class MeanOutputs(Uplink):
    """The average output vectors of Eq. 2."""

    payload: Outputs = field(default_factory=Outputs)

    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """The outputs that the device saw in its local phase."""
        del state, turn
        return local.outputs


@dataclass(frozen=True)
class NoUplink(Uplink):
    """Nothing is sent."""

    payload: Nothing = field(default_factory=Nothing)

    def value(self, state: State, local: Local, turn: Turn) -> None:
        """Nothing."""
        del state, local, turn
