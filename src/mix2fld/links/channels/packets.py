"""Packets: headers, a largest payload, and how often a lost block is sent again.

What one slot carries is a block. A block that is not decoded is sent again in the device's next
slot, without end (until T_max), or at most ``retransmissions`` times; then the message is lost.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.links.channels.path_loss import Floats

ROUNDING = 1e-9
"""Relative difference below which bits per slot are taken for the whole number next to them."""
TAIL_DEVIATIONS = 12.0
"""Standard deviations beyond which a chance is 1."""


class Law(NamedTuple):
    """Of a message after k = 0 .. K own slots."""

    arrived: Floats  # [K + 1], chance that it was delivered
    active: Floats  # [K + 1], chance that it is still being sent: neither delivered nor lost


@dataclass(frozen=True)
class Packets:
    """How a message is cut into packets."""

    header_bytes: int = 0
    payload_bytes: int = 0
    """Largest payload of a packet; 0: a message is one packet."""
    retransmissions: int | None = None
    """How often a block is sent again; None: until it is decoded or T_max is over."""

    def on_air(self, bits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bits of a message with all its headers."""
        largest = 8 * self.payload_bytes
        packets = -(-bits // largest) if largest else (bits > 0).astype(np.int64)
        return bits + 8 * self.header_bytes * packets

    def law(self, needed: int, success: float, slots: int) -> Law:
        """Of a message of ``needed`` >= 1 blocks, each decoded with probability ``success``."""
        if self.retransmissions is None:
            arrived = _unlimited(min(needed, slots + 1), success, slots)
            return Law(arrived, 1 - arrived)
        return _limited(needed, success, slots, self.retransmissions + 1)


def whole(bits: Floats) -> Floats:
    """Bits of a slot, freed of float noise."""
    nearest = np.round(bits)
    return np.where(np.abs(bits - nearest) <= ROUNDING * bits, nearest, bits)


def blocks_needed(bits: Floats | NDArray[np.int64], per_slot: Floats) -> NDArray[np.int64]:
    """Decoded slots that carry so many bits."""
    exact = bits / per_slot
    slack = np.where(per_slot == np.round(per_slot), 0.0, ROUNDING)
    return np.ceil(np.minimum(exact * (1 - slack), 1e15)).astype(np.int64)


def arrived_by(last: int, needed: int, success: float) -> Floats:
    """P(T <= t) for t = 0 .. ``last``: at least ``needed`` >= 1 of t slots are decoded."""
    arrived = np.zeros(last + 1)
    arrived[needed:] = np.minimum(np.cumsum(np.exp(log_chances(last, needed, success))), 1.0)
    return arrived


def log_chances(last: int, needed: int, success: float) -> Floats:
    """log P(T = t) for t = ``needed`` .. ``last``: slot t is decoded, as the ``needed``-th one."""
    failed = np.arange(max(0, last - needed + 1))
    with np.errstate(divide="ignore"):
        decoded, lost = np.log(success), np.log1p(-success)
    wasted = np.multiply(failed, lost, out=np.zeros(len(failed)), where=failed > 0)
    upto = _log_factorials(last.bit_length())
    orders = upto[needed - 1 + failed] - upto[needed - 1] - upto[failed]
    return np.asarray(orders + needed * decoded + wasted)


@lru_cache(maxsize=4)
def _log_factorials(bits: int) -> Floats:
    """log n! of all n that have so many bits."""
    logs = np.log(np.arange(1, 1 << bits, dtype=np.float64))
    return np.concatenate([[0.0], np.cumsum(logs)])


def _unlimited(needed: int, success: float, slots: int) -> Floats:
    """``arrived_by`` of all slots; late ones are 1 to the last digit and not worked out."""
    arrived = np.ones(slots + 1)
    decoded = needed + TAIL_DEVIATIONS * math.sqrt(needed * (1 - success) + TAIL_DEVIATIONS)
    last = slots if decoded >= slots * success else math.ceil(decoded / success)
    arrived[: last + 1] = arrived_by(last, needed, success)
    return arrived


def _limited(needed: int, success: float, slots: int, attempts: int) -> Law:
    """The law with at most so many attempts for a block, from its generating function.

    Attempts for one block have g(z) = sum_a q (1-q)^(a-1) z^a, those for all of them g^n. A message
    is lost after i < n blocks: (1-q)^A z^A g^i. Powers are taken on the unit circle.
    """
    needed = min(needed, slots + 1)
    size = 1 << ((needed + 1) * attempts + 1).bit_length()
    tries = np.arange(1, attempts + 1)
    one = np.zeros(size)
    one[tries] = success * (1 - success) ** (tries - 1)
    circle = np.fft.rfft(one)
    rest = np.where(np.abs(1 - circle) < 1e-12, 1.0, 1 - circle)
    blocks = np.where(np.abs(1 - circle) < 1e-12, needed, (1 - circle**needed) / rest)
    given_up = np.zeros(size)
    given_up[attempts] = (1 - success) ** attempts
    arrived = _up_to(np.fft.irfft(circle**needed, size), slots)
    lost = _up_to(np.fft.irfft(blocks * np.fft.rfft(given_up), size), slots)
    return Law(arrived, np.clip(1 - arrived - lost, 0.0, 1.0))


def _up_to(chances: Floats, slots: int) -> Floats:
    """The sum of all chances up to each k = 0 .. ``slots``."""
    kept = np.zeros(slots + 1)
    upto = min(len(chances), slots + 1)
    kept[:upto] = chances[:upto]
    return np.clip(np.cumsum(kept), 0.0, 1.0)
