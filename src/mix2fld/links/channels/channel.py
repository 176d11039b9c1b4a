"""What every link does: carry one message per device in one direction, and remember if it must.

A custom link is a subclass of ``Memoryless`` with ``deliver``, or of ``Link`` if what happens to a
device depends on what happened to it before.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.links.budget import (
    Bits,
    Budget,
    Direction,
    Forecast,
    Simulated,
    check_demand,
    immediate,
)
from mix2fld.types import Delivery, State

ESTIMATE_DRAWS = 1000


class Link(ABC):
    """Carries messages between devices and server: those that arrive, or their sum."""

    slot_seconds: float
    """Length of a slot, tau."""
    max_slots: int
    """Slots after which a transfer is an outage, T_max."""

    adds: bool = False
    """Whether uploads are added on their way: the server then sees their sum, and none of them."""

    def superpose(
        self, signals: NDArray[np.float64], weights: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64] | None:
        """The mean, by these weights, that the server gets of signals [n, p] on a link that adds.

        None if it gets nothing.
        """
        del rng
        mean: NDArray[np.float64] = weights @ signals / weights.sum()
        return mean

    def start(self, devices: int, rng: np.random.Generator) -> State:
        """What the link remembers before the first round; most links remember nothing."""
        return {}

    def begin_round(
        self, state: State, seconds: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_] | None, State]:
        """Which devices can be reached in the round that begins now, and the link as it is now.

        ``seconds`` have passed since the start of the run. None: every device, as on most links.
        """
        return None, state

    def at(self, state: State, seconds: float) -> State:
        """The link within a round, so many seconds after the start of the run."""
        del seconds
        return state

    @abstractmethod
    def transmit(
        self, direction: Direction, bits: Bits, rng: np.random.Generator, state: State
    ) -> tuple[Delivery, State]:
        """Send a message of ``bits[d]`` bits from or to each device d; 0 bits take 0 slots.

        The devices with more than 0 bits share the uplink. The state is that of ``start`` or of
        the transmission before. On a link that adds, ``bits`` of an upload are its values.
        """

    def budget(
        self, direction: Direction, bits: int, devices: int, *, draws: int = ESTIMATE_DRAWS
    ) -> Budget:
        """Latency and delivery when so many devices send at once: their forecast, as one."""
        check_demand(bits, devices, draws)
        state = self.lasting(self.start(devices, np.random.default_rng(0)))
        sizes = np.full(devices, bits, np.int64)
        return self.forecast(direction, sizes, state, draws=draws).as_budget()

    def forecast(
        self,
        direction: Direction,
        bits: Bits,
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = ESTIMATE_DRAWS,
    ) -> Forecast:
        """What each device with ``bits[d]`` > 0 bits can expect of a link in this state.

        All of them transmit at once, or so many of them, any choice being as likely as another.
        By default from simulated transmissions, each of which begins in the same state.
        """
        check_demand(draws=draws)
        rng = np.random.default_rng(0)
        sending, taking_part, sent = np.flatnonzero(bits), [], []
        for _ in range(draws):
            chosen = bits > 0
            if transmitting is not None and transmitting < len(sending):
                chosen = np.isin(
                    np.arange(len(bits)), rng.choice(sending, size=transmitting, replace=False)
                )
            found, _after = self.transmit(direction, bits * chosen, rng, state)
            taking_part.append(chosen)
            sent.append(check_delivery(self, found, len(bits)))
        return Simulated.of(taking_part, sent).as_forecast(direction, bits, self.max_slots)

    def lasting(self, state: State) -> State:
        """What of a state is the same in every round, for a forecast over many rounds."""
        return state


class Memoryless(Link):
    """A link on which every transmission is independent of those before."""

    @abstractmethod
    def deliver(self, direction: Direction, bits: Bits, rng: np.random.Generator) -> Delivery:
        """What happens to a message of ``bits[d]`` bits from or to each device d."""

    def transmit(
        self, direction: Direction, bits: Bits, rng: np.random.Generator, state: State
    ) -> tuple[Delivery, State]:
        return self.deliver(direction, bits, rng), state


@dataclass(frozen=True)
class IdealLink(Memoryless):
    """Delivers everything at once."""

    slot_seconds: float = 0.001
    max_slots: int = 1

    @classmethod
    def from_config(cls, config: Config, devices: int) -> Self:
        """Only the length of a slot and the limit matter, for records."""
        return cls(config.channel.slot_ms / 1000, config.channel.max_slots)

    def deliver(self, direction: Direction, bits: Bits, rng: np.random.Generator) -> Delivery:
        return Delivery(np.ones(len(bits), dtype=np.bool_), np.zeros(len(bits), dtype=np.int64))

    def budget(
        self, direction: Direction, bits: int, devices: int, *, draws: int = ESTIMATE_DRAWS
    ) -> Budget:
        found = super().budget(direction, bits, devices, draws=draws)
        return replace(found, slots_needed=0, slot_success=1.0)

    def forecast(
        self,
        direction: Direction,
        bits: Bits,
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = 0,
    ) -> Forecast:
        return immediate(direction, bits, self.max_slots)


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
    if delivery.on_air is not None and (
        delivery.on_air.shape != (devices,) or np.any(delivery.on_air > slots)
    ):
        raise InputError(
            f"{name}.transmit: on_air is {delivery.on_air.dtype}{list(delivery.on_air.shape)}; "
            f"must be float64[{devices}], none of them above slots"
        )
    return delivery
