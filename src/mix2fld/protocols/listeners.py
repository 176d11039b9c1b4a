"""How many steps those who listen to a multicast have missed, before anything runs."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.protocols.lateness import Lateness

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


def steps_missed(config: "Config", policy: Lateness) -> NDArray[np.float64]:
    """Chance of 1, 2, ... steps that the listener who has been away longest lacks: [K].

    Mean over rounds, over a link that loses nothing. Where the server does not wait, a device that
    ends its turn lacks the steps that all others were waited for.
    """
    asked, devices = config.participants_per_round, config.data.devices
    if policy.uses_late:
        steps = math.ceil(asked / min(asked, policy.enough(asked)))
        return np.eye(steps)[-1]
    if config.availability.listeners != "participants" or asked == devices:
        return np.ones(1)
    rounds = config.rounds
    counts = np.arange(1, rounds + 1)
    within = (1 - (1 - asked / devices) ** (counts + 1)) ** asked  # that none lacks more
    reached = np.where(counts >= counts[:, None], 1.0, within)  # [round, steps]: no more than made
    chances: NDArray[np.float64] = np.diff(reached, axis=1, prepend=0).mean(axis=0)
    return chances
