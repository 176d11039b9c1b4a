"""One transfer of all devices, turn by turn, for many draws of the channel at once.

Axes are [draws, devices]. What is drawn for a turn does not depend on the payloads, so that
protocols are compared over the same channel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.links.channels.fading import Fading
from mix2fld.links.channels.packets import ROUNDING, Packets, whole
from mix2fld.links.channels.path_loss import Floats
from mix2fld.links.channels.rate import Bools, Demand, Rate, Signals
from mix2fld.links.channels.sharing import Sharing, Slot, Turns

ENDLESS = 1 << 50
"""Bits that no transfer can carry."""


@dataclass(frozen=True)
class Side:
    """One direction of a link, as all devices share it."""

    power_w: float
    bandwidth_hz: float
    noise_w_per_hz: float
    slot_seconds: float
    max_slots: int
    """Slots that a transfer has on the air."""
    silence: int
    """A device sends in one of so many slots: its duty cycle."""
    sharing: Sharing
    rate: Rate
    fading: Fading
    packets: Packets
    common: bool
    """Whether one transmission is for all: a multicast."""

    def turns(self, devices: int) -> Turns:
        """How time passes for each of so many devices."""
        return self.sharing.turns(devices, self.silence)

    def turn_seconds(self, devices: int) -> float:
        """Seconds from one turn of a device to the next."""
        return self.turns(devices).period * self.slot_seconds

    def mean_snr(self, gain: Floats, bandwidth_hz: Floats | float) -> Floats:
        """SNR at unit fading, P g / (W N_0)."""
        return self.power_w * gain / (bandwidth_hz * self.noise_w_per_hz)

    def demand(self, gain: Floats, bits: NDArray[np.int64], devices: int) -> Demand:
        """What so many devices that transmit at once ask of the rate."""
        bandwidth = self.sharing.bandwidth(self.bandwidth_hz, devices)
        return Demand(
            mean_snr=self.mean_snr(gain, bandwidth),
            bits=self.packets.on_air(bits).astype(np.float64),
            symbols=bandwidth * self.slot_seconds,
            turns=self.turns(devices).most(self.max_slots),
            common=self.common,
        )

    def has_law(self, devices: int) -> bool:
        """Whether turns are alike and independent, so that a transfer has a closed form."""
        memory = self.fading.remembers(self.turn_seconds(devices))
        return self.sharing.steady and not self.rate.adapts and memory == 0


class Sent(NamedTuple):
    """How transfers ended."""

    delivered: Bools
    turns: NDArray[np.int64]
    """Turns until it was delivered, where it was."""
    on_air: NDArray[np.int64]
    """Slots in which the device sent, or received."""


class TransferProgress(NamedTuple):
    """Transfers without end, from which those of any payload follow."""

    got: Floats  # [turns, draws, devices], bits that were received by the end of each turn
    turns: NDArray[np.int64]  # [draws, devices], until it was given up, or all there are

    def of(self, bits: Floats) -> Sent:
        """How transfers of so many bits on the air, [draws, devices], end."""
        enough = bits - np.minimum(ROUNDING * bits, 0.5)
        reached = 1 + np.sum(self.got < enough, axis=0)
        delivered = reached <= self.turns
        last = np.where(delivered, reached, self.turns)
        return Sent(delivered, last, last)


def progress(side: Side, gain: Floats, rng: np.random.Generator) -> TransferProgress:
    """What is received of devices that never end sending, each with a share of its own.

    For rates that do not depend on the payload.
    """
    got: list[Floats] = []
    endless = np.full(gain.shape, ENDLESS, np.int64)
    sent = simulate(side, gain, endless, rng, got.append)
    return TransferProgress(np.array(got).reshape(-1, *gain.shape), sent.on_air)


def simulate(
    side: Side,
    gain: Floats,
    bits: NDArray[np.int64],
    rng: np.random.Generator,
    watch: Callable[[Floats], None] | None = None,
) -> Sent:
    """Send ``bits`` > 0 bits of every device over channels of that mean gain.

    After each turn, ``watch`` is told how many have been received of each.
    """
    shape = (gain.shape[0], gain.shape[1])
    turns, demand = side.turns(shape[1]), side.demand(gain, bits, shape[1])
    sender = side.rate.sender(demand, side.fading)
    share_out = side.sharing.scheduler(side.bandwidth_hz, shape, turns)
    fades = side.fading.draws(rng, shape, side.turn_seconds(shape[1]))
    errors, access = rng.spawn(2)
    over_all = side.mean_snr(gain, side.bandwidth_hz)
    enough = demand.bits - np.minimum(ROUNDING * demand.bits, 0.5)

    got, failures = np.zeros(shape), np.zeros(shape, np.int64)
    waiting = np.ones(shape, np.bool_)
    last, on_air = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for number in range(demand.turns):
        if not waiting.any():
            break
        fade, noise = next(fades), errors.standard_normal(shape)
        rate = over_all if side.sharing.steady else sender.potential(over_all * fade)
        bandwidth, met = share_out(Slot(waiting, rate, access))
        sent = waiting & (bandwidth > 0)
        snr = side.mean_snr(gain, np.where(bandwidth > 0, bandwidth, 1.0)) * fade
        decoded, gave_up = sender.send(Signals(snr, noise, sent, sent & ~met))
        got = got + np.where(sent, whole(decoded * bandwidth * side.slot_seconds), 0.0)
        if watch is not None:
            watch(got)
        failures = np.where(decoded > 0, 0, failures + gave_up)
        on_air += sent
        last[waiting] = number + 1
        waiting &= got < enough
        if side.packets.retransmissions is not None:
            waiting &= failures <= side.packets.retransmissions
    return Sent(got >= enough, last, on_air)
