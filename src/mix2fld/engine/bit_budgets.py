"""Bits of an upload or a download, where the protocol leaves a choice."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import LEAST_UPDATE_BITS
from mix2fld.config.settings import Config
from mix2fld.engine.flights import Flight
from mix2fld.engine.scenario import Scenario
from mix2fld.protocols.parts import Arrives
from mix2fld.types import State

NOBODY: dict[int, Flight] = {}
DRAWS = 200
"""Of each forecast, over a link without a closed form."""


def upload_bit_budgets(
    scenario: Scenario, asked: Sequence[int], link: State, flights: Mapping[int, Flight] = NOBODY
) -> dict[int, int]:
    """The most bits of each device that arrive with probability ``delivery_target``.

    All devices that are asked transmit at once, and those that are on their way. One that cannot
    be heard so reliably sends as little as it can. Empty for an uplink that has no choice, and on a
    link that adds, where every upload takes as long.
    """
    if not scenario.wire.protocol.takes_bit_budget or not asked or scenario.link.adds:
        return {}
    devices, target = list(asked), scenario.config.updates.delivery_target

    def arrives(size: NDArray[np.int64]) -> NDArray[np.bool_]:
        bits = np.zeros(scenario.devices, np.int64)
        bits[devices] = 8 * size
        bits[list(flights)] = [flight.size for flight in flights.values()]
        forecast = scenario.link.forecast("uplink", bits, link, draws=DRAWS)
        likely: NDArray[np.bool_] = forecast.probability[devices] >= target
        return likely

    most = scenario.wire.upload_size(with_seeds=False).bits // 8
    low = np.full(len(devices), min(-(-LEAST_UPDATE_BITS // 8), most))
    high = np.full(len(devices), most + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = arrives(middle)
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return dict(zip(devices, (8 * low).tolist(), strict=True))


def download_arrives(scenario: Scenario, audience: Sequence[int], link: State) -> Arrives:
    """Whether half of the listeners or more get so many bits with ``delivery_target``."""
    listeners = list(audience)

    def arrives(size: int) -> bool:
        bits = np.zeros(scenario.devices, np.int64)
        bits[listeners] = size
        forecast = scenario.link.forecast("downlink", bits, link, draws=DRAWS)
        return reaches_half(forecast.probability[listeners], scenario.config)

    return arrives


def reaches_half(probability: NDArray[np.float64], config: Config) -> bool:
    """Whether a multicast that reaches each with this probability is reliable for half or more."""
    return bool(np.median(probability) >= config.updates.delivery_target)
