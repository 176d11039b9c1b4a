"""Who takes part in a round."""

from collections.abc import Sequence

import numpy as np

from mix2fld.config import Config
from mix2fld.streams import stream


def draw_participants(
    config: Config, available: Sequence[int], round_number: int
) -> tuple[int, ...]:
    """The devices that are asked: all that are available, or so many of them, drawn anew."""
    count, devices = config.participants_per_round, np.sort(np.asarray(available, np.int64))
    if count < len(devices):
        rng = stream(config.seed[0], "participants", round_number)
        chosen = rng.choice(len(devices), size=count, replace=False)
        devices = devices[np.sort(chosen)]
    return tuple(devices.tolist())
