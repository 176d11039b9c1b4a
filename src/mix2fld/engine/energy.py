"""Joules of a device: what its radio and its processor draw, times how long.

While a device neither sends, receives nor computes, it waits for the round to end, at its idle
power.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.config.settings import Config

Floats = NDArray[np.float64]
JOULES_PER_WH = 3600.0


class Spent(NamedTuple):
    """Joules of each device, [D], by what they were spent on."""

    transmit: Floats
    receive: Floats
    computing: Floats
    idle: Floats

    @property
    def total(self) -> Floats:
        """Joules of each device, all parts together."""
        return self.transmit + self.receive + self.computing + self.idle


class Busy(NamedTuple):
    """Seconds of each device, [D], by what it did."""

    sending: Floats
    receiving: Floats
    computing: Floats

    def rest_of(self, seconds: float | Floats) -> Floats:
        """What is left of so many seconds."""
        active = self.sending + self.receiving + self.computing
        with np.errstate(invalid="ignore"):  # an endless round is refused when it is recorded
            return np.maximum(seconds - active, 0.0)


@dataclass(frozen=True)
class Power:
    """What a device draws, in watts."""

    transmit: float
    receive: float
    computing: float
    idle: float
    battery_joules: float

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Transmit power over the efficiency of the amplifier, and what the rest draws."""
        energy = config.energy
        radiated = 10 ** ((config.channel.uplink_power_dbm - 30) / 10)
        return cls(
            transmit=radiated / energy.amplifier_efficiency + energy.transmit_circuit_w,
            receive=energy.receive_w,
            computing=energy.computing_w,
            idle=energy.idle_w,
            battery_joules=energy.battery_wh * JOULES_PER_WH,
        )

    def spent(self, busy: Busy, seconds: float | Floats) -> Spent:
        """Energy of devices that were busy for a part of so many seconds."""
        return Spent(
            transmit=self.transmit * busy.sending,
            receive=self.receive * busy.receiving,
            computing=self.computing * busy.computing,
            idle=self.idle * busy.rest_of(seconds),
        )

    def rounds_of_battery(self, joules_per_round: float) -> float | None:
        """Rounds until a full battery is empty; None if a round costs nothing."""
        return self.battery_joules / joules_per_round if joules_per_round > 0 else None
