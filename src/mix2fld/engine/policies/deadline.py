"""Wait for so many seconds; uploads that come later are not used."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mix2fld.engine.policies.policy import Policy

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


@dataclass(frozen=True)
class Deadline(Policy):
    """A round ends so many seconds after the order, or before, if all uploads are over."""

    spelled: ClassVar[str] = "seconds above 0, as in deadline:30"
    seconds: float

    def check(self, config: "Config") -> None:
        """Some time."""
        if not self.seconds:
            raise self.refused(config.availability.wait)

    @property
    def limit(self) -> float:
        """The deadline."""
        return self.seconds
