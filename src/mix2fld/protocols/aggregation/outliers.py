"""Uploads that lie far from the rest: who sent them, and how far they lie."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.protocols.aggregation.robust import OUTLIER_FACTOR
from mix2fld.types import Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.protocols.base import Protocol

FEWEST = 3
MEDIAN_LIMIT = 32
"""Up to so many uploads are compared with their median, which takes longer than their mean."""
FAR_OUTPUTS = 0.3
"""Root mean square over labels below which no outputs are far: the largest possible is 1.4."""


def far_uploads(protocol: "Protocol", inbox: Mapping[int, Upload]) -> dict[int, float]:
    """Devices whose upload lies far from the middle of all, and how many times the median does."""
    devices = sorted(inbox)
    if len(devices) < FEWEST or protocol.upload_kind is None:
        return {}
    of_outputs, uploads = protocol.upload_kind == "outputs", [inbox[d] for d in devices]
    tensors = [
        (one.value,) if of_outputs else protocol.tensors_in(one.value, one.samples)
        for one in uploads
    ]
    if len({tuple(np.shape(part) for part in each) for each in tensors}) > 1:
        return {}  # a custom codec may carry some entries of many
    if of_outputs:
        distances, least = _between_outputs(np.stack([value for (value,) in tensors])), FAR_OUTPUTS
    else:
        distances, least = _from_the_middle(_rows(tensors)), 0.0
    typical = float(np.median(distances))
    far = zip(devices, distances, strict=True)
    return {
        d: apart / typical
        for d, apart in far
        if typical and apart > max(OUTLIER_FACTOR * typical, least)
    }


def _rows(models: list[Tensors]) -> NDArray[np.float32]:
    """The weights of each model one after the other [n, N_mod]."""
    rows = np.empty((len(models), sum(tensor.size for tensor in models[0])), np.float32)
    for row, tensors in zip(rows, models, strict=True):
        np.concatenate([tensor.ravel() for tensor in tensors], out=row)
    return rows


def _from_the_middle(rows: NDArray[np.float32]) -> list[float]:
    """The distance of each row from the median; of many from the mean, which one moves little."""
    middle = np.median(rows, axis=0) if len(rows) <= MEDIAN_LIMIT else rows.mean(axis=0)
    rows -= middle
    return np.sqrt(np.einsum("ij,ij->i", rows, rows)).tolist()


def _between_outputs(values: NDArray[np.float32]) -> list[float]:
    """The distance of outputs [n, N_L, N_L] from the median of each label, where it was drawn."""
    outputs = values.astype(np.float64)
    seen = np.asarray(outputs.any(axis=2))
    middle = np.zeros(outputs.shape[1:])
    for label in np.flatnonzero(seen.any(axis=0)).tolist():
        middle[label] = np.median(outputs[seen[:, label], label], axis=0)
    squares = np.where(seen, ((outputs - middle) ** 2).sum(axis=2), 0.0).sum(axis=1)
    return np.sqrt(squares / np.maximum(seen.sum(axis=1), 1)).tolist()
