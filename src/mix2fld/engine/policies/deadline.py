"""Wait for so many seconds; uploads that come later are not used."""

from dataclasses import dataclass
from typing import ClassVar

from mix2fld.config.settings import Config
from mix2fld.engine.policies.policy import Policy


@dataclass(frozen=True)
class Deadline(Policy):
    """A round ends so many seconds after the order, or before, if all uploads are over."""

    spelled: ClassVar[str] = "seconds above 0, as in deadline:30"
    seconds: float

    def check(self, config: Config) -> None:
        """Some time."""
        if not self.seconds:
            raise self.refused(config)

    @property
    def limit(self) -> float:
        """The deadline."""
        return self.seconds
