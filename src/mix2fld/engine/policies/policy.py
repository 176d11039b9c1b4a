"""What a policy of time says; the flights of devices and the server's step follow it."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config


@dataclass(frozen=True)
class Policy:
    """When the server takes its step; by default when no upload is on its way any more."""

    at_once: ClassVar[bool] = False
    """Whether devices transmit together, when the slowest has computed, and share fairly to the
    end; otherwise each transmits when it has computed, and shares with those who transmit then."""

    @classmethod
    def of(cls, value: str, config: Config) -> Self:
        """The policy with what stands behind the colon; it is refused if it means nothing."""
        del config
        if value:
            raise InputError(field="wait", value=f"{value!r}", hint="takes no value after a colon")
        return cls()

    def enough(self, asked: int) -> float:
        """How many uploads of a round in which so many devices were asked end the wait."""
        del asked
        return math.inf

    @property
    def limit(self) -> float:
        """Seconds after which the wait ends."""
        return math.inf


def number_in(value: str, hint: str) -> float:
    """The number behind the colon of ``wait``, above 0."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(field="wait", value=f"{value!r}", hint=hint)
    return number
