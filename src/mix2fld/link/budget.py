"""How long a payload takes and how often it arrives, without simulating a run.

With q the chance that a slot is decoded and n the decoded slots that a payload needs, its latency
T follows P(T <= t) = P(Binomial(t, q) >= n), a negative binomial law.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mix2fld.errors import InputError
from mix2fld.link.channel import Direction, IdealLink, Link, RayleighLink, check_delivery


@dataclass(frozen=True)
class Budget:
    """Latency and delivery of one payload per device; slots of a failed transfer are T_max."""

    direction: Direction
    bits: int
    devices: int
    slots_needed: int | None
    """Decoded slots that carry the payload; None where only estimated."""
    max_slots: int
    fits: bool
    """Whether the payload can arrive at all; where only estimated, whether it ever did."""
    slot_success: float | None
    """Chance that a slot is decoded, q; None where only estimated."""
    delivery_probability: float
    mean_slots_if_delivered: float | None
    """E[T | T <= T_max]; None if delivery has probability 0."""
    expected_slots: float
    """E[min(T, T_max)] of one device."""
    expected_round_slots: float
    """Mean slots of the slowest device, T_max if any is in outage."""
    expected_delivered: float
    """Mean number of devices whose payload arrives."""
    draws: int = 0
    """Simulated transmissions behind the numbers; 0 is a closed form."""


def budget(link: Link, direction: Direction, bits: int, devices: int) -> Budget:
    """Closed form for the links of this package, an estimate for any other."""
    _check(bits, devices)
    if isinstance(link, RayleighLink):
        return _rayleigh(link, direction, bits, devices)
    if isinstance(link, IdealLink):
        return _immediate(direction, bits, devices, link.max_slots, slot_success=1.0)
    return estimate(link, direction, bits, devices)


def estimate(
    link: Link, direction: Direction, bits: int, devices: int, *, draws: int = 1000, seed: int = 0
) -> Budget:
    """The same numbers by simulating ``draws`` transmissions, for any link."""
    _check(bits, devices)
    if draws < 1:
        raise InputError(f"draws = {draws}: must be 1 or more")
    rng = np.random.default_rng(seed)
    sizes = np.full(devices, bits, dtype=np.int64)
    deliveries = [
        check_delivery(link, link.transmit(direction, sizes, rng), devices) for _ in range(draws)
    ]
    delivered = np.stack([delivery.delivered for delivery in deliveries])  # [draws, D]
    slots = np.stack([delivery.slots for delivery in deliveries])  # [draws, D]
    return Budget(
        direction=direction,
        bits=bits,
        devices=devices,
        slots_needed=None,
        max_slots=link.max_slots,
        fits=bool(delivered.any()),
        slot_success=None,
        delivery_probability=float(delivered.mean()),
        mean_slots_if_delivered=float(slots[delivered].mean()) if delivered.any() else None,
        expected_slots=float(slots.mean()),
        expected_round_slots=float(slots.max(axis=1).mean()),
        expected_delivered=float(delivered.sum(axis=1).mean()),
        draws=draws,
    )


def _rayleigh(link: RayleighLink, direction: Direction, bits: int, devices: int) -> Budget:
    needed = link.slots_needed(direction, bits)
    success = link.success_probability(direction)
    if needed == 0:
        return _immediate(direction, bits, devices, link.max_slots, success)
    fits = needed <= link.max_slots
    least = min(needed, link.max_slots + 1)
    arrived = _arrived_by(np.arange(link.max_slots + 1), least, success)
    probability = float(arrived[-1])
    return Budget(
        direction=direction,
        bits=bits,
        devices=devices,
        slots_needed=needed,
        max_slots=link.max_slots,
        fits=fits,
        slot_success=success,
        delivery_probability=probability,
        mean_slots_if_delivered=(
            _mean_latency(needed, link.max_slots, success) if probability > 0 else None
        ),
        expected_slots=float(np.sum(1 - arrived[:-1])),
        expected_round_slots=float(np.sum(1 - arrived[:-1] ** devices)),
        expected_delivered=devices * probability,
    )


def _immediate(
    direction: Direction, bits: int, devices: int, max_slots: int, slot_success: float
) -> Budget:
    return Budget(
        direction=direction,
        bits=bits,
        devices=devices,
        slots_needed=0,
        max_slots=max_slots,
        fits=True,
        slot_success=slot_success,
        delivery_probability=1.0,
        mean_slots_if_delivered=0.0,
        expected_slots=0.0,
        expected_round_slots=0.0,
        expected_delivered=float(devices),
    )


def _arrived_by(slots: NDArray[np.int64], needed: int, success: float) -> NDArray[np.float64]:
    """P(T <= t) for each t of ``slots``: at least ``needed`` >= 1 of t slots are decoded."""
    enough = slots >= needed
    chance = special.betainc(needed, np.where(enough, slots - needed + 1, 1), success)
    return np.where(enough, chance, 0.0)


def _mean_latency(needed: int, max_slots: int, success: float) -> float:
    """E[T | T <= T_max], from log-probabilities: the conditioning event may be very rare."""
    slots = np.arange(needed, max_slots + 1)
    failed = slots - needed
    log_chance = (
        special.gammaln(slots)
        - special.gammaln(failed + 1)
        + special.xlogy(needed, success)
        + special.xlog1py(failed, -success)
    )
    chance = np.exp(log_chance - log_chance.max())
    return float(np.sum(slots * chance) / np.sum(chance))


def _check(bits: int, devices: int) -> None:
    if bits < 0:
        raise InputError(f"bits = {bits}: must be 0 or more")
    if devices < 1:
        raise InputError(f"devices = {devices}: must be 1 or more")
