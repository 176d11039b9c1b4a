"""Partition the training samples among devices."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, did_you_mean, some_of
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config, DataConfig
from mix2fld.data.bins import bin_edges, bin_names, bins_of

if TYPE_CHECKING:
    from mix2fld.types import Dataset, Inputs

LAST_SHARE = 0.2
"""Part of the samples of every label that a source leaves to a validation split."""
AT_ONCE = 100
"""Devices whose samples are drawn or counted in one go."""
Labels = NDArray[np.integer]
Indices = NDArray[np.integer]
Partition = Callable[[list[Indices], DataConfig, np.random.Generator], Sequence[Indices]]
"""Takes the sample indices of each label, or of each source; returns those of each device."""


def device_parts(dataset: "Dataset", config: Config, *, every_label: bool = True) -> list[Indices]:
    """Training samples of each device in a run of one seed, ``config.seed``.

    Raises ``InputError`` if no device holds some label, unless ``every_label`` is false.
    """
    labels, num_labels = _labels_to_part_by(dataset, config.data)
    rng = stream(config.seed, "partition")
    parts = partition(labels, config.data, num_labels, rng, dataset.train_sources)
    if config.data.measured_on == "validation" and config.data.partition in OF_SOURCES:
        parts = [_without_last(part, labels) for part in parts]
    if config.data.own_tests:
        tested = _held_out(parts, labels, config)
        parts = [part[~np.isin(part, own)] for part, own in zip(parts, tested, strict=True)]
    if every_label and dataset.train_targets is None:
        check_labels_covered(labels, parts, num_labels)
    return parts


def own_test_samples(dataset: "Dataset", config: Config) -> "list[tuple[Inputs, NDArray[Any]]]":
    """Samples and targets that each device alone is tested on; none where nothing says which."""
    if config.data.own_tests:
        labels, _ = _labels_to_part_by(dataset, config.data)
        whole = config.replace(own_tests=0)
        parts = device_parts(dataset, whole, every_label=False)
        tested = _held_out(parts, labels, config)
        return [(dataset.train_inputs[rows], dataset.train_values[rows]) for rows in tested]
    if config.data.partition not in OF_SOURCES or dataset.test_sources is None:
        return []
    assert dataset.train_sources is not None
    parts = device_parts(dataset, config, every_label=False)
    found = []
    for part in parts:
        rows = np.flatnonzero(dataset.test_sources == dataset.train_sources[part[0]])
        found.append((dataset.test_inputs[rows], dataset.test_values[rows]))
    return found


def _held_out(parts: Sequence[Indices], labels: Labels, config: Config) -> list[Indices]:
    """What each device is tested on: of a source the last of every label, else random samples."""
    share = config.data.own_tests
    if config.data.partition in OF_SOURCES:
        found = [part[~np.isin(part, _without_last(part, labels, share))] for part in parts]
    else:
        rng = stream(config.seed, "own-tests")
        found = [rng.permutation(part)[: round(share * len(part))] for part in parts]
    for device, (part, own) in enumerate(zip(parts, found, strict=True)):
        if not 0 < len(own) < len(part):
            raise InputError(
                field="own_tests",
                value=f"{share:g}",
                hint=f"leaves device {device} {len(own)} of {len(part)} samples to test on; "
                "it needs at least one, and one to train with",
            )
    return found


def partition(
    labels: Labels,
    config: DataConfig,
    num_labels: int,
    rng: np.random.Generator,
    sources: Labels | None = None,
) -> list[Indices]:
    """Sample indices of each device, in random order, from the ``labels`` [n] of all samples.

    Devices share no sample unless ``config.reuse_samples``; no device holds a sample twice.
    ``sources`` [n] says who recorded each sample, for the partitions in ``OF_SOURCES``.
    """
    if config.partition not in PARTITIONS:
        raise InputError(
            field="partition",
            value=f"{config.partition!r}",
            hint=f"no such partition; {did_you_mean(config.partition, PARTITIONS)}",
        )
    if config.partition in OF_SOURCES:
        groups = _by_source(sources, config)
    else:
        needed = config.samples_per_device * (1 if config.reuse_samples else config.devices)
        _check_total(len(labels), config, needed)
        groups = [np.flatnonzero(labels == label) for label in range(num_labels)]
    parts = PARTITIONS[config.partition](groups, config, rng)
    return [rng.permutation(np.asarray(part, np.int32)) for part in parts]


def sample_counts(
    by_label: list[Indices], config: DataConfig, rng: np.random.Generator, least: int = 1
) -> NDArray[np.int64]:
    """Samples of each device [D]: all the same, or drawn with ``samples_spread``."""
    if not config.samples_spread:
        return np.full(config.devices, config.samples_per_device, np.int64)
    factors = np.exp(config.samples_spread * rng.standard_normal(config.devices))
    available = int(_sizes(by_label).sum())
    drawn = np.clip(np.rint(config.samples_per_device * factors), least, available)
    counts: NDArray[np.int64] = drawn.astype(np.int64)
    _check_total(available, config, int(counts.max() if config.reuse_samples else counts.sum()))
    return counts


def label_counts(labels: Labels, parts: Sequence[Indices], num_labels: int) -> NDArray[np.int64]:
    """Number of samples of each label on each device, [D, N_L]."""
    counts = np.zeros((len(parts), num_labels), np.int64)
    for first in range(0, len(parts), AT_ONCE):
        some = parts[first : first + AT_ONCE]
        owners = np.repeat(np.arange(len(some)), [len(part) for part in some])
        cells = owners * num_labels + labels[np.concatenate(some)]
        found = np.bincount(cells, minlength=len(some) * num_labels)
        counts[first : first + AT_ONCE] = found.reshape(len(some), num_labels)
    return counts


def check_labels_covered(labels: Labels, parts: Sequence[Indices], num_labels: int) -> None:
    """Raise ``InputError`` if no device holds a sample of some label."""
    missing = np.arange(num_labels)
    for part in parts:
        missing = np.setdiff1d(missing, labels[part])
        if not len(missing):
            break
    if len(missing):
        plural = "s" if len(missing) > 1 else ""
        raise InputError(
            field="partition",
            hint=f"no device holds a sample of label{plural} {some_of(missing.tolist())}; "
            "increase devices or samples_per_device, or use a more balanced partition",
        )


def _iid(by_label: list[Indices], config: DataConfig, rng: np.random.Generator) -> list[Indices]:
    """Every label equally often on each device; the remainder goes to random labels."""
    totals = sample_counts(by_label, config, rng).tolist()
    counts = [_level(total, np.full(len(by_label), total), rng) for total in totals]
    return _assign(np.stack(counts), by_label, config, rng)


def _non_iid(
    by_label: list[Indices], config: DataConfig, rng: np.random.Generator
) -> list[Indices]:
    """The paper's: a few random labels are rare on each device; the others share the rest."""
    num_labels = len(by_label)
    common_labels = num_labels - config.rare_labels
    if common_labels < 1:
        kinds = "bins of the target" if config.target_column else "labels"
        raise InputError(
            field="rare_labels",
            value=config.rare_labels,
            hint=f"must be below the number of {kinds}, {num_labels}",
        )
    rare = config.rare_labels * config.rare_samples
    least = rare + common_labels
    if config.samples_per_device < least:
        raise InputError(
            field="samples_per_device",
            value=config.samples_per_device,
            hint=f"must be at least {least} for "
            f"rare_labels = {config.rare_labels} with rare_samples = {config.rare_samples} and one "
            f"sample of each of the other {common_labels} labels",
        )
    totals = sample_counts(by_label, config, rng, least).tolist()
    counts = np.full((config.devices, num_labels), config.rare_samples)
    for row, total in zip(counts, totals, strict=True):
        common = rng.permutation(num_labels)[config.rare_labels :]
        row[common] = _level(total - rare, np.full(common_labels, total - rare), rng)
    return _assign(counts, by_label, config, rng)


