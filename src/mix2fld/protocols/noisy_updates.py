"""Updates with noise, which keep a privacy budget: DP-FL and DP-Murmur."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mix2fld.base.accounting import noise_multiplier, shares
from mix2fld.codecs import flatten_tensors
from mix2fld.protocols.guarantees import of_updates, updates_of_a_device
from mix2fld.protocols.noise import NO_KEY, NOISE_KEY, noise_stream
from mix2fld.protocols.parts import Device, Promise, Turn, setting
from mix2fld.protocols.updates import EDEN, Line, Murmur, Updates, adjusted, wanted
from mix2fld.tasks.training import Training
from mix2fld.types import Local, State, Tensors, Update


@dataclass(frozen=True, kw_only=True)
class Noisy(Updates):
    """Updates that keep a privacy budget (DP-FedAvg): clipped, and with noise, before any codec.

    Two updates of a device are at most 2 C apart, whatever its samples are, so the budget is one of
    everything that it holds. What a codec does with the noisy update tells nothing more. All
    rounds of the run use the budget, whether their uploads are delivered or not.
    """

    training: Training = adjusted
    promise: Promise | None = of_updates
    epsilon: float = setting("privacy.epsilon", 8.0)
    delta: float = setting("privacy.delta", 1e-5)
    update_clip: float = setting("privacy.update_clip", 1.0)  # C

    @cached_property
    def deviation(self) -> float:
        """Of the noise that the budget asks for."""
        multiplier = noise_multiplier(self.epsilon, self.delta)
        uploads = max(1, updates_of_a_device(self.learning.config))
        (each,) = shares(multiplier, 1 / uploads)
        return 2 * self.update_clip * each

    def start(self, weights: Tensors) -> State:
        """With the key of its noise, which a deployment draws."""
        return {**super().start(weights), NOISE_KEY: NO_KEY}

    def upload(self, device: Device, local: Local) -> Any:
        """The codes of the clipped update with noise."""
        update = flatten_tensors(wanted(device.state, local.weights), self.dims).astype(np.float64)
        update *= min(1.0, self.update_clip / max(float(np.linalg.norm(update)), 1e-12))
        rng = noise_stream(device.turn, device.state[NOISE_KEY], device.turn.round_number)
        noisy = (update + self.deviation * rng.normal(size=update.shape)).astype(np.float32)
        return self.compress(noisy, device.turn)

    def read(self, value: Any, turn: Turn) -> Update:
        """The noisy update; the one behind it is no longer than the clip, so no step need be."""
        found = super().read(value, turn)
        groups = [one._replace(norm=min(one.norm, self.update_clip)) for one in found.groups]
        return found._replace(groups=tuple(groups))


@dataclass(frozen=True, kw_only=True)
class DPFL(Noisy, EDEN):
    """Noisy updates in EDEN's bits."""

    title: str = "DP-FL"
    colour: str = "#117733"
    line: Line = "-"


@dataclass(frozen=True, kw_only=True)
class DPMurmur(Noisy, Murmur):
    """Noisy updates in Murmur's bits."""

    title: str = "DP-Murmur"
    colour: str = "#117733"
    line: Line = "--"
    training: Training = adjusted
