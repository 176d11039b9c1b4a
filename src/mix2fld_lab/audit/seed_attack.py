"""What a server makes of the mixes of a run, with nothing but these mixes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.resolution import pool as pooled
from mix2fld.data.samples import stored_unit
from mix2fld.report.dataset import parts_of
from mix2fld.report.protocol_view import seeding_of, title_of
from mix2fld.runs.reader import LoadedRun
from mix2fld.types import Dataset, Seeds
from mix2fld_lab.attacks.unmixing import (
    DOMINANT,
    MINOR,
    Candidates,
    Floats,
    as_mixes,
    class_means,
    dominants,
    link_dominants,
    minors,
)
from mix2fld_lab.audit.identify import nearest
from mix2fld_lab.gallery import ServerSamples, drawn, received_samples, shown_range

CARDS = 6
MOST_DEVICES = 10
"""Whose mixes are taken apart: enough to see, and quick."""


class SeparatedParts(NamedTuple):
    """What the attack takes for the constituents of mixes, within [0, 1]."""

    rows: NDArray[np.int64]  # of the pool
    minor: Floats  # [m, v]
    dominant: Floats  # [m, v]


def attack_seeds(run: LoadedRun) -> dict[str, Any] | None:
    """Pictures of what a run's server receives and what it can make of it; None without mixes."""
    seeding = seeding_of(run.protocol)
    if seeding is None or not seeding.mixed or len(run.config.seeding.ratios) != 2:
        return None
    received = received_samples(run)
    if received is None or received.sources is None:
        return None
    parts = flatten(received)
    held = np.concatenate(parts_of(received.dataset, run.config)[:MOST_DEVICES])
    found = {
        name: _identified(received, values, received.sources[parts.rows, part], held)
        for name, values, part in (
            ("minor", parts.minor, MINOR),
            ("dominant", parts.dominant, DOMINANT),
        )
    }
    first = np.unique(received.pool.device[parts.rows], return_index=True)[1][:CARDS]
    return {
        "protocol": title_of(run.protocol),
        "ratio": run.config.seeding.ratios[0],
        "mixes": len(parts.rows),
        "candidates": len(np.union1d(held, received.sources[parts.rows])),
        "identified": found,
        "cards": [_card(received, parts, place) for place in first.tolist()],
    }


def flatten(received: ServerSamples) -> SeparatedParts:
    """Both constituents of every mix of the first devices.

    The mean sample of a label is taken from the mixes whose dominant part has that label: no other
    samples are needed.
    """
    pool = received.pool
    rows = np.flatnonzero(np.isin(pool.device, np.unique(pool.device)[:MOST_DEVICES]))
    own = Seeds(pool.inputs[rows], pool.labels[rows])
    mixes = as_mixes(own, received.sizes, mixed=True)
    dominant_labels = Candidates(mixes.values, mixes.labels[:, DOMINANT])
    means = class_means(dominant_labels, received.sizes.dims.num_labels)
    groups = np.zeros(len(rows), np.int64)
    for device in np.unique(pool.device[rows]):
        its = pool.device[rows] == device
        some = mixes._replace(values=mixes.values[its], labels=mixes.labels[its])
        groups[its] = link_dominants(some) + int(groups.max()) + 1
    dominant = dominants(mixes, groups, means)
    return SeparatedParts(rows, minors(mixes, dominant), dominant)


def _identified(
    received: ServerSamples, values: Floats, rows: NDArray[np.int64], held: NDArray[Any]
) -> float:
    """How often the nearest of all samples of these devices is the true constituent."""
    candidates = np.union1d(held, rows)
    known = _unit_values(received, received.dataset.train_inputs[candidates])
    return float((candidates[nearest(values, known)] == rows).mean())


def _unit_values(received: ServerSamples, inputs: NDArray[Any]) -> Floats:
    """Samples as seeds carry them, within [0, 1]."""
    samples, shape = received.dataset.samples, received.sizes.dims.seed_shape
    fed = pooled(inputs.astype(np.float64) / stored_unit(samples), shape)
    scaled = (fed - samples.low) / (samples.high - samples.low)
    return scaled.reshape(len(inputs), -1).astype(np.float32)


def _card(received: ServerSamples, parts: SeparatedParts, place: int) -> dict[str, Any]:
    """One mix: as it was uploaded, what the attack makes of it, and what was in it."""
    row, dataset = int(parts.rows[place]), received.dataset
    assert received.sources is not None
    raw = dataset.train_inputs[received.sources[row]]
    edges = shown_range(dataset)
    seen = [received.uploaded([row])[0], *(_stored(received, p[place]) for p in parts[1:]), *raw]
    names = ("upload", "minor", "dominant", "true minor", "true dominant")
    pictures = {
        name: drawn(sample, dataset.samples, edges)
        for name, sample in zip(names, seen, strict=True)
    }
    labels = [_name(dataset, int(label)) for label in received.pool.labels[row]]
    return {"device": int(received.pool.device[row]), "labels": labels, "pictures": pictures}


def _stored(received: ServerSamples, values: Floats) -> NDArray[np.float64]:
    """Values within [0, 1] as a sample in the units of storage."""
    samples, shape = received.dataset.samples, received.sizes.dims.seed_shape
    fed = values.astype(np.float64) * (samples.high - samples.low) + samples.low
    return np.asarray(fed.reshape(shape) * stored_unit(samples))


def _name(dataset: Dataset, label: int) -> str:
    names = list(dataset.label_names)
    return names[label] if names else str(label)