def _dirichlet(
    by_label: list[Indices], config: DataConfig, rng: np.random.Generator
) -> list[Indices]:
    """Label proportions of each device from Dir(alpha), limited by the samples that remain."""
    available, totals = _sizes(by_label), sample_counts(by_label, config, rng).tolist()
    alpha = np.full(len(by_label), config.dirichlet_alpha)
    counts = np.zeros((config.devices, len(by_label)), dtype=np.int64)
    remaining = available.copy()
    for row, total in zip(counts, totals, strict=True):
        row[:] = _draw_within(remaining, total, rng.dirichlet(alpha), rng)
        if not config.reuse_samples:
            remaining -= row
    return _assign(counts, by_label, config, rng)


def _shards(by_label: list[Indices], config: DataConfig, rng: np.random.Generator) -> list[Indices]:
    """Samples sorted by label and cut into shards of equal size, a few for each device."""
    per_device = config.shards_per_device
    if config.samples_spread:
        raise InputError(
            field="samples_spread",
            value=f"{config.samples_spread:g}",
            hint="shards are of equal size; use 0, or another partition",
        )
    shard_size, remainder = divmod(config.samples_per_device, per_device)
    if remainder:
        raise InputError(
            field="samples_per_device",
            value=config.samples_per_device,
            hint=f"must be a multiple of shards_per_device = {per_device}",
        )
    available = _sizes(by_label)
    num_shards = config.devices * per_device
    if config.reuse_samples:
        num_shards = int(available.sum()) // shard_size
    quota = _level(num_shards * shard_size, available, rng)
    sorted_samples = [
        rng.permutation(pool)[:count] for pool, count in zip(by_label, quota, strict=True)
    ]
    shards = np.concatenate(sorted_samples).reshape(num_shards, shard_size)
    if config.reuse_samples:
        rows = [rng.choice(num_shards, per_device, replace=False) for _ in range(config.devices)]
    else:
        rows = list(rng.permutation(num_shards).reshape(config.devices, per_device))
    return [shards[row].ravel() for row in rows]


