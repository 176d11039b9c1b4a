"""Over-the-air computation: devices transmit values at once, and the channel adds them.

Each device inverts its own fading, so that all signals arrive at one level, and is silent in a
slot in which its channel is poor (truncated channel inversion; Zhu, Wang and Huang, 2020). The
uplink takes as many channel uses as one upload has values, however many devices there are. Where
the paper's link is Rayleigh with one draw for each device and slot, so is this one.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import ChannelConfig
from mix2fld.links.budget import Bits, Direction
from mix2fld.links.channels.channel import Memoryless
from mix2fld.links.channels.rayleigh import RayleighLink
from mix2fld.types import Delivery

CONTROL_BITS = 32
"""In which a device says how strong its signal is, and the server which scale all use."""
PILOTS = 100
"""Uses of a slot in which devices transmit their weights alone: how much of the fleet is heard."""
HEARD = 3.0
"""Deviations of its noise by which the pilots' sum must exceed zero."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AirLink(Memoryless):
    """Analog uploads that add up; digital downloads, and digital control before each upload."""

    digital: RayleighLink
    truncation: float
    """Channel gain below which a device is silent, g_th."""
    adds = True

    @classmethod
    def from_config(cls, config: ChannelConfig, devices: int) -> Self:
        """The paper's radio; all devices use the whole uplink together."""
        found = cls(RayleighLink.from_config(config, devices), config.air_truncation)
        if found.values_per_slot < 1:
            raise InputError(
                field="slot_ms",
                value=f"{config.slot_ms:g}",
                hint=f"a slot has {found.uses_per_slot} channel uses, and link = air needs "
                f"{PILOTS} of them for pilots; must be longer, or the band wider",
            )
        return found

    @property
    def slot_seconds(self) -> float:  # type: ignore[override]
        return self.digital.slot_seconds

    @property
    def max_slots(self) -> int:  # type: ignore[override]
        return self.digital.max_slots

    @property
    def uses_per_slot(self) -> int:
        """Complex channel uses of a slot, tau W N_ch."""
        return math.floor(self.slot_seconds * self.digital.uplink.bandwidth_hz + 1e-9)

    @property
    def values_per_slot(self) -> int:
        """Two real values in each use that is no pilot."""
        return 2 * (self.uses_per_slot - PILOTS)

    @cached_property
    def snr(self) -> float:
        """Of one device at the server, rho r^-alpha / (W N_0).

        With power rho / h where h >= g_th, and none elsewhere, the mean power is rho E_1(g_th):
        that of the paper's transmitters.
        """
        from scipy.special import exp1

        return self.digital.radio("uplink", 1).mean_snr / float(exp1(self.truncation))

    def deliver(self, direction: Direction, bits: Bits, rng: np.random.Generator) -> Delivery:
        """A download as on the paper's link; of an upload, ``bits`` are its values.

        Control first, both ways, by the digital link: who does not hear the scale stays silent.
        """
        if direction == "downlink":
            return self.digital.deliver(direction, bits, rng)
        sending = bits > 0
        told = self.digital.deliver("uplink", sending * CONTROL_BITS, rng)
        ready = sending & told.delivered
        heard = self.digital.deliver("downlink", ready * CONTROL_BITS, rng)
        ready &= heard.delivered
        analog = -(-int(bits.max(initial=0)) // self.values_per_slot)
        begun = int(told.slots.max(initial=0)) + int(heard.slots.max(initial=0))
        ready &= begun + analog <= self.max_slots
        slots = np.where(ready, begun + analog, np.where(sending, self.max_slots, 0))
        on_air = np.minimum(told.slots + np.where(ready, analog, 0), slots).astype(np.float64)
        return Delivery(ready | ~sending, slots, on_air)

    def superpose(
        self, signals: Floats, weights: Floats, rng: np.random.Generator
    ) -> Floats | None:
        shares = weights / weights.max()
        scaled = signals * shares[:, None]
        scale = math.sqrt(float(np.max(np.mean(scaled**2, axis=1))))
        deviation, mean = 1 / math.sqrt(self.snr), np.empty(signals.shape[1])
        for start in range(0, signals.shape[1], self.values_per_slot):
            block = slice(start, start + self.values_per_slot)
            active = rng.exponential(size=len(signals)) >= self.truncation
            of_pilots = deviation / math.sqrt(PILOTS)
            heard = float(shares[active].sum()) + of_pilots * rng.normal()
            if heard < HEARD * of_pilots:
                return None
            total = scaled[active, block].sum(axis=0)
            mean[block] = (total + scale * deviation * rng.normal(size=total.shape)) / heard
        return mean
