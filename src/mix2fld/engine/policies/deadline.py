"""Wait for so many seconds; uploads that come later are not used."""

from dataclasses import dataclass
from typing import Self

from mix2fld.config.settings import Config
from mix2fld.engine.policies.policy import Policy, number_in


@dataclass(frozen=True)
class Deadline(Policy):
    """A round ends so many seconds after the order, or before, if all uploads are over."""

    seconds: float

    @classmethod
    def of(cls, value: str, config: Config) -> Self:
        """``deadline:30``."""
        del config
        return cls(number_in(value, "must be seconds, as in deadline:30"))

    @property
    def limit(self) -> float:
        """The deadline."""
        return self.seconds