def _one_source_each(
    by_source: list[Indices], config: DataConfig, rng: np.random.Generator
) -> list[Indices]:
    """All samples of a source on one device; if there are fewer devices, sources are drawn."""
    if config.devices > len(by_source):
        raise InputError(
            field="devices",
            value=config.devices,
            hint=f"the dataset has {len(by_source)} sources, and partition "
            f"{config.partition} makes a device of each; must be at most {len(by_source)}",
        )
    if config.devices == len(by_source):
        return by_source
    chosen = rng.choice(len(by_source), config.devices, replace=False)
    return [by_source[source] for source in sorted(chosen.tolist())]


PARTITIONS: dict[str, Partition] = {
    "iid": _iid,
    "non-iid": _non_iid,
    "dirichlet": _dirichlet,
    "shards": _shards,
    "by-source": _one_source_each,
}
"""Every partition; the names are the values of ``DataConfig.partition``."""
OF_SOURCES = {"by-source"}
"""Partitions that take the sample indices of each source in place of those of each label."""
OF_ANY_TARGET = {"iid", *OF_SOURCES}
"""Partitions for samples without labels."""


def _labels_to_part_by(dataset: "Dataset", config: DataConfig) -> tuple[Labels, int]:
    """The labels of a dataset and their number; where targets are numbers, their bins.

    A partition of any targets takes all samples alike.
    """
    targets = dataset.train_targets
    if targets is None:
        return dataset.train_labels, dataset.num_labels
    if config.partition in OF_ANY_TARGET:
        return np.zeros(len(targets), np.int32), 1
    return labels_of(dataset, config)


def labels_of(dataset: "Dataset", config: DataConfig) -> tuple[Labels, int]:
    """The labels of a dataset and their number; where targets are numbers, their bins."""
    targets = dataset.train_targets
    if targets is None:
        return dataset.train_labels, dataset.num_labels
    edges = bin_edges(targets, config.target_bins)
    return bins_of(targets, edges), len(edges) + 1


def names_of_bins(dataset: "Dataset", config: DataConfig) -> tuple[str, ...]:
    """What each bin of a target holds; none where samples have labels."""
    targets = dataset.train_targets
    return () if targets is None else bin_names(bin_edges(targets, config.target_bins))


def _by_source(sources: Labels | None, config: DataConfig) -> list[Indices]:
    if sources is None:
        raise InputError(
            field="partition",
            value=config.partition,
            hint="the dataset does not say who recorded its samples; "
            "a .npz file says it in train_sources, a table in its source_column",
        )
    return [np.flatnonzero(sources == source) for source in np.unique(sources)]


def _without_last(part: Indices, labels: Labels, share: float = LAST_SHARE) -> Indices:
    """A source's samples without the last ones of every label, in the order of the dataset."""
    late: list[Indices] = []
    for label in np.unique(labels[part]):
        own = np.sort(part[labels[part] == label])
        late.append(own[len(own) - round(share * len(own)) :])
    return part[~np.isin(part, np.concatenate(late))]


