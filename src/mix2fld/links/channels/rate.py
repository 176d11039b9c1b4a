"""How fast a device sends: a target SNR that is kept through a transfer, or a scheme per slot.

Axes are [draws, devices]. A rate that is kept has a chance of success per slot, from which the law
of a whole transfer follows; one that adapts has to be simulated.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.links.channels.fading import Fading
from mix2fld.links.channels.mcs import Schemes, schemes
from mix2fld.links.channels.packets import Packets
from mix2fld.links.channels.path_loss import Floats

Bools = NDArray[np.bool_]
MOST_CHOICES = 60
"""Numbers of slots among which an optimal target looks for the best."""


class Demand(NamedTuple):
    """What devices ask of a rate."""

    mean_snr: Floats  # [draws, devices], in the bandwidth of a device's turn
    bits: Floats  # [draws, devices], on the air
    symbols: float
    """Of a slot: bandwidth of a turn times the length of a slot."""
    turns: int
    """Slots that a device has at most."""
    common: bool
    """Whether one transmission is for all devices: a multicast."""


class KeptRate(NamedTuple):
    """A rate that is kept through a transfer."""

    per_symbol: Floats  # [draws, devices], bits
    level: Floats  # [draws, devices], SNR that a slot needs, or the scheme that is used
    success: Floats  # [draws, devices], chance that a slot is decoded


class Signals(NamedTuple):
    """What happens in one turn; axes are [draws, devices]."""

    snr: Floats
    noise: Floats
    """Standard normal: a block is decoded if its margin, in standard deviations, is no less."""
    sent: Bools
    heard: Bools
    """Of what was sent, what met nobody else's signal."""


class Rate:
    """One rule for how fast to send."""

    adapts = False
    """Whether the rate follows the channel from slot to slot."""

    def keep(self, demand: Demand, fading: Fading) -> KeptRate:
        """The rate of each device, if it is kept."""
        raise NotImplementedError(f"{type(self).__name__} {demand} {fading}")

    def sender(self, demand: Demand, fading: Fading) -> "SlotSender":
        """Who sends one slot after the other; by default a slot above the level is decoded."""
        kept = self.keep(demand, fading)
        return _KeptRate(kept.per_symbol, lambda snr, _noise: snr >= kept.level)


class SlotSender(ABC):
    """Sends one slot after the other, for all draws and devices."""

    @abstractmethod
    def potential(self, snr: Floats) -> Floats:
        """Bits per symbol that would be sent, and decoded if nothing goes wrong."""

    @abstractmethod
    def send(self, now: Signals) -> tuple[Floats, Bools]:
        """Bits per symbol that are decoded now, and who has given up on a block."""


@dataclass(frozen=True)
class TargetSnr(Rate):
    """The paper's: log2(1 + theta), or a given rate, decoded where the SNR is at least theta."""

    threshold: float
    per_symbol: float | None = None

    def keep(self, demand: Demand, fading: Fading) -> KeptRate:
        level = np.full(demand.mean_snr.shape, self.threshold)
        own = self.per_symbol
        bits = math.log1p(self.threshold) / math.log(2) if own is None else own
        return KeptRate(np.full(level.shape, bits), level, fading.exceeds(level / demand.mean_snr))


@dataclass(frozen=True)
class OptimalTarget(Rate):
    """The target SNR with which a payload arrives most probably; among equals, soonest.

    If a payload is to take n slots, theta is as small as that allows; n is the choice.
    """

    packets: Packets

    def keep(self, demand: Demand, fading: Fading) -> KeptRate:
        """The best target of each device; of a multicast, that of the weakest listener."""
        snr = demand.mean_snr
        if demand.common:
            snr = np.broadcast_to(snr.min(axis=1, keepdims=True), snr.shape)
        slots = _choices(demand.turns)
        needed = np.maximum(demand.bits, 1)[..., None] / (slots * demand.symbols)
        levels = np.expm1(np.minimum(needed, 500) * math.log(2))
        success = fading.exceeds(levels / snr[..., None])
        arrives = _delivery(slots, success, demand.turns, self.packets)
        merit = np.round(arrives, 12) - 1e-13 * slots / np.maximum(success, 1e-9) / demand.turns
        best = np.argmax(merit, axis=-1)[..., None]
        per_symbol, level = (np.take_along_axis(a, best, -1)[..., 0] for a in (needed, levels))
        return KeptRate(per_symbol, level, fading.exceeds(level / demand.mean_snr))


