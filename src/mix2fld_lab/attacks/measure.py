"""Sample privacy of Mixup and Mix2up on real data, as in Tables II and III: two devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.config.uploads import SeedingConfig
from mix2fld.data import device_parts
from mix2fld.data.samples import Coding, mix, to_stored_units
from mix2fld.protocols.inverse_mixup import Pool, find_groups, unmix
from mix2fld.protocols.seed_samples import draw_groups, seed_stream
from mix2fld.types import Dataset, Inputs
from mix2fld_lab.gallery import Statistics, sample_privacy, statistics

EVERY_GROUP = 1_000_000
POOLS = (500, 1000, 2000)


def measure(
    dataset: Dataset, ratios: Sequence[float], seed_samples: int, seed: int
) -> dict[str, Any]:
    """For every mixing ratio the statistics of all samples that the server of two devices sees.

    ``mixup``: the mixed-up samples against the two that each mixes. ``mix2up``: every inverse-Mixup
    sample against the four that it is computed from. ``*_8bit``: the same, with the mixed-up
    samples rounded to 8 bits for the upload. ``closest_pair``: the smallest distance between
    samples of different labels among the first so many of the shuffled dataset.
    """
    parts = device_parts(dataset, Config.of(partition="iid", devices=2, seed=seed))
    by_ratio = {
        f"{ratio:g}": _of_ratio(dataset, parts, ratio, seed_samples, seed) for ratio in ratios
    }
    rng = stream(seed, "privacy-pool")
    order = rng.permutation(len(dataset.train_labels))
    pools = {
        str(size): closest_pair(
            dataset.train_inputs[order[:size]], dataset.train_labels[order[:size]]
        )
        for size in POOLS
    }
    return {"seed": seed, "ratios": by_ratio, "closest_pair": pools}


def closest_pair(inputs: Inputs, labels: NDArray[np.int32]) -> float:
    """The smallest L2 distance between two samples of different labels."""
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    squares = (flat**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * flat @ flat.T
    distances[labels[:, None] == labels[None, :]] = np.inf
    return float(np.sqrt(distances.min()))


def _of_ratio(
    dataset: Dataset,
    parts: Sequence[NDArray[np.integer[Any]]],
    ratio: float,
    seed_samples: int,
    seed: int,
) -> dict[str, Statistics]:
    config = SeedingConfig(seed_samples=seed_samples, mixing_ratio=(ratio,))
    rows = []
    for number, part in enumerate(parts):
        labels = dataset.train_labels[part]
        rows.append(part[draw_groups(seed_stream(seed, number), labels, config)])
    sources = np.concatenate(rows)  # [m, 2], rows of the training set
    device = np.repeat(np.arange(len(rows)), [len(group) for group in rows])
    mixed = mix(dataset.train_inputs[sources], config.ratios)
    labels = dataset.train_labels[sources]
    found: dict[str, Statistics] = {}
    raw = dataset.train_inputs[sources]
    for suffix, bits in {"": 32, "_8bit": 8}.items():
        coding = Coding(dataset.samples, bits)
        carried = coding.carry(mixed)
        pool = Pool(carried, labels, device)
        seen = coding.in_stored_units(carried) if coding.rounds else mixed
        found["mixup" + suffix] = statistics(sample_privacy(seen, raw))
        made = _unmixed(pool, coding, config, seed)
        found["mix2up" + suffix] = _inverse(dataset, *made, sources)
    return found


def _unmixed(
    pool: Pool, coding: Coding, config: SeedingConfig, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every group of the pool, and the samples [g, 2, ...] that inverse-Mixup makes of it."""
    groups = find_groups(pool, EVERY_GROUP, stream(seed, "pairs"))
    made = unmix(pool, groups, config.ratios, coding)
    return groups.members, to_stored_units(made, coding.samples)


def _inverse(
    dataset: Dataset,
    members: NDArray[np.int64],
    made: NDArray[np.float64],
    sources: NDArray[np.integer[Any]],
) -> Statistics:
    if not len(members):
        return statistics(np.zeros(0))
    size = made.shape[1]
    raw = dataset.train_inputs[sources[members].reshape(-1, size**2)]  # [g, 4, ...]
    return statistics(np.concatenate([sample_privacy(made[:, n], raw) for n in range(size)]))
