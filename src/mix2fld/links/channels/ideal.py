"""A link that delivers everything at once."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mix2fld.config.settings import Config
from mix2fld.links.budget import Bits, Budget, Direction, Forecast, immediate
from mix2fld.links.channels.channel import Memoryless, budget_of_forecast
from mix2fld.types import Delivery, State


@dataclass(frozen=True)
class IdealLink(Memoryless):
    """Delivers everything at once."""

    slot_seconds: float = 0.001
    max_slots: int = 1

    @classmethod
    def from_config(cls, config: Config, devices: int) -> Self:
        """Only the length of a slot and the limit matter, for records."""
        del devices
        return cls(config.channel.slot_ms / 1000, config.channel.max_slots)

    def deliver(self, direction: Direction, bits: Bits, rng: np.random.Generator) -> Delivery:
        """Everything arrives, in 0 slots."""
        del direction, rng
        return Delivery(np.ones(len(bits), dtype=np.bool_), np.zeros(len(bits), dtype=np.int64))

    def budget(self, direction: Direction, bits: int, devices: int, *, draws: int = 0) -> Budget:
        """Everything arrives, in 0 slots."""
        found = budget_of_forecast(self, direction, bits, devices, draws)
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
        """Everything arrives, in 0 slots."""
        del state, transmitting, draws
        return immediate(direction, bits, self.max_slots)
