"""What the user's link makes scarce: uplink bits, time on air, or joules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from mix2fld.report.units import percent

if TYPE_CHECKING:
    from mix2fld.advice.ranking import Option

Resource = Literal["bits", "seconds", "joules"]
WORDS: dict[Resource, str] = {
    "bits": "uplink bits", "seconds": "time on air", "joules": "radio energy"
}  # fmt: skip
MUCH = 0.1
"""A share of a round's time or energy from which on the radio decides over it."""


class Scarce(NamedTuple):
    """The resource, and why."""

    resource: Resource
    why: str

    def __str__(self) -> str:
        return f"scarce: {WORDS[self.resource]} ({self.why})"


def cost(option: "Option", resource: Resource) -> float:
    """What a round takes of a resource."""
    costs = {
        "bits": option.bits_per_round, "seconds": option.seconds, "joules": option.joules
    }  # fmt: skip
    return costs[resource]


def scarce_of(options: "Sequence[Option]", deadline_s: float | None = None) -> Scarce:
    """What to be sparing with: of time and energy, the one of which the radio takes more.

    Shares are those of the most expensive option that the link carries; below a tenth of both,
    the link limits neither, and bits are what is left to save.
    """
    if deadline_s is not None:
        return Scarce("seconds", "a round has a deadline")
    carried = [one for one in options if one.suits and one.bits_per_round] or list(options)
    time = max((_share(one.seconds, one.computing_seconds) for one in carried), default=0.0)
    energy = max((_share(one.joules, one.computing_joules) for one in carried), default=0.0)
    if max(time, energy) < MUCH:
        most = percent(max(time, energy))
        return Scarce("bits", f"the radio takes at most {most} of a round's time and energy")
    if energy > time:
        return Scarce("joules", f"the radio takes up to {percent(energy)} of a device's energy")
    return Scarce("seconds", f"the radio takes up to {percent(time)} of a round's time")


def _share(radio: float, computing: float) -> float:
    return radio / (radio + computing) if radio > 0 else 0.0
