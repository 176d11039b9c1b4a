"""Who takes part in a round."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config


def draw_participants(
    config: Config, available: Sequence[int], round_number: int, busy: int = 0
) -> tuple[int, ...]:
    """The devices that are asked: all that are available, or so many of them, drawn anew.

    ``busy``: devices that take part already.
    """
    count, devices = max(0, config.participants_per_round - busy), np.sort(as_array(available))
    if count < len(devices):
        rng = stream(config.seed, "participants", round_number)
        chosen = rng.choice(len(devices), size=count, replace=False)
        devices = devices[np.sort(chosen)]
    return tuple(devices.tolist())


def as_array(devices: Sequence[int]) -> NDArray[np.int64]:
    """Device numbers as an array; of a range of very many, without looking at each."""
    if isinstance(devices, range):
        return np.arange(devices.start, devices.stop, devices.step, dtype=np.int64)
    return np.asarray(devices, np.int64)
