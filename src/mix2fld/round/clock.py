"""Simulated seconds. Communication and computing are kept apart; neither is ever wall time."""

from dataclasses import dataclass

import numpy as np

from mix2fld.config import ClockConfig
from mix2fld.link import Link
from mix2fld.types import Delivery


@dataclass(frozen=True)
class Clock:
    """Seconds since the start of a run."""

    communication: float = 0.0
    computing: float = 0.0

    def after(self, *, communication: float = 0.0, computing: float = 0.0) -> "Clock":
        """The clock when that much more has passed."""
        return Clock(self.communication + communication, self.computing + computing)


def transfer_seconds(link: Link, delivery: Delivery) -> float:
    """Time of one direction of a synchronous round: that of the slowest device (decision 13).

    An outage lasts the whole T_max slots.
    """
    return float(np.max(delivery.slots, initial=0)) * link.slot_seconds


def computing_seconds(config: ClockConfig, step_us: float, steps: int, measured: float) -> float:
    """Time of that many SGD steps: as stated, or as measured on this machine."""
    return measured if config.computing_time == "measured" else steps * step_us * 1e-6
