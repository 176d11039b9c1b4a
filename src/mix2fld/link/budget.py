"""How long a payload takes and how often it arrives, without simulating a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mix2fld.errors import InputError
from mix2fld.types import Delivery

Direction = Literal["uplink", "downlink"]


@dataclass(frozen=True)
class Budget:
    """Latency and delivery of one payload per device; slots of a failed transfer are T_max."""

    direction: Direction
    bits: int
    devices: int
    """Devices that send or receive it at the same time."""
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


def immediate(
    direction: Direction, bits: int, devices: int, max_slots: int, slot_success: float
) -> Budget:
    """The budget of a payload that arrives at once."""
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


def estimated(
    direction: Direction, bits: int, devices: int, max_slots: int, send: Callable[[], Delivery],
    draws: int,
) -> Budget:  # fmt: skip
    """The same numbers from ``draws`` simulated transmissions."""
    if draws < 1:
        raise InputError(f"draws = {draws}: must be 1 or more")
    deliveries = [send() for _ in range(draws)]
    delivered = np.stack([delivery.delivered for delivery in deliveries])  # [draws, D]
    slots = np.stack([delivery.slots for delivery in deliveries])  # [draws, D]
    return Budget(
        direction=direction,
        bits=bits,
        devices=devices,
        slots_needed=None,
        max_slots=max_slots,
        fits=bool(delivered.any()),
        slot_success=None,
        delivery_probability=float(delivered.mean()),
        mean_slots_if_delivered=float(slots[delivered].mean()) if delivered.any() else None,
        expected_slots=float(slots.mean()),
        expected_round_slots=float(slots.max(axis=1).mean()),
        expected_delivered=float(delivered.sum(axis=1).mean()),
        draws=draws,
    )


def check_demand(bits: int, devices: int) -> None:
    """Refuse what cannot be asked of any link."""
    if bits < 0:
        raise InputError(f"bits = {bits}: must be 0 or more")
    if devices < 1:
        raise InputError(f"devices = {devices}: must be 1 or more")
