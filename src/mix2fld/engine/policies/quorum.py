"""Wait for a share of the devices; uploads that come later are not used."""

import math
from dataclasses import dataclass
from typing import Self

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.engine.policies.policy import Policy, number_in


@dataclass(frozen=True)
class Share(Policy):
    """A round ends when so many uploads have arrived; with all of them, no share is left fallow."""

    share: float
    """Up to 1 a share of the devices that were asked; above, their number."""

    @classmethod
    def of(cls, value: str, config: Config) -> Self:
        """``quorum:0.8`` or ``quorum:40``."""
        hint = "must be a share of the devices asked, as in quorum:0.8, or their number"
        share, asked = number_in(value, hint), config.participants_per_round
        if share > 1 and (share != int(share) or share > asked):
            raise InputError(
                field="wait",
                value=f"quorum:{value}",
                hint=f"must be at most 1, or a whole number up to {asked}, the devices asked",
            )
        return cls(share)

    def enough(self, asked: int) -> float:
        """The share, rounded up."""
        return math.ceil(self.share * asked - 1e-9) if self.share <= 1 else self.share
