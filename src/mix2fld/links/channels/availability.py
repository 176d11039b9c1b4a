"""Devices that come and go: a Markov chain of two states for each of them, in front of any link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.links.budget import Bits, Direction, Forecast
from mix2fld.links.channels.channel import ESTIMATE_DRAWS, Link
from mix2fld.types import Delivery, State


@dataclass(frozen=True)
class MarkovAvailability(Link):
    """A link whose devices are away for some rounds and then come back.

    In the long run a device is available in a share return / (return + leave) of the rounds.
    """

    link: Link
    leave: float
    """Chance that a device that is available is away in the next round."""
    come_back: float
    """Chance that one that is away is available in the next round."""

    @property
    def slot_seconds(self) -> float:  # type: ignore[override]
        return self.link.slot_seconds

    @property
    def max_slots(self) -> int:  # type: ignore[override]
        return self.link.max_slots

    def start(self, devices: int, rng: np.random.Generator) -> State:
        (away,) = rng.spawn(1)
        here = away.random(devices) < self.come_back / (self.come_back + self.leave)
        return {"link": self.link.start(devices, rng), "here": here}

    def begin_round(
        self, state: State, seconds: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_] | None, State]:
        """Some leave, some come back; of those that are here, who the link itself can reach."""
        (moves,) = rng.spawn(1)
        moved = moves.random(len(state["here"]))
        here = np.where(state["here"], moved >= self.leave, moved < self.come_back)
        reached, inner = self.link.begin_round(state["link"], seconds, rng)
        return here if reached is None else here & reached, {"link": inner, "here": here}

    def at(self, state: State, seconds: float) -> State:
        """The state of the link at a moment."""
        return {**state, "link": self.link.at(state["link"], seconds)}

    def transmit(
        self, direction: Direction, bits: Bits, rng: np.random.Generator, state: State
    ) -> tuple[Delivery, State]:
        delivery, inner = self.link.transmit(direction, bits, rng, state["link"])
        return delivery, {**state, "link": inner}

    def forecast(
        self,
        direction: Direction,
        bits: Bits,
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = ESTIMATE_DRAWS,
    ) -> Forecast:
        return self.link.forecast(
            direction, bits, state["link"], transmitting=transmitting, draws=draws
        )

    def lasting(self, state: State) -> State:
        return {**state, "link": self.link.lasting(state["link"])}
