"""Differences between protocols over the same seeds, and what can be said of them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import t


class Difference(NamedTuple):
    """The mean difference over seeds, and half of its 95 % interval by Student's t."""

    mean: float
    half: float

    @property
    def is_known(self) -> bool:
        """Whether the interval leaves zero out."""
        return abs(self.mean) > self.half

    def word(self, more: str, less: str) -> str:
        """What it is: one of the two, or no difference."""
        return "no difference" if not self.is_known else more if self.mean > 0 else less


def difference(values: Mapping[int, float], others: Mapping[int, float]) -> Difference | None:
    """Of two protocols, by seed; None with fewer than two seeds in common."""
    apart = [value - others[seed] for seed, value in values.items() if seed in others]
    if len(apart) < 2:
        return None
    half = t.ppf(0.975, len(apart) - 1) * np.std(apart, ddof=1) / np.sqrt(len(apart))
    return Difference(float(np.mean(apart)), float(half))
