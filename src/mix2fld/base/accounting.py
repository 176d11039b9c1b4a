"""Differential privacy of Gaussian noise: how much of it a budget asks for, and what it promises.

For a query whose answer moves by at most Δ when one sample is replaced, noise of deviation σ = z Δ
gives (ε, δ) exactly where δ(ε) of the analytic Gaussian mechanism is δ (Balle and Wang, 2018).
Releases with multipliers z_i, each chosen knowing what came before, are together as private as one
with 1 / z² = Σ 1 / z_i² (Dong, Roth and Su, 2022).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from mix2fld.base.normal import logcdf

SMALLEST, LARGEST = 1e-6, 1e9
"""Between which noise multipliers are looked for."""
PRECISION = 1e-12


@dataclass(frozen=True)
class Guarantee:
    """What the uploads of one device promise about one of its samples, to all who see them."""

    epsilon: float
    delta: float
    uploads: int
    """Over how many uploads of a device the budget reaches; there are no others."""
    noise_multiplier: float
    """Of all these uploads together, z."""
    protects: str
    """What may be replaced by another of its kind without being noticed."""
    public: str
    """What is not protected."""
    noise_by: str
    """Who adds the noise, and so whom the samples are protected from."""

    def as_record(self) -> dict[str, Any]:
        """For records."""
        return asdict(self)

    def __str__(self) -> str:
        uploads = f"{self.uploads} upload{'s' if self.uploads > 1 else ''}"
        return (
            f"ε = {self.epsilon:g}, δ = {self.delta:g} over {uploads} of a device, for "
            f"{self.protects}; public: {self.public}; noise by {self.noise_by}"
        )


def delta_of(epsilon: float, multiplier: float) -> float:
    """δ of Gaussian noise with deviation ``multiplier`` times the sensitivity, at this ε."""
    half, far = 1 / (2 * multiplier), epsilon * multiplier
    inside, outside = logcdf(half - far), epsilon + logcdf(-half - far)
    return float(math.exp(inside) * -math.expm1(min(0.0, outside - inside)))


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest z that keeps (ε, δ), from above."""
    low, high = SMALLEST, LARGEST
    while high / low > 1 + PRECISION:
        middle = math.sqrt(low * high)
        if delta_of(epsilon, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def shares(multiplier: float, *parts: float) -> tuple[float, ...]:
    """Multipliers of releases that together use one budget, by their parts of it, Σ = 1."""
    return tuple(multiplier / math.sqrt(part) for part in parts)
