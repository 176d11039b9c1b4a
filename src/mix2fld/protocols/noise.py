"""What protocols with noise promise about the samples of a device, and where the noise comes from.

In a simulation it follows from the run's seed, as every draw does. A device of a deployment also
has a key of its own, drawn from its operating system and never sent: who knows the run's seed does
not know the noise.
"""

import secrets
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.accounting import Guarantee, noise_multiplier
from mix2fld.base.streams import stream
from mix2fld.protocols.parts import Turn
from mix2fld.types import State

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

SAMPLE = "one sample of a device with its label, replaced by any other"
EVERYTHING = "all samples of a device, replaced by any others"
COUNTED = "how many samples a device holds, and that it takes part"
PARTS_OF_STATISTICS = 2

NOISE_KEY = "noise_key"
"""The entry of a device's state, in every row that adds noise."""
NO_KEY = np.zeros(4, np.uint32)


def noise_stream(turn: Turn, key: NDArray[np.uint32], number: int) -> np.random.Generator:
    """The noise of an upload; the same number returns the same noise."""
    return stream(turn.seed, "privacy-noise", turn.device, number, *key.tolist())


def with_secret_noise(state: State) -> State:
    """A device of a deployment: its key, if it needs one, is nobody else's."""
    if NOISE_KEY not in state:
        return state
    return {**state, NOISE_KEY: np.frombuffer(secrets.token_bytes(16), np.uint32)}


def of_local_noise(config: "Config") -> Guarantee:
    """Class sums with counts, and a scatter, with noise by the device itself."""
    return _guarantee(config, PARTS_OF_STATISTICS, SAMPLE, "the device itself")


def of_trusted_sum(config: "Config") -> Guarantee:
    """The same, with noise on the sum over devices."""
    summed_by = "a trusted party that shows sums over devices only (simulated)"
    return _guarantee(config, PARTS_OF_STATISTICS, SAMPLE, summed_by)


def of_updates(config: "Config") -> Guarantee:
    """Clipped updates, with noise by the device itself."""
    return _guarantee(config, updates_of_a_device(config), EVERYTHING, "the device itself")


def updates_of_a_device(config: "Config") -> int:
    """How many updates a device uploads at most."""
    return config.rounds // config.updates.upload_every


def _guarantee(config: "Config", uploads: int, protects: str, noise_by: str) -> Guarantee:
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    multiplier = noise_multiplier(epsilon, delta)
    return Guarantee(epsilon, delta, uploads, multiplier, protects, COUNTED, noise_by)
