"""Where the noise of private uploads comes from.

In a simulation it follows from the run's seed, as every draw does. A device of a deployment also
has a key of its own, drawn from its operating system and never sent: who knows the run's seed does
not know the noise.
"""

import secrets

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.protocols.parts import Turn
from mix2fld.types import State

NOISE_KEY = "noise_key"
"""The entry of a device's state, in every row that adds noise."""
NO_KEY = np.zeros(4, np.uint32)


def noise_stream(turn: Turn, key: NDArray[np.uint32], number: int) -> np.random.Generator:
    """The noise of one upload; of one that is sent again, the same number gives the same."""
    return stream(turn.seed, "privacy-noise", turn.device, number, *key.tolist())


def with_secret_noise(state: State) -> State:
    """A device of a deployment: its key, if it needs one, is nobody else's."""
    if NOISE_KEY not in state:
        return state
    return {**state, NOISE_KEY: np.frombuffer(secrets.token_bytes(16), np.uint32)}
