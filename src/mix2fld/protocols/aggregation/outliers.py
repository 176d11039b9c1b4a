"""Uploads and statistics that lie far from the rest: who sent them, and how far they lie."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.protocols.aggregation.aggregate import CAP, OUTLIER_FACTOR
from mix2fld.tasks.edges import Floats
from mix2fld.types import Statistics, Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.config.trust import DefenceConfig
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
    if len({tuple([part.shape for part in each]) for each in tensors}) > 1:
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
        np.concatenate(tensors, axis=None, out=row)
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


MOST_COMPARED = 101
"""Of so many devices, evenly spaced, the median is taken that all are compared with."""


def trusted_statistics(
    held: Mapping[int, Statistics], far: Collection[int], config: "DefenceConfig"
) -> dict[int, Statistics]:
    """The statistics that count, each for as many samples as the settings let it.

    Those that lie ``far`` from the rest count for nothing, unless a plain mean is asked for.
    """
    left_out = far if config.aggregation != "mean" else ()
    kept = {device: held[device] for device in sorted(held) if device not in left_out}
    if config.sample_weights == "claimed":
        return kept
    samples = {device: _samples(own) for device, own in kept.items()}
    typical = float(np.median(list(samples.values())))
    wanted = dict.fromkeys(kept, typical)
    if config.sample_weights == "capped":
        wanted = {d: min(samples[d], CAP * typical) for d in kept}
    return {d: _scaled(own, wanted[d] / samples[d]) for d, own in kept.items()}


def far_statistics(held: Mapping[int, Statistics]) -> dict[int, float]:
    """Devices whose statistics lie far from the middle, and how many times the median does.

    Class sums are compared with those of as many typical samples, in standard deviations but for a
    factor that all share; scatters as those of one sample. Never half of all devices or more are.
    """
    devices = sorted(held)
    if len(devices) < FEWEST:
        return {}
    compared = [held[d] for d in devices[:: -(-len(devices) // MOST_COMPARED)]]
    means, judged = _typical_means(compared)
    scatter = np.median([own.scatter / _samples(own) for own in compared], axis=0)
    distances = np.array([_distances(held[d], means, judged, scatter) for d in devices])
    typical = np.median(distances, axis=0)
    times = np.max(distances / np.where(typical > 0, typical, np.inf), axis=1)
    order = np.argsort(-times, kind="stable")[: (len(devices) - 1) // 2].tolist()
    return {devices[i]: float(times[i]) for i in sorted(order) if times[i] > OUTLIER_FACTOR}


def _typical_means(compared: list[Statistics]) -> tuple[Floats, NDArray[np.bool_]]:
    """The median class means [N_L, d], and which labels enough devices have to tell one [N_L]."""
    counts = np.array([own.counts for own in compared], np.float64)
    sums = np.array([own.sums for own in compared], np.float64)
    means = np.zeros(sums.shape[1:])
    judged = (counts >= 1).sum(axis=0) >= FEWEST
    for label in np.flatnonzero(judged).tolist():
        have = counts[:, label] >= 1
        means[label] = np.median(sums[have, label] / counts[have, label, None], axis=0)
    return means, judged


def _distances(
    own: Statistics, means: Floats, judged: NDArray[np.bool_], scatter: Floats
) -> tuple[float, float]:
    """How far the class sums lie, and how far the scatter does."""
    apart = own.sums - own.counts[:, None] * means
    squares = (apart**2).sum(axis=1) / np.maximum(own.counts, 1)
    of_scatter = np.linalg.norm(own.scatter / _samples(own) - scatter)
    return float(np.sqrt(squares[judged].sum())), float(of_scatter)


def _samples(own: Statistics) -> float:
    return max(float(own.counts.sum()), 1.0)


def _scaled(own: Statistics, factor: float) -> Statistics:
    """As if a device had so many times its samples."""
    if factor == 1:
        return own
    return Statistics(*(np.float32(factor) * part for part in own))
