"""Uploads that lie far from the rest: who sent them, and how far they lie."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mix2fld.types import ServerState, Tensors, Upload

FAR = 3.0
"""Honest uploads lie at less than this multiple of the median distance from the global value."""
FEWEST = 3
FAR_OUTPUTS = 0.3
"""Root mean square over labels below which no outputs are far: the largest possible is 1.4."""


def far_uploads(inbox: Mapping[int, Upload], server: ServerState) -> dict[int, float]:
    """Devices whose upload lies far from the new global value, and how many times the median."""
    distances = {
        device: found
        for device in sorted(inbox)
        if (found := _distance(inbox[device].value, server)) is not None
    }
    typical = float(np.median(list(distances.values()))) if len(distances) >= FEWEST else 0.0
    if not typical:
        return {}
    least = max(FAR * typical, 0.0 if server.outputs is None else FAR_OUTPUTS)
    return {d: far / typical for d, far in distances.items() if far > least}


def kind_of(value: Any) -> str:
    """What an upload is called in records."""
    return "weights" if isinstance(value, tuple) else "outputs"


def _distance(value: Any, server: ServerState) -> float | None:
    """The distance of weights or outputs from the server's; None of what is neither."""
    if isinstance(value, tuple) and server.weights is not None:
        return _between(value, server.weights)
    if isinstance(value, np.ndarray) and server.outputs is not None:
        seen = value.any(axis=1)
        apart = value[seen].astype(np.float64) - server.outputs[seen]
        return float(np.sqrt((apart**2).sum() / max(1, seen.sum())))
    return None


def _between(one: Tensors, other: Tensors) -> float:
    squares = 0.0
    for mine, theirs in zip(one, other, strict=True):
        apart = (mine - theirs).ravel()
        squares += float(np.dot(apart, apart))
    return float(np.sqrt(squares))
