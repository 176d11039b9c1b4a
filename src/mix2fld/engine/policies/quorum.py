"""Wait for a share of the devices; uploads that come later are not used."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mix2fld.engine.policies.policy import Policy

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


@dataclass(frozen=True)
class Quorum(Policy):
    """A round ends when so many uploads have arrived."""

    spelled: ClassVar[str] = "quorum:0.8, a share of the devices asked, or quorum:40, their number"
    uploads: float
    """Up to 1 a share of the devices that were asked; above, their number."""

    def check(self, config: "Config") -> None:
        """A number of uploads that can arrive."""
        asked = config.participants_per_round
        whole = self.uploads == int(self.uploads) and self.uploads <= asked
        if not self.uploads or (self.uploads > 1 and not whole):
            hint = f"must be above 0 and at most 1, or a whole number up to {asked}, those asked"
            raise self.refused(config.availability.wait, hint)

    def enough(self, asked: int) -> float:
        """The uploads that are required; of a share, their number is rounded up."""
        return math.ceil(self.uploads * asked - 1e-9) if self.uploads <= 1 else self.uploads
