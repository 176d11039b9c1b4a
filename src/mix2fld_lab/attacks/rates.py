"""How often an attack is right: true-positive rates at stated false-positive rates."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from mix2fld.base.errors import InputError

FALSE_POSITIVES = (0.001, 0.01)
"""The false-positive rates that every attack is judged at."""
CONFIDENCE = 0.95
Scores = NDArray[np.float64]
"""One number for each candidate; the higher, the more likely it was in the upload."""


class Share(NamedTuple):
    """So many of so many."""

    found: int
    of: int

    @property
    def rate(self) -> float:
        """The share itself; nan of nothing."""
        return self.found / self.of if self.of else float("nan")

    def interval(self) -> tuple[float, float]:
        """The exact (Clopper-Pearson) 95 % interval of the rate behind it."""
        tail = (1 - CONFIDENCE) / 2
        low = beta.ppf(tail, self.found, self.of - self.found + 1) if self.found else 0.0
        last = self.found == self.of
        high = 1.0 if last else beta.ppf(1 - tail, self.found + 1, self.of - self.found)
        return float(low), float(high)

    def as_record(self) -> dict[str, Any]:
        """For records: counts, rate and interval."""
        return {
            "found": self.found,
            "of": self.of,
            "rate": self.rate if self.of else None,
            "interval": self.interval(),
        }

    def __add__(self, other: object) -> "Share":
        if not isinstance(other, Share):
            return NotImplemented
        return Share(self.found + other.found, self.of + other.of)


def threshold(outsiders: Scores, false_positives: float) -> float:
    """The score above which a new outsider lies with at most that probability.

    That of a sample exchangeable with n outsiders to be above the k-th largest of them is at most
    k / (n + 1). Outsiders that score the same are accepted together or not at all.
    """
    check_candidates(len(outsiders), false_positives)
    allowed = int(false_positives * (len(outsiders) + 1) + 1e-9) - 1
    return float(np.partition(outsiders, len(outsiders) - 1 - allowed)[-1 - allowed])


def share_above(scores: Scores, limit: float) -> Share:
    """How many candidates an attack calls members."""
    return Share(int((scores > limit).sum()), len(scores))


def check_candidates(count: int, false_positives: float) -> None:
    """Refuse a rate that so few outsiders cannot measure."""
    needed = round(1 / false_positives)
    if count < needed:
        raise InputError(
            field="candidates",
            value=f"{count:,}",
            hint=f"a false-positive rate of {100 * false_positives:g} % cannot "
            f"be measured on so few samples outside the upload; must be at least {needed:,}",
        )
