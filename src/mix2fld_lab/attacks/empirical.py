"""What attacks say about a claimed privacy budget: lower bounds, and what the claim allows."""

import math

from scipy.special import ndtr, ndtri

from mix2fld.base.accounting import PRECISION, delta_of, noise_multiplier
from mix2fld_lab.attacks.rates import Share


def most_true_positives(false_positives: float, epsilon: float, delta: float) -> float:
    """The largest true-positive rate that Gaussian noise of exactly this budget allows."""
    return float(ndtr(ndtri(false_positives) + 1 / noise_multiplier(epsilon, delta)))


def epsilon_at_least(true: Share, false: Share, delta: float) -> float:
    """A lower bound of ε for any mechanism, from the ends of both 95 % intervals.

    (ε, δ) allows no true-positive rate above e^ε times the false-positive rate, plus δ.
    """
    found, fooled = true.interval()[0], false.interval()[1]
    return max(0.0, math.log((found - delta) / fooled)) if found > delta else 0.0


def gaussian_epsilon_at_least(true: Share, false: Share, delta: float) -> float:
    """A closer one for Gaussian noise: two normal distributions so far apart, or farther."""
    apart = float(ndtri(true.interval()[0]) - ndtri(false.interval()[1]))
    return epsilon_of(delta, 1 / apart) if apart > 0 else 0.0


def epsilon_of(delta: float, multiplier: float) -> float:
    """The smallest ε that noise with this multiplier keeps at δ; 0 if none is needed."""
    low, high = 0.0, 1.0
    if delta_of(low, multiplier) <= delta:
        return 0.0
    while delta_of(high, multiplier) > delta:
        high *= 2
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if delta_of(middle, multiplier) > delta:
            low = middle
        else:
            high = middle
    return high
