"""Numbers over seeds: their mean and spread.

Standard deviations and variances are those of the sample (divided by n - 1).
"""

from dataclasses import dataclass
from math import isnan, nan

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit


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
        """Whether the whole interval lies above zero."""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval lies below zero."""
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
