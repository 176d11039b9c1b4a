"""Near and far devices: what distance does to a device's model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import Mix2fldError
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.links import make_link


def distances_m(config: Config) -> NDArray[np.float64] | None:
    """How far each device of a run is from the server; None where all are equally far."""
    if config.channel.link != "cell":
        return None
    try:
        state = make_link(config, config.data.devices).start(
            config.data.devices, stream(config.seed, "link")
        )
    except Mix2fldError:
        return None
    distances: NDArray[np.float64] = state.get("link", state)["distance_m"]
    return distances if np.ptp(distances) > 0 else None


def near_and_far(config: Config, scores: dict[str, Any]) -> dict[str, float]:
    """Mean score of the nearer and of the farther half of the devices that were measured."""
    distances = distances_m(config)
    if distances is None:
        return {}
    known = [
        (device, value)
        for device, value in zip(scores["measured"], scores["devices"], strict=True)
        if value is not None
    ]
    if len(known) < 2:
        return {}
    by_distance = [value for _, value in sorted(known, key=lambda one: distances[one[0]])]
    half = len(by_distance) // 2
    return {
        "near": float(np.mean(by_distance[:half])),
        "far": float(np.mean(by_distance[-half:])),
    }
