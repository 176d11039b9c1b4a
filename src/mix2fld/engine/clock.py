"""Simulated seconds. Communication and computing are kept apart; neither is ever wall time."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.config.settings import ClockConfig, Config


@dataclass(frozen=True)
class Clock:
    """Seconds since the start of a run."""

    communication: float = 0.0
    computing: float = 0.0

    @property
    def seconds(self) -> float:
        """Communication and computing together."""
        return self.communication + self.computing

    def after(self, *, communication: float = 0.0, computing: float = 0.0) -> "Clock":
        """The clock when that much more has passed."""
        return Clock(self.communication + communication, self.computing + computing)


class Slowest(NamedTuple):
    """The device that a round's local phase waited for (decision 13)."""

    device: int | None  # None in a round in which no device could be asked
    seconds: float


def device_step_us(config: Config) -> NDArray[np.float64]:
    """Stated time of one SGD step on each device [D], the same through the whole run."""
    devices, clock = config.data.devices, config.clock
    stated = np.full(devices, clock.device_step_us, np.float64)
    if not clock.device_step_spread:
        return stated
    drawn = stream(config.seed, "device speeds").standard_normal(devices)
    return stated * np.exp(clock.device_step_spread * drawn)


def computing_seconds(config: ClockConfig, step_us: float, steps: int, measured: float) -> float:
    """Time of that many SGD steps: as stated, or as measured on this machine."""
    return measured if config.computing_time == "measured" else steps * step_us * 1e-6
