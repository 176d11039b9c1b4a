"""A link that delivers everything at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.config.settings import ChannelConfig
from mix2fld.links.budget import Budget, Direction, Forecast, check_demand, immediate
from mix2fld.links.channels.channel import Memoryless
from mix2fld.types import Delivery, State


@dataclass(frozen=True)
class IdealLink(Memoryless):
    """Delivers everything at once."""

    slot_seconds: float = 0.001
    max_slots: int = 1

    @classmethod
    def from_config(cls, config: ChannelConfig, devices: int) -> Self:
        """Only the length of a slot and the limit matter, for records."""
        del devices
        return cls(config.slot_ms / 1000, config.max_slots)

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        """Everything arrives, in 0 slots."""
        del direction, rng
        return Delivery(np.ones(len(bits), dtype=np.bool_), np.zeros(len(bits), dtype=np.int64))

    def budget(self, direction: Direction, bits: int, devices: int, *, draws: int = 0) -> Budget:
        """Everything arrives, in 0 slots."""
        del draws
        check_demand(bits, devices)
        return immediate(direction, bits, devices, self.max_slots, slot_success=1.0)

    def forecast(
        self,
        direction: Direction,
        bits: NDArray[np.int64],
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = 0,
    ) -> Forecast:
        """Everything arrives, in 0 slots."""
        del state, transmitting, draws
        none = np.zeros(len(bits))
        return Forecast(direction, bits, self.max_slots, none + 1, none, none, 0.0)
