"""Numbers over seeds: means with their spread, differences seed by seed.

Standard deviations and variances are those of the sample (divided by n - 1), here and wherever the
ledger or its figures show one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from mix2fld.reproduction.cell_records import CellRecord


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation and 95 % interval of the mean over seeds."""

    mean: float
    std: float
    low: float
    high: float
    p_value: float = nan
    """That the mean is zero: Student's t test, two-sided; nan for a single value."""

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if isnan(self.std) else f"{self.mean:.2f} ± {self.std:.2f}"

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.high < 0


def sample_variance(values: ArrayLike) -> float:
    """The sample's variance (divided by n - 1); nan for a single value."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.var(ddof=1)) if len(numbers) > 1 else float("nan")


def spread(values: ArrayLike) -> Spread:
    """Of one number for each seed; the interval is Student's t."""
    numbers = np.asarray(values, dtype=np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return Spread(mean, float("nan"), float("-inf"), float("inf"))
    std = sample_variance(numbers) ** 0.5
    error = std / count**0.5
    half = float(stdtrit(count - 1, 0.975)) * error
    return Spread(mean, std, mean - half, mean + half, _p_value(mean, error, count))


def _p_value(mean: float, error: float, count: int) -> float:
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(count - 1, -abs(mean / error)))


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


def downloaded_gain(ours: CellRecord, other: CellRecord) -> Spread:
    """Points of ``ours`` above ``other``, where weights are downloaded right after a download."""

    def shown(cell: CellRecord) -> NDArray[np.float64]:
        by_weights = cell.protocol in ("mixfld", "mix2fld")
        return cell.values("summary", "accuracy", "global" if by_weights else "reference")

    return spread(100 * (shown(ours) - shown(other)))
