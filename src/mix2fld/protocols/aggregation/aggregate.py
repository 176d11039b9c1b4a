"""What the server does with delivered uploads before anything else: one value of many.

Robust aggregation is what a minority of bad devices cannot move far. What n devices uploaded are
rows [n, p], relative to a centre that the server trusts; one row comes out, relative to the same
centre. Two kinds: by coordinate, where every coordinate is decided on its own, and by device, where
each device gets one coefficient from the inner products of all rows. Sums are float64, in the order
of the rows.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.config.trust import DefenceConfig

Floats = NDArray[np.float64]
ByCoordinate = Callable[[Floats, Floats, int], Floats]
"""(rows [n, p], weights [n], bad devices) -> one row [p]."""
ByDevice = Callable[[Floats, Floats, int], Floats]
"""(inner products of all rows [n, n], weights [n], bad devices) -> coefficients [n]."""
Centre = Tensors | None
COLUMNS = 1 << 16
"""Coordinates that are looked at at once."""
MOST_STEPS = 200
MOST_PASSES = 3
OUTLIER_FACTOR = 3.0
"""Honest uploads lie at less than this multiple of the median distance from the middle."""
CLOSE = 1e-9


def bad_devices(uploads: int, share: float) -> int:
    """How many of so many uploads an aggregation is made to survive: fewer than half of them."""
    return max(0, min(ceil(share * uploads - 1e-9), (uploads - 1) // 2))


def trimmed_mean(rows: Floats, weights: Floats, bad: int) -> Floats:
    """The mean without the ``bad`` smallest and largest values of each coordinate."""
    ranks = np.argsort(np.argsort(rows, axis=0, kind="stable"), axis=0, kind="stable")
    kept = np.where((ranks >= bad) & (ranks < len(rows) - bad), weights[:, None], 0.0)
    return (kept * rows).sum(axis=0) / kept.sum(axis=0)


def median(rows: Floats, weights: Floats, bad: int) -> Floats:
    """The median of each coordinate, whatever the weights."""
    return np.median(rows, axis=0)


def clipped_mean(products: Floats, weights: Floats, bad: int) -> Floats:
    """The mean of rows that are shortened to the median length."""
    lengths = np.sqrt(np.diag(products))
    typical = np.median(lengths)
    factors = np.divide(typical, lengths, out=np.ones_like(lengths), where=lengths > typical)
    return factors * weights / weights.sum()


def krum(products: Floats, weights: Floats, bad: int) -> Floats:
    """Multi-Krum: the mean without the ``bad`` rows that are farthest from their nearest ones."""
    count = len(products)
    nearest = max(1, count - bad - 2)
    distances = np.sort(_squared_distances(products), axis=1)[:, 1 : 1 + nearest]
    chosen = np.argsort(distances.sum(axis=1), kind="stable")[: count - bad]
    kept = np.where(np.isin(np.arange(count), chosen), weights, 0.0)
    return kept / kept.sum()


def geometric_median(products: Floats, weights: Floats, bad: int) -> Floats:
    """The point with the smallest sum of distances to all rows, by Weiszfeld's iteration.

    The point stays within the span of the rows, so that its coefficients are all that is iterated.
    """
    coefficients = weights / weights.sum()
    for _ in range(MOST_STEPS):
        distances = _distances_from(products, coefficients)
        smallest = CLOSE * np.median(distances)
        pulls = weights / np.maximum(distances, smallest if smallest > 0 else 1.0)
        last, coefficients = coefficients, pulls / pulls.sum()
        if np.abs(coefficients - last).max() < CLOSE:
            break
    return coefficients


def filtered_median(products: Floats, weights: Floats, bad: int) -> Floats:
    """The geometric median without the rows that lie far from it.

    Who lies far is decided among devices that weigh the same: a claim of many samples has no say.
    """
    kept = np.full(len(products), True)
    for _ in range(MOST_PASSES):
        distances = _distances_from(products, geometric_median(products, 1.0 * kept, bad))
        near = distances <= OUTLIER_FACTOR * np.median(distances)
        if (near == kept).all():
            break
        kept = near
    return geometric_median(products, np.where(kept, weights, 0.0), bad)


def clipped_median(products: Floats, weights: Floats, bad: int) -> Floats:
    """The mean of rows that lie at most as far from the geometric median as is typical.

    A row that lies farther is shortened, not left out: an honest device that alone holds a label
    is heard in every round, and an attacker moves the mean by its share of a typical distance.
    """
    middle = geometric_median(products, np.ones(len(products)), bad)
    distances = _distances_from(products, middle)
    typical = np.median(distances)
    factors = np.divide(typical, distances, out=np.ones_like(distances), where=distances > typical)
    pulls = factors * weights / weights.sum()
    return pulls + (1.0 - pulls.sum()) * middle


BY_COORDINATE: dict[str, ByCoordinate] = {"trimmed-mean": trimmed_mean, "median": median}
BY_DEVICE: dict[str, ByDevice] = {
    "clipped-mean": clipped_mean,
    "krum": krum,
    "geometric-median": geometric_median,
    "filtered-median": filtered_median,
    "clipped-median": clipped_median,
}


def aggregate_rows(rows: Floats, weights: Floats, aggregation: str, share: float) -> Floats:
    """One row of rows [n, p]."""
    bad = bad_devices(len(rows), share)
    if aggregation in BY_COORDINATE:
        return BY_COORDINATE[aggregation](rows, weights, bad)
    return _combine(BY_DEVICE[aggregation](rows @ rows.T, weights, bad), rows)


def aggregate_tensors(
    uploads: Sequence[Tensors], centre: Centre, weights: Floats, aggregation: str, share: float
) -> Tensors:
    """One model of many, some coordinates at a time.

    Without a ``centre`` rows are relative to the median of each coordinate.
    """
    bad = bad_devices(len(uploads), share)
    if aggregation in BY_COORDINATE:
        decide = BY_COORDINATE[aggregation]
        found = [middle + decide(rows, weights, bad) for rows, middle in _parts(uploads, centre)]
    else:
        products = np.zeros((len(uploads), len(uploads)))
        for rows, _ in _parts(uploads, centre):
            products += rows @ rows.T
        coefficients = BY_DEVICE[aggregation](products, weights, bad)
        found = [middle + _combine(coefficients, rows) for rows, middle in _parts(uploads, centre)]
    flat = np.concatenate(found).astype(np.float32)
    ends = np.cumsum([tensor.size for tensor in uploads[0]])[:-1]
    parts = zip(np.split(flat, ends), uploads[0], strict=True)
    return tuple(part.reshape(like.shape) for part, like in parts)


def _parts(uploads: Sequence[Tensors], centre: Centre) -> Iterator[tuple[Floats, Floats]]:
    """Rows [n, p] relative to the centre, and the centre [p], for some coordinates at a time."""
    for place, first in enumerate(uploads[0]):
        flat = [upload[place].ravel() for upload in uploads]
        for start in range(0, first.size, COLUMNS):
            here = slice(start, start + COLUMNS)
            rows = np.stack([row[here] for row in flat]).astype(np.float64)
            if centre is None:
                middle = np.median(rows, axis=0)
            else:
                middle = centre[place].ravel()[here].astype(np.float64)
            yield rows - middle, middle


def _combine(coefficients: Floats, rows: Floats) -> Floats:
    return (coefficients[:, None] * rows).sum(axis=0)


def _distances_from(products: Floats, coefficients: Floats) -> Floats:
    """How far each row is from the combination of rows with these coefficients."""
    squared = np.diag(products) - 2 * products @ coefficients
    return np.sqrt(np.maximum(squared + coefficients @ products @ coefficients, 0.0))


def _squared_distances(products: Floats) -> Floats:
    squares = np.diag(products)
    return np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0)


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
        np.concatenate(upload.value, axis=None, out=row)
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
    any_numbers: bool = False,
) -> NDArray[np.float32]:
    """The delivered outputs as one matrix [N_L, O], by the mean or as the settings say.

    A robust aggregation decides label by label, among the devices that drew the label. Outputs are
    distributions, or with ``any_numbers`` not.
    """
    if config.aggregation == "mean":
        return average_outputs(inbox, last, unseen_labels)
    outputs, combined = _stacked(inbox), last.copy()
    for label, seen in enumerate(np.asarray(outputs.any(axis=2)).T):
        if seen.any():
            counted = seen if unseen_labels == "skip" else np.full(len(outputs), True)
            combined[label] = _robust_row(outputs[counted, label], config, any_numbers)
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
    """Sec. II-B: the mean of the delivered outputs of each label, G_out [N_L, O].

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
    """The outputs of all devices [D^p, N_L, O], in the order of their numbers."""
    return np.stack([inbox[device].value for device in sorted(inbox)]).astype(np.float64)


def _robust_row(
    rows: NDArray[np.float64], config: "DefenceConfig", any_numbers: bool
) -> NDArray[np.float64]:
    """One label's outputs of many: no value below zero, with the sum that a mean would have.

    Coordinates that are decided one by one need not sum to one.
    """
    middle = np.median(rows, axis=0)
    equal = np.ones(len(rows))
    row = middle + aggregate_rows(rows - middle, equal, config.aggregation, config.bad_share)
    if any_numbers:
        return row
    row = np.maximum(row, 0.0)
    wanted, total = min(1.0, float(np.median(rows.sum(axis=1)))), row.sum()
    return row * (wanted / total) if total else middle
