"""Fading of a signal from one transmission to the next: a factor on its power, of mean one.

Rayleigh without memory is the paper's. With a Doppler frequency f, the scattered part is a
first-order Gauss-Markov process, whose correlation over a time T is that of Clarke's model,
J_0(2 pi f T); where that is negative, the channel is taken as forgotten.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mix2fld.links.channels.path_loss import Floats


@dataclass(frozen=True)
class Fading:
    """Rayleigh (K = 0), Rician, or none (K infinite)."""

    k_factor: float = 0.0
    """Power of the steady part over that of the scattered part, K."""
    doppler_hz: float | None = None
    """None: from transmission to transmission the scattered part is drawn anew."""

    @property
    def steady(self) -> bool:
        """Whether there is no fading at all."""
        return math.isinf(self.k_factor)

    def remembers(self, seconds: float) -> float:
        """Correlation of the scattered part over so many seconds."""
        if self.doppler_hz is None or self.steady:
            return 0.0
        from scipy import special

        return max(0.0, float(special.j0(2 * math.pi * self.doppler_hz * seconds)))

    def draws(
        self, rng: np.random.Generator, shape: tuple[int, ...], seconds: float
    ) -> Iterator[Floats]:
        """The fading of one transmission after the other, which are so many seconds apart."""
        memory = self.remembers(seconds)
        if self.steady:
            while True:
                yield np.ones(shape)
        if self.k_factor == 0 and memory == 0:
            while True:
                yield rng.exponential(size=shape)
        fresh = math.sqrt(1 - memory**2)
        scattered = _complex_normal(rng, shape)
        while True:
            yield self._power(scattered)
            scattered = memory * scattered + fresh * _complex_normal(rng, shape)

    def _power(self, scattered: np.ndarray) -> Floats:
        share = 1 / (1 + self.k_factor)
        power: Floats = np.abs(math.sqrt(1 - share) + math.sqrt(share) * scattered) ** 2
        return power

    def exceeds(self, level: Floats) -> Floats:
        """Chance that a transmission's fading is at least ``level``."""
        if self.steady:
            return np.where(level <= 1, 1.0, 0.0)
        if self.k_factor == 0:
            return np.exp(-level)
        k = self.k_factor  # Marcum's Q as a noncentral chi-squared law of two degrees
        from scipy import special

        tail: Floats = 1 - special.chndtr(2 * (1 + k) * level, 2, 2 * k)
        return np.clip(tail, 0.0, 1.0)


def _complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    parts = rng.standard_normal((2, *shape)) * math.sqrt(0.5)
    return parts[0] + 1j * parts[1]
