"""What a policy of time says; the flights of devices and the server's step follow it."""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Self

from mix2fld.base.errors import InputError

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


@dataclass(frozen=True)
class Policy:
    """When the server takes its step; by default when no upload is on its way any more.

    A field is a number that ``wait`` gives behind the name: ``quorum:0.8``, the first without its
    name, others as ``buffered:10,mixing=0.5``.
    """

    spelled: ClassVar[str] = "all"
    """How it is written, for a message."""
    at_once: ClassVar[bool] = False
    """Whether devices transmit together, when the slowest has computed, and share fairly to the
    end; otherwise each transmits when it has computed, and shares with those who transmit then."""
    uses_late: ClassVar[bool] = False
    """Whether an upload that the server did not wait for is used in a later step."""

    @classmethod
    def of(cls, value: str, spelled: str) -> Self:
        """The policy with what stands behind the colon of what was ``spelled``."""
        own, given = [each.name for each in fields(cls) if each.init], dict[str, float]()
        for place, part in enumerate(value.split(",") if value else ()):
            name, equals, number = part.rpartition("=")
            name = name if equals else "".join(own[:1]) if place == 0 else ""
            try:
                given[name] = float(number)
            except ValueError:
                given[name] = math.nan
        if not given.keys() <= set(own) or not all(0 <= n < math.inf for n in given.values()):
            raise cls.refused(spelled)
        try:
            return cls(**given)
        except TypeError:
            raise cls.refused(spelled) from None

    @classmethod
    def refused(cls, spelled: str, hint: str = "") -> InputError:
        """The error for a spelling without a meaning."""
        return InputError(field="wait", value=f"{spelled!r}", hint=hint or f"must be {cls.spelled}")

    def check(self, config: "Config") -> None:
        """Refuse numbers that mean nothing in a run."""

    def enough(self, asked: int) -> float:
        """How many uploads of a round in which so many devices were asked end the wait."""
        del asked
        return math.inf

    @property
    def limit(self) -> float:
        """Seconds after which the wait ends."""
        return math.inf

    def weight(self, staleness: int) -> float:
        """Of an upload that is so many steps old; 0: it is not used."""
        del staleness
        return 1.0

    @property
    def share(self) -> float:
        """How far the server's model goes towards what a step without staleness makes of it."""
        return 1.0
