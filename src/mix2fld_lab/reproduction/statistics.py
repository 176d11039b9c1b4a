"""Accuracies of cells over seeds, and their differences seed by seed."""

from collections.abc import Sequence
from math import inf, isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.spread import Spread, spread
from mix2fld_lab.reproduction.cell_records import CellRecord

Measure = Literal["reference", "mean"]
"""Whose accuracy: that of the reference device, as in the paper, or the mean of all devices."""


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which hypotheses are rejected if all errors together are to stay within ``level``.

    Holm's step-down procedure: the smallest p-value is compared with level / m, the next one with
    level / (m - 1), and so on up to the first that is larger. Those without a p-value come last.
    """
    known = [inf if isnan(value) else value for value in p_values]
    rejected = [False] * len(known)
    for rank, place in enumerate(sorted(range(len(known)), key=known.__getitem__)):
        if known[place] > level / (len(known) - rank):
            break
        rejected[place] = True
    return rejected


def accuracy(cell: CellRecord, measure: str = "reference") -> Spread:
    """Per cent after the last local phase: of the reference device, or the mean of all devices."""
    return spread(100 * cell.values("summary", "accuracy", measure))


def device_accuracies(cell: CellRecord) -> NDArray[np.float64]:
    """Per cent after the last local phase, of every device of every seed."""
    return 100 * np.concatenate([run["devices"] for run in cell.runs])


def distinct_per_device(cell: CellRecord) -> float:
    """Inverse-Mixup samples per device that distinct groups can yield, averaged over seeds."""
    groups = cell.values("summary", "seeds", "distinct_groups").mean()
    return float(2 * groups / cell.devices)


def gain(ours: CellRecord, other: CellRecord, measure: str = "reference") -> Spread:
    """How many points of accuracy ``ours`` is above ``other``, for each seed that both have."""
    path = ("summary", "accuracy", measure)
    left, right = (dict(zip(cell.seeds, cell.values(*path), strict=True)) for cell in (ours, other))
    return spread([100 * (left[seed] - right[seed]) for seed in left if seed in right])


def relative_gain(ours: CellRecord, other: CellRecord, measure: str = "reference") -> Spread:
    """How many per cent of the other's accuracy ``ours`` is above it, seed by seed."""
    path = ("summary", "accuracy", measure)
    left, right = (dict(zip(cell.seeds, cell.values(*path), strict=True)) for cell in (ours, other))
    return spread([100 * (left[seed] / right[seed] - 1) for seed in left if seed in right])


def downloaded_gain(ours: CellRecord, other: CellRecord) -> Spread:
    """Points of ``ours`` above ``other``, where weights are downloaded right after a download."""

    def shown(cell: CellRecord) -> NDArray[np.float64]:
        by_weights = cell.protocol in ("mixfld", "mix2fld")
        return cell.values("summary", "accuracy", "global" if by_weights else "reference")

    return spread(100 * (shown(ours) - shown(other)))
