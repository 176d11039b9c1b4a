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
        """Refuse a deadline that is not above 0 seconds."""
        if not self.seconds:
            raise self.refused(config.availability.wait)

    @property
    def limit(self) -> float:
        """Seconds after which the server waits no longer."""
        return self.seconds
