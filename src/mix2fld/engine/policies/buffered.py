"""A buffer of uploads, and a step when it is full (FedBuff, Nguyen et al., AISTATS 2022)."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mix2fld.engine.policies.policy import Policy

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


@dataclass(frozen=True)
class Buffered(Policy):
    """The server takes a step after so many uploads; all others continue, and come later."""

    spelled: ClassVar[str] = "buffered:10, uploads in a step; also mixing=, power= and oldest="
    uses_late: ClassVar[bool] = True
    uploads: float
    mixing: float = 1.0
    """Step of the server, as a share of that of a round that waits."""
    power: float = 0.5
    """An upload that is s steps old counts (1 + s) to the minus this power."""
    oldest: float = math.inf
    """Most steps that an upload may be old; one that is older is not used."""

    def check(self, config: "Config") -> None:
        """A buffer that the fleet can fill."""
        most, whole = config.participants_per_round, self.uploads == int(self.uploads)
        if not (1 <= self.uploads <= most and whole):
            hint = f"a buffer of uploads must be a whole number from 1 to {most}, those asked"
            raise self.refused(config.availability.wait, hint)
        if not 0 < self.mixing <= 1:
            raise self.refused(config.availability.wait, "mixing must be above 0 and at most 1")

    def enough(self, asked: int) -> float:
        """The uploads that fill the buffer, however many devices were asked."""
        del asked
        return self.uploads

    def weight(self, staleness: int) -> float:
        """(1 + staleness) to the minus ``power``; 0 for an upload that is too old."""
        return float((1 + staleness) ** -self.power) if staleness <= self.oldest else 0.0

    @property
    def share(self) -> float:
        """The share of a step's model in the mix with the last one, as configured."""
        return self.mixing