@dataclass(frozen=True)
class _KeptRate(SlotSender):
    per_symbol: Floats
    decodes: Callable[[Floats, Floats], Bools]
    """Whether a slot is decoded, from its SNR and the noise of the block."""

    def potential(self, snr: Floats) -> Floats:
        return np.where(self.decodes(snr, np.zeros(snr.shape)), self.per_symbol, 0.0)

    def send(self, now: Signals) -> tuple[Floats, Bools]:
        decoded = now.heard & self.decodes(now.snr, now.noise)
        return np.where(decoded, self.per_symbol, 0.0), now.sent & ~decoded


@dataclass(frozen=True)
class MulticastScheme(Rate):
    """One scheme for all listeners: the one with the highest mean rate for the weakest of them."""

    table: str
    largest: int = 0
    """Bits of the largest block; 0: no limit."""

    def keep(self, demand: Demand, fading: Fading) -> KeptRate:
        """The same scheme for all, and how often each decodes it."""
        known = schemes(self.table, demand.symbols, self.largest)
        weakest = demand.mean_snr.min(axis=1, keepdims=True)  # [draws, 1]
        every = np.arange(len(known.efficiency))[None]
        mean_rate = known.success(every, weakest, fading) * known.efficiency  # [draws, M]
        scheme = np.broadcast_to(np.argmax(mean_rate, axis=1)[:, None], demand.mean_snr.shape)
        success = known.success(scheme, demand.mean_snr, fading)
        return KeptRate(known.efficiency[scheme], scheme.astype(np.float64), success)

    def sender(self, demand: Demand, fading: Fading) -> SlotSender:
        """A block fails as often as its scheme does at the SNR of the slot."""
        kept = self.keep(demand, fading)
        known = schemes(self.table, demand.symbols, self.largest)
        scheme = kept.level.astype(np.int64)
        return _KeptRate(kept.per_symbol, lambda snr, noise: known.margin(scheme, snr) >= noise)


@dataclass(frozen=True)
class AdaptiveScheme(Rate):
    """The fastest scheme on target at the SNR of the slot, with hybrid ARQ.

    A block that fails is kept and sent again; its SNRs add up (chase combining) until it is
    decoded, or ``retransmissions`` have failed too and the sender gives up on it.
    """

    table: str
    retransmissions: int
    largest: int = 0
    """Bits of the largest block; 0: no limit."""
    adapts = True

    def sender(self, demand: Demand, fading: Fading) -> SlotSender:
        shape = demand.mean_snr.shape
        known = schemes(self.table, demand.symbols, self.largest)
        return _Adaptive(
            known, self.retransmissions, np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
        )


@dataclass
class _Adaptive(SlotSender):
    known: Schemes
    retransmissions: int
    scheme: NDArray[np.int64]  # of the block in flight
    gathered: Floats  # SNR that was received of it
    failed: Floats  # attempts

    def potential(self, snr: Floats) -> Floats:
        return self.known.efficiency[self.known.best(snr)]

    def send(self, now: Signals) -> tuple[Floats, Bools]:
        begins = now.sent & (self.failed == 0)
        self.scheme = np.where(begins, self.known.best(now.snr), self.scheme)
        self.gathered = self.gathered + np.where(now.heard, now.snr, 0.0)
        decoded = now.heard & (self.known.margin(self.scheme, self.gathered) >= now.noise)
        failed = self.failed + (now.sent & ~decoded)
        gave_up = failed > self.retransmissions
        over = decoded | gave_up
        self.failed = np.where(over, 0.0, failed)
        self.gathered = np.where(over, 0.0, self.gathered)
        return np.where(decoded, self.known.efficiency[self.scheme], 0.0), gave_up


def _choices(turns: int) -> NDArray[np.int64]:
    return np.unique(np.geomspace(1, max(1, turns), min(MOST_CHOICES, max(1, turns))).astype(int))


def _delivery(slots: NDArray[np.int64], success: Floats, turns: int, packets: Packets) -> Floats:
    """Chance that so many slots of ``turns`` are decoded, [..., choices].

    Where blocks are given up, that and T_max are taken as independent.
    """
    from scipy import special

    within: Floats = special.betainc(slots, turns - slots + 1, success)
    if packets.retransmissions is None:
        return within
    each = 1 - (1 - success) ** (packets.retransmissions + 1)
    return within * each**slots
