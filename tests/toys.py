"""The toy dataset and config of ``reliability.toy``, and links that never or sometimes work."""

import numpy as np
from numpy.typing import NDArray
from reliability.toy import LABELS, SIDE, toy_config, toy_dataset

from mix2fld.link import Direction, Memoryless
from mix2fld.types import Delivery

__all__ = ["LABELS", "SIDE", "CoinLink", "DeadDownlink", "DeadLink", "toy_config", "toy_dataset"]


class DeadLink(Memoryless):
    """Every transfer is an outage."""

    slot_seconds = 1e-3
    max_slots = 5

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        """Nothing arrives; a device with nothing to send has no outage."""
        idle = bits == 0
        return Delivery(delivered=idle, slots=np.where(idle, 0, self.max_slots))


class DeadDownlink(DeadLink):
    """Uploads arrive at once, downloads never."""

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        if direction == "downlink":
            return super().deliver(direction, bits, rng)
        return Delivery(np.ones(len(bits), np.bool_), np.zeros(len(bits), np.int64))


class CoinLink(DeadLink):
    """Every transfer arrives or not by the toss of a coin."""

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = (rng.random(len(bits)) < 0.6) | (bits == 0)
        slots = np.where(delivered, rng.integers(1, self.max_slots, len(bits)), self.max_slots)
        return Delivery(delivered, np.where(bits == 0, 0, slots))
