"""Figures that an earlier trial of the same attacks and defences reached, beside those of records.

An attack that finds less than is known to be findable proves nothing.
"""

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from mix2fld.config.grid import Grid
from mix2fld.runs.old_formats import with_rates_as_used
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.findings import HIGH, LOW, Stages, mean, mixing_ratios, pooled, strongest
from mix2fld_lab.audit.page_tables import percent
from mix2fld_lab.audit.sections import AuditSection
from mix2fld_lab.markdown import markdown_table

Find = Callable[[Stages], Share | float | None]


class Figure(NamedTuple):
    """What was reached before, and where records hold the same."""

    name: str
    reached: float
    find: Find


def _share(pattern: str, *path: str) -> Find:
    return lambda stages: pooled(stages, pattern, *path)


def _accuracy(pattern: str) -> Find:
    return lambda stages: mean(stages, pattern, "accuracy")


def _least_identified(part: str) -> Find:
    def find(stages: Stages) -> Share | None:
        ratios = mixing_ratios(stages, "recovery")
        where = [rf"recovery/{re.escape(ratio)}/s\d+" for ratio in ratios]
        return _least([pooled(stages, each, part, "among_all") for each in where])

    return find


def _least_members(stages: Stages) -> Share | None:
    tried = product(mixing_ratios(stages), ("minor", "dominant"))
    return _least([strongest(stages, ratio, LOW, part) for ratio, part in tried])


def _mixed_share(stages: Stages) -> Share | None:
    return _least([strongest(stages, ratio, LOW) for ratio in mixing_ratios(stages)])


def _least(shares: Sequence[Share]) -> Share | None:
    return min((share for share in shares if share.of), key=lambda share: share.rate, default=None)


FIGURES = (
    Figure("minor parts re-identified, least of all λ", 0.97, _least_identified("minor")),
    Figure("dominant parts re-identified, least of all λ", 0.98, _least_identified("dominant")),
    Figure("constituents of mixes found at 0.1 %, least of all λ", 1.0, _least_members),
    Figure("share of a device found: mixed seeds, least of all λ", 0.18, _mixed_share),
    Figure("share found: raw seeds", 0.10, _share(r"seeds/raw/1/s\d+/box", LOW, "device")),
    Figure("share found: FL", 0.074, _share(r"uploads/s\d+", "fl", LOW, "device")),
    Figure("share found: FL 8-bit", 0.074, _share(r"uploads/s\d+", "fl8", LOW, "device")),
    Figure("share found: FL 4-bit", 0.070, _share(r"uploads/s\d+", "fl4", LOW, "device")),
    Figure("share found: FD's mean outputs", 0.005, _share(r"uploads/s\d+", "fd", LOW, "device")),
    Figure("share found: means of ten", 0.68, _share(r"averages/ten/s\d+", LOW, "device")),
    Figure(
        "the attacker knows all samples but one, at 1 %",
        0.194,
        _share(r"noise/dp-statistics/s\d+", HIGH, "true"),
    ),
    Figure("accuracy: DP sum, ε = 8", 0.94, _accuracy(r"accuracy/dp-sum/s\d+")),
    Figure("accuracy: DP statistics, ε = 8", 0.93, _accuracy(r"accuracy/dp-statistics/s\d+")),
    Figure(
        "accuracy: DP statistics, ε = 4, in at most 50 kbit",
        0.92,
        _accuracy(r"budget/dp-statistics/4:4/s\d+"),
    ),
)


def reference_table(section: AuditSection) -> str:
    """Every figure of before that the records hold too; none of other data or training."""
    grid = Grid(**with_rates_as_used(section.records[0]["about"]["config"]))
    if (grid.data, grid.learning) != (Grid().data, Grid().learning):
        return ""
    rows = []
    for name, reached, find in FIGURES:
        found = find(section.stages)
        if found is None or (isinstance(found, Share) and not found.of):
            continue
        shown = percent(found) if isinstance(found, Share) else f"{100 * found:.1f} %"
        rows.append((name, f"{100 * reached:.1f} %", shown, _verdict(reached, found)))
    return markdown_table(("figure", "before", "here", ""), rows) if rows else ""


def _verdict(reached: float, found: Share | float) -> str:
    rate = found.rate if isinstance(found, Share) else found
    if round(rate, 3) >= reached:
        return "reached"
    within = isinstance(found, Share) and found.interval()[1] >= reached
    return "within the interval" if within else "not reached"
