"""What arrives, and when: the radio link of Sec. II-C, and an ideal one.

A link of your own is any class with the three members of ``Link``.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import ChannelConfig
from mix2fld.errors import InputError
from mix2fld.types import Delivery

Direction = Literal["uplink", "downlink"]

ROUNDING = 1e-9
"""Relative difference below which bits per slot are taken for the whole number next to them."""
MAX_FADING_DRAWS = 50_000_000
"""Largest |D| x T_max; one transmission draws that many fading values at once."""
MAX_PATH_LOSS_DB = 1000.0
SANE = (1e-12, 1e12)
"""Range of every positive number of the link; within it no formula here can overflow."""


class Link(Protocol):
    """Carries one payload per device in one direction."""

    @property
    def slot_seconds(self) -> float:
        """Length of a slot, tau."""

    @property
    def max_slots(self) -> int:
        """Slots after which a transfer is an outage, T_max."""

    def transmit(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        """Send ``bits[d]`` bits from or to each device d; 0 bits are delivered in 0 slots."""


@dataclass(frozen=True)
class Radio:
    """One direction of a radio link, as one device has it."""

    bandwidth_hz: float
    power_w: float
    snr_threshold: float


@dataclass(frozen=True)
class RayleighLink:
    """Rayleigh block fading with a target SNR per direction and a latency limit, Eq. 4."""

    uplink: Radio
    downlink: Radio
    distance_m: float
    path_loss_exponent: float
    noise_w_per_hz: float
    slot_seconds: float
    max_slots: int

    @classmethod
    def from_config(cls, config: ChannelConfig, devices: int) -> Self:
        """The link of ``devices`` devices, which share the uplink and all hear the downlink."""
        _check(config, devices)
        return cls(
            uplink=Radio(
                config.bandwidth_hz * config.uplink_channels / devices,
                _watts(config.uplink_power_dbm),
                config.uplink_snr_threshold,
            ),
            downlink=Radio(
                config.bandwidth_hz,
                _watts(config.downlink_power_dbm),
                config.downlink_snr_threshold,
            ),
            distance_m=config.distance_m,
            path_loss_exponent=config.path_loss_exponent,
            noise_w_per_hz=_watts(config.noise_dbm_per_hz),
            slot_seconds=config.slot_ms / 1000,
            max_slots=config.max_slots,
        )

    def radio(self, direction: Direction) -> Radio:
        """Bandwidth, power and target SNR of one direction."""
        return self.uplink if direction == "uplink" else self.downlink

    def mean_snr(self, direction: Direction) -> float:
        """SNR at unit fading, P r^-alpha / (W N_0)."""
        radio = self.radio(direction)
        gain = math.pow(self.distance_m, -self.path_loss_exponent)
        return radio.power_w * gain / (radio.bandwidth_hz * self.noise_w_per_hz)

    def success_probability(self, direction: Direction) -> float:
        """Chance that a slot is decoded, P(h >= theta / mean SNR) for h ~ Exp(1)."""
        return math.exp(-self.radio(direction).snr_threshold / self.mean_snr(direction))

    def bits_per_slot(self, direction: Direction) -> float:
        """Bits of one decoded slot, tau W log2(1 + theta), freed of float noise."""
        radio = self.radio(direction)
        bits = (
            self.slot_seconds * radio.bandwidth_hz * math.log1p(radio.snr_threshold) / math.log(2)
        )
        whole = round(bits)
        return float(whole) if abs(bits - whole) <= ROUNDING * bits else bits

    def slots_needed(self, direction: Direction, bits: int) -> int:
        """Decoded slots that carry ``bits`` bits."""
        if bits < 0:
            raise InputError(f"bits = {bits}: must be 0 or more")
        per_slot = self.bits_per_slot(direction)
        if per_slot.is_integer():
            return -(-bits // int(per_slot))
        return math.ceil(bits / per_slot * (1 - ROUNDING))

    def transmit(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        """Eq. 4: latency is the first slot by which enough slots were decoded.

        Fading is drawn slot by slot for all devices, whatever the payload, so that payloads of
        different size and limits T_max can be compared over the same channel.
        """
        fading = rng.exponential(size=(self.max_slots, len(bits))).T  # [D, T_max]
        snr = self.mean_snr(direction) * fading
        decoded = np.cumsum(snr >= self.radio(direction).snr_threshold, axis=1)
        out_of_reach = self.max_slots + 1
        needed = np.array(
            [min(self.slots_needed(direction, int(size)), out_of_reach) for size in bits],
            dtype=np.int64,
        )
        delivered = decoded[:, -1] >= needed
        latency = np.sum(decoded < needed[:, None], axis=1, dtype=np.int64) + (needed > 0)
        return Delivery(delivered, np.where(delivered, latency, self.max_slots))


@dataclass(frozen=True)
class IdealLink:
    """Delivers everything at once."""

    slot_seconds: float = 0.001
    max_slots: int = 1

    def transmit(
        self,
        direction: Direction,  # noqa: ARG002
        bits: NDArray[np.int64],
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Delivery:
        """Everything arrives, in 0 slots."""
        return Delivery(np.ones(len(bits), dtype=np.bool_), np.zeros(len(bits), dtype=np.int64))


def make_link(config: ChannelConfig, devices: int) -> Link:
    """The link that a config names, for ``devices`` devices."""
    if config.link == "ideal":
        return IdealLink(config.slot_ms / 1000, config.max_slots)
    return RayleighLink.from_config(config, devices)


def check_delivery(link: Link, delivery: Delivery, devices: int) -> Delivery:
    """The delivery itself, if a link that someone wrote kept to what ``Link`` promises."""
    name = type(link).__name__
    delivered, slots = np.asarray(delivery.delivered), np.asarray(delivery.slots)
    if delivered.dtype != np.bool_ or delivered.shape != (devices,):
        raise InputError(
            f"{name}.transmit: delivered is {delivered.dtype}{list(delivered.shape)}; must be "
            f"bool[{devices}]"
        )
    if not np.issubdtype(slots.dtype, np.integer) or slots.shape != (devices,):
        raise InputError(
            f"{name}.transmit: slots is {slots.dtype}{list(slots.shape)}; must be int64[{devices}]"
        )
    if slots.min() < 0 or slots.max() > link.max_slots:
        raise InputError(
            f"{name}.transmit: slots range from {slots.min()} to {slots.max()}; must be within 0 "
            f"and max_slots = {link.max_slots}"
        )
    if np.any(slots[~delivered] != link.max_slots):
        raise InputError(
            f"{name}.transmit: a failed transfer took {slots[~delivered].min()} slots; must be "
            f"max_slots = {link.max_slots}"
        )
    return delivery


def _watts(dbm: float) -> float:
    return float(10 ** ((dbm - 30) / 10))


def _check(config: ChannelConfig, devices: int) -> None:
    if devices < 1:
        raise InputError(f"devices = {devices}: must be 1 or more")
    if devices * config.max_slots > MAX_FADING_DRAWS:
        raise InputError(
            f"max_slots = {config.max_slots}: with {devices} devices it must be at most "
            f"{MAX_FADING_DRAWS // devices}"
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
            f"path_loss_exponent = {config.path_loss_exponent:g}: over distance_m = "
            f"{config.distance_m:g} the path loss is {path_loss_db:.4g} dB; must be within "
            f"{MAX_PATH_LOSS_DB:g} dB of zero"
        )
