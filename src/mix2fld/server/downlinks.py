"""What the server multicasts after its step, and what a device does with it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mix2fld.learning.private_statistics import MEANS
from mix2fld.learning.sample_features import FEATURE_KINDS
from mix2fld.link.payloads import Nothing, Outputs, Payload, Weights, WeightsWithMeans
from mix2fld.types import Dimensions, ServerState, State

if TYPE_CHECKING:
    from mix2fld.config import Config

Arrives = Callable[[int], bool]
"""Whether so many bits can be expected to reach those who listen."""


class Downlink(ABC):
    """What the server sends down."""

    payload: Payload
    same_for_all: ClassVar[bool] = True
    """Whether a value depends on the server alone, not on who listens."""

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """This downlink with what it takes from the config and the model; most take nothing."""
        del config, dims
        return self

    def start(self, dims: Dimensions) -> State:
        """The entries that a device's state begins with, beside its weights."""
        del dims
        return {}

    @abstractmethod
    def value(self, server: ServerState) -> Any:
        """What the payload carries."""

    def value_for(self, server: ServerState, audience: Sequence[int], arrives: Arrives) -> Any:
        """What the payload carries to these listeners; most carry the same to everyone."""
        del audience, arrives
        return self.value(server)

    @abstractmethod
    def received(self, value: Any) -> State:
        """The entries of a device's state that a decoded value replaces."""

    def heard(self, server: ServerState, receivers: Collection[int], value: Any) -> State:
        """The entries of the server's memory that change when these devices received a value."""
        del server, receivers, value
        return {}


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


@dataclass(frozen=True)
class WeightsAndMeans(Downlink):
    """The global model, and the class means that the scatter of devices is counted from."""

    payload: WeightsWithMeans = field(default_factory=lambda: WeightsWithMeans(1))
    kind: str = "model"
    """What the means are of."""

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the number of features and the bits of a weight."""
        features = FEATURE_KINDS[self.kind].features(dims, config.statistics.feature_side)
        weights = Weights(config.updates.downlink_bits)
        return replace(self, payload=WeightsWithMeans(features, weights))

    def start(self, dims: Dimensions) -> State:
        """No means are known: zeros."""
        return {MEANS: np.zeros((dims.num_labels, self.payload.features), np.float32)}

    def value(self, server: ServerState) -> Any:
        """The server's model, and its means."""
        return server.weights, (server.memory[MEANS],)

    def received(self, value: Any) -> State:
        """New weights, and means."""
        weights, (means,) = value
        return {"weights": weights, MEANS: means}


@dataclass(frozen=True)
class GlobalOutputs(Downlink):
    """The global outputs, which teach the device in its next local phase."""

    payload: Outputs = field(default_factory=lambda: Outputs(partial_rows=True))

    def start(self, dims: Dimensions) -> State:
        """No outputs are known: zero rows."""
        return {"teacher": np.zeros((dims.num_labels, dims.num_labels), np.float32)}

    def value(self, server: ServerState) -> Any:
        """The mean outputs."""
        return server.outputs

    def received(self, value: Any) -> State:
        """A new teacher."""
        return {"teacher": value}


@dataclass(frozen=True)
class NoDownlink(Downlink):
    """Nothing is sent."""

    payload: Nothing = field(default_factory=Nothing)

    def value(self, server: ServerState) -> None:
        """Nothing."""
        del server

    def received(self, value: Any) -> State:
        """Nothing changes."""
        del value
        return {}
