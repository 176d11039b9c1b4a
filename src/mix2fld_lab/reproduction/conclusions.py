"""Measured differences in words: each sentence of the ledger that concludes is made from these."""

from collections.abc import Sequence
from math import isnan
from typing import Literal

from mix2fld.base.spread import Spread

Standing = Literal["above", "below", "level"]


def standing(found: Spread) -> Standing:
    """A direction counts when the 95 % interval of the mean difference excludes zero."""
    return "above" if found.above_zero else "below" if found.below_zero else "level"


def against(found: Spread, other: str) -> str:
    """Where we stand: ``7.4 points above FL``, or level with it."""
    where = standing(found)
    if where == "level":
        return f"level with {other} {_within(found)}"
    return f"{abs(found.mean):.1f} points {where} {other}"


def in_points(found: Spread) -> str:
    """A mean difference with its 95 % interval."""
    return f"{found.mean:+.2f} points [{found.low:+.2f}, {found.high:+.2f}]"


def change(found: Spread) -> str:
    """What a change does, as a verb: ``gains 1.5 points``."""
    where = standing(found)
    if where == "level":
        return f"stays level {_within(found)}"
    return f"{'gains' if where == 'above' else 'loses'} {abs(found.mean):.1f} points"


def _within(found: Spread) -> str:
    if isnan(found.mean):
        return "(not measured)"
    kind = "one seed, no spread" if isnan(found.std) else "within the spread"
    return f"{kind} ({found.mean:+.1f} points)"


def outcome(found: Sequence[Spread]) -> str:
    """Who wins over several others, as a verb."""
    stands = {standing(each) for each in found}
    if stands == {"above"}:
        return "wins"
    if stands == {"below"}:
        return "loses"
    if stands == {"level"}:
        return "is level"
    return "loses to some" if "below" in stands else "wins in part"


def by_both(by_reference: Spread, by_all: Spread, other: str) -> str:
    """Where we stand by all devices and by the reference device, and whether they part."""
    stands = {standing(by_reference), standing(by_all)}
    if len(stands) == 1 and stands != {"level"}:
        return f"{against(by_all, other)} ({abs(by_reference.mean):.1f} by the reference device)"
    return f"{against(by_all, other)}, by the reference device {against(by_reference, other)}"


def share_of_paper(found: Spread, relative: Spread, papers: float) -> str:
    """How large a gain is beside the paper's, which may mean points or be relative.

    A gain that does not count has no share.
    """
    if not found.above_zero:
        return f"the paper reports {papers:g} %"
    as_points, as_relative = (100 * each.mean / papers for each in (found, relative))
    return (
        f"{as_points:.0f} % of the paper's {papers:g} % if that means points, {as_relative:.0f} % "
        "if it is relative"
    )


def out_of(found: Sequence[bool]) -> str:
    """In how many places: ``all 8``, ``none of 8``, ``6 of 8``."""
    count, places = sum(found), len(found)
    if count == places:
        return f"all {places}"
    return f"{count or 'none'} of {places}"


def listed(values: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = values
    return f"{', '.join(first)} and {last}" if first else last
