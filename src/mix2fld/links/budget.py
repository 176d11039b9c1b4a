"""How long a message takes and how often it arrives, without simulating a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.types import Delivery

Direction = Literal["uplink", "downlink"]
"""From devices to the server, or back."""
Bits = NDArray[np.int64]
"""[D], the bits of the message of each device; 0 of a device that sends or receives nothing."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Latency and delivery of one message per device; slots of a failed transfer are T_max."""

    direction: Direction
    bits: int
    devices: int
    """Devices that send or receive it at the same time."""
    slots_needed: int | None = None
    """Decoded slots that carry the message; None where only estimated."""
    max_slots: int
    fits: bool
    """Whether the message can arrive at all; where only estimated, whether it ever did."""
    slot_success: float | None = None
    """Chance that a slot is decoded, q; None where only estimated."""
    delivery_probability: float
    mean_slots_if_delivered: float | None
    """E[T | T <= T_max]; None if delivery has probability 0."""
    expected_slots: float
    """E[min(T, T_max)] of one device."""
    expected_round_slots: float
    """Mean slots of the slowest device, T_max if any is in outage."""
    expected_delivered: float
    """Mean number of devices whose message arrives."""
    draws: int = 0
    """Simulated transmissions behind the numbers; 0 is a closed form."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """The same of each device, which may have a message and a channel of its own."""

    direction: Direction
    bits: Bits
    max_slots: int
    probability: NDArray[np.float64]  # [D], that the message arrives
    expected_slots: NDArray[np.float64]  # [D], E[min(T, T_max)]
    on_air_slots: NDArray[np.float64]  # [D], mean slots in which the device sends or receives
    round_slots: float
    """Mean slots of the slowest of those who transmit at once, T_max if any is in outage."""
    draws: int = 0
    """Simulated transmissions behind the numbers; 0 is a closed form."""
    standard_error: NDArray[np.float64] | None = None
    """[D], of the probability; None is a closed form."""
    arrivals: NDArray[np.float64] | None = None
    """[n], mean slots until 1, 2, ... n of those who transmit at once are done, where so many are;
    T_max of those that never are. None: unknown."""

    def slots_until(self, needed: int) -> float:
        """Mean slots until so many messages have arrived, if so many do."""
        if self.arrivals is None or needed > len(self.arrivals):
            return self.round_slots
        return float(self.arrivals[needed - 1])

    @property
    def median_slots(self) -> float:
        """Of the messages that arrive; T_max if none does."""
        sending = self.bits > 0
        if self.arrivals is None or not sending.any():
            return float(self.expected_slots.mean())
        arriving = len(self.arrivals) * float(self.probability[sending].mean())
        return self.slots_until(max(1, math.ceil(arriving / 2)))

    def as_budget(self, transmitting: int | None = None) -> Budget:
        """The mean over devices that have something to send; by default all transmit at once."""
        sending = self.bits > 0 if self.bits.any() else np.ones(len(self.bits), np.bool_)
        devices = int(sending.sum()) if transmitting is None else transmitting
        chance = float(self.probability[sending].mean())
        slots = float(self.expected_slots[sending].mean())
        lost = (1 - chance) * self.max_slots
        return Budget(
            direction=self.direction,
            bits=int(self.bits.max()),
            devices=devices,
            max_slots=self.max_slots,
            fits=chance > 0,
            delivery_probability=chance,
            mean_slots_if_delivered=(slots - lost) / chance if chance > 0 else None,
            expected_slots=slots,
            expected_round_slots=self.round_slots,
            expected_delivered=devices * chance,
            draws=self.draws,
        )


def immediate(direction: Direction, bits: Bits, max_slots: int) -> Forecast:
    """The forecast of messages that all arrive at once."""
    none = np.zeros(len(bits))
    return Forecast(direction, bits, max_slots, none + 1, none, none, 0.0)


class Simulated(NamedTuple):
    """Simulated transmissions, each of all devices or of some of them: [draws, D]."""

    taking_part: NDArray[np.bool_]
    delivered: NDArray[np.bool_]
    slots: NDArray[np.int64]
    on_air: NDArray[np.float64]

    @classmethod
    def of(cls, taking_part: Sequence[NDArray[np.bool_]], sent: Sequence[Delivery]) -> Self:
        """Deliveries, and who took part in each of them."""
        on_air = [one.slots if one.on_air is None else one.on_air for one in sent]
        return cls(
            np.stack(taking_part),
            np.stack([one.delivered for one in sent]),
            np.stack([one.slots for one in sent]),
            np.stack(on_air),
        )

    def as_forecast(self, direction: Direction, bits: Bits, max_slots: int) -> Forecast:
        """The forecast of each device, from the transmissions that it took part in."""
        times = np.maximum(self.taking_part.sum(axis=0), 1)

        def mean(values: NDArray[Any]) -> NDArray[np.float64]:
            found: NDArray[np.float64] = np.sum(values * self.taking_part, axis=0) / times
            return found

        probability = np.where(bits > 0, mean(self.delivered), 1.0)
        return Forecast(
            direction=direction,
            bits=bits,
            max_slots=max_slots,
            probability=probability,
            expected_slots=mean(self.slots),
            on_air_slots=mean(self.on_air),
            round_slots=float(np.mean(np.max(self.slots * self.taking_part, axis=1, initial=0))),
            draws=len(self.slots),
            standard_error=np.where(bits > 0, _binomial_error(probability, times), 0.0),
            arrivals=self._arrivals(bits, max_slots),
        )

    def _arrivals(self, bits: Bits, max_slots: int) -> NDArray[np.float64]:
        """Mean over the transmissions in which so many messages arrived."""
        counted = self.taking_part & (bits > 0)
        most = int(counted.sum(axis=1).max(initial=0))
        ended = np.where(self.delivered & counted, self.slots.astype(np.float64), np.inf)
        ended = np.sort(ended, axis=1)[:, :most]
        arrived = np.isfinite(ended)
        total, times = np.where(arrived, ended, 0.0).sum(axis=0), arrived.sum(axis=0)
        found: NDArray[np.float64] = np.where(times, total / np.maximum(times, 1), max_slots)
        return found


def _binomial_error(share: NDArray[np.float64], times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Standard error of a share of so many trials, with half a success and half a failure added.

    An estimate that met no outage does not claim that there is none.
    """
    smoothed = (share * times + 0.5) / (times + 1)
    error: NDArray[np.float64] = np.sqrt(smoothed * (1 - smoothed) / times)
    return error