def _sizes(by_label: list[Indices]) -> NDArray[np.int64]:
    return np.array([len(pool) for pool in by_label], dtype=np.int64)


def _level(total: int, room: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """``total`` spread over labels as evenly as ``room`` allows; random labels get one more."""
    counts = np.zeros_like(room)
    while (missing := total - int(counts.sum())) > 0:
        free = np.flatnonzero(counts < room)
        share, extra = divmod(missing, len(free))
        counts[free] += share
        counts[rng.permutation(free)[:extra]] += 1
        counts = np.minimum(counts, room)
    return counts


def _draw_within(
    room: NDArray[np.int64],
    total: int,
    proportions: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """``total`` draws of labels; a draw beyond a label's ``room`` is redrawn from the others."""
    counts = np.zeros_like(room)
    while (missing := total - int(counts.sum())) > 0:
        free = counts < room
        weights = np.where(free, proportions, 0)
        if weights.sum() == 0:
            weights = free.astype(float)
        counts += rng.multinomial(missing, weights / weights.sum())
        counts = np.minimum(counts, room)
    return counts


def _assign(
    counts: NDArray[np.int64],
    by_label: list[Indices],
    config: DataConfig,
    rng: np.random.Generator,
) -> list[Indices]:
    """Random samples for each device, ``counts`` [D, N_L] of each label."""
    _check_each_label(counts, _sizes(by_label), config)
    if config.reuse_samples:
        chunks = np.split(counts, range(AT_ONCE, len(counts), AT_ONCE))
        return [part for chunk in chunks for part in _draw_shared(chunk, by_label, rng)]
    piles = [
        np.split(rng.permutation(pool), np.cumsum(column))[:-1]
        for pool, column in zip(by_label, counts.T, strict=True)
    ]
    return [np.concatenate(pile) for pile in zip(*piles, strict=True)]


def _draw_shared(
    counts: NDArray[np.int64], by_label: list[Indices], rng: np.random.Generator
) -> list[Indices]:
    """Samples for a few devices, each drawn without regard to the others."""
    ends = np.cumsum(counts).reshape(counts.shape)  # of each device's samples of each label
    samples = np.empty(ends[-1, -1], np.int32)
    for label, pool in enumerate(by_label):
        count = counts[:, label]
        before = np.repeat(ends[:, label] - np.cumsum(count), count)
        samples[before + np.arange(len(before))] = pool[_draw_distinct(count, len(pool), rng)]
    return np.split(samples, ends[:-1, -1])


def _draw_distinct(
    counts: NDArray[np.int64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """``counts[d]`` numbers below ``size`` for each device d, distinct within the device."""
    if 2 * counts.max() > size:
        return np.concatenate([rng.permutation(size)[:count] for count in counts])
    first = np.repeat(np.arange(len(counts)) * size, counts)
    drawn, places = rng.integers(size, size=len(first)), np.arange(len(first))
    taken = np.empty(len(counts) * size, np.int64)
    while True:
        taken[first + drawn] = places  # of several equal ones the last stays
        again = taken[first + drawn] != places
        if not again.any():
            return drawn
        drawn[again] = rng.integers(size, size=int(again.sum()))


def _check_total(available: int, config: DataConfig, needed: int) -> None:
    if needed > available:
        raise InputError(
            field="samples_per_device",
            value=config.samples_per_device,
            hint=f"{_demand(config)} {needed:,} "
            f"samples but the dataset has {available:,}; {_remedy(config)}",
        )


def _check_each_label(
    counts: NDArray[np.int64], available: NDArray[np.int64], config: DataConfig
) -> None:
    needed = counts.max(axis=0) if config.reuse_samples else counts.sum(axis=0)
    label = int(np.argmax(needed - available))
    if needed[label] > available[label]:
        raise InputError(
            field="samples_per_device",
            value=config.samples_per_device,
            hint=f"{_demand(config)} "
            f"{needed[label]:,} samples of label {label} but the dataset has "
            f"{available[label]:,}; {_remedy(config)}",
        )


def _demand(config: DataConfig) -> str:
    return "a device needs" if config.reuse_samples else f"devices = {config.devices} need"


def _remedy(config: DataConfig) -> str:
    if config.reuse_samples:
        return "reduce samples_per_device"
    return "reduce samples_per_device or devices, or set reuse_samples"
