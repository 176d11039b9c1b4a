"""Transfers over the link: what was carried in a round, and what of it arrived."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.engine.scenario import Scenario
from mix2fld.links import Direction, check_delivery
from mix2fld.types import Delivery, State


class Transfer(NamedTuple):
    """One direction of a round, by device [D]."""

    bits: NDArray[np.int64]
    """Bits that were carried, 0 of a device that had nothing to send or receive."""
    arrived: NDArray[np.bool_]
    slots: NDArray[np.float64]
    """Slots from the first to the last, of a transfer that ended."""
    on_air: NDArray[np.float64]
    """Slots in which each device sent or received."""
    attempts: int

    @classmethod
    def of(cls, bits: NDArray[np.int64], delivery: Delivery) -> "Transfer":
        """A delivery of these bits."""
        slots = delivery.slots.astype(np.float64)
        on_air = slots if delivery.on_air is None else delivery.on_air
        arrived = delivery.delivered & (bits > 0)
        return cls(bits, arrived, slots, on_air, int(np.count_nonzero(bits)))

    def only(self, devices: Collection[int]) -> "Transfer":
        """The transfer as it was taken at its other end: nothing was, but by ``devices``."""
        taken = np.zeros(len(self.bits), np.bool_)
        taken[list(devices)] = True
        return self._replace(arrived=self.arrived & taken)


def transmit(
    scenario: Scenario,
    direction: Direction,
    bits: NDArray[np.int64],
    number: int,
    link: State,
    draw: int = 0,
) -> tuple[Delivery, State]:
    """Send over the link, with the draws of this round, or with others of the same round."""
    if direction == "uplink" and scenario.link.adds:
        bits = np.where(bits > 0, scenario.wire.protocol.values, 0)
    rng = stream(scenario.learning.seed, direction, number, *([draw] if draw else []))
    delivery, link = scenario.link.transmit(direction, bits, rng, link)
    return check_delivery(scenario.link, delivery, len(bits)), link