def mean_arrivals(
    arrived: NDArray[np.float64], transmitting: int, ends: NDArray[Any], max_slots: int
) -> NDArray[np.float64]:
    """Slots by which 1, 2, ... of so many devices are expected to be done.

    ``arrived[d, k]`` is the chance that device d is done after k turns, ``ends[k]`` the slots then.
    """
    expected = transmitting * arrived.mean(axis=0)
    wanted = np.arange(1, transmitting + 1) - 0.5
    places = np.searchsorted(expected, wanted)
    found: NDArray[np.float64] = np.append(ends, max_slots)[places].astype(np.float64)
    return found


def mean_slowest(
    arrived: NDArray[np.float64], transmitting: int, steps: NDArray[np.int64]
) -> float:
    """Mean slots of the slowest of so many devices, any of them, T_max if one is in outage.

    ``arrived[d, k]`` is the chance that device d is done after k turns, and ``steps[k]`` the slots
    from there to the next turn, or to T_max after the last. The mean of a product over all choices
    of n of the first d devices follows from those of d - 1.
    """
    if not transmitting:
        return 0.0
    if (arrived == arrived[0]).all():
        all_arrived = arrived[0] ** transmitting
    elif transmitting == len(arrived):
        all_arrived = np.prod(arrived, axis=0)
    else:
        means = np.zeros((transmitting + 1, arrived.shape[1]))
        means[0] = 1
        for count, device in enumerate(arrived, 1):
            share = np.arange(1, transmitting + 1)[:, None] / count
            means[1:] = np.maximum(1 - share, 0) * means[1:] + np.minimum(share, 1) * (
                device * means[:-1]
            )
        all_arrived = means[-1]
    return float((1 - all_arrived) @ steps)


def check_demand(bits: int = 0, devices: int = 1, draws: int = 1) -> None:
    """Refuse what cannot be asked of any link."""
    for field, value, least in (("bits", bits, 0), ("devices", devices, 1), ("draws", draws, 1)):
        if value < least:
            raise InputError(field=field, value=value, hint=f"must be {least} or more")
