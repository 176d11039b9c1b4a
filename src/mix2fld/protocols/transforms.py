"""What may stand between an update and its codec; each has both halves, and they compose.

An update passes them in their order, on the device; what the server reads of it passes them in the
reverse order. ``Murmur().with_(ErrorFeedback())`` is Murmur with error feedback.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.accounting import noise_multiplier, shares
from mix2fld.codecs import flatten_tensors
from mix2fld.protocols.parts import (
    NO_KEY,
    NOISE_KEY,
    Device,
    Parameters,
    Promise,
    noise_stream,
    of_updates,
    setting,
    updates_of_a_device,
)
from mix2fld.tensors import minus, plus, zeros
from mix2fld.types import Dimensions, Local, State, Tensors, Update

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Transform(Parameters):
    """Passes an update on as it is."""

    @property
    def promise(self) -> Promise | None:
        """What updates that passed it guarantee about the samples of a device; None: nothing."""
        return None

    def start(self, weights: Tensors) -> State:
        """The entries that a device's state begins with."""
        return {}

    def due(self, state: State, update: Tensors) -> Tensors:
        """What the device has to say, if this is what its weights moved by."""
        return update

    def apply(self, update: Floats, device: Device, config: "Config") -> Floats:
        """What a codec is given of an update in one row [N_mod]."""
        return update

    def read(self, update: Update) -> Update:
        """What the server takes a decoded update for."""
        return update

    def on_acknowledged(self, local: Local, due: Tensors, read: Callable[[], Any]) -> State:
        """The entries that change if the upload is delivered; ``read()`` is what arrives."""
        return {}

    def on_download(self, due: Tensors) -> State:
        """The entries that change when a download replaces weights that ``due`` tells of."""
        return {}


@dataclass(frozen=True, kw_only=True)
class ErrorFeedback(Transform):
    """Nothing is sent twice and nothing gets lost (Seide et al., 2014; Karimireddy et al., 2019).

    What a codec leaves out, or a download replaced before the server heard of it, is added to the
    next update, which is relative to the last delivered upload.
    """

    def start(self, weights: Tensors) -> State:
        return {"residual": zeros(weights)}

    def due(self, state: State, update: Tensors) -> Tensors:
        return plus(update, state["residual"])

    def on_acknowledged(self, local: Local, due: Tensors, read: Callable[[], Any]) -> State:
        return {"base": local.weights, "residual": minus(due, read().tensors)}

    def on_download(self, due: Tensors) -> State:
        return {"residual": due}


@dataclass(frozen=True, kw_only=True)
class ClippedNoise(Transform):
    """Updates that keep a privacy budget (DP-FedAvg): clipped, and with noise, before any codec.

    Two updates of a device are at most 2 C apart, whatever its samples are, so the budget is one of
    everything that it holds. What a codec does with the noisy update tells nothing more. All
    rounds of the run use the budget, whether their uploads are delivered or not.
    """

    epsilon: float = setting("privacy.epsilon", 8.0)
    delta: float = setting("privacy.delta", 1e-5)
    update_clip: float = setting("privacy.update_clip", 1.0)  # C

    @property
    def promise(self) -> Promise:
        return of_updates

    def start(self, weights: Tensors) -> State:
        """With the key of its noise, which a deployment draws."""
        return {NOISE_KEY: NO_KEY}

    def deviation(self, config: "Config") -> float:
        """Of the noise that the budget asks for."""
        uploads = max(1, updates_of_a_device(config))
        return 2 * self.update_clip * _noise_of_each(self.epsilon, self.delta, uploads)

    def apply(self, update: Floats, device: Device, config: "Config") -> Floats:
        """The clipped update with noise."""
        own = update.astype(np.float64)
        own *= min(1.0, self.update_clip / max(float(np.linalg.norm(own)), 1e-12))
        rng = noise_stream(device.turn, device.state[NOISE_KEY], device.turn.round_number)
        return (own + self.deviation(config) * rng.normal(size=own.shape)).astype(np.float32)

    def read(self, update: Update) -> Update:
        """The noisy update; the one behind it is no longer than the clip, so no step need be."""
        groups = [one._replace(norm=min(one.norm, self.update_clip)) for one in update.groups]
        return update._replace(groups=tuple(groups))


@cache
def _noise_of_each(epsilon: float, delta: float, uploads: int) -> float:
    """The noise multiplier of one of so many uploads that share a budget."""
    (each,) = shares(noise_multiplier(epsilon, delta), 1 / uploads)
    return each


@dataclass(frozen=True)
class Chain:
    """Transforms one after the other."""

    parts: tuple[Transform, ...] = ()

    def start(self, weights: Tensors) -> State:
        """The entries of all."""
        return {name: value for part in self.parts for name, value in part.start(weights).items()}

    def due(self, state: State, weights: Tensors) -> Tensors:
        """What the server should hear of weights: their distance from the base, and what is due."""
        update = minus(weights, state["base"])
        for part in self.parts:
            update = part.due(state, update)
        return update

    def apply(self, local: Local, device: Device, config: "Config", dims: Dimensions) -> Floats:
        """What a codec is given of what a device trained."""
        row = flatten_tensors(self.due(device.state, local.weights), dims)
        for part in self.parts:
            row = part.apply(row, device, config)
        return row

    def read(self, update: Update) -> Update:
        """What the server takes a decoded update for."""
        for part in reversed(self.parts):
            update = part.read(update)
        return update

    def on_acknowledged(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The entries that change if the upload is delivered."""
        changes = [
            part.on_acknowledged(local, self.due(state, local.weights), read) for part in self.parts
        ]
        return {name: value for each in changes for name, value in each.items()}

    def on_download(self, state: State) -> State:
        """The entries that change when a download replaces a device's weights."""
        changes = [part.on_download(self.due(state, state["weights"])) for part in self.parts]
        return {name: value for each in changes for name, value in each.items()}
