"""Bins of a target that is a number: what labels are to a partition, and to mean outputs."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 10
"""Unless a config says otherwise."""


def bin_edges(targets: NDArray[Any], bins: int = BINS) -> NDArray[np.float64]:
    """Quantiles of a target's first number between which samples are about equally many.

    At most ``bins`` - 1 of them, increasing; fewer where many samples have the same target. Each is
    the target of a sample, so that no bin is empty.
    """
    first = np.asarray(targets, np.float64).reshape(len(targets), -1)[:, 0]
    edges = np.unique(np.quantile(first, np.arange(1, bins) / bins, method="higher"))
    return edges[edges > first.min()]


def bin_names(edges: Any) -> tuple[str, ...]:
    """What each bin holds, in units of the target."""
    known = [f"{edge:.4g}" for edge in np.asarray(edges).tolist()]
    if not known:
        return ("all",)
    between = [f"{low} to {high}" for low, high in pairwise(known)]
    return (f"below {known[0]}", *between, f"{known[-1]} or more")


def bins_of(targets: NDArray[Any], edges: Any) -> NDArray[np.int32]:
    """The bin [n] of each target's first number: from 0 to the number of edges."""
    first = np.asarray(targets).reshape(len(targets), -1)[:, 0]
    return np.searchsorted(np.asarray(edges), first, side="right").astype(np.int32)
