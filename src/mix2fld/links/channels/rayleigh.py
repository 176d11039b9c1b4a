"""Rayleigh block fading with outages, the radio link of Sec. II-C, and its budget in closed form.

With q the chance that a slot is decoded and n the decoded slots that a message needs, its latency
T follows P(T <= t) = P(Binomial(t, q) >= n), a negative binomial law.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import ChannelConfig
from mix2fld.links.budget import Bits, Budget, Direction, Forecast, mean_arrivals, mean_slowest
from mix2fld.links.channels.channel import ESTIMATE_DRAWS, Memoryless
from mix2fld.links.channels.packets import arrived_by, blocks_needed, log_chances, whole
from mix2fld.types import Delivery, State

MAX_FADING_DRAWS = 50_000_000
"""Largest |D| x T_max; one transmission draws that many fading values at once."""
MAX_PATH_LOSS_DB = 1000.0
SANE = (1e-12, 1e12)
"""Range of every positive number of the link; within it no formula here can overflow."""


@dataclass(frozen=True)
class Radio:
    """One direction of the link, as one device has it."""

    bandwidth_hz: float
    mean_snr: float
    """SNR at unit fading, P r^-alpha / (W N_0)."""
    snr_threshold: float
    slot_seconds: float

    @property
    def success_probability(self) -> float:
        """Chance that a slot is decoded, P(h >= theta / mean SNR) for h ~ Exp(1)."""
        return math.exp(-self.snr_threshold / self.mean_snr)

    @property
    def bits_per_slot(self) -> float:
        """Bits of one decoded slot, tau W log2(1 + theta), freed of float noise."""
        bits = self.slot_seconds * self.bandwidth_hz * math.log1p(self.snr_threshold) / math.log(2)
        return float(whole(np.array(bits)))

    def slots_needed(self, bits: int) -> int:
        """Decoded slots that carry ``bits`` bits."""
        if bits < 0:
            raise InputError(field="bits", value=bits, hint="must be 0 or more")
        return int(blocks_needed(np.array(bits), np.array(self.bits_per_slot)))


@dataclass(frozen=True)
class Transmitter:
    """One direction of the link, as all devices share it."""

    bandwidth_hz: float
    power_w: float
    snr_threshold: float


@dataclass(frozen=True)
class RayleighLink(Memoryless):
    """Rayleigh block fading with a target SNR per direction and a latency limit, Eq. 4."""

    uplink: Transmitter
    downlink: Transmitter
    distance_m: float
    path_loss_exponent: float
    noise_w_per_hz: float
    slot_seconds: float
    max_slots: int

    @classmethod
    def from_config(cls, config: ChannelConfig, devices: int) -> Self:
        """The link of at most ``devices`` devices, which share the uplink by FDMA."""
        check_channel(config, devices)
        return cls(
            uplink=Transmitter(
                config.bandwidth_hz * config.uplink_channels,
                watts(config.uplink_power_dbm),
                config.uplink_snr_threshold,
            ),
            downlink=Transmitter(
                config.bandwidth_hz,
                watts(config.downlink_power_dbm),
                config.downlink_snr_threshold,
            ),
            distance_m=config.distance_m,
            path_loss_exponent=config.path_loss_exponent,
            noise_w_per_hz=watts(config.noise_dbm_per_hz),
            slot_seconds=config.slot_ms / 1000,
            max_slots=config.max_slots,
        )

    def radio(self, direction: Direction, transmitting: int) -> Radio:
        """What one device has when so many transmit: a share of the uplink, all of the downlink."""
        side = self.uplink if direction == "uplink" else self.downlink
        shares = max(1, transmitting) if direction == "uplink" else 1
        bandwidth = side.bandwidth_hz / shares
        gain = math.pow(self.distance_m, -self.path_loss_exponent)
        mean_snr = side.power_w * gain / (bandwidth * self.noise_w_per_hz)
        return Radio(bandwidth, mean_snr, side.snr_threshold, self.slot_seconds)

    def deliver(self, direction: Direction, bits: Bits, rng: np.random.Generator) -> Delivery:
        """Eq. 4: latency is the first slot by which enough slots were decoded.

        Fading is drawn slot by slot for all devices that transmit, whatever their messages, so
        that messages of different size and limits T_max can be compared over the same channel.
        """
        transmitting = np.flatnonzero(bits)
        radio = self.radio(direction, len(transmitting))
        fading = rng.exponential(size=(self.max_slots, len(transmitting))).T
        decoded = np.cumsum(radio.mean_snr * fading >= radio.snr_threshold, axis=1)
        per_slot = np.array(radio.bits_per_slot)
        needed = np.minimum(blocks_needed(bits[transmitting], per_slot), self.max_slots + 1)
        enough = decoded[:, -1] >= needed
        latency = np.sum(decoded < needed[:, None], axis=1, dtype=np.int64) + 1
        delivered, slots = np.ones(len(bits), np.bool_), np.zeros(len(bits), np.int64)
        delivered[transmitting] = enough
        slots[transmitting] = np.where(enough, latency, self.max_slots)
        return Delivery(delivered, slots)

    def budget(
        self, direction: Direction, bits: int, devices: int, *, draws: int = ESTIMATE_DRAWS
    ) -> Budget:
        found = super().budget(direction, bits, devices, draws=draws)
        radio = self.radio(direction, devices)
        needed, success = radio.slots_needed(bits), radio.success_probability
        mean = found.mean_slots_if_delivered
        if needed and mean is not None:
            mean = _mean_latency(needed, self.max_slots, success)
        return replace(
            found,
            slots_needed=needed,
            slot_success=success,
            fits=needed <= self.max_slots,
            mean_slots_if_delivered=mean,
        )

    def forecast(
        self,
        direction: Direction,
        bits: Bits,
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = 0,
    ) -> Forecast:
        """The closed form for devices that all have the same channel, but their own messages."""
        sending = int(np.count_nonzero(bits))
        count = sending if transmitting is None else min(transmitting, sending)
        radio = self.radio(direction, count)
        sizes, places = np.unique(bits, return_inverse=True)
        by_size = [self._arrived(radio, int(size)) for size in sizes]
        arrived = np.stack(by_size)[places]  # [D, T_max + 1]
        slots = np.sum(1 - arrived[:, :-1], axis=1)
        return Forecast(
            direction=direction,
            bits=bits,
            max_slots=self.max_slots,
            probability=arrived[:, -1],
            expected_slots=slots,
            on_air_slots=slots,
            round_slots=mean_slowest(
                arrived[bits > 0], count, np.append(np.ones(self.max_slots, np.int64), 0)
            ),
            arrivals=mean_arrivals(
                arrived[bits > 0], count, np.arange(arrived.shape[1]), self.max_slots
            )
            if count
            else None,
        )

    def _arrived(self, radio: Radio, bits: int) -> NDArray[np.float64]:
        """P(T <= t) of one message for t = 0 .. T_max."""
        needed = min(radio.slots_needed(bits), self.max_slots + 1)
        if needed == 0:
            return np.ones(self.max_slots + 1)
        return arrived_by(self.max_slots, needed, radio.success_probability)


def _mean_latency(needed: int, max_slots: int, success: float) -> float:
    """E[T | T <= T_max], from log-probabilities: the conditioning event may be very rare."""
    slots = np.arange(needed, max_slots + 1)
    log_chance = log_chances(max_slots, needed, success)
    chance = np.exp(log_chance - log_chance.max())
    return float(np.sum(slots * chance) / np.sum(chance))


def watts(dbm: float) -> float:
    """Power in watts from decibels over a milliwatt."""
    return float(10 ** ((dbm - 30) / 10))


def check_channel(config: ChannelConfig, devices: int) -> None:
    """Refuse a channel that no formula can work with."""
    if devices < 1:
        raise InputError(field="devices", value=devices, hint="must be 1 or more")
    if devices * config.max_slots > MAX_FADING_DRAWS:
        raise InputError(
            field="max_slots",
            value=config.max_slots,
            hint=f"with {devices} devices it must be at most {MAX_FADING_DRAWS // devices}",
        )
    positive = config.model_dump(
        include={
            "bandwidth_hz",
            "uplink_channels",
            "distance_m",
            "uplink_snr_threshold",
            "downlink_snr_threshold",
            "slot_ms",
        }
    )
    for name, value in positive.items():
        if not SANE[0] <= value <= SANE[1]:
            raise InputError(f"{name} = {value:g}: must be between {SANE[0]:g} and {SANE[1]:g}")
    path_loss_db = 10 * config.path_loss_exponent * math.log10(config.distance_m)
    if abs(path_loss_db) > MAX_PATH_LOSS_DB:
        raise InputError(
            field="path_loss_exponent",
            value=f"{config.path_loss_exponent:g}",
            hint=f"over distance_m = "
            f"{config.distance_m:g} the path loss is {path_loss_db:.4g} dB; must be within "
            f"{MAX_PATH_LOSS_DB:g} dB of zero",
        )
