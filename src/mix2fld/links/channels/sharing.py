"""How the devices that transmit share the uplink; a multicast downlink is shared by none.

Time is counted in turns: in each turn a device has at most one slot of its own. A turn lasts one
slot where all transmit side by side, and longer where they take turns or must keep silent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.links.channels.path_loss import Floats

Bools = NDArray[np.bool_]
AVERAGING = 0.02
"""Weight of the newest slot in the mean rate of a proportionally fair scheduler."""
SMALLEST_RATE = 1e-9


class Turns(NamedTuple):
    """How time passes for a device."""

    period: int
    """Slots from one of its transmissions to the next."""
    tail: int
    """Slots that its last turn takes."""

    def most(self, max_slots: int) -> int:
        """Transmissions that fit into so many slots."""
        return 0 if max_slots < self.tail else 1 + (max_slots - self.tail) // self.period

    def elapsed(self, turns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots that have passed after so many transmissions; none after none."""
        return np.where(turns > 0, (turns - 1) * self.period + self.tail, 0)


class Slot(NamedTuple):
    """What is known when a slot is shared out; axes are [draws, devices]."""

    waiting: Bools
    """Devices that still have something to send."""
    rate: Floats
    """Bits that each could send in this slot over all of the bandwidth."""
    rng: np.random.Generator


Scheduler = Callable[[Slot], tuple[Floats, Bools]]
"""Shares out one turn after the other.

Returns the bandwidth of each device, 0 if it is silent; and whose signal is lost in a collision.
"""


class Sharing:
    """One way to share the uplink; by default each device has all of it, in every slot."""

    steady = True
    """Whether a device has the same bandwidth in each of its turns, whatever the others do."""

    def turns(self, devices: int, silence: int) -> Turns:
        """How time passes for each of so many devices that may send in one slot of ``silence``."""
        return Turns(silence, 1)

    def bandwidth(self, total_hz: float, devices: int) -> float:
        """Bandwidth of a device in its turn; for a scheduler, that of one device alone."""
        return total_hz

    def scheduler(self, total_hz: float, shape: tuple[int, int], turns: Turns) -> Scheduler:
        """Who has what in each turn, for so many draws and devices."""
        bandwidth = np.full(shape, self.bandwidth(total_hz, shape[1]))
        return lambda slot: (bandwidth, np.zeros_like(slot.waiting))


@dataclass(frozen=True)
class Dedicated(Sharing):
    """Each device has the whole bandwidth to itself, as over a line of its own; or listens."""


@dataclass(frozen=True)
class Fdma(Sharing):
    """All transmit side by side, each in an equal share of the bandwidth, as in the paper."""

    def bandwidth(self, total_hz: float, devices: int) -> float:
        return total_hz / max(1, devices)


@dataclass(frozen=True)
class Tdma(Sharing):
    """One after the other, each with the whole bandwidth; a transfer ends with a frame."""

    def turns(self, devices: int, silence: int) -> Turns:
        """One slot of each frame of as many slots as there are devices."""
        frame = max(1, devices)
        return Turns(max(frame, silence), frame)


@dataclass(frozen=True)
class RoundRobin(Fdma):
    """OFDMA: resource blocks assigned in turn to those who have something to send."""

    blocks: int
    steady = False

    def scheduler(self, total_hz: float, shape: tuple[int, int], turns: Turns) -> Scheduler:
        """Deals from where the slot before ended; who gets no block waits."""
        next_in_line = np.zeros(shape[0], np.int64)

        def share_out(slot: Slot) -> tuple[Floats, Bools]:
            nonlocal next_in_line
            count = np.maximum(slot.waiting.sum(axis=1), 1)  # [draws]
            place = np.cumsum(slot.waiting, axis=1) - 1  # among those who wait
            each, left = np.divmod(self.blocks, count)
            turn = (place - next_in_line[:, None]) % count[:, None]
            dealt = np.where(slot.waiting, each[:, None] + (turn < left[:, None]), 0)
            next_in_line = (next_in_line + left) % count
            return dealt * (total_hz / self.blocks), np.zeros_like(slot.waiting)

        return share_out


@dataclass(frozen=True)
class ProportionalFair(Sharing):
    """OFDMA: a slot goes to the device whose rate is best compared with what it has had.

    Fading is the same over the whole band, so that one device has all resource blocks of a slot.
    """

    steady = False

    def scheduler(self, total_hz: float, shape: tuple[int, int], turns: Turns) -> Scheduler:
        """Begins with no one ahead; who is not chosen waits."""
        mean_rate = np.full(shape, SMALLEST_RATE)

        def share_out(slot: Slot) -> tuple[Floats, Bools]:
            nonlocal mean_rate
            merit = np.where(slot.waiting, slot.rate / mean_rate, -1.0)
            chosen = np.zeros_like(slot.waiting)
            best = np.argmax(merit, axis=1)
            chosen[np.arange(len(best)), best] = True
            chosen &= slot.waiting & (slot.rate > 0)
            had = np.where(chosen, slot.rate, 0.0)
            mean_rate = (1 - AVERAGING) * mean_rate + AVERAGING * had + SMALLEST_RATE
            return np.where(chosen, total_hz, 0.0), np.zeros_like(chosen)

        return share_out


@dataclass(frozen=True)
class Aloha(Sharing):
    """Slotted ALOHA: each sends in one slot of every frame, drawn at random, on a random channel.

    Two that meet in a slot of a channel are both lost. A frame has as many slots as silence asks
    for, and at least as many as it takes for one transmission in a slot of a channel on average.
    """

    channels: int
    steady = False

    def turns(self, devices: int, silence: int) -> Turns:
        """Once in a frame; a transfer ends with a frame."""
        frame = max(silence, math.ceil(max(1, devices) / self.channels))
        return Turns(frame, frame)

    def bandwidth(self, total_hz: float, devices: int) -> float:
        return total_hz / self.channels

    def scheduler(self, total_hz: float, shape: tuple[int, int], turns: Turns) -> Scheduler:
        """Who meets whom in one of the slots of a frame, on all channels."""
        channel_hz, places = total_hz / self.channels, turns.period * self.channels

        def share_out(slot: Slot) -> tuple[Floats, Bools]:
            draws = len(slot.waiting)
            chosen = slot.rng.integers(places, size=slot.waiting.shape)
            chosen += places * np.arange(draws)[:, None]
            here = np.bincount(chosen[slot.waiting], minlength=draws * places)
            met = slot.waiting & (here[chosen] > 1)
            return np.where(slot.waiting, channel_hz, 0.0), met

        return share_out
