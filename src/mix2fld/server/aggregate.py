"""What the server does with delivered uploads before anything else: averages."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Tensors, Upload


def average_weights(inbox: Mapping[int, Upload]) -> Tensors:
    """Sec. II-A: the mean of the delivered weights, each weighing as much as it has samples.

    Sums are float64, in the order of the device numbers.
    """
    uploads = [inbox[device] for device in sorted(inbox)]
    total = float(sum(upload.samples * upload.weight for upload in uploads))
    shapes = [tensor.shape for tensor in uploads[0].value]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    mean, row = np.zeros(ends[-1]), np.empty(ends[-1], np.float32)
    for upload in uploads:
        np.concatenate([tensor.ravel() for tensor in upload.value], out=row)
        row *= upload.samples * upload.weight / total
        mean += row.astype(np.float64)
    parts = np.split(mean.astype(np.float32), ends[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def average_outputs(
    inbox: Mapping[int, Upload], last: NDArray[np.float32], unseen_labels: str
) -> NDArray[np.float32]:
    """Sec. II-B: the mean of the delivered outputs of each label, G_out [N_L, N_L].

    A device that never drew a label has a zero row there: it is left out of that label's mean, or
    with ``unseen_labels="zero"`` counted in it. A label that no delivered device drew keeps its
    last known row, zero if there is none (decision 4).
    """
    outputs = np.stack([inbox[device].value for device in sorted(inbox)]).astype(np.float64)
    seen = outputs.any(axis=2)  # [D^p, N_L]
    counted = seen.sum(axis=0) if unseen_labels == "skip" else np.full(seen.shape[1], len(outputs))
    mean = outputs.sum(axis=0) / np.maximum(counted, 1)[:, None]
    known = np.any(seen, axis=0, keepdims=True).T
    return np.where(known, mean, last).astype(np.float32)
