"""What the server does with delivered uploads before anything else: one value of many."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.protocols.aggregation.robust import Centre, aggregate_rows, aggregate_tensors
from mix2fld.types import Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.config.trust import DefenceConfig

CAP = 2
"""Capped samples: at most so many times their median."""


def combine_weights(
    inbox: Mapping[int, Upload], centre: Centre, config: "DefenceConfig"
) -> Tensors:
    """The delivered weights as one model, by the mean or as the settings say.

    ``centre`` is the model that the devices started from, if they had one in common.
    """
    counted = count_samples(inbox, config.sample_weights)
    if config.aggregation == "mean":
        return average_weights(counted)
    uploads = [counted[device] for device in sorted(counted)]
    weights = np.array([upload.samples * upload.weight for upload in uploads], np.float64)
    values = [upload.value for upload in uploads]
    return aggregate_tensors(values, centre, weights, config.aggregation, config.bad_share)


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


def count_samples(inbox: Mapping[int, Upload], sample_weights: str) -> dict[int, Upload]:
    """The uploads with the samples that they count for; a claim of many may be a lie."""
    if sample_weights == "claimed" or not inbox:
        return dict(inbox)
    most = int(CAP * np.median([upload.samples for upload in inbox.values()]))
    capped = sample_weights == "capped"
    return {
        device: upload._replace(samples=min(upload.samples, most) if capped else 1)
        for device, upload in inbox.items()
    }


def combine_outputs(
    inbox: Mapping[int, Upload],
    last: NDArray[np.float32],
    unseen_labels: str,
    config: "DefenceConfig",
) -> NDArray[np.float32]:
    """The delivered outputs as one matrix [N_L, N_L], by the mean or as the settings say.

    A robust aggregation decides label by label, among the devices that drew the label.
    """
    if config.aggregation == "mean":
        return average_outputs(inbox, last, unseen_labels)
    outputs, combined = _stacked(inbox), last.copy()
    for label, seen in enumerate(np.asarray(outputs.any(axis=2)).T):
        if seen.any():
            counted = seen if unseen_labels == "skip" else np.full(len(outputs), True)
            combined[label] = _robust_row(outputs[counted, label], config)
    return combined


def combine_labels(
    given: Sequence[NDArray[np.float64]], config: "DefenceConfig"
) -> NDArray[np.float64]:
    """The labels that devices gave to the same seeds [N_S, N_L] as one for each seed.

    A robust aggregation takes all labels of a device as one upload. Seed by seed it would be a
    vote of the majority, and the few devices that know a label would have no say (decision 33).
    """
    labels = np.stack(given)
    if config.aggregation == "mean":
        return np.asarray(labels.mean(axis=0))
    rows = labels.reshape(len(labels), -1)
    middle, equal = np.median(rows, axis=0), np.ones(len(rows))
    row = middle + aggregate_rows(rows - middle, equal, config.aggregation, config.bad_share)
    combined = np.maximum(row, 0.0).reshape(labels.shape[1:])
    totals = combined.sum(axis=1, keepdims=True)
    return np.divide(combined, totals, out=labels.mean(axis=0), where=totals > 0)


def average_outputs(
    inbox: Mapping[int, Upload], last: NDArray[np.float32], unseen_labels: str
) -> NDArray[np.float32]:
    """Sec. II-B: the mean of the delivered outputs of each label, G_out [N_L, N_L].

    A device that never drew a label has a zero row there: it is left out of that label's mean, or
    with ``unseen_labels="zero"`` counted in it. A label that no delivered device drew keeps its
    last known row, zero if there is none (decision 4).
    """
    outputs = _stacked(inbox)
    seen = outputs.any(axis=2)  # [D^p, N_L]
    counted = seen.sum(axis=0) if unseen_labels == "skip" else np.full(seen.shape[1], len(outputs))
    mean = outputs.sum(axis=0) / np.maximum(counted, 1)[:, None]
    known = np.any(seen, axis=0, keepdims=True).T
    return np.where(known, mean, last).astype(np.float32)


def _stacked(inbox: Mapping[int, Upload]) -> NDArray[np.float64]:
    """The outputs of all devices [D^p, N_L, N_L], in the order of their numbers."""
    return np.stack([inbox[device].value for device in sorted(inbox)]).astype(np.float64)


def _robust_row(rows: NDArray[np.float64], config: "DefenceConfig") -> NDArray[np.float64]:
    """One label's outputs of many: no value below zero, with the sum that a mean would have.

    Coordinates that are decided one by one need not sum to one.
    """
    middle = np.median(rows, axis=0)
    equal = np.ones(len(rows))
    row = middle + aggregate_rows(rows - middle, equal, config.aggregation, config.bad_share)
    row = np.maximum(row, 0.0)
    wanted, total = min(1.0, float(np.median(rows.sum(axis=1)))), row.sum()
    return row * (wanted / total) if total else middle
