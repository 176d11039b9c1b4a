"""Deal the training samples out to devices."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import DataConfig
from mix2fld.errors import InputError

Labels = NDArray[np.integer]
Indices = NDArray[np.int64]
Partition = Callable[[list[Indices], DataConfig, np.random.Generator], list[Indices]]
"""Takes the sample indices of each label; gives those of each device."""


def partition(
    labels: Labels, config: DataConfig, num_labels: int, rng: np.random.Generator
) -> list[Indices]:
    """Sample indices of each device, in random order; ``labels`` [n] are those of all samples.

    Devices share no sample unless ``config.reuse_samples``; a device never has one twice.
    """
    _check_total(len(labels), config)
    by_label = [np.flatnonzero(labels == label) for label in range(num_labels)]
    parts = PARTITIONS[config.partition](by_label, config, rng)
    return [rng.permutation(part) for part in parts]


def label_counts(labels: Labels, parts: Sequence[Indices], num_labels: int) -> NDArray[np.int64]:
    """How many samples of each label each device has, [D, N_L]."""
    return np.stack([np.bincount(labels[part], minlength=num_labels) for part in parts])


def check_labels_covered(labels: Labels, parts: Sequence[Indices], num_labels: int) -> None:
    """Raise ``InputError`` if there is a label that no device has a sample of."""
    missing = np.flatnonzero(label_counts(labels, parts, num_labels).sum(axis=0) == 0)
    if len(missing):
        plural = "s" if len(missing) > 1 else ""
        raise InputError(
            f"partition: no device has a sample of label{plural} {', '.join(map(str, missing))}; "
            "raise devices or samples_per_device, or use a more even partition"
        )


def _iid(by_label: list[Indices], config: DataConfig, rng: np.random.Generator) -> list[Indices]:
    """Every label equally often on each device; what is left over goes to random labels."""
    room = np.full(len(by_label), config.samples_per_device)
    counts = [_level(config.samples_per_device, room, rng) for _ in range(config.devices)]
    return _deal(np.stack(counts), by_label, config, rng)


def _non_iid(
    by_label: list[Indices], config: DataConfig, rng: np.random.Generator
) -> list[Indices]:
    """The paper's: a few random labels are rare on each device, the others share the rest."""
    num_labels = len(by_label)
    common_labels = num_labels - config.rare_labels
    if common_labels < 1:
        raise InputError(
            f"rare_labels = {config.rare_labels}: must be below the {num_labels} labels there are"
        )
    rest = config.samples_per_device - config.rare_labels * config.rare_samples
    if rest < common_labels:
        least = config.rare_labels * config.rare_samples + common_labels
        raise InputError(
            f"samples_per_device = {config.samples_per_device}: must be at least {least} for "
            f"rare_labels = {config.rare_labels} with rare_samples = {config.rare_samples} and one "
            f"sample of each of the other {common_labels} labels"
        )
    counts = np.full((config.devices, num_labels), config.rare_samples)
    for row in counts:
        common = rng.permutation(num_labels)[config.rare_labels :]
        row[common] = _level(rest, np.full(common_labels, rest), rng)
    return _deal(counts, by_label, config, rng)


def _dirichlet(
    by_label: list[Indices], config: DataConfig, rng: np.random.Generator
) -> list[Indices]:
    """Label proportions of each device from Dir(alpha), within what is left of each label."""
    available = _sizes(by_label)
    alpha = np.full(len(by_label), config.dirichlet_alpha)
    counts = np.zeros((config.devices, len(by_label)), dtype=np.int64)
    left = available.copy()
    for row in counts:
        row[:] = _draw_within(left, config.samples_per_device, rng.dirichlet(alpha), rng)
        if not config.reuse_samples:
            left -= row
    return _deal(counts, by_label, config, rng)


def _shards(by_label: list[Indices], config: DataConfig, rng: np.random.Generator) -> list[Indices]:
    """Samples sorted by label and cut into shards of one size; each device has a few of them."""
    per_device = config.shards_per_device
    shard_size, over = divmod(config.samples_per_device, per_device)
    if over:
        raise InputError(
            f"samples_per_device = {config.samples_per_device}: must be a multiple of "
            f"shards_per_device = {per_device}"
        )
    available = _sizes(by_label)
    num_shards = config.devices * per_device
    if config.reuse_samples:
        num_shards = int(available.sum()) // shard_size
    quota = _level(num_shards * shard_size, available, rng)
    dealt = [rng.permutation(pool)[:count] for pool, count in zip(by_label, quota, strict=True)]
    shards = np.concatenate(dealt).reshape(num_shards, shard_size)
    if config.reuse_samples:
        rows = [rng.choice(num_shards, per_device, replace=False) for _ in range(config.devices)]
    else:
        rows = list(rng.permutation(num_shards).reshape(config.devices, per_device))
    return [shards[row].ravel() for row in rows]


PARTITIONS: dict[str, Partition] = {
    "iid": _iid,
    "non-iid": _non_iid,
    "dirichlet": _dirichlet,
    "shards": _shards,
}
"""Every way to deal samples out; the names are the values of ``DataConfig.partition``."""


def _sizes(by_label: list[Indices]) -> NDArray[np.int64]:
    return np.array([len(pool) for pool in by_label], dtype=np.int64)


def _level(total: int, room: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """``total`` spread as equally as the ``room`` of labels allows; random ones get one more."""
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
    """``total`` draws of labels; what a label has no room for is drawn again from the others."""
    counts = np.zeros_like(room)
    while (missing := total - int(counts.sum())) > 0:
        free = counts < room
        weights = np.where(free, proportions, 0)
        if weights.sum() == 0:
            weights = free.astype(float)
        counts += rng.multinomial(missing, weights / weights.sum())
        counts = np.minimum(counts, room)
    return counts


def _deal(
    counts: NDArray[np.int64],
    by_label: list[Indices],
    config: DataConfig,
    rng: np.random.Generator,
) -> list[Indices]:
    """Random samples of each device, ``counts`` [D, N_L] of each label."""
    _check_each_label(counts, _sizes(by_label), config)
    if config.reuse_samples:
        return [
            np.concatenate(
                [rng.choice(pool, n, replace=False) for pool, n in zip(by_label, row, strict=True)]
            )
            for row in counts
        ]
    piles = [
        np.split(rng.permutation(pool), np.cumsum(column))[:-1]
        for pool, column in zip(by_label, counts.T, strict=True)
    ]
    return [np.concatenate(pile) for pile in zip(*piles, strict=True)]


def _check_total(available: int, config: DataConfig) -> None:
    needed = config.samples_per_device * (1 if config.reuse_samples else config.devices)
    if needed > available:
        raise InputError(
            f"samples_per_device = {config.samples_per_device}: {_demand(config)} {needed:,} "
            f"samples but the dataset has {available:,}; {_remedy(config)}"
        )


def _check_each_label(
    counts: NDArray[np.int64], available: NDArray[np.int64], config: DataConfig
) -> None:
    needed = counts.max(axis=0) if config.reuse_samples else counts.sum(axis=0)
    label = int(np.argmax(needed - available))
    if needed[label] > available[label]:
        raise InputError(
            f"samples_per_device = {config.samples_per_device}: {_demand(config)} "
            f"{needed[label]:,} samples of label {label} but the dataset has "
            f"{available[label]:,}; {_remedy(config)}"
        )


def _demand(config: DataConfig) -> str:
    return "a device needs" if config.reuse_samples else f"devices = {config.devices} need"


def _remedy(config: DataConfig) -> str:
    if config.reuse_samples:
        return "lower samples_per_device"
    return "lower samples_per_device or devices, or set reuse_samples"
