"""Sample privacy, Sec. IV: how far the samples that a server sees are from those of a device."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

QUANTILES = {"q05": 0.05, "median": 0.5, "q95": 0.95}

Statistics = dict[str, float | None]


def sample_privacy(made: ArrayLike, raw: ArrayLike) -> NDArray[np.float64]:
    """Natural logarithm of the smallest L2 distance of each sample to its sources: [m].

    ``made`` [m, ...] in the units in which samples are stored (pixels from 0 to 255); ``raw``
    [m, k, ...] are the k raw samples that each was made from. A sample that equals one of its
    sources has minus infinity.
    """
    seen = np.asarray(made, dtype=np.float64)
    held = np.asarray(raw, dtype=np.float64)
    distances = np.sqrt(((seen[:, None] - held) ** 2).reshape(*held.shape[:2], -1).sum(axis=2))
    with np.errstate(divide="ignore"):
        return np.log(distances.min(axis=1))


def statistics(values: NDArray[np.float64]) -> Statistics:
    """Minimum, mean, quantiles and number of the values; None where one is minus infinity.

    A quantile is the value at its rank or, between two ranks, at the lower one: always the privacy
    of a sample, never an interpolation (which minus infinity would spoil).
    """
    if not len(values):
        return dict.fromkeys(("min", "mean", *QUANTILES), None) | {"count": 0.0}
    numbers = {"min": values.min(), "mean": values.mean()}
    numbers |= {name: np.quantile(values, at, method="lower") for name, at in QUANTILES.items()}
    shown = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return {**shown, "count": float(len(values))}
