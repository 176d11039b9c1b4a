"""The stopping rule: how much the global state changed in a round."""

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import ServerState


def relative_change(before: ServerState, after: ServerState) -> float | None:
    """|G^p - G^(p-1)| / |G^(p-1)| of the outputs, the worst label's, or in FL of the weights.

    None in a round without a global update, and while there is nothing to compare with.
    """
    if after.updates == before.updates:
        return None
    if after.outputs is not None:
        return None if before.outputs is None else _worst_row(before.outputs, after.outputs)
    if before.weights is None or after.weights is None:
        return None
    old, new = (
        np.concatenate([np.ravel(tensor) for tensor in weights])
        for weights in (before.weights, after.weights)
    )
    return _worst_row(old[None], new[None])


def _worst_row(old: NDArray[np.float32], new: NDArray[np.float32]) -> float | None:
    size = np.linalg.norm(old.astype(np.float64), axis=1)
    moved = np.linalg.norm(new.astype(np.float64) - old, axis=1)
    if not size.all():
        return None
    return float(np.max(moved / size))
